"""The course's assignment: its rows, its settings, and its run.py with its arguments."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from attnlab.cli import main
from attnlab.models import Decoder
from attnlab.tasks.knowledge import material, recipe, scoring
from attnlab.tasks.knowledge.data import read_corpus, read_pairs
from attnlab.tasks.knowledge.examples import data_line, examples, x_and_y
from attnlab.tasks.knowledge.objectives import Span
from attnlab.tasks.knowledge.presets import PRESETS
from attnlab.tasks.knowledge.rows import Row, Wording
from attnlab.tasks.knowledge.task import Documents, KnowledgeTask, Questions
from attnlab.tokens import Characters
from attnlab.training import Run, Settings

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "course" / "run.py"
PAD, MASK, BLOCK = "□", "⁇", 128
LONG = "".join(chr(0x4E00 + i) for i in range(BLOCK))  # no character twice: every cut can be told
PEOPLE = [("Ada Byron", "London"), ("Emmy Noether", "Erlangen"), ("Alan Turing", "London")]
CORPUS = [f"{name}. {name} was born in {place} . Who else?" for name, place in PEOPLE]
PAIRS = [(f"Where was {name} born?", place) for name, place in PEOPLE]


def wording(*texts: str) -> Wording:
    return Wording(material.make_tokenizer("characters", texts))


def text_of(row: Row, words: Wording) -> str:
    return words.tokenizer.decode(row.ids)


# The course's definitions, written down slowly


def every_span(document: str) -> set[str]:
    """All that span corruption may make of a document: any cut, any span of one or more."""
    found = set()
    for length in range(4, BLOCK * 7 // 8 + 1):
        cut = document[:length]
        for start in range(len(cut)):
            for end in range(start + 1, len(cut) + 1):
                found.add(cut[:start] + MASK + cut[end:] + MASK + cut[start:end])
    return found


def name_example(question: str, answer: str) -> tuple[str, str]:
    """x and y of a pair, as the course's dataset has them."""
    x = question + MASK + answer + MASK
    x += PAD * (BLOCK - len(x))
    y = PAD * (len(question) - 1) + x[len(question) :]
    return x[:-1], y


def corrupted_example(text: str) -> tuple[str, str]:
    text += PAD * (BLOCK - len(text))
    return text[:-1], text[1:]


def take_apart(text: str) -> tuple[str, str]:
    """The piece of the document that a row was made of, and what was masked of it."""
    prefix, suffix, masked = text.rstrip(PAD).split(MASK)
    return prefix + masked + suffix, masked


# Rows


@pytest.mark.parametrize("document", ["abcd", "Ada Byron. Born in London .", "xyz", "q"])
def test_spans_are_the_definitions(document: str) -> None:
    words, chance = wording(document), random.Random(0)
    allowed = every_span(document)
    rows = [Span().rows(document, words, BLOCK, chance) for _ in range(300)]
    assert all(len(each) == 1 for each in rows)
    made = {text_of(row, words) for (row,) in rows}
    assert made <= allowed
    assert len(made) >= len(document)
    assert all(row.weights == [1.0] * len(row) for (row,) in rows)


@pytest.mark.parametrize("context", [BLOCK, BLOCK - 1])  # the course's synthesizer reads 127
def test_spans_of_all_lengths_and_a_quarter_on_average(context: int) -> None:
    words, chance = wording(LONG), random.Random(1)
    masked: dict[int, list[int]] = {}
    starts = set()
    for _ in range(20_000):
        (row,) = Span().rows(LONG, words, context, chance)
        piece, hidden = take_apart(text_of(row, words))
        assert LONG.startswith(piece)
        starts.add(piece.index(hidden))
        masked.setdefault(len(piece), []).append(len(hidden))
    assert sorted(masked) == list(range(4, 113))
    shares = [size / length for length, sizes in masked.items() for size in sizes]
    assert sum(shares) / len(shares) == pytest.approx(0.25, abs=0.003)
    for length in (4, 5, 7, 112):  # each length for itself, the shortest too
        found = masked[length]
        assert sum(found) / len(found) == pytest.approx(length / 4, rel=0.12), length
        assert len(set(found)) > (0 if length == 4 else 1)
    assert min(starts) == 0
    assert max(starts) > 100


def test_finetuning_rows_are_the_courses() -> None:
    words = wording(*CORPUS, *(text for pair in PAIRS for text in pair))
    rows = Questions(PAIRS).rows(words, BLOCK, random.Random(0))
    shown = [x_and_y(row, words.tokenizer, BLOCK) for row in rows]
    assert shown == [name_example(*pair) for pair in PAIRS]
    x, y = shown[1]
    assert len(x) == len(y) == 127
    assert y == PAD * 27 + "⁇Erlangen⁇" + PAD * 90  # the question has 28 characters


@pytest.mark.parametrize("stage", ["pretraining", "finetuning"])
def test_the_loss_is_the_courses(stage: str) -> None:
    """The mean over what is not pad, of rows padded to the context; ours are padded to the longest.

    The model here says the same after each character wherever it stands, so any target counts.
    """
    words = wording(*CORPUS, *(text for pair in PAIRS for text in pair))
    tokens = words.tokenizer
    source = Questions(PAIRS) if stage == "finetuning" else Documents(CORPUS, Span())
    task = KnowledgeTask(
        [source], words, context=BLOCK, seed=3, measure=lambda _: {}, headline="loss", about={}
    )
    torch.manual_seed(0)
    table = torch.randn(tokens.vocabulary, tokens.vocabulary, dtype=torch.float64)
    batch = task.collate(range(3), 0)
    ours = task.loss(lambda ids, _, at: table[ids][at], batch) / task.targets(batch)
    if stage == "finetuning":
        pairs = [name_example(*pair) for pair in PAIRS]
    else:
        pairs = [corrupted_example(text_of(row, words)) for row in task.rows(0)]
    x, y = (torch.tensor([tokens.encode(pair[side]) for pair in pairs]) for side in (0, 1))
    theirs = F.cross_entropy(table[x].flatten(0, 1), y.flatten(), ignore_index=tokens.pad)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


# The command that shows them


def command(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code: Any = 0
    try:
        main(arguments.split())
    except SystemExit as ending:
        code = ending.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def write_files(folder: Path) -> Path:
    (folder / "wiki.txt").write_text("".join(f"{document}\n" for document in CORPUS))
    (folder / "train.tsv").write_text("".join(f"{q}\t{a}\n" for q, a in PAIRS))
    (folder / "test.tsv").write_text("".join(f"{q}\n" for q, _ in PAIRS))
    return folder


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


def printed(out: str) -> list[tuple[str, str]]:
    lines = out.splitlines()[1:]
    xs, ys = lines[::2], lines[1::2]
    assert all(line.startswith("x: ") for line in xs)
    assert all(line.startswith("y: ") for line in ys)
    return [(x[3:], y[3:]) for x, y in zip(xs, ys, strict=True)]


def test_examples_of_pretraining(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (files / "wiki.txt").read_text()
    code, out, err = command("knowledge examples --corpus wiki.txt --seed 5", capsys)
    assert code == 0, err
    assert out.startswith(f"data has {len(text)} characters, {len(set(text)) + 2} unique.\n")
    found = printed(out)
    assert len(found) == len(CORPUS)
    for document, (x, y) in zip(CORPUS, found, strict=True):
        assert len(x) == len(y) == BLOCK - 1
        assert y == x[1:] + PAD
        piece, masked = take_apart(x[0] + y)
        assert document.startswith(piece)
        assert 4 <= len(piece) <= 112
        assert masked in piece
    again = command("knowledge examples --corpus wiki.txt --seed 5", capsys)[1]
    other = command("knowledge examples --corpus wiki.txt --seed 6", capsys)[1]
    assert again == out
    assert other != out


def test_examples_of_the_embedded_world(capsys: pytest.CaptureFixture[str]) -> None:
    world = material.material(None, None)
    code, out, err = command("knowledge examples", capsys)
    assert code == 0, err
    assert len(printed(out)) == 4
    pieces = [take_apart(x[0] + y)[0] for x, y in printed(out)]
    assert all(d.startswith(p) for d, p in zip(world.documents, pieces, strict=False))
    code, out, err = command("knowledge examples --finetuning --count 7", capsys)
    assert code == 0, err
    assert printed(out) == [name_example(*pair) for pair in world.pairs[:7]]


def test_examples_of_finetuning(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command("knowledge examples --corpus wiki.txt --pairs train.tsv", capsys)
    assert code == 0, err
    text = (files / "wiki.txt").read_text()
    assert out.startswith(f"data has {len(text)} characters, ")
    assert printed(out) == [name_example(*pair) for pair in PAIRS]
    code, out, err = command("knowledge examples --pairs train.tsv --count 1", capsys)
    assert code == 0, err
    assert printed(out) == [name_example(*PAIRS[0])]
    assert out.startswith(f"data has {len((files / 'train.tsv').read_text())} characters, ")


@pytest.mark.usefixtures("files")
def test_examples_of_other_tokens() -> None:
    line, found = examples("wiki.txt", preset="small", objective="lm+entities", count=4)
    assert line.endswith("token ids.")
    (x, y), (frame, said) = found[:2]
    assert x.replace("|", "") == f" {CORPUS[0]}"
    assert y.endswith("|<end>")
    assert x.split("|")[1:] == y.split("|")[:-1]
    assert "Byron" in frame.replace("|", "")
    assert said.replace("|", "").strip(PAD) in ("⁇ London⁇", "⁇ Who⁇")  # capitalised runs
    assert len(frame.split("|")) == len(said.split("|"))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--count 0", ["count is 0", "1 or more"]),
        ("--finetuning --objective span", ["leave it out"]),
        ("--finetuning --corpus wiki.txt", ["--pairs"]),
        ("--corpus missing.txt", ["missing.txt", "no such file"]),
        ("--preset corse", ["'corse'", "course"]),
        ("--objective spam", ["'spam'", "span"]),
    ],
)
def test_mistakes_in_examples(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(f"knowledge examples {arguments}", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words), err


# The preset


def test_the_presets_numbers() -> None:
    course = PRESETS["course"]
    assert (course.tokenizer, course.objective, course.mixed) == ("characters", "span", False)
    assert (course.pretraining_epochs, course.finetuning_epochs, course.scratch_epochs) == (
        650,
        10,
        75,
    )
    for settings, rows, rate in (
        (course.pretraining, 128, 6e-3),
        (course.finetuning, 256, 6e-4),
    ):
        assert isinstance(settings, Settings)
        assert (settings.optimiser, settings.beta_one, settings.beta_two) == ("adamw", 0.9, 0.95)
        assert (settings.weight_decay, settings.clip) == (0.1, 1.0)
        assert (settings.batch_rows, settings.rate) == (rows, rate)
    letters = Characters("".join(chr(0x4E00 + i) for i in range(254)))
    model = material.make_model("course", letters, "softmax", {})
    config = model.config
    assert (config.layers, config.heads, config.width, config.context) == (4, 8, 256, 128)
    assert config.vocabulary == 256
    assert model.parameter_count() == 3_323_392
    synthesizer = material.make_model("course", letters, "synthesizer", {})
    assert synthesizer.parameter_count() == 3_076_988


# The course's script


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("course_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def course(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code: Any = 0
    try:
        script().main(arguments.split())
    except SystemExit as ending:
        code = ending.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_reads_neither_torch_nor_attnlab() -> None:
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
    assert (before["steps"], before["rate"], before["batch_rows"]) == (1, 1e-3, 128)
    assert (after["steps"], after["rate"], after["batch_rows"]) == (10, 6e-4, 256)
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert ".safetensors" in suffixes
    assert not suffixes & {".pkl", ".pickle", ".pt", ".pth", ".bin", ".params"}


def test_evaluate(
    trained: tuple[Path, list[str]], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained[0] / "v.params"
    evaluation = f"evaluate vanilla wiki.txt --reading_params_path {run} --outputs_path said.txt"
    code, out, err = course(
        f"{evaluation} --eval_corpus_path train.tsv --finetune_corpus_path train.tsv", capsys
    )
    assert code == 0, err
    lines = (files / "said.txt").read_text().split("\n")
    assert lines[-1] == ""
    right = sum(said == answer for said, (_, answer) in zip(lines[:-1], PAIRS, strict=True))
    assert out == (
        f"{first_lines()}Correct: {right}.0 out of 3.0: {100 * right / 3:.1f}%\n"
        'Baseline, always "London": Correct: 2.0 out of 3.0: 66.7%\n'
    )
    (files / "rome.tsv").write_text("".join(f"{q}\tRome\n" for q, _ in PAIRS))
    code, out, err = course(f"{evaluation} --eval_corpus_path rome.tsv", capsys)
    assert code == 0, err
    assert out.splitlines()[-1] == (
        'Baseline, always "Rome" (the commonest answer of rome.tsv itself): '
        "Correct: 3.0 out of 3.0: 100.0%"
    )
    (files / "said.txt").unlink()
    code, out, err = course(f"{evaluation} --eval_corpus_path test.tsv", capsys)
    assert code == 0, err
    assert out == (
        f"{first_lines()}No gold birth places provided; returning (0,0)\n"
        "Predictions written to said.txt; no targets provided\n"
    )
    assert (files / "said.txt").read_text().split("\n") == lines


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            "evaluate synthesizer wiki.txt --reading_params_path {run} --outputs_path x "
            "--eval_corpus_path train.tsv",
            "its attention is softmax, not synthesizer:max_length=127",
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
            "holds a run already; give --resume to go on",
        ),
    ],
)
def test_what_does_not_fit_the_run(
    arguments: str,
    problem: str,
    trained: tuple[Path, list[str]],
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (files / "other.txt").write_text("Ada Noß. Ada was born .\n", encoding="utf-8")
    code, _, err = course(arguments.format(run=trained[0] / "v.params"), capsys)
    assert (code, err.count("\n")) == (2, 1), err
    assert problem in err
    assert not (files / "x").exists()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("variant", "attention"),
    [("synthesizer", "synthesizer:max_length=127"), ("favor:features=8", "favor:features=8")],
)
def test_other_variants_from_scratch(
    variant: str, attention: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = course(
        f"finetune {variant} wiki.txt --writing_params_path scratch.params "
        "--finetune_corpus_path train.tsv --epochs 2 --finetune_lr 1e-3",
        capsys,
    )
    assert code == 0, err
    model = Run("scratch.params").model()
    assert isinstance(model, Decoder)
    assert model.config.attention == attention
    assert f"number of parameters: {model.parameter_count()}\n" in out
    config = Run("scratch.params").config()
    assert (config["training"]["steps"], config["training"]["rate"]) == (2, 1e-3)
    assert config["task"]["from"] == "scratch"


@pytest.mark.usefixtures("files")
def test_scratch_takes_75_epochs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Settings] = []

    def train(_task: Any, _model: Any, settings: Settings, *_: Any, **__: Any) -> dict[str, float]:
        asked.append(settings)
        raise ValueError("enough")

    monkeypatch.setattr(recipe, "train", train)
    code, _, err = course(
        "finetune vanilla wiki.txt --writing_params_path s --finetune_corpus_path train.tsv", capsys
    )
    assert (code, asked[0].steps, asked[0].batch_rows) == (2, 75, 256)
    assert err.endswith("run.py: error: enough\n")
    code, _, _ = course("pretrain vanilla wiki.txt --writing_params_path s", capsys)
    assert (code, asked[1].steps, asked[1].rate) == (2, 650, 6e-3)


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
            ["pretrain makes no use of --reading_params_path"],
        ),
        (
            "evaluate vanilla wiki.txt --reading_params_path x --eval_corpus_path train.tsv "
            "--outputs_path out --epochs 3",
            ["evaluate makes no use of --epochs"],
        ),
        (
            "evaluate vanilla wiki.txt --reading_params_path x --eval_corpus_path train.tsv "
            "--outputs_path ./train.tsv",
            ["--outputs_path is also eval_corpus_path"],
        ),
        (
            "finetune vanilla wiki.txt --reading_params_path x --writing_params_path x "
            "--finetune_corpus_path train.tsv",
            ["--writing_params_path is also reading_params_path"],
        ),
        (
            "finetune vanilla wiki.txt --reading_params_path nowhere --writing_params_path x "
            "--finetune_corpus_path train.tsv",
            ["nowhere: not a run folder"],
        ),
        ("pretrain vanila wiki.txt --writing_params_path x", ["vanila"]),
        ("pretrain linformer wiki.txt --writing_params_path x", ["no causal form"]),
        ("pretrain vanilla missing.txt --writing_params_path x", ["missing.txt", "no such file"]),
        ("pretrain vanilla wiki.txt --writing_params_path x --epochs few", ["--epochs", "few"]),
        ("pretrain vanilla wiki.txt --writing_params_path x --epochs -1", ["epochs is -1"]),
    ],
)
def test_mistakes_are_one_line(
    arguments: str, words: list[str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_text() for path in files.iterdir()}
    code, _, err = course(arguments, capsys)
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("run.py: error: ")
    assert all(word in err for word in words), err
    assert {path: path.read_text() for path in files.iterdir()} == before


# The course's own files


@pytest.fixture
def data() -> Path:
    folder = Path(os.environ.get("ATTNLAB_DATA", "")) / "knowledge"
    if "ATTNLAB_DATA" not in os.environ or not (folder / "wiki.txt").exists():
        pytest.skip("the course's files are not here: ATTNLAB_DATA names no folder with them")
    return folder


def test_the_courses_numbers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = read_corpus(data / "wiki.txt")
    tokens = material.make_tokenizer("characters", documents)
    assert data_line(documents, tokens) == "data has 418352 characters, 256 unique."
    assert material.make_model("course", tokens, "softmax", {}).parameter_count() == 3_323_392
    code, out, err = command(
        f"knowledge examples --corpus {data / 'wiki.txt'} --pairs "
        f"{data / 'birth_places_train.tsv'} --count 5",
        capsys,
    )
    assert code == 0, err
    assert out.startswith("data has 418352 characters, 256 unique.\n")
    pairs = read_pairs(data / "birth_places_train.tsv")
    assert printed(out) == [name_example(*pair) for pair in pairs[:5]]
    said, score = scoring.baseline(data / "birth_places_train.tsv", data / "birth_dev.tsv")
    assert (said, score.right, len(score.questions)) == ("London", 25, 500)


def test_the_courses_corpus_in_rows(data: Path) -> None:
    """Every person of the corpus, corrupted once: whole pieces, and a quarter of them masked."""
    documents = read_corpus(data / "wiki.txt")
    _, found = examples(data / "wiki.txt", count=len(documents), seed=2)
    assert len(found) == len(documents) == 2937
    shares, lengths = [], set()
    for document, (x, y) in zip(documents, found, strict=True):
        assert len(x) == len(y) == BLOCK - 1
        assert y == x[1:] + PAD
        piece, masked = take_apart(x)
        assert document.startswith(piece)
        lengths.add(len(piece))
        shares.append(len(masked) / len(piece))
    assert lengths == set(range(4, 113))
    assert sum(shares) / len(shares) == pytest.approx(0.25, abs=0.01)
