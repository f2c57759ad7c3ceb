"""Knowledge as a person uses it: learn a corpus, learn to answer, ask, audit, compare."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnlab.cli import main
from attnlab.models import Decoder
from attnlab.tasks.knowledge import material, recipe, scoring
from attnlab.tasks.knowledge.answers import NEW_TOKENS, answer, answer_with_confidence
from attnlab.tasks.knowledge.audit import audit
from attnlab.tasks.knowledge.certainty import FILE_NAME, Certainty
from attnlab.tasks.knowledge.data import LONGEST_LINE, Relation, read_pairs
from attnlab.tasks.knowledge.learn import LearnSettings, learn
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.world import WorldConfig, make_world
from attnlab.training import Run
from tests.commands import run
from tests.test_audit_page import make_report

SIZES = "--width 16 --layers 1 --heads 2"
PRETRAIN = f"knowledge pretrain --corpus world/corpus.txt {SIZES} --tokenizer characters --steps 6"
FINETUNE = "knowledge finetune pretrained --pairs world/train.tsv --held-out 0"
LEARN = (
    f"knowledge learn --corpus world/corpus.txt --pairs world/train.tsv {SIZES} "
    "--tokenizer bpe:300 --reader-epochs 1 --remember-epochs 2"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world, and one run of each kind; nobody changes them."""
    folder = tmp_path_factory.mktemp("knowledge")
    (folder / "text.txt").write_text("to be or not to be. " * 40)
    here = Path.cwd()
    os.chdir(folder)
    try:
        for arguments in (
            "knowledge world --out world --people 24",
            f"{PRETRAIN} --out pretrained",
            f"{FINETUNE} --steps 4 --out finetuned",
            f"{LEARN} --out learned",
            f"language train text.txt {SIZES} --context 16 --steps 1 --out language",
        ):
            with pytest.raises(SystemExit) as ending:
                main(arguments.split())
            assert not ending.value.code, arguments
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with all of it."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def same_weights(one: Path, other: Path) -> bool:
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (one, other))
    return all(torch.equal(mine[name], theirs[name]) for name in mine | theirs)


def self_made(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "self_made.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# From a corpus to answers


def test_the_runs_explain_themselves(made: Path) -> None:
    before, after = (Run(made / name).config() for name in ("pretrained", "finetuned"))
    assert before["task"]["stage"] == "pretrain"
    assert before["task"]["corpus"] == after["task"]["corpus"] == "world/corpus.txt"
    assert before["task"]["documents"] == 24
    assert after["task"]["stage"] == "finetune"
    assert after["task"]["from"] == "pretrained"
    assert after["task"]["questions"] == 12
    assert after["task"]["measured_on"] == "training pairs"
    assert (before["training"]["steps"], after["training"]["steps"]) == (6, 4)
    assert before["model"] == after["model"]
    assert "loss" in Run(made / "pretrained").metrics()[-1]["validation"]
    assert "accuracy" in Run(made / "finetuned").metrics()[-1]["validation"]
    assert not (made / "pretrained" / FILE_NAME).exists()
    known = Certainty.load(made / "finetuned")
    pairs = read_pairs(made / "world" / "train.tsv")
    assert known.answers == sorted({each for _, each in pairs})
    assert known.relations == [Relation("Where was ", " born?")]
    assert len(known.names) == 12
    assert known.fitted_on == "12 training pairs it has learned, so it will be too sure"


def test_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "knowledge evaluate finetuned --pairs world/dev.tsv"
    code, out, err = run(f"{told} --predictions said/dev.txt", capsys)
    assert code == 0, err
    said = (here / "said" / "dev.txt").read_text().split("\n")
    assert len(said) == 13
    assert said[-1] == ""
    pairs = read_pairs("world/dev.tsv")
    score = scoring.evaluate("finetuned", "world/dev.tsv")
    assert said[:-1] == [" ".join(each.split()) for each in score.predictions]
    right = sum(a == b for a, (_, b) in zip(score.predictions, pairs, strict=True))
    assert out == f"Correct: {right:.1f} out of 12.0: {100 * right / 12:.1f}%\n"
    code, out, err = run(f"{told} --json", capsys)
    assert code == 0, err
    assert json.loads(out) == {
        "run": "finetuned",
        "questions": 12,
        "right": right,
        "accuracy": right / 12,
    }
    before = everything(here)
    code, out, err = run(f"{told} --predictions said/dev.txt", capsys)
    assert (code, out) == (2, "")
    assert err == "attnlab: said/dev.txt: is there already; give --overwrite or another name\n"
    assert everything(here) == before
    assert run(f"{told} --predictions said/dev.txt --overwrite", capsys)[0] == 0
    assert everything(here) == before


def test_questions_without_answers_cannot_be_scored(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [question for question, _ in read_pairs("world/dev.tsv")]
    (here / "asked.tsv").write_text("\n".join(asked))
    told = "knowledge evaluate finetuned --pairs asked.tsv"
    code, out, err = run(f"{told} --predictions said.txt", capsys)
    assert (code, out) == (0, "")
    assert err == (
        "12 questions without answers: nothing can be scored; predictions are in said.txt\n"
    )
    said = (here / "said.txt").read_text()
    assert said.count("\n") == 12
    code, out, err = run(told, capsys)
    assert out.split() == said.split()
    assert "nothing can be scored" in err
    assert json.loads(run(f"{told} --json", capsys)[1]) == {"run": "finetuned", "questions": 12}
    report = audit("finetuned", "asked.tsv", samples=2, made_up=2)
    assert report["accuracy"] is None
    assert report["origins"] == report["reliability"] == []
    assert [each["correct"] for each in report["answers"]] == [None] * 12


def test_ask(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [question for question, _ in read_pairs("world/dev.tsv")][:2]
    asked = "knowledge ask finetuned " + " ".join(map(shlex.quote, questions))
    code, out, err = run(f"{asked} --json", capsys)
    assert code == 0, err
    found = json.loads(out)
    model, tokens, _ = material.load_knowledge("finetuned")
    certainty = Certainty.load(here / "finetuned")
    plain = answer(model, Wording(tokens), questions)
    for row, question, text in zip(found, questions, plain, strict=True):
        assert row["question"] == question
        assert row["answer"] == text
        assert row["verdict"] == certainty.verdict(row["confidence"])
        assert 0 <= row["confidence"] <= 1
        assert 0 <= row["runner_up_confidence"] <= 1
        assert row["runner_up"] != row["answer"]
    code, out, err = run(asked, capsys)
    assert code == 0, err
    for question, row in zip(questions, found, strict=True):
        assert f"{question} {row['answer']} ({row['verdict']}, " in out


def test_confidence_is_the_probability_of_the_answer(made: Path) -> None:
    model, tokens, _ = material.load_knowledge(made / "learned")
    wording, question = Wording(tokens), "Where was Ada born?"
    (said,) = answer_with_confidence(model, wording, [question])
    ids = wording.question(question)
    logs = 0.0
    for _ in range(NEW_TOKENS):
        with torch.no_grad():
            known = model(torch.tensor([ids])).double().log_softmax(2)[0, -1]
        logs += float(known.max())
        ids.append(int(known.argmax()))
        if ids[-1] == wording.mask:
            break
    answered = ids[len(wording.question(question)) :]
    assert wording.decode([each for each in answered if each != wording.mask]) == said.text
    assert said.confidence == pytest.approx(torch.tensor(logs).exp().item(), rel=1e-3)
    assert said.margin == said.confidence - said.other_confidence


def test_audit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "--samples 2 --made-up 5 --groups 2"
    told = f"knowledge audit finetuned --pairs world/dev.tsv {small}"
    code, out, err = run(told, capsys)
    assert code == 0, err
    assert out.endswith("finetuned/audit.json\nfinetuned/audit.html\n")
    report = json.loads((here / "finetuned" / "audit.json").read_text())
    known = make_report(20)  # what the page is tested with
    assert report.keys() == known.keys()
    for part in ("thresholds", "invented", "made_up", "sampling", "verdicts", "baseline"):
        assert report[part].keys() == known[part].keys(), part
    assert report["answers"][0].keys() == known["answers"][0].keys()
    assert report["origins"][0].keys() == known["origins"][0].keys()
    assert report["made_up"]["examples"][0].keys() == known["made_up"]["examples"][0].keys()
    assert report["pairs"] == len(report["answers"]) == 12
    assert report["made_up"]["count"] == 5
    assert sum(group["count"] for group in report["origins"]) == 12
    assert sum(each["count"] for each in report["verdicts"].values()) == 12
    right = sum(each["correct"] for each in report["answers"])
    assert report["accuracy"] == right / 12
    assert right == scoring.evaluate("finetuned", "world/dev.tsv").right
    assert "<!doctype html>" in (here / "finetuned" / "audit.html").read_text().lower()
    code, out, err = run(f"{told} --json a/b.json --html a/b.html", capsys)
    assert code == 0, err
    again = json.loads((here / "a" / "b.json").read_text())
    assert again == report
    assert (here / "a" / "b.html").exists()


def test_audit_where_names_are_unknown_or_do_not_fit(here: Path) -> None:
    """One question teaches no wording; and made-up names may be too long for the model."""
    (here / "one.tsv").write_text("Who?\tRome\n")
    shared: dict[str, Any] = {
        "model": {"width": 16, "layers": 1, "heads": 2, "context": 20},
        "tokenizer": "bytes",
        "training": {"steps": 2},
        "quiet": True,
    }
    recipe.finetune(pairs="one.tsv", out="one", **shared)
    assert Certainty.load(here / "one").names == []
    report = audit("one", "one.tsv", samples=1, made_up=3)
    assert report["made_up"]["count"] == 0
    assert report["answers"][0]["nearest"] == []
    (here / "two.tsv").write_text("Who is Bo?\tRome\nWho is Al?\tOslo\n")
    recipe.finetune(pairs="two.tsv", out="two", **shared)
    assert Certainty.load(here / "two").names == ["Al", "Bo"]
    assert audit("two", "two.tsv", samples=1, made_up=3)["made_up"]["count"] == 0


@pytest.mark.usefixtures("here")
def test_a_model_that_reads_less_than_its_context_answers_long_questions() -> None:
    """The course's synthesizer reads 127 of 128 characters."""
    recipe.finetune(
        pairs="world/train.tsv",
        out="short",
        preset="course",
        attention="synthesizer",
        model={"width": 16, "layers": 1, "heads": 2},
        training={"steps": 1, "batch_rows": 4},
        quiet=True,
    )
    model, tokens, _ = material.load_knowledge("short")
    assert (model.max_length, model.config.context) == (127, 128)
    questions = ["Where was " + "a" * size + " born?" for size in (80, 100, 109)]
    assert len(answer(model, Wording(tokens), questions)) == 3
    with pytest.raises(ValueError, match="question 1 has 126 tokens; this model reads at most 125"):
        answer(model, Wording(tokens), ["a" * 126])


def test_compare(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = (
        "knowledge compare --attention softmax --minutes 0.02 --corpus world/corpus.txt "
        "--pairs world/train.tsv --measured world/dev.tsv --out compared"
    )
    code, out, err = run(told, capsys)
    assert code == 0, err
    report = json.loads((here / "compared" / "compare.json").read_text())
    names = [each["name"] for each in report["contestants"]]
    assert names == ["softmax", "softmax, no pretraining"]
    for each in report["contestants"]:
        assert each["accuracy"] == each["right"] / 12
        assert each["interval"][0] <= each["accuracy"] <= each["interval"][1]
        assert each["curve"]
        minutes = [x for x, _ in each["curve"]]
        assert minutes == sorted(minutes)
        assert 0 < each["minutes"] < 1
        assert each["parameters"] > 1000
        assert each["name"] in out
    said, score = scoring.baseline("world/train.tsv", "world/dev.tsv")
    assert report["baseline"]["answer"] == said
    assert report["baseline"]["right"] == score.right
    assert "softmax" in (here / "compared" / "compare.html").read_text()
    held = Run(here / "compared" / "softmax" / "finetuned").config()["task"]
    assert held["held_out"] > 0
    before = everything(here)
    code, out, err = run(told, capsys)
    assert code == 2
    assert "holds a run already" in err
    assert everything(here) == before


# Read and remember


def test_learn(made: Path) -> None:
    config = Run(made / "learned").config()["task"]
    assert config["stage"] == "remember"
    assert Run(made / "learned" / "readers" / "1").config()["task"]["stage"] == "reader"
    world = make_world(WorldConfig(people=24))
    asked = {f"Where was {person.name} born?" for person in world.people}
    rows = self_made(made / "learned")
    found = {row["question"] for row in rows}
    assert found <= asked
    assert len(found) == len(rows) == config["self_made"]
    for row in rows:
        assert 0 < row["confidence"] <= 1
        name = row["question"].removeprefix("Where was ").removesuffix(" born?")
        document = next(each for each in world.corpus if each.startswith(f"{name}. "))
        assert row["answer"] in document or not row["stands"]
    assert Certainty.load(made / "learned").names
    score = scoring.evaluate(made / "learned", made / "world" / "dev.tsv")
    assert len(score.predictions) == 12


def test_learn_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(here)
    code, out, err = run(f"{LEARN} --out learned", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "holds a run already" in err
    assert everything(here) == before
    # killed when the reader was done, before the rest began
    for path in (here / "learned").iterdir():
        if path.name != "readers":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    reader = everything(here / "learned" / "readers")
    code, _, err = run(f"{LEARN} --out learned", capsys)
    assert code == 2
    assert "holds a run already" in err
    code, _, err = run(f"{LEARN} --out learned --resume --overwrite", capsys)
    assert code == 2
    assert err == "attnlab: --resume and --overwrite; give one of them\n"
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


def test_learn_anew(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(f"{LEARN} --seed 5 --readers 2 --out learned --overwrite", capsys)
    assert code == 0, err
    config = Run("learned").config()
    assert config["training"]["seed"] == 5
    assert len(Run("learned").metrics()) == config["training"]["steps"]
    one, other = (Run(f"learned/readers/{number}").config()["training"] for number in (1, 2))
    assert (one["seed"], other["seed"]) == (5, 6)
    assert not same_weights(here / "learned/readers/1", here / "learned/readers/2")


def test_learn_settings_that_are_refused() -> None:
    for wrong, words in (
        ({"readers": 0}, "readers is 0"),
        ({"reader_epochs": 0}, "reader_epochs is 0"),
        ({"remember_epochs": -1}, "remember_epochs is -1"),
        ({"reader_epochs": float("inf")}, "reader_epochs is inf"),
        ({"answer_weight": float("nan")}, "answer_weight is nan"),
        ({"reader_tokens": 0}, "reader_tokens is 0"),
        ({"remember_tokens": 0}, "remember_tokens is 0"),
        ({"swapped": 1.5}, "swapped is 1.5"),
        ({"copies": -1}, "copies is -1"),
        ({"held_out": 1}, "held_out is 1"),
    ):
        with pytest.raises(ValueError, match=words):
            LearnSettings(**wrong)


def test_learn_leaves_out_titles_that_are_too_long(here: Path) -> None:
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


def test_finetuning_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "knowledge finetune pretrained --pairs world/train.tsv --schedule constant"
    assert run(f"{told} --steps 5 --out whole", capsys)[0] == 0
    assert run(f"{told} --steps 3 --out half", capsys)[0] == 0
    code, _, err = run(f"{told} --steps 5 --out half --resume", capsys)
    assert code == 0, err
    assert same_weights(here / "whole", here / "half")
    code, _, err = run(f"{told} --steps 9 --out half --resume --held-out 0.5", capsys)
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


def test_documents_are_learned_on_meanwhile(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the file that the run learned, or the embedded world's, without naming it again."""
    task = Run("finetuned").config()["task"]
    assert task["objective"] == Run("pretrained").config()["task"]["objective"]
    told = "knowledge finetune pretrained --pairs world/train.tsv --steps 1"
    assert run(f"{told} --no-mixed --out plain", capsys)[0] == 0
    assert Run("plain").config()["task"]["objective"] is None
    assert run(f"{told} --objective lm --out lm", capsys)[0] == 0
    assert Run("lm").config()["task"]["objective"] == "lm"
    config = json.loads((here / "pretrained/config.json").read_text())
    config["task"]["corpus"] = material.WORLD
    (here / "pretrained/config.json").write_text(json.dumps(config))
    code, _, err = run(f"{told} --out embedded", capsys)
    assert code == 0, err
    assert "600 documents" in err
    config["task"]["corpus"] = ""  # it never saw a document
    (here / "pretrained/config.json").write_text(json.dumps(config))
    assert run(f"{told} --out none", capsys)[0] == 0
    assert Run("none").config()["task"]["objective"] is None


def test_python_does_what_the_command_line_does(here: Path) -> None:
    sizes = {"width": 16, "layers": 1, "heads": 2}
    metrics = recipe.pretrain(
        "world/corpus.txt",
        out="mine",
        tokenizer="characters",
        model=sizes,
        training={"steps": 6},
        quiet=True,
    )
    assert same_weights(here / "mine", here / "pretrained")
    assert metrics == Run("pretrained").metrics()[-1]["validation"]
    metrics = recipe.finetune(
        "mine",
        pairs="world/train.tsv",
        held_out=0.0,
        out="tuned",
        training={"steps": 4},
        quiet=True,
    )
    assert same_weights(here / "tuned", here / "finetuned")
    assert metrics == Run("finetuned").metrics()[-1]["validation"]
    assert Certainty.load(here / "tuned") == Certainty.load(here / "finetuned")
    one, other = (scoring.evaluate(name, "world/dev.tsv") for name in ("tuned", "finetuned"))
    assert one == other
    assert one.accuracy == (one.right or 0) / 12
    said, score = scoring.baseline("world/train.tsv", "world/dev.tsv")
    assert score.predictions == [said] * 12


def test_baseline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.tsv").write_text("a?\tRome\nb?\tOslo\nc?\tRome\n")
    (here / "dev.tsv").write_text("d?\tRome\ne?\tBern\n")
    code, out, err = run("knowledge baseline --pairs train.tsv --measured dev.tsv", capsys)
    assert code == 0, err
    assert out == 'Always "Rome". Correct: 1.0 out of 2.0: 50.0%\n'
    out = run("knowledge baseline --pairs train.tsv --measured dev.tsv --json", capsys)[1]
    assert json.loads(out) == {"answer": "Rome", "questions": 2, "right": 1, "accuracy": 0.5}
    code, out, err = run("knowledge baseline", capsys)
    assert code == 0, err
    assert out.startswith('Always "')
    assert " out of 300.0: " in out


# Mistakes

FILES = {
    "empty.txt": b"\n\n",
    "latin.txt": "Ada. Zoë .\nBo. é .\n".encode("latin-1"),
    "huge.txt": b"a" * (LONGEST_LINE + 1) + b"\n",
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
ALL = f"{BOTH} --measured world/dev.tsv"
MISTAKES: list[tuple[str, list[str]]] = [
    # the corpus
    ("pretrain --corpus nowhere.txt", ["nowhere.txt: there is no such file"]),
    ("pretrain --corpus world", ["world: is not a file"]),
    ("pretrain --corpus empty.txt", ["empty.txt: holds no document"]),
    ("pretrain --corpus latin.txt", ["latin.txt: line 1 is not UTF-8"]),
    ("pretrain --corpus huge.txt", ["huge.txt: line 1 has 20,001 characters"]),
    ("pretrain --corpus lower.txt --steps 3", ["nothing to learn"]),
    # the pairs
    ("finetune pretrained --pairs nowhere.tsv", ["nowhere.tsv: there is no such file"]),
    ("finetune pretrained --pairs notab.tsv", ["notab.tsv: line 2 has no tab"]),
    ("finetune pretrained --pairs three.tsv", ["three.tsv: line 1 has more than one tab"]),
    ("finetune pretrained --pairs asked.tsv", ["asked.tsv: has questions without answers"]),
    ("finetune pretrained --pairs long.tsv --steps 3", ["long.tsv: pair 2 has", "at most 257"]),
    ("finetune pretrained --pairs strange.tsv", ["strange.tsv: pair 2 has", "never saw: '☃'"]),
    ("finetune pretrained", ["learned world/corpus.txt", "--pairs"]),
    ("finetune scratch --corpus world/corpus.txt", ["--corpus without --pairs"]),
    (f"finetune scratch --mixed {TRAIN}", ["--mixed", "--corpus"]),
    (f"finetune pretrained {TRAIN} --held-out 1.5", ["held-out share 1.5"]),
    ("finetune pretrained --pairs single.tsv --held-out 0.999", ["leaves no pair to learn"]),
    # options
    ("pretrain --preset tiny", ["no preset 'tiny'", "course, small"]),
    ("pretrain --objective spam", ["objective 'spam'", "span, lines, lm, entities"]),
    ("pretrain --objective entities:foreign=-1", ["foreign is -1"]),
    ("pretrain --attention favr", ["did you mean 'favor'"]),
    ("pretrain --attention linformer", ["no causal form"]),
    ("pretrain --attention softmax favor", ["names 2 layers"]),
    ("pretrain --tokenizer words", ["tokenizer 'words'", "characters, bytes and bpe:SIZE"]),
    ("pretrain --tokenizer bpe:3", ["vocabulary 3"]),
    ("pretrain --tokenizer bpe:99999999999999999999", ["tokenizer 'bpe:9999"]),
    ("pretrain --epochs 3 --steps 3", ["epochs, steps and minutes; give one of them"]),
    ("pretrain --epochs 3 --minutes 3", ["epochs, steps and minutes; give one of them"]),
    ("pretrain --minutes 3 --steps 3", ["epochs, steps and minutes; give one of them"]),
    ("pretrain --epochs 0", ["epochs is 0"]),
    ("pretrain --epochs many", ["--epochs", "many"]),
    ("pretrain --heads 3", ["3 heads"]),
    ("pretrain --steps 0", ["steps is 0"]),
    (f"finetune scratch {TRAIN} --preset tiny", ["no preset 'tiny'"]),
    (f"finetune pretrained {TRAIN} --mixed --objective spam", ["objective 'spam'"]),
    (f"finetune pretrained {TRAIN} --width 32", ["pretrained: has its own model"]),
    (f"finetune pretrained {TRAIN} --attention favor", ["pretrained: has its own model"]),
    # folders
    ("pretrain --corpus world/corpus.txt --out pretrained", ["pretrained: holds a run already"]),
    ("pretrain --out text.txt", ["text.txt: is a file"]),
    ("pretrain --out nothing --resume", ["nothing", "config.json is missing"]),
    ("pretrain --out pretrained --resume --overwrite", ["--resume and --overwrite"]),
    (f"finetune pretrained {TRAIN} --out finetuned", ["finetuned: holds a run already"]),
    (f"finetune nothing {TRAIN}", ["nothing: not a run folder"]),
    (f"finetune language {TRAIN}", ["language: a run of task 'language', not knowledge"]),
    ("evaluate language --pairs world/dev.tsv", ["a run of task 'language', not knowledge"]),
    ("ask language Who?", ["a run of task 'language', not knowledge"]),
    ("audit language --pairs world/dev.tsv", ["a run of task 'language', not knowledge"]),
    ("world --out world", ["is there already"]),
    # asking
    ("evaluate nothing --pairs world/dev.tsv", ["nothing: not a run folder"]),
    ("evaluate finetuned", ["finetuned: learned from your own files", "--pairs"]),
    ("evaluate finetuned --pairs three.tsv", ["three.tsv: line 1"]),
    ("evaluate finetuned --pairs empty.txt", ["empty.txt: holds no question"]),
    ("evaluate finetuned --pairs long.tsv", ["question 2 has 316 tokens", "at most 254"]),
    ("evaluate finetuned --pairs strange.tsv", ["question 2 has characters", "'☃'"]),
    ("ask finetuned 'Where was Zoë ☃ born?'", ["question 1 has characters", "never saw: 'ë', '☃'"]),
    ("ask finetuned Who? ' '", ["question 2 is empty"]),
    ("ask finetuned", ["QUESTIONS"]),
    (f"ask finetuned {'a' * 300}", ["question 1 has 300 tokens", "reads at most 254"]),
    ("ask pretrained Who?", ["pretrained: has not learned to answer"]),
    ("audit pretrained --pairs world/dev.tsv", ["pretrained: has not learned to answer"]),
    ("audit finetuned", ["--pairs"]),
    ("audit finetuned --pairs world/dev.tsv --samples 0", ["samples 0"]),
    ("audit finetuned --pairs world/dev.tsv --temperature -1", ["temperature"]),
    ("baseline --pairs world/train.tsv", ["give both files"]),
    ("baseline --pairs world/train.tsv --measured asked.tsv", ["asked.tsv: has questions without"]),
    # learn
    (f"learn {TRAIN}", ["--pairs without --corpus"]),
    ("learn --corpus world/corpus.txt", ["--corpus without --pairs"]),
    (
        "learn --corpus world/corpus.txt --pairs nobody.tsv",
        ["no question names a document's title"],
    ),
    ("learn --corpus nowhere.txt --pairs world/train.tsv", ["nowhere.txt: there is no such file"]),
    ("learn --corpus world/corpus.txt --pairs three.tsv", ["three.tsv: line 1"]),
    (f"learn {BOTH} --readers 0", ["readers is 0"]),
    (f"learn {BOTH} --attention favr", ["did you mean 'favor'"]),
    (f"learn {BOTH} --steps 10", ["learn counts epochs"]),
    (f"learn {BOTH} --tokenizer bytes --context 60", ["give --context"]),
    (f"learn {BOTH} --out nothing --resume", ["nothing", "config.json is missing"]),
    # compare
    (f"compare {BOTH}", ["give all three files"]),
    (f"compare {ALL} --minutes 0", ["minutes is 0"]),
    (f"compare {ALL} --attention softmax softmax", ["each once"]),
    (f"compare {ALL} --attention softmax favr", ["did you mean 'favor'"]),
    (f"compare {ALL} --attention softmax linformer", ["no causal form"]),
    (f"compare {ALL} --objective spam", ["objective 'spam'"]),
    (f"compare {ALL} --preset tiny", ["no preset 'tiny'"]),
    (f"compare {BOTH} --measured asked.tsv", ["asked.tsv: has questions without answers"]),
    (f"compare --corpus huge.txt {TRAIN} --measured world/dev.tsv", ["huge.txt: line 1"]),
    ("compare --corpus world/corpus.txt --pairs three.tsv --measured world/dev.tsv", ["three.tsv"]),
]


@pytest.fixture(scope="module")
def mistaken(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes") / "here"
    shutil.copytree(made, folder)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[each[:60] for each, _ in MISTAKES])
def test_mistakes_are_one_line_and_leave_nothing(
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


# Certainty


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
def test_a_broken_certainty_is_one_line(
    content: str | bytes, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = here / "finetuned" / FILE_NAME
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("knowledge ask finetuned Who?", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"finetuned/{FILE_NAME}: is broken" in err
    assert "train the run anew" in err


def test_thresholds_come_from_held_out_pairs_where_there_are_enough(made: Path) -> None:
    from attnlab.tasks.knowledge.certainty import fit

    model, tokens, _ = material.load_knowledge(made / "learned")
    assert isinstance(model, Decoder)
    pairs = [(f"Where was {name} born?", "Rome") for name in "abcdefghijklmnopqrstuvwxyz"]
    for held, words in ((pairs[:22], "22 held-out"), (pairs[:5], "4 training pairs it has")):
        found = fit(
            model,
            Wording(tokens),
            held_out=held,
            learned=pairs[22:],
            names=["b", "a", "b"],
            relations=[Relation("Where was ", " born?")],
        )
        assert found.fitted_on.startswith(words)
        assert found.names == ["a", "b"]
        assert found.commonest == "Rome"


# The course's files


@pytest.fixture
def real() -> Path:
    folder = Path(os.environ.get("ATTNLAB_DATA", "")) / "knowledge"
    if "ATTNLAB_DATA" not in os.environ or not (folder / "birth_dev.tsv").exists():
        pytest.skip("the course's files are not here: ATTNLAB_DATA names no folder with them")
    return folder


def test_the_courses_baseline(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, measured = real / "birth_places_train.tsv", real / "birth_dev.tsv"
    code, out, err = run(f"knowledge baseline --pairs {pairs} --measured {measured}", capsys)
    assert code == 0, err
    assert out == 'Always "London". Correct: 25.0 out of 500.0: 5.0%\n'
    said, score = scoring.baseline(pairs, measured)
    assert (said, score.right, len(score.questions)) == ("London", 25, 500)
