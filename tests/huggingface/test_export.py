"""Runs of attnlab as folders of transformers: the same logits for every kind of run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.generate import generate
from attnlab.huggingface import export_run
from attnlab.huggingface._architectures import equivalent_of
from attnlab.huggingface._export_model import OWN_CLASSES
from attnlab.models import MODELS, Decoder, Perceiver, PerceiverConfig, StackConfig
from attnlab.tasks.language import train_language
from attnlab.training import Run, Settings
from tests.support import summary_runs, vision_runs
from tests.support.command_line import call, run
from tests.support.importable_models import transformers

TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
LLAMA = {"position": "rotary", "norm": "rms", "feed_forward": "swiglu", "bias": False}
BERT = {"norm_first": False, "embedding_norm": "layer", "tie": True}
TEXT = "to be or not to be, that is the question. " * 30


@pytest.fixture(autouse=True)
def modules_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers copies model files there before it runs them."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))


def language_run(
    folder: Path, objective: str = "causal", tokenizer: str = "characters", **changes: Any
) -> Path:
    (folder / "text.txt").write_text(TEXT)
    sizes = {"width": 24, "layers": 2, "heads": 4, "context": 32, **changes}
    train_language(
        [folder / "text.txt"],
        out=folder / "run",
        objective=objective,
        tokenizer=tokenizer,
        tokenizer_size=280,
        model=StackConfig(vocabulary=1, **sizes),
        settings=Settings(steps=3, learning_rate=1e-2),
        quiet=True,
    )
    return folder / "run"


CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {}),
    "gpt2-tied": (
        "GPT2LMHeadModel",
        {"tie": True, "feed_forward": "gelu_tanh", "tokenizer": "bpe"},
    ),
    "llama": ("LlamaForCausalLM", {**LLAMA, "key_heads": 2, "tokenizer": "bytes"}),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "normalize_queries": True, "head_dim": 8}),
    "mistral": ("MistralForCausalLM", {**LLAMA, "attention": "window:window=5"}),
    "favor": ("AttnlabForCausalLM", {"attention": "favor", "position": "rotary", "tie": True}),
    "gla": ("AttnlabForCausalLM", {"attention": ["gla", "softmax"], "position": "sinusoidal"}),
}


@pytest.mark.parametrize("case", CAUSAL)
def test_language_models(case: str, tmp_path: Path) -> None:
    class_name, settings = CAUSAL[case]
    folder = language_run(tmp_path, **settings)
    exported = export_run(folder, tmp_path / "out")
    assert exported.class_name == class_name
    assert exported.needs_attnlab == class_name.startswith("Attnlab")
    model: Any = Run(folder).model()
    tokenizer = Run(folder).tokenizer(model)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", trust_remote_code=exported.needs_attnlab
    ).eval()
    actual = transformers.AutoTokenizer.from_pretrained(
        tmp_path / "out", trust_remote_code=exported.needs_attnlab
    )
    ids = actual("not to be", return_tensors="pt")["input_ids"]
    assert ids[0].tolist() == tokenizer.encode_prompt("not to be")[0]
    assert actual.decode(ids[0, 1:]) == "not to be"
    torch.testing.assert_close(loaded(ids).logits, model(ids), **TOLERANCE)
    expected = generate(model, ids.tolist(), new_tokens=5)[0][0].ids
    options = {"attention_mask": torch.ones_like(ids), "eos_token_id": None, "pad_token_id": 0}
    written = loaded.generate(ids, max_new_tokens=5, do_sample=False, **options)
    assert written[0, ids.shape[1] :].tolist() == expected


def test_a_perceiver_of_knowledge(tmp_path: Path) -> None:
    assert call(f"knowledge world --out {tmp_path}/world --people 12") == 0
    sizes = "--width 24 --layers 3 --heads 2 --latents 4 --position learned"
    options = f"{sizes} --tokenizer characters --steps 2 --out {tmp_path}/run"
    assert call(f"knowledge pretrain --corpus {tmp_path}/world/corpus.txt {options}") == 0
    exported = export_run(tmp_path / "run", tmp_path / "out")
    assert exported == ("AttnlabForCausalLM", True)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", trust_remote_code=True
    ).eval()
    model = Run(tmp_path / "run").model()
    assert isinstance(model, Perceiver)
    ids = torch.randint(2, 10, (2, 9), generator=torch.Generator().manual_seed(0))
    keys = torch.ones(2, 9, dtype=torch.bool)
    keys[1, 6:] = False
    actual = loaded(ids, attention_mask=keys.long()).logits
    torch.testing.assert_close(actual[keys], model(ids, keys)[keys], **TOLERANCE)


@pytest.mark.parametrize("settings", [{}, BERT], ids=["own file", "norms as in BERT"])
def test_encoders(settings: dict[str, Any], tmp_path: Path) -> None:
    folder = language_run(tmp_path, "masked", **settings)
    exported = export_run(folder, tmp_path / "out")
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "out", trust_remote_code=exported.needs_attnlab
    ).eval()
    assert exported.class_name == ("BertForMaskedLM" if settings else "AttnlabForMaskedLM")
    model = Run(folder).model()
    ids = torch.randint(2, 10, (2, 9), generator=torch.Generator().manual_seed(0))
    keys = torch.ones(2, 9, dtype=torch.bool)
    keys[1, 6:] = False
    actual = loaded(ids, attention_mask=keys.long()).logits
    torch.testing.assert_close(actual[keys], model(ids, keys)[keys], **TOLERANCE)


def test_summaries(tmp_path: Path) -> None:
    folder = summary_runs.trained()
    exported = export_run(folder, tmp_path / "out")
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "out", trust_remote_code=True
    ).eval()
    assert exported.class_name == type(loaded).__name__ == "AttnlabForSeq2SeqLM"
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.randint(3, 200, (2, n), generator=generator) for n in (11, 5))
    expected = Run(folder).model()(source, target)
    actual = loaded(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(actual, expected, **TOLERANCE)


@pytest.mark.parametrize("kind", ["vit", "convnet"])
def test_image_models(kind: str, tmp_path: Path) -> None:
    vision_runs.trained(tmp_path, kind, training={"steps": 2, "batch_size": 8, "device": "cpu"})
    export_run(tmp_path / kind, tmp_path / "out")
    loaded = transformers.AutoModelForImageClassification.from_pretrained(
        tmp_path / "out", trust_remote_code=True
    ).eval()
    model = Run(tmp_path / kind).model()
    size, channels = getattr(model.config, "image_size", 8), model.config.channels
    images = torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loaded(images).logits, model(images), **TOLERANCE)
    assert loaded.config.id2label[0] == "0"


def test_export_is_refused_rather_than_removing_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = language_run(tmp_path)
    out = tmp_path / "out"
    _, message, _ = run(f"export {folder} --to huggingface --out {out}", capsys)
    assert "GPT2LMHeadModel of transformers; needs no attnlab" in message
    with pytest.raises(ValueError, match="already holds a model; give --overwrite"):
        export_run(folder, out)
    export_run(folder, out, overwrite=True)
    with pytest.raises(ValueError, match="holds a run that --overwrite would remove"):
        export_run(folder, folder, overwrite=True)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    with pytest.raises(ValueError, match="holds files that --overwrite would remove"):
        export_run(folder, tmp_path / "letters", overwrite=True)
    with pytest.raises(ValueError, match="there is no folder"):
        export_run(folder, tmp_path / "no" / "where")
    assert json.loads((out / "config.json").read_text())["eos_token_id"] == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_every_kind_of_model_has_a_class_to_export_as() -> None:
    assert set(OWN_CLASSES) == set(MODELS.values())


def test_a_perceiver_is_no_gpt2() -> None:
    sizes: dict[str, Any] = {"vocabulary": 9, "context": 8, "width": 8, "layers": 3, "heads": 2}
    sizes |= {"feed_forward": "gelu_tanh", "tie": True}
    assert equivalent_of(Decoder(StackConfig(**sizes)))
    perceiver = Perceiver(PerceiverConfig(**sizes, latents=2))
    assert equivalent_of(perceiver) is None
