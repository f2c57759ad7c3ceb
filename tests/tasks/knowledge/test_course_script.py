"""The course's run.py with its arguments."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attnlab.models import Decoder
from attnlab.tasks.knowledge import _training as recipe
from attnlab.training import Run, Settings
from tests.support.command_line import run
from tests.support.course_files import CORPUS, PAIRS, write_files

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "course" / "run.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("course_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def course(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    return run(arguments, capsys, script().main)


def test_help_imports_neither_torch_nor_attnlab() -> None:
    program = (
        "import runpy, sys\n"
        "sys.argv = ['run.py', '--help']\n"
        "try:\n"
        f"    runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "finally:\n"
        "    assert not {'torch', 'attnlab'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for word in ("pretrain,finetune,evaluate", "--reading_params_path", "--outputs_path"):
        assert word in done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder with v.pretrain.params and v.params, and what the two commands printed."""
    folder = write_files(tmp_path_factory.mktemp("course"))
    corpus, pretrained = folder / "wiki.txt", folder / "v.pretrain.params"
    prints = []
    for arguments in (
        f"pretrain vanilla {corpus} --writing_params_path {pretrained} --epochs 1 "
        "--pretrain_lr 1e-3",
        f"finetune vanilla {corpus} --reading_params_path {pretrained} --writing_params_path "
        f"{folder / 'v.params'} --finetune_corpus_path {folder / 'train.tsv'}",
    ):
        with redirect_stdout(StringIO()) as out:
            script().main(arguments.split())
        prints.append(out.getvalue())
    return folder, prints


def first_lines() -> str:
    text = "".join(f"{document}\n" for document in CORPUS)
    unique = len(set(text)) + 2
    size = 3_323_392 - 2 * 256 * (256 - unique)  # two tables have a row for each character
    return f"data has {len(text)} characters, {unique} unique.\nnumber of parameters: {size}\n"


def test_pretrain_and_finetune(trained: tuple[Path, list[str]]) -> None:
    folder, prints = trained
    written = [folder / "v.pretrain.params", folder / "v.params"]
    assert prints == [f"{first_lines()}Parameters written to {path}\n" for path in written]
    before, after = (Run(path).config()["training"] for path in written)
    assert (before["steps"], before["learning_rate"], before["batch_size"]) == (1, 1e-3, 128)
    assert (after["steps"], after["learning_rate"], after["batch_size"]) == (10, 6e-4, 256)
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert ".safetensors" in suffixes
    assert not suffixes & {".pkl", ".pickle", ".pt", ".pth", ".bin", ".params"}


def test_evaluate(
    trained: tuple[Path, list[str]], course_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = trained[0] / "v.params"
    evaluation = (
        f"evaluate vanilla wiki.txt --reading_params_path {learned} --outputs_path said.txt"
    )
    code, out, err = course(
        f"{evaluation} --eval_corpus_path train.tsv --finetune_corpus_path train.tsv", capsys
    )
    assert code == 0, err
    lines = (course_files / "said.txt").read_text().split("\n")
    assert lines[-1] == ""
    right = sum(
        prediction == answer for prediction, (_, answer) in zip(lines[:-1], PAIRS, strict=True)
    )
    assert out == (
        f"{first_lines()}Correct: {right}.0 out of 3.0: {100 * right / 3:.1f}%\n"
        'Baseline, always "London": Correct: 2.0 out of 3.0: 66.7%\n'
    )
    (course_files / "rome.tsv").write_text("".join(f"{q}\tRome\n" for q, _ in PAIRS))
    code, out, err = course(f"{evaluation} --eval_corpus_path rome.tsv", capsys)
    assert code == 0, err
    assert out.splitlines()[-1] == (
        'Baseline, always "Rome" (the most frequent answer of rome.tsv itself): '
        "Correct: 3.0 out of 3.0: 100.0%"
    )
    (course_files / "said.txt").unlink()
    code, out, err = course(f"{evaluation} --eval_corpus_path test.tsv", capsys)
    assert code == 0, err
    assert out == (
        f"{first_lines()}No gold birth places provided; returning (0,0)\n"
        "Predictions written to said.txt; no targets provided\n"
    )
    assert (course_files / "said.txt").read_text().split("\n") == lines


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            "evaluate synthesizer wiki.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path train.tsv",
            "its attention is softmax, not synthesizer:max_length=127",
        ),
        (
            "evaluate perceiver wiki.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path train.tsv",
            "its model is decoder, not perceiver",
        ),
        (
            "evaluate rope wiki.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path train.tsv",
            "its position is learned, not rotary",
        ),
        (
            "evaluate vanilla other.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path train.tsv",
            "other.txt has characters that the model never saw: 'ß'",
        ),
        (
            "evaluate vanilla wiki.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path other.txt",
            "question 1 has characters that the model never saw: 'ß'",
        ),
        (
            "finetune vanilla other.txt --reading_params_path {run.parent}/v.pretrain.params "
            "--writing_params_path x --finetune_corpus_path train.tsv",
            "was pretrained on another text than other.txt",
        ),
        (
            "pretrain vanilla wiki.txt --writing_params_path {run} --epochs 1",
            "already holds a run; give --resume to continue it",
        ),
    ],
)
def test_arguments_that_contradict_the_run(
    arguments: str,
    problem: str,
    trained: tuple[Path, list[str]],
    course_files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (course_files / "other.txt").write_text("Ada Noß. Ada was born .\n", encoding="utf-8")
    code, _, err = course(arguments.format(run=trained[0] / "v.params"), capsys)
    assert (code, err.count("\n")) == (2, 1), err
    assert problem in err
    assert not (course_files / "x").exists()


@pytest.mark.usefixtures("course_files")
@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("synthesizer", {"attention": "synthesizer:max_length=127"}),
        ("favor:features=8", {"attention": "favor:features=8"}),
        ("rope", {"model": "decoder", "attention": "softmax", "position": "rotary"}),
        ("perceiver", {"model": "perceiver", "latents": 64}),
        ("perceiver --bottleneck_dim 32", {"model": "perceiver", "latents": 32}),
    ],
)
def test_other_variants_from_scratch(
    variant: str, expected: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = course(
        f"finetune {variant} --writing_params_path scratch.params wiki.txt "
        "--finetune_corpus_path train.tsv --epochs 2 --finetune_lr 1e-3",
        capsys,
    )
    assert code == 0, err
    model = Run("scratch.params").model()
    assert isinstance(model, Decoder)
    assert {key: model.description()[key] for key in expected} == expected
    assert f"number of parameters: {model.parameter_count()}\n" in out
    config = Run("scratch.params").config()
    assert (config["training"]["steps"], config["training"]["learning_rate"]) == (2, 1e-3)
    assert config["task"]["from"] == "scratch"
    code, out, err = course(
        f"evaluate {variant} --reading_params_path scratch.params wiki.txt --outputs_path said.txt "
        "--eval_corpus_path train.tsv",
        capsys,
    )
    assert code == 0, err
    assert "out of 3.0" in out


@pytest.mark.usefixtures("course_files")
def test_scratch_takes_75_epochs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_used: list[Settings] = []

    def train(_task: Any, _model: Any, settings: Settings, *_: Any, **__: Any) -> dict[str, float]:
        settings_used.append(settings)
        raise ValueError("enough")

    monkeypatch.setattr(recipe, "train", train)
    code, _, err = course(
        "finetune vanilla wiki.txt --writing_params_path s --finetune_corpus_path train.tsv", capsys
    )
    assert (code, settings_used[0].steps, settings_used[0].batch_size) == (2, 75, 256)
    assert err.endswith("run.py: error: enough\n")
    code, _, _ = course("pretrain vanilla wiki.txt --writing_params_path s", capsys)
    assert (code, settings_used[1].steps, settings_used[1].learning_rate) == (2, 650, 6e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["required", "function"]),
        ("train vanilla wiki.txt", ["'train'", "pretrain"]),
        ("pretrain vanilla wiki.txt", ["pretrain needs --writing_params_path"]),
        ("finetune vanilla wiki.txt", ["--writing_params_path and --finetune_corpus_path"]),
        (
            "evaluate vanilla wiki.txt --eval_corpus_path train.tsv",
            ["evaluate needs --reading_params_path and --outputs_path"],
        ),
        (
            "pretrain vanilla wiki.txt --writing_params_path x --reading_params_path y",
            ["pretrain does not use --reading_params_path"],
        ),
        (
            "evaluate vanilla wiki.txt --reading_params_path x --eval_corpus_path train.tsv "
            "--outputs_path out --epochs 3",
            ["evaluate does not use --epochs"],
        ),
        (
            "evaluate vanilla wiki.txt --reading_params_path x --eval_corpus_path train.tsv "
            "--outputs_path ./train.tsv",
            ["--outputs_path is the same as eval_corpus_path"],
        ),
        (
            "finetune vanilla wiki.txt --reading_params_path x --writing_params_path x "
            "--finetune_corpus_path train.tsv",
            ["--writing_params_path is the same as reading_params_path"],
        ),
        (
            "finetune vanilla wiki.txt --reading_params_path nowhere --writing_params_path x "
            "--finetune_corpus_path train.tsv",
            ["nowhere: not a run folder"],
        ),
        ("pretrain vanila wiki.txt --writing_params_path x", ["vanila"]),
        (
            "pretrain vanilla wiki.txt --writing_params_path x --bottleneck_dim 8",
            ["vanilla does not use --bottleneck_dim"],
        ),
        (
            "pretrain perceiver wiki.txt --writing_params_path x --bottleneck_dim 0",
            ["latents is 0"],
        ),
        ("pretrain linformer wiki.txt --writing_params_path x", ["no causal form"]),
        ("pretrain vanilla missing.txt --writing_params_path x", ["missing.txt", "does not exist"]),
        ("pretrain vanilla wiki.txt --writing_params_path x --epochs few", ["--epochs", "few"]),
        ("pretrain vanilla wiki.txt --writing_params_path x --epochs -1", ["epochs is -1"]),
    ],
)
def test_errors_are_one_line(
    arguments: str, words: list[str], course_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_text() for path in course_files.iterdir()}
    code, _, err = course(arguments, capsys)
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("run.py: error: ")
    assert all(word in err for word in words), err
    assert {path: path.read_text() for path in course_files.iterdir()} == before
