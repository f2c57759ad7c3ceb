"""The course's assignment: its rows, the command that shows them, and its settings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from attnlab.tasks.knowledge import _load as load_data
from attnlab.tasks.knowledge import _scoring as scoring
from attnlab.tasks.knowledge._data import read_corpus, read_pairs
from attnlab.tasks.knowledge._presets import PRESETS
from attnlab.tasks.knowledge._pretraining_objectives import Span
from attnlab.tasks.knowledge._show_training_rows import data_line, example_rows, format_x_and_y
from attnlab.tasks.knowledge._task import DocumentSource, KnowledgeTask, QuestionSource
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow
from attnlab.tokenizer import Characters
from attnlab.training import Settings
from tests.support.command_line import run
from tests.support.course_files import CORPUS, PAIRS

PAD, MASK, BLOCK = "□", "⁇", 128
LONG = "".join(chr(0x4E00 + i) for i in range(BLOCK))  # no character twice: every cut can be told


def encoding(*texts: str) -> KnowledgeTextEncoding:
    return KnowledgeTextEncoding(load_data.make_tokenizer("characters", texts))


def text_of(row: TrainingRow, words: KnowledgeTextEncoding) -> str:
    return words.tokenizer.decode(row.ids)


# The course's definitions, written down slowly


def every_span(document: str) -> set[str]:
    """All that span corruption may make of a document: any cut, any span of one or more."""
    spans = set()
    for length in range(4, BLOCK * 7 // 8 + 1):
        cut = document[:length]
        for start in range(len(cut)):
            for end in range(start + 1, len(cut) + 1):
                spans.add(cut[:start] + MASK + cut[end:] + MASK + cut[start:end])
    return spans


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
def test_spans_match_the_course(document: str) -> None:
    words, generator = encoding(document), random.Random(0)
    allowed = every_span(document)
    rows = [Span().rows(document, words, BLOCK, generator) for _ in range(300)]
    assert all(len(each) == 1 for each in rows)
    made = {text_of(row, words) for (row,) in rows}
    assert made <= allowed
    assert len(made) >= len(document)
    assert all(row.weights == [1.0] * len(row) for (row,) in rows)


@pytest.mark.parametrize("context", [BLOCK, BLOCK - 1])  # the course's synthesizer reads 127
def test_spans_of_all_lengths_and_a_quarter_on_average(context: int) -> None:
    words, generator = encoding(LONG), random.Random(1)
    masked: dict[int, list[int]] = {}
    starts = set()
    for _ in range(20_000):
        (row,) = Span().rows(LONG, words, context, generator)
        piece, hidden = take_apart(text_of(row, words))
        assert LONG.startswith(piece)
        starts.add(piece.index(hidden))
        masked.setdefault(len(piece), []).append(len(hidden))
    assert sorted(masked) == list(range(4, 113))
    shares = [size / length for length, sizes in masked.items() for size in sizes]
    assert sum(shares) / len(shares) == pytest.approx(0.25, abs=0.003)
    for length in (4, 5, 7, 112):  # each length for itself, the shortest too
        lengths = masked[length]
        assert sum(lengths) / len(lengths) == pytest.approx(length / 4, rel=0.12), length
        assert len(set(lengths)) > (0 if length == 4 else 1)
    assert min(starts) == 0
    assert max(starts) > 100


def test_finetuning_rows_match_the_course() -> None:
    words = encoding(*CORPUS, *(text for pair in PAIRS for text in pair))
    rows = list(QuestionSource(PAIRS).rows(words, BLOCK, random.Random(0)))
    shown = [format_x_and_y(row, words.tokenizer, BLOCK) for row in rows]
    assert shown == [name_example(*pair) for pair in PAIRS]
    x, y = shown[1]
    assert len(x) == len(y) == 127
    assert y == PAD * 27 + "⁇Erlangen⁇" + PAD * 90  # the question has 28 characters


@pytest.mark.parametrize("stage", ["pretraining", "finetuning"])
def test_loss_matches_the_course(stage: str) -> None:
    """The mean over what is not pad, of rows padded to the context; ours are padded to the longest.

    The model here says the same after each character wherever it stands, so any target counts.
    """
    words = encoding(*CORPUS, *(text for pair in PAIRS for text in pair))
    tokens = words.tokenizer
    source = QuestionSource(PAIRS) if stage == "finetuning" else DocumentSource(CORPUS, Span())
    task = KnowledgeTask(
        [source], words, context=BLOCK, seed=3, measure=lambda _: {}, headline="loss", about={}
    )
    torch.manual_seed(0)
    table = torch.randn(tokens.vocabulary, tokens.vocabulary, dtype=torch.float64)
    batch = task.collate(range(3), 0)
    loss = task.loss(lambda ids, _, at: table[ids][at], batch) / task.targets(batch)
    if stage == "finetuning":
        pairs = [name_example(*pair) for pair in PAIRS]
    else:
        pairs = [corrupted_example(text_of(row, words)) for row in task.rows(0)]
    x, y = (torch.tensor([tokens.encode(pair[side]) for pair in pairs]) for side in (0, 1))
    course_loss = F.cross_entropy(table[x].flatten(0, 1), y.flatten(), ignore_index=tokens.pad)
    assert float(loss) == pytest.approx(float(course_loss), rel=1e-6)


# The command that shows them


def printed(out: str) -> list[tuple[str, str]]:
    lines = out.splitlines()[1:]
    xs, ys = lines[::2], lines[1::2]
    assert all(line.startswith("x: ") for line in xs)
    assert all(line.startswith("y: ") for line in ys)
    return [(x[3:], y[3:]) for x, y in zip(xs, ys, strict=True)]


def test_examples_of_pretraining(course_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (course_files / "wiki.txt").read_text()
    code, out, err = run("knowledge examples --corpus wiki.txt --seed 5", capsys)
    assert code == 0, err
    assert out.startswith(f"data has {len(text)} characters, {len(set(text)) + 2} unique.\n")
    printed_rows = printed(out)
    assert len(printed_rows) == len(CORPUS)
    for document, (x, y) in zip(CORPUS, printed_rows, strict=True):
        assert len(x) == len(y) == BLOCK - 1
        assert y == x[1:] + PAD
        piece, masked = take_apart(x[0] + y)
        assert document.startswith(piece)
        assert 4 <= len(piece) <= 112
        assert masked in piece
    again = run("knowledge examples --corpus wiki.txt --seed 5", capsys)[1]
    other = run("knowledge examples --corpus wiki.txt --seed 6", capsys)[1]
    assert again == out
    assert other != out


def test_examples_of_the_embedded_world(capsys: pytest.CaptureFixture[str]) -> None:
    world = load_data.load_data(None, None)
    code, out, err = run("knowledge examples", capsys)
    assert code == 0, err
    assert len(printed(out)) == 4
    pieces = [take_apart(x[0] + y)[0] for x, y in printed(out)]
    assert all(d.startswith(p) for d, p in zip(world.documents, pieces, strict=False))
    code, out, err = run("knowledge examples --finetuning --count 7", capsys)
    assert code == 0, err
    assert printed(out) == [name_example(*pair) for pair in world.pairs[:7]]


def test_examples_of_finetuning(course_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("knowledge examples --corpus wiki.txt --pairs train.tsv", capsys)
    assert code == 0, err
    text = (course_files / "wiki.txt").read_text()
    assert out.startswith(f"data has {len(text)} characters, ")
    assert printed(out) == [name_example(*pair) for pair in PAIRS]
    code, out, err = run("knowledge examples --pairs train.tsv --count 1", capsys)
    assert code == 0, err
    assert printed(out) == [name_example(*PAIRS[0])]
    assert out.startswith(f"data has {len((course_files / 'train.tsv').read_text())} characters, ")


@pytest.mark.usefixtures("course_files")
def test_examples_of_other_tokens() -> None:
    line, rows = example_rows("wiki.txt", preset="small", objective="lm+entities", count=4)
    assert line.endswith("token ids.")
    (x, y), (frame, target) = rows[:2]
    assert x.replace("|", "") == f" {CORPUS[0]}"
    assert y.endswith("|<end>")
    assert x.split("|")[1:] == y.split("|")[:-1]
    assert "Byron" in frame.replace("|", "")
    assert target.replace("|", "").strip(PAD) in ("⁇ London⁇", "⁇ Who⁇")  # capitalized runs
    assert len(frame.split("|")) == len(target.split("|"))


@pytest.mark.usefixtures("course_files")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--count 0", ["count is 0", "1 or more"]),
        ("--finetuning --objective span", ["leave it out"]),
        ("--finetuning --corpus wiki.txt", ["--pairs"]),
        ("--corpus missing.txt", ["missing.txt", "does not exist"]),
        ("--preset corse", ["'corse'", "course"]),
        ("--objective spam", ["'spam'", "span"]),
    ],
)
def test_mistakes_in_examples(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(f"knowledge examples {arguments}", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words), err


# The preset


def test_numbers_of_the_preset() -> None:
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
        assert (settings.optimizer, settings.beta1, settings.beta2) == ("adamw", 0.9, 0.95)
        assert (settings.weight_decay, settings.max_gradient_norm) == (0.1, 1.0)
        assert (settings.batch_size, settings.learning_rate) == (rows, rate)
    letters = Characters("".join(chr(0x4E00 + i) for i in range(254)))
    model = load_data.make_model("course", letters, "softmax", {})
    config = model.config
    assert (config.layers, config.heads, config.width, config.context) == (4, 8, 256, 128)
    assert config.vocabulary == 256
    assert model.parameter_count() == 3_323_392
    synthesizer = load_data.make_model("course", letters, "synthesizer", {})
    assert synthesizer.parameter_count() == 3_076_988


# The course's own files


def test_numbers_of_the_course(course_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = read_corpus(course_data / "wiki.txt")
    tokens = load_data.make_tokenizer("characters", documents)
    assert data_line(documents, tokens) == "data has 418352 characters, 256 unique."
    assert load_data.make_model("course", tokens, "softmax", {}).parameter_count() == 3_323_392
    code, out, err = run(
        f"knowledge examples --corpus {course_data / 'wiki.txt'} --pairs "
        f"{course_data / 'birth_places_train.tsv'} --count 5",
        capsys,
    )
    assert code == 0, err
    assert out.startswith("data has 418352 characters, 256 unique.\n")
    pairs = read_pairs(course_data / "birth_places_train.tsv")
    assert printed(out) == [name_example(*pair) for pair in pairs[:5]]
    answer, score = scoring.baseline(
        course_data / "birth_places_train.tsv", course_data / "birth_dev.tsv"
    )
    assert (answer, score.right, len(score.questions)) == ("London", 25, 500)


def test_rows_of_the_course_corpus(course_data: Path) -> None:
    """Every person of the corpus, corrupted once: whole pieces, and a quarter of them masked."""
    documents = read_corpus(course_data / "wiki.txt")
    _, rows = example_rows(course_data / "wiki.txt", count=len(documents), seed=2)
    assert len(rows) == len(documents) == 2937
    shares, lengths = [], set()
    for document, (x, y) in zip(documents, rows, strict=True):
        assert len(x) == len(y) == BLOCK - 1
        assert y == x[1:] + PAD
        piece, masked = take_apart(x)
        assert document.startswith(piece)
        lengths.add(len(piece))
        shares.append(len(masked) / len(piece))
    assert lengths == set(range(4, 113))
    assert sum(shares) / len(shares) == pytest.approx(0.25, abs=0.01)
