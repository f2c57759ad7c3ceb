"""Models of this machine by name: the hub's cache, installed packages, runs."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from attnlab.huggingface import load_model
from attnlab.interpret import _local_models as local
from attnlab.interpret import look
from attnlab.interpret._local_models import KNOWN, local_models, resolve_model
from tests.support.command_line import run
from tests.support.importable_models import transformers
from tests.support.transformers_with_tokenizers import byte_pairs

DECODER = "openai-community/gpt2"


def add_to_cache(cache: Path, name: str, files: dict[str, str | bytes], revision: str) -> Path:
    """A repository as huggingface_hub keeps it: links from a snapshot to blobs."""
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir(exist_ok=True)
    for file, content in files.items():
        blob = repository / "blobs" / f"{revision}-{file}"
        blob.write_bytes(content if isinstance(content, bytes) else content.encode())
        (snapshot / file).symlink_to(blob)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(revision)
    return snapshot


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(local, "distributions", list)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


@pytest.fixture
def gpt2(cache: Path, tmp_path: Path) -> Path:
    sizes = {"vocab_size": 320, "n_embd": 24, "n_layer": 2, "n_head": 3}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "saved")
    byte_pairs().save_pretrained(tmp_path / "saved")
    files = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    add_to_cache(cache, DECODER, {"config.json": "{}"}, "older")
    return add_to_cache(cache, DECODER, dict(files), "newer")


@pytest.mark.parametrize("name", ["gpt2", "GPT2", DECODER])
def test_a_cached_model_by_its_name(name: str, gpt2: Path) -> None:
    assert resolve_model(name) == gpt2
    result = look(name, "the cat")
    assert "gpt2" in result.capture.title
    assert load_model(name)[0].config.n_layer == 2


def test_every_command_finds_it(gpt2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del gpt2
    Path("text.txt").write_text("the cat and the hat and the bat and the rat " * 4)
    for command in (
        'look gpt2 --text "the cat" --out a.html',
        'lens gpt2 --text "the cat"',
        'patch gpt2 --clean "a b" --corrupted "a c" --answer a',
        "heads gpt2 --text text.txt --importance --tokens 16 --windows 1",
    ):
        code, _, err = run(command, capsys)
        assert code == 0, (command, err)


def test_a_path_comes_before_a_name(gpt2: Path, tmp_path: Path) -> None:
    assert resolve_model("gpt2") == gpt2
    (tmp_path / "gpt2").mkdir()
    assert resolve_model("gpt2") == Path("gpt2")


def test_two_models_of_one_name(cache: Path, gpt2: Path) -> None:
    add_to_cache(cache, "other/gpt2", {"config.json": "{}", "model.safetensors": ""}, "a")
    with pytest.raises(ValueError, match="give one of openai-community/gpt2, other/gpt2"):
        resolve_model("gpt2")
    assert resolve_model(DECODER) == gpt2


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"config.json": "{}", "pytorch_model.bin": "x"}, "pickled"),
        ({"config.json": "{}"}, "no weights"),
        ({"config.json": "[", "model.safetensors": "x"}, "is not JSON"),
        ({"model.safetensors": "x"}, "is missing"),
    ],
)
def test_a_model_that_cannot_be_opened(
    files: dict[str, str | bytes],
    problem: str,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_to_cache(cache, "some/model", files, "a")
    code, out, _ = run("models", capsys)
    assert (code, "some/model" in out, problem in out) == (0, True, True), out
    code, _, err = run("look model --text a", capsys)
    assert (code, err.count("\n"), problem in err) == (2, 1, True), err


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_missing_model_names_the_command(
    known: local.KnownModel, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del cache
    for name in (known.name, known.short_name, *known.aliases):
        code, _, err = run(f"look {name} --text a", capsys)
        assert (code, err.count("\n")) == (2, 1)
        assert known.command in err
    assert not Path("look.html").exists()


@pytest.mark.parametrize(
    ("name", "asked"),
    [("someone/model", True), ("nothing", False), ("../model", False), ("a b/c", False)],
)
def test_unknown_names(name: str, asked: bool, cache: Path) -> None:
    del cache
    with pytest.raises(ValueError, match="does not exist") as raised:
        resolve_model(name)
    assert (f"hf download {name}" in str(raised.value)) == asked
    assert "attnlab models" in str(raised.value)


def test_a_folder_of_the_cache_with_odd_files(cache: Path) -> None:
    for name in ("models--empty", "models--a--b/snapshots", "datasets--x/snapshots/y", "models--"):
        (cache / name).mkdir(parents=True)
    (cache / "models--a--b" / "refs").mkdir()
    (cache / "models--a--b" / "refs" / "main").write_bytes(b"\xff\xfe")
    (cache / "version.txt").write_text("1")
    assert local_models() == []


def test_packages_that_carry_weights(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cache
    site = tmp_path / "site"
    files = {
        "one_model/config.json": json.dumps({"model_type": "bert", "num_hidden_layers": 3}),
        "one_model/model.safetensors": "12345",
        "two/big.gguf": "12",
        "two/small.gguf": "1",
        "two/lonely.safetensors": "x",  # no config.json: some other program's
    }
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    for name, part in (("one-model", "one_model"), ("two", "two")):
        info = site / f"{name.replace('-', '_')}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        listed = [*files, "two/gone.gguf"]
        rows = [f"{file},sha256=x,1" for file in listed if file.startswith(part)]
        (info / "RECORD").write_text("\n".join(rows))
    monkeypatch.setattr(local, "distributions", lambda: Distribution.discover(path=[str(site)]))
    by_name = {each.name: each for each in local_models()}
    assert set(by_name) == {"one-model", "two/big", "two/small"}
    assert by_name["one-model"].about == "bert, 3 layers"
    assert by_name["one-model"].nbytes == 5
    assert resolve_model("one-model") == site / "one_model"
    assert resolve_model("small") == site / "two" / "small.gguf"


def test_runs_are_listed(made: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del cache
    code, out, _ = run(f"models {made} --json", capsys)
    assert code == 0
    listed = json.loads(out)
    runs = [each for each in listed["models"] if each["source"] == "run"]
    assert runs
    assert all(Path(each["path"]).is_dir() and each["bytes"] > 0 for each in runs)
    assert {each["name"] for each in listed["to_get"]} == {known.name for known in KNOWN}
