"""Learning in stages: read and remember; resuming, and other ways to begin."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnlab.tasks.knowledge import _data as data
from attnlab.tasks.knowledge import _scoring as scoring
from attnlab.tasks.knowledge._certainty import Certainty
from attnlab.tasks.knowledge._learn import learn
from attnlab.tasks.knowledge._learn_stages import LearnSettings
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.knowledge_runs import LEARN, SIZES, everything, same_weights


def self_made(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "self_made.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# Read and remember


def test_learn(made: Path) -> None:
    config = Run(made / "learned").config()["task"]
    assert config["stage"] == "remember"
    assert Run(made / "learned" / "readers" / "1").config()["task"]["stage"] == "reader"
    world = make_world(WorldConfig(people=24))
    all_questions = {f"Where was {person.name} born?" for person in world.people}
    rows = self_made(made / "learned")
    answered_questions = {row["question"] for row in rows}
    assert answered_questions <= all_questions
    assert len(answered_questions) == len(rows) == config["self_made"]
    for row in rows:
        assert 0 < row["confidence"] <= 1
        name = row["question"].removeprefix("Where was ").removesuffix(" born?")
        document = next(each for each in world.corpus if each.startswith(f"{name}. "))
        assert row["answer"] in document or not row["stands"]
    assert Certainty.load(made / "learned").names
    score = scoring.evaluate(made / "learned", made / "world" / "dev.tsv")
    assert len(score.predictions) == 12


def test_learn_resumes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(here)
    code, out, err = run(f"{LEARN} --out learned", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "already holds a run" in err
    assert everything(here) == before
    # killed when the reader was done, before the rest began
    for path in (here / "learned").iterdir():
        if path.name != "readers":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    reader = everything(here / "learned" / "readers")
    code, _, err = run(f"{LEARN} --out learned", capsys)
    assert code == 2
    assert "already holds a run" in err
    code, _, err = run(f"{LEARN} --out learned --resume --overwrite", capsys)
    assert code == 2
    assert err == "attnlab: --resume and --overwrite exclude each other; give one of them\n"
    for usual, other in (
        ("--width 16", "--width 32"),
        ("bpe:300", "bpe:270"),
        ("--layers 1", "--layers 1 --copies 7"),
        ("--layers 1", "--layers 1 --seed 3"),
    ):
        code, _, err = run(f"{LEARN.replace(usual, other)} --out learned --resume", capsys)
        assert code == 2, other
        last = err.splitlines()[-1]
        assert last.startswith("attnlab: "), other
        assert "resume with the same settings" in last, other
    assert everything(here / "learned") == {f"readers/{k}": v for k, v in reader.items()}
    code, out, err = run(f"{LEARN} --out learned --resume", capsys)
    assert code == 0, err
    assert "reader 1 of 1" not in err
    assert everything(here / "learned" / "readers") == reader
    written = everything(here)
    assert written["learned/self_made.jsonl"] == before["learned/self_made.jsonl"]
    assert written["learned/known.json"] == before["learned/known.json"]
    assert written["learned/model.safetensors"] == before["learned/model.safetensors"]
    # and once more, when all is done
    code, out, err = run(f"{LEARN} --out learned --resume", capsys)
    assert code == 0, err
    assert "accuracy" in out


def test_learn_overwrites(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(f"{LEARN} --seed 5 --readers 2 --out learned --overwrite", capsys)
    assert code == 0, err
    config = Run("learned").config()
    assert config["training"]["seed"] == 5
    assert len(Run("learned").metrics()) == config["training"]["steps"]
    one, other = (Run(f"learned/readers/{number}").config()["training"] for number in (1, 2))
    assert (one["seed"], other["seed"]) == (5, 6)
    assert not same_weights(here / "learned/readers/1", here / "learned/readers/2")


def test_a_chooser_answers_questions_that_the_reader_cannot(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After one pass the reader says nothing of use; twelve labels are enough for the chooser."""
    gold = dict(make_world(WorldConfig(people=24)).held_out)
    rows = [row for row in self_made(here / "learned") if row["question"] in gold]
    assert sum(row["answer"] == gold[row["question"]] for row in rows) < 6
    shutil.rmtree("learned")
    code, _, err = run(f"{LEARN} --chooser 0.9 --sharpen 2 --held-out 0 --out learned", capsys)
    assert code == 0, err
    assert re.search(r"\] the model remembers \d+ of 12 self-made answers", err)
    rows = [row for row in self_made(here / "learned") if row["question"] in gold]
    assert sum(row["answer"] == gold[row["question"]] for row in rows) >= 11
    assert len(rows) == len(gold) == 12


def test_invalid_learn_settings() -> None:
    for wrong, words in (
        ({"readers": 0}, "readers is 0"),
        ({"reader_epochs": 0}, "reader_epochs is 0"),
        ({"remember_epochs": -1}, "remember_epochs is -1"),
        ({"reader_epochs": float("inf")}, "reader_epochs is inf"),
        ({"answer_weight": float("nan")}, "answer_weight is nan"),
        ({"reader_tokens": 0}, "reader_tokens is 0"),
        ({"remember_tokens": 0}, "remember_tokens is 0"),
        ({"swapped": 1.5}, "swapped is 1.5"),
        ({"chooser": -0.5}, "chooser is -0.5"),
        ({"sharpen": 0}, "sharpen is 0"),
        ({"copies": -1}, "copies is -1"),
        ({"made_up": -1}, "made_up is -1"),
        ({"held_out": 1}, "held_out is 1"),
    ):
        with pytest.raises(ValueError, match=words):
            LearnSettings(**wrong)


def test_learn_skips_titles_that_are_too_long(here: Path) -> None:
    """A document without a full stop is all title; to ask about it takes more than fits."""
    odd = here / "odd.txt"
    odd.write_text((here / "world/corpus.txt").read_text() + "on and " * 900 + "on\n")
    learn(
        odd,
        here / "world/train.tsv",
        out=here / "odd",
        tokenizer="bpe:300",
        settings=LearnSettings(reader_epochs=0.1, remember_epochs=0.1),
        model={"width": 8, "layers": 1, "heads": 1, "context": 200},
        quiet=True,
    )
    rows = self_made(here / "odd")
    assert all("on and on" not in row["question"] for row in rows)


# Resuming, and other ways to begin


def test_finetuning_resumes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "knowledge finetune pretrained --pairs world/train.tsv --schedule constant"
    assert run(f"{command} --steps 5 --out whole", capsys)[0] == 0
    assert run(f"{command} --steps 3 --out half", capsys)[0] == 0
    code, _, err = run(f"{command} --steps 5 --out half --resume", capsys)
    assert code == 0, err
    assert same_weights(here / "whole", here / "half")
    code, _, err = run(f"{command} --steps 9 --out half --resume --held-out 0.5", capsys)
    assert code == 2
    assert "resume with the same settings" in err


@pytest.mark.usefixtures("here")
def test_from_scratch_with_held_out_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(
        "knowledge finetune scratch --pairs world/train.tsv --held-out 0.4 "
        f"{SIZES} --context 64 --tokenizer bytes --epochs 2 --out scratch",
        capsys,
    )
    assert code == 0, err
    config = Run("scratch").config()["task"]
    assert config["measured_on"] == "held-out pairs"
    assert 0 < config["questions"] < 12
    assert config["objective"] is None


def test_mixed_finetuning_trains_on_documents(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the file that the run learned, or the embedded world's, without naming it again."""
    task = Run("finetuned").config()["task"]
    assert task["objective"] == Run("pretrained").config()["task"]["objective"]
    command = "knowledge finetune pretrained --pairs world/train.tsv --steps 1"
    assert run(f"{command} --no-mixed --out plain", capsys)[0] == 0
    assert Run("plain").config()["task"]["objective"] is None
    assert run(f"{command} --objective lm --out lm", capsys)[0] == 0
    assert Run("lm").config()["task"]["objective"] == "lm"
    config = json.loads((here / "pretrained/config.json").read_text())
    config["task"]["corpus"] = data.WORLD
    (here / "pretrained/config.json").write_text(json.dumps(config))
    code, _, err = run(f"{command} --out embedded", capsys)
    assert code == 0, err
    assert "600 documents" in err
    config["task"]["corpus"] = ""  # it never saw a document
    (here / "pretrained/config.json").write_text(json.dumps(config))
    assert run(f"{command} --out none", capsys)[0] == 0
    assert Run("none").config()["task"]["objective"] is None
