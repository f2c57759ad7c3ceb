"""Knowledge as a person uses it: learn a corpus, learn to answer, ask, audit, compare."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.tasks.knowledge import _load as load_data
from attnlab.tasks.knowledge import _scoring as scoring
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._answers import NEW_TOKENS, answer_greedily, answer_with_confidence
from attnlab.tasks.knowledge._audit import audit
from attnlab.tasks.knowledge._certainty import Certainty
from attnlab.tasks.knowledge._data import Relation, read_pairs
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge.kind import KNOWN
from attnlab.training import Run
from tests.support.audit_reports import make_report
from tests.support.command_line import run
from tests.support.knowledge_runs import PRETRAIN, everything, same_weights


def test_run_folders_contain_the_settings(made: Path) -> None:
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
    assert not (made / "pretrained" / KNOWN).exists()
    known = Certainty.load(made / "finetuned")
    pairs = read_pairs(made / "world" / "train.tsv")
    assert known.answers == sorted({each for _, each in pairs})
    assert known.relations == [Relation("Where was ", " born?")]
    assert len(known.names) == 12
    assert known.fitted_on == (
        "nothing: 0 held-out training pairs are too few, at least 20 are needed"
    )
    assert (known.known, known.fitted) == (None, False)


def test_more_epochs_keep_the_warmup(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{PRETRAIN.replace('--steps 6', '')} --batch-size 2 --out longer"
    warmups = []
    for options in ("--epochs 1", "--epochs 2 --resume"):
        code, _, err = run(f"{command} {options}", capsys)
        assert code == 0, err
        warmups.append(Run(here / "longer").config()["training"])
    assert warmups[0]["steps"] < warmups[1]["steps"] == len(Run(here / "longer").metrics())
    assert (
        warmups[0]["warmup_steps"] == warmups[1]["warmup_steps"] == max(1, warmups[0]["steps"] // 5)
    )


def test_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "knowledge evaluate finetuned --pairs world/dev.tsv"
    code, out, err = run(f"{command} --predictions said/dev.txt", capsys)
    assert code == 0, err
    written_answers = (here / "said" / "dev.txt").read_text().split("\n")
    assert len(written_answers) == 13
    assert written_answers[-1] == ""
    pairs = read_pairs("world/dev.tsv")
    score = scoring.evaluate("finetuned", "world/dev.tsv")
    assert written_answers[:-1] == [" ".join(each.split()) for each in score.predictions]
    right = sum(a == b for a, (_, b) in zip(score.predictions, pairs, strict=True))
    assert out == f"Correct: {right:.1f} out of 12.0: {100 * right / 12:.1f}%\n"
    code, out, err = run(f"{command} --json", capsys)
    assert code == 0, err
    assert json.loads(out) == {
        "run": "finetuned",
        "questions": 12,
        "right": right,
        "accuracy": right / 12,
    }
    before = everything(here)
    code, out, err = run(f"{command} --predictions said/dev.txt", capsys)
    assert (code, out) == (2, "")
    assert err == "attnlab: said/dev.txt: already exists; give --overwrite or another name\n"
    assert everything(here) == before
    assert run(f"{command} --predictions said/dev.txt --overwrite", capsys)[0] == 0
    assert everything(here) == before


def test_questions_without_answers_cannot_be_scored(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [question for question, _ in read_pairs("world/dev.tsv")]
    (here / "asked.tsv").write_text("\n".join(questions))
    command = "knowledge evaluate finetuned --pairs asked.tsv"
    code, out, err = run(f"{command} --predictions said.txt", capsys)
    assert (code, out) == (0, "")
    assert err == (
        "12 questions without answers: nothing can be scored; predictions are in said.txt\n"
    )
    written_answers = (here / "said.txt").read_text()
    assert written_answers.count("\n") == 12
    code, out, err = run(command, capsys)
    assert out.split() == written_answers.split()
    assert "nothing can be scored" in err
    assert json.loads(run(f"{command} --json", capsys)[1]) == {"run": "finetuned", "questions": 12}
    report = audit("finetuned", "asked.tsv", samples=2, made_up=2)
    assert report["accuracy"] is None
    assert report["origins"] == report["reliability"] == []
    assert [each["correct"] for each in report["answers"]] == [None] * 12


def test_ask(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [question for question, _ in read_pairs("world/dev.tsv")][:2]
    command = "knowledge ask finetuned " + " ".join(map(shlex.quote, questions))
    code, out, err = run(f"{command} --json", capsys)
    assert code == 0, err
    rows = json.loads(out)
    model, tokens, _ = load_data.load_knowledge("finetuned")
    certainty = Certainty.load(here / "finetuned")
    plain = answer_greedily(model, KnowledgeTextEncoding(tokens), questions)
    for row, question, text in zip(rows, questions, plain, strict=True):
        assert row["question"] == question
        assert row["answer"] == text
        assert row["verdict"] == certainty.verdict_by(row["confidence"], row["nothing"])
        assert 0 <= row["confidence"] <= 1
        assert 0 <= row["runner_up_confidence"] <= 1
        assert row["runner_up"] != row["answer"]
    code, out, err = run(command, capsys)
    assert code == 0, err
    for question, row in zip(questions, rows, strict=True):
        assert f"{question} {describe(row)}" in out
    assert "too few, at least 20 are needed; so no answer is called known" in err
    code, out, err = run("knowledge ask finetuned 'Who wrote this?'", capsys)
    assert out.startswith("Who wrote this? (another kind of question; it would guess ")


def describe(row: dict[str, Any]) -> str:
    if row["verdict"] == "not in what I read":
        return f"(not in what I read; it would guess {row['answer']}, "
    return f"{row['answer']} ({row['verdict']}, "


def test_an_empty_answer_is_never_given(made: Path) -> None:
    """The model may prefer to say nothing: then its best other answer is given, and how much it
    prefers nothing."""
    model, tokens, _ = load_data.load_knowledge(made / "learned")
    encoding = KnowledgeTextEncoding(tokens)
    questions = [f"Where was {name} born?" for name in ("Ada", "Bo", "Cy")]
    before = answer_with_confidence(model, encoding, questions)
    with torch.no_grad():  # now the mask, which ends an answer, is likely everywhere
        bias = torch.zeros(tokens.vocabulary)
        bias[encoding.mask] = 3.0
        step, prefill = model.step, model.prefill
        model.prefill = lambda *a: _biased(prefill(*a), bias)  # type: ignore[method-assign]
        model.step = lambda *a: _biased(step(*a), bias)  # type: ignore[method-assign]
    after = answer_with_confidence(model, encoding, questions)
    assert [answer.text for answer in after] == answer_greedily(model, encoding, questions)
    for one, other in zip(before, after, strict=True):
        assert other.text
        assert other.nothing > one.nothing
        assert other.confidence + other.nothing <= 1 + 1e-6


def _biased(result: tuple[torch.Tensor, Any], bias: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return result[0] + bias, result[1]


def test_confidence_is_the_probability_of_the_answer(made: Path) -> None:
    model, tokens, _ = load_data.load_knowledge(made / "learned")
    encoding, question = KnowledgeTextEncoding(tokens), "Where was Ada born?"
    (answer,) = answer_with_confidence(model, encoding, [question])
    ids = encoding.encode_question(question)
    logs = 0.0
    for _ in range(NEW_TOKENS):
        with torch.no_grad():
            known = model(torch.tensor([ids])).double().log_softmax(2)[0, -1]
        logs += float(known.max())
        ids.append(int(known.argmax()))
        if ids[-1] == encoding.mask:
            break
    answered = ids[len(encoding.encode_question(question)) :]
    assert encoding.decode([each for each in answered if each != encoding.mask]) == answer.text
    assert answer.confidence == pytest.approx(torch.tensor(logs).exp().item(), rel=1e-3)
    assert answer.margin == answer.confidence - answer.other_confidence


def test_audit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "--samples 2 --invented-names 5 --groups 2"
    command = f"knowledge audit finetuned --pairs world/dev.tsv {small}"
    code, out, err = run(command, capsys)
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
    assert report["made_up"]["count"] == 10  # five of each kind
    assert [each["count"] for each in report["made_up"]["kinds"]] == [5, 5]
    assert [each["relation"] for each in report["relations"]] == ["Where was ... born?"]
    assert report["relations"][0].keys() == known["relations"][0].keys()
    assert report["off_topic"].keys() == known["off_topic"].keys()
    off_topic = report["off_topic"]
    assert off_topic["verdicts"]["another kind of question"] == off_topic["count"] > 20
    assert report["risk_coverage_unknown"][-1][1] == 1
    assert sum(group["count"] for group in report["origins"]) == 12
    assert sum(each["count"] for each in report["verdicts"].values()) == 12
    right = sum(each["correct"] for each in report["answers"])
    assert report["accuracy"] == right / 12
    assert right == scoring.evaluate("finetuned", "world/dev.tsv").right
    assert "<!doctype html>" in (here / "finetuned" / "audit.html").read_text().lower()
    code, out, err = run(f"{command} --json a/b.json --html a/b.html", capsys)
    assert code == 0, err
    again = json.loads((here / "a" / "b.json").read_text())
    assert again == report
    assert (here / "a" / "b.html").exists()


def test_audit_replaces_files_only_with_overwrite(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "own").mkdir()
    page = here / "own" / "page.html"
    page.write_text("mine")
    command = (
        "knowledge audit finetuned --pairs world/dev.tsv --samples 1 --invented-names 3 --groups 2 "
        "--json own/audit.json --html own/page.html"
    )
    code, out, err = run(command, capsys)
    assert (code, out) == (2, "")
    assert err == "attnlab: own/page.html: already exists; give --overwrite or another name\n"
    assert page.read_text() == "mine"
    assert not (here / "own" / "audit.json").exists()
    code, _, err = run(f"{command} --overwrite", capsys)
    assert code == 0, err
    assert "<!doctype html>" in page.read_text().lower()


@pytest.mark.usefixtures("here")
def test_evaluate_explains_a_run_without_questions(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("knowledge evaluate pretrained --pairs world/dev.tsv", capsys)
    assert code == 0
    assert out.startswith("Correct: ")
    assert "this run was never finetuned on questions" in err
    assert "attnlab knowledge finetune pretrained" in err
    _, _, err = run("knowledge evaluate finetuned --pairs world/dev.tsv", capsys)
    assert "never" not in err


def test_audit_with_unknown_or_long_names(here: Path) -> None:
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
    assert audit("two", "two.tsv", samples=1, made_up=3)["made_up"]["count"] <= 6


@pytest.mark.usefixtures("here")
def test_a_model_that_reads_less_than_its_context_answers_long_questions() -> None:
    """The course's synthesizer reads 127 of 128 characters."""
    recipe.finetune(
        pairs="world/train.tsv",
        out="short",
        preset="course",
        attention="synthesizer",
        model={"width": 16, "layers": 1, "heads": 2},
        training={"steps": 1, "batch_size": 4},
        quiet=True,
    )
    model, tokens, _ = load_data.load_knowledge("short")
    assert (model.max_length, model.config.context) == (127, 128)
    questions = ["Where was " + "a" * size + " born?" for size in (80, 100, 109)]
    assert len(answer_greedily(model, KnowledgeTextEncoding(tokens), questions)) == 3
    with pytest.raises(ValueError, match="question 1 has 126 tokens; this model reads at most 125"):
        answer_greedily(model, KnowledgeTextEncoding(tokens), ["a" * 126])


def test_python_matches_the_command_line(here: Path) -> None:
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
    answer, score = scoring.baseline("world/train.tsv", "world/dev.tsv")
    assert score.predictions == [answer] * 12


def test_baseline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.tsv").write_text("a?\tRome\nb?\tOslo\nc?\tRome\n")
    (here / "dev.tsv").write_text("d?\tRome\ne?\tBern\n")
    code, out, err = run("knowledge baseline --pairs train.tsv --evaluation-pairs dev.tsv", capsys)
    assert code == 0, err
    assert out == 'Always "Rome". Correct: 1.0 out of 2.0: 50.0%\n'
    out = run("knowledge baseline --pairs train.tsv --evaluation-pairs dev.tsv --json", capsys)[1]
    assert json.loads(out) == {"answer": "Rome", "questions": 2, "right": 1, "accuracy": 0.5}
    code, out, err = run("knowledge baseline", capsys)
    assert code == 0, err
    assert out.startswith('Always "')
    assert " out of 300.0: " in out


def test_baseline_of_the_course(course_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, measured = course_data / "birth_places_train.tsv", course_data / "birth_dev.tsv"
    code, out, err = run(
        f"knowledge baseline --pairs {pairs} --evaluation-pairs {measured}", capsys
    )
    assert code == 0, err
    assert out == 'Always "London". Correct: 25.0 out of 500.0: 5.0%\n'
    answer, score = scoring.baseline(pairs, measured)
    assert (answer, score.right, len(score.questions)) == ("London", 25, 500)
