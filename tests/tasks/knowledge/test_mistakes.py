"""What the knowledge commands refuse: one line, and nothing written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attnlab.tasks.knowledge._data import MAX_LINE
from attnlab.tasks.knowledge.kind import KNOWN
from tests.support.command_line import run

FILES = {
    "empty.txt": b"\n\n",
    "latin.txt": "Ada. Zoë .\nBo. é .\n".encode("latin-1"),
    "huge.txt": b"a" * (MAX_LINE + 1) + b"\n",
    "lower.txt": b"ada. she was born in rome .\n",
    "notab.tsv": b"Where was Ada born?\tRome\nWhere was Bo born? Oslo\n",
    "three.tsv": b"Where was Ada born?\tRome\tItaly\n",
    "asked.tsv": b"Where was Ada born?\n",
    "long.tsv": b"Where was Ada born?\tRome\nWhere was " + b"A" * 300 + b" born?\tOslo\n",
    "strange.tsv": "Where was Ada born?\tRome\nWhere was ☃ born?\tOslo\n".encode(),
    "nobody.tsv": b"Where was Ada Byron born?\tRome\nWhere was Bo Li born?\tOslo\n",
    "single.tsv": b"Where was Ada born?\tRome\n",
}
TRAIN = "--pairs world/train.tsv"
BOTH = f"--corpus world/corpus.txt {TRAIN}"
ALL = f"{BOTH} --evaluation-pairs world/dev.tsv"
MISTAKES: list[tuple[str, list[str]]] = [
    # the corpus
    ("pretrain --corpus nowhere.txt", ["nowhere.txt: does not exist"]),
    ("pretrain --corpus world", ["world: is not a file"]),
    ("pretrain --corpus empty.txt", ["empty.txt: has no documents"]),
    ("pretrain --corpus latin.txt", ["latin.txt: line 1 is not UTF-8"]),
    ("pretrain --corpus huge.txt", ["huge.txt: line 1 has 20,001 characters"]),
    ("pretrain --corpus lower.txt --steps 3", ["no training row fits"]),
    # the pairs
    ("finetune pretrained --pairs nowhere.tsv", ["nowhere.tsv: does not exist"]),
    ("finetune pretrained --pairs notab.tsv", ["notab.tsv: line 2 has no tab"]),
    ("finetune pretrained --pairs three.tsv", ["three.tsv: line 1 has more than one tab"]),
    ("finetune pretrained --pairs asked.tsv", ["asked.tsv: has questions without answers"]),
    ("finetune pretrained --pairs long.tsv --steps 3", ["long.tsv: pair 2 has", "at most 257"]),
    ("finetune pretrained --pairs strange.tsv", ["strange.tsv: pair 2 has", "never saw: '☃'"]),
    ("finetune pretrained", ["was pretrained on world/corpus.txt", "--pairs"]),
    ("finetune scratch --corpus world/corpus.txt", ["--corpus needs --pairs"]),
    (f"finetune scratch --mixed {TRAIN}", ["--mixed", "--corpus"]),
    (f"finetune pretrained {TRAIN} --held-out 1.5", ["held-out fraction is 1.5"]),
    ("finetune pretrained --pairs single.tsv --held-out 0.999", ["leaves no pair for training"]),
    # options
    ("pretrain --preset tiny", ["no preset 'tiny'", "course, small"]),
    ("pretrain --objective spam", ["objective 'spam'", "span, lines, lm, entities"]),
    ("pretrain --objective entities:foreign=-1", ["foreign is -1"]),
    ("pretrain --attention favr", ["did you mean 'favor'"]),
    ("pretrain --attention linformer", ["no causal form"]),
    ("pretrain --attention softmax favor", ["lists 2 layers"]),
    ("pretrain --tokenizer words", ["tokenizer is 'words'", "characters, bytes or bpe:SIZE"]),
    ("pretrain --tokenizer bpe:3", ["vocabulary is 3"]),
    ("pretrain --tokenizer bpe:99999999999999999999", ["tokenizer is 'bpe:9999"]),
    (
        "pretrain --epochs 3 --steps 3",
        ["epochs, steps and minutes exclude each other; give one of them"],
    ),
    (
        "pretrain --epochs 3 --minutes 3",
        ["epochs, steps and minutes exclude each other; give one of them"],
    ),
    (
        "pretrain --minutes 3 --steps 3",
        ["epochs, steps and minutes exclude each other; give one of them"],
    ),
    ("pretrain --epochs 0", ["epochs is 0"]),
    ("pretrain --made-up -1", ["made_up is -1"]),
    (f"finetune pretrained {TRAIN} --made-up nan", ["made_up is nan"]),
    ("pretrain --epochs many", ["--epochs", "many"]),
    ("pretrain --heads 3", ["heads 3"]),
    ("pretrain --steps 0", ["steps is 0"]),
    (f"finetune scratch {TRAIN} --preset tiny", ["no preset 'tiny'"]),
    (f"finetune pretrained {TRAIN} --mixed --objective spam", ["objective 'spam'"]),
    (f"finetune pretrained {TRAIN} --width 32", ["pretrained: has its own model"]),
    (f"finetune pretrained {TRAIN} --attention favor", ["pretrained: has its own model"]),
    # folders
    ("pretrain --corpus world/corpus.txt --out pretrained", ["pretrained: already holds a run"]),
    ("pretrain --out text.txt", ["text.txt: is a file"]),
    ("pretrain --out nothing --resume", ["nothing", "config.json is missing"]),
    ("pretrain --out pretrained --resume --overwrite", ["--resume and --overwrite"]),
    (f"finetune pretrained {TRAIN} --out finetuned", ["finetuned: already holds a run"]),
    (f"finetune nothing {TRAIN}", ["nothing: not a run folder"]),
    (
        f"finetune language {TRAIN}",
        ["language: is a run of task 'language'; give a run of task 'knowledge'"],
    ),
    (
        "evaluate language --pairs world/dev.tsv",
        ["a run of task 'language'; give a run of task 'knowledge'"],
    ),
    ("ask language Who?", ["a run of task 'language'; give a run of task 'knowledge'"]),
    (
        "audit language --pairs world/dev.tsv",
        ["a run of task 'language'; give a run of task 'knowledge'"],
    ),
    ("world --out world", ["already exists"]),
    # asking
    ("evaluate nothing --pairs world/dev.tsv", ["nothing: not a run folder"]),
    ("evaluate finetuned", ["finetuned: was trained on your own files", "--pairs"]),
    ("evaluate finetuned --pairs three.tsv", ["three.tsv: line 1"]),
    ("evaluate finetuned --pairs empty.txt", ["empty.txt: has no questions"]),
    ("evaluate finetuned --pairs long.tsv", ["question 2 has 316 tokens", "at most 254"]),
    ("evaluate finetuned --pairs strange.tsv", ["question 2 has characters", "'☃'"]),
    ("ask finetuned 'Where was Zoë ☃ born?'", ["question 1 has characters", "never saw: 'ë', '☃'"]),
    ("ask finetuned Who? ' '", ["question 2 is empty"]),
    ("ask finetuned", ["QUESTIONS"]),
    (f"ask finetuned {'a' * 300}", ["question 1 has 300 tokens", "reads at most 254"]),
    ("ask pretrained Who?", ["pretrained: was never trained on questions"]),
    ("audit pretrained --pairs world/dev.tsv", ["pretrained: was never trained on questions"]),
    ("audit finetuned", ["--pairs"]),
    ("audit finetuned --pairs world/dev.tsv --samples 0", ["samples 0"]),
    ("audit finetuned --pairs world/dev.tsv --temperature -1", ["temperature"]),
    ("baseline --pairs world/train.tsv", ["give both files"]),
    (
        "baseline --pairs world/train.tsv --evaluation-pairs asked.tsv",
        ["asked.tsv: has questions without"],
    ),
    # learn
    (f"learn {TRAIN}", ["--pairs needs --corpus"]),
    ("learn --corpus world/corpus.txt", ["--corpus needs --pairs"]),
    (
        "learn --corpus world/corpus.txt --pairs nobody.tsv",
        ["no question contains the title of a document"],
    ),
    ("learn --corpus nowhere.txt --pairs world/train.tsv", ["nowhere.txt: does not exist"]),
    ("learn --corpus world/corpus.txt --pairs three.tsv", ["three.tsv: line 1"]),
    (f"learn {BOTH} --readers 0", ["readers is 0"]),
    (f"learn {BOTH} --attention favr", ["did you mean 'favor'"]),
    (f"learn {BOTH} --steps 10", ["learn counts epochs"]),
    (f"learn {BOTH} --tokenizer bytes --context 60", ["give --context"]),
    (f"learn {BOTH} --out nothing --resume", ["nothing", "config.json is missing"]),
]


@pytest.fixture(scope="module")
def mistaken(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes") / "here"
    shutil.copytree(made, folder)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[each[:60] for each, _ in MISTAKES])
def test_errors_are_one_line_and_write_nothing(
    arguments: str,
    words: list[str],
    mistaken: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(mistaken)
    before = {path: path.stat().st_mtime_ns for path in mistaken.rglob("*")}
    code, out, err = run(f"knowledge {arguments}", capsys)
    assert code == 2, err
    assert out == ""
    assert err.startswith("attnlab: ")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err
    assert {path: path.stat().st_mtime_ns for path in mistaken.rglob("*")} == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"known": 1}',
        '{"known": "high", "guess": 0}',
        '{"known": null, "guess": 0, "fitted_on": "", "commonest": "", "answers": 3}',
        '{"known": null, "guess": 0, "fitted_on": "", "commonest": "", "answers": [], '
        '"names": [], "wordings": [["a"]]}',
        b"\xff\xfe",
    ],
)
def test_damaged_thresholds_are_a_one_line_error(
    content: str | bytes, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = here / "finetuned" / KNOWN
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("knowledge ask finetuned Who?", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"finetuned/{KNOWN}: is damaged" in err
    assert "train the run again" in err
