"""Loading Hugging Face models from folders: the right class, or a clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab._cache import cache_folder
from attnlab.huggingface import load_model
from attnlab.huggingface._load_model import one_line_errors
from tests.support.memory_limit import extra_memory
from tests.support.small_transformers import inputs, small, transformers, write_tokenizer


def save(name: str, folder: Path) -> Any:
    model = small(name)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "vit"])
def test_loads_the_saved_class(name: str, tmp_path: Path) -> None:
    """With its head and all weights; without a tokenizer."""
    saved = save(name, tmp_path)
    model, processor = load_model(tmp_path)
    assert type(model) is type(saved)
    assert not model.training
    assert processor is None
    with torch.no_grad():
        assert torch.equal(model(**inputs(name)).logits, saved(**inputs(name)).logits)


def test_loads_tokenizer_or_image_processor(tmp_path: Path) -> None:
    save("bert", tmp_path / "text")
    write_tokenizer(tmp_path / "text")
    _, tokenizer = load_model(str(tmp_path / "text"))
    assert tokenizer("the dog ran").tokens() == ["[CLS]", "the", "dog", "ran", "[SEP]"]
    save("vit", tmp_path / "image")
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}
    (tmp_path / "image" / "preprocessor_config.json").write_text(json.dumps(settings))
    _, processor = load_model(tmp_path / "image")
    inputs = processor(torch.zeros(20, 30, 3, dtype=torch.uint8).numpy(), return_tensors="pt")
    assert inputs["pixel_values"].shape == (1, 3, 12, 12)


def test_half_precision_is_loaded_in_float32(tmp_path: Path) -> None:
    small("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    assert load_model(tmp_path)[0].dtype == torch.float32
    assert load_model(tmp_path, dtype=torch.bfloat16)[0].dtype == torch.bfloat16


def test_warns_of_missing_weights(tmp_path: Path) -> None:
    small("bert").bert.save_pretrained(tmp_path)
    description = json.loads((tmp_path / "config.json").read_text())
    description["architectures"] = ["BertForMaskedLM"]
    (tmp_path / "config.json").write_text(json.dumps(description))
    with pytest.warns(UserWarning, match=r"has no weights for cls\..* they are random"):
        model, _ = load_model(tmp_path)
    assert type(model).__name__ == "BertForMaskedLM"


def change(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def bad_json(folder: Path) -> None:
    (folder / "config.json").write_text("{not json")


def another_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model": "decoder"}')


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def own_code(folder: Path) -> None:
    change(folder, architectures=["MyOwnModel"], auto_map={"AutoModel": "code.MyOwnModel"})
    (folder / "code.py").write_text("raise SystemExit('the code of a model was run')")


def no_model(folder: Path) -> None:
    change(folder, architectures=["BertConfig"])


def broken_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not safetensors")


def two_files(folder: Path) -> None:
    no_config(folder)
    (folder / "a.gguf").touch()
    (folder / "b.gguf").touch()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (no_config, ["no config.json"]),
        (bad_json, ["config.json", "not JSON"]),
        (another_config, ["model_type is missing"]),
        (pickled, ["pickled", "pytorch_model.bin", "safetensors"]),
        (no_weights, ["model.safetensors is missing"]),
        (own_code, ["MyOwnModel", "runs no code"]),
        (no_model, ["'BertConfig' is not a model"]),
        (broken_weights, ["cannot load it"]),
        (two_files, ["2 .gguf files"]),
    ],
)
def test_invalid_folders(damage: Any, words: list[str], tmp_path: Path) -> None:
    save("bert", tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=str(tmp_path)) as error:
        load_model(tmp_path)
    for word in words:
        assert word in str(error.value)
    assert str(error.value).count("\n") == 0


def test_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a folder raises, though the hub may have a model of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="bert-base-uncased: is not on this machine"):
        load_model("bert-base-uncased")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"is a file; give a folder with a model, or a \.gguf"):
        load_model("notes.txt")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nothing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"broken\.gguf: transformers cannot load it"):
        load_model("broken.gguf")
    assert list(cache_folder("models").iterdir()) == []
    assert cache_folder("models") == tmp_path / "cache" / "attnlab" / "models"


def test_without_transformers() -> None:
    program = """
import sys
sys.modules["transformers"] = None
from attnlab.huggingface import load_model
from attnlab.huggingface._load_model import one_line_errors
from tests.support.memory_limit import extra_memory
try:
    load_model("folder")
except ValueError as error:
    assert "pip install transformers" in str(error)
else:
    raise SystemExit(1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_progress_bars_are_restored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save("bert", tmp_path)
    logging = transformers.utils.logging
    before = (logging.is_progress_bar_enabled(), logging.get_verbosity())
    capfd.readouterr()
    load_model(tmp_path)
    assert capfd.readouterr() == ("", "")
    assert (logging.is_progress_bar_enabled(), logging.get_verbosity()) == before


@pytest.mark.parametrize(
    "changes",
    [{"num_hidden_layers": 10**9}, {"vocab_size": 10**10}, {"intermediate_size": 10**9}],
    ids=str,
)
def test_a_configuration_larger_than_the_weights(changes: dict[str, int], tmp_path: Path) -> None:
    save("llama", tmp_path)
    change(tmp_path, **changes)
    with extra_memory(2**30), pytest.raises(ValueError, match="larger than its weights") as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)


def test_a_panic_of_a_rust_library_is_one_line(tmp_path: Path) -> None:
    class PanicException(BaseException):
        pass

    message = r"transformers cannot load it \(two lines\)"
    with pytest.raises(ValueError, match=message), one_line_errors(tmp_path):
        raise PanicException("two\nlines")
    with pytest.raises(KeyboardInterrupt), one_line_errors(tmp_path):
        raise KeyboardInterrupt
