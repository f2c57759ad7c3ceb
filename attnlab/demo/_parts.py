"""The parts of the demo, listed in PARTS. Each is a function that writes files into the folder of
the demo and returns the sections that it adds to the report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnlab._confidence_intervals import fraction_interval
from attnlab._safe_files import write_json
from attnlab.claims import run_claims, select_claims
from attnlab.claims._claim import CLAIMS
from attnlab.claims._ledger import make_ledger
from attnlab.claims._ledger_page import save_claims
from attnlab.claims._ledger_terminal import format_control, format_statement, format_verdict
from attnlab.claims._run_claims import Result
from attnlab.demo._attention_part import look_inside
from attnlab.demo._progress_line import ProgressCallback
from attnlab.demo._settings import (
    CLAIMS_DATA,
    CLAIMS_PAGE,
    FINETUNED,
    LEARNED,
    LEARNED_TITLE,
    NONE,
    PRETRAINED,
    Demo,
    MethodScore,
)  # fmt: skip
from attnlab.report import Bars, Block, Figure, Link, Quote, Section, Table
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge import _scoring as scoring
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._audit import ask
from attnlab.tasks.knowledge._audit import audit as audit_run
from attnlab.tasks.knowledge._audit_report import audit_report, save_audit
from attnlab.tasks.knowledge._certainty import AnswerVerdict
from attnlab.tasks.knowledge._data import Library
from attnlab.tasks.knowledge._learn import learn
from attnlab.training import Run


@dataclass(frozen=True)
class DemoPart:
    """A step of the demo. If it fails, only the parts that need it are skipped."""

    name: str
    title: str
    about: str
    run: Callable[[Demo, ProgressCallback], list[Section]]
    seconds: float
    """Approximate duration on two idle cores. It determines its part of the progress bar."""
    stages: tuple[float, ...] = (1.0,)
    """Fractions of the part, one for each training run, whose steps count from 0."""
    needs: tuple[str, ...] = ()


# Four methods to answer


def baseline(demo: Demo) -> list[Section]:
    """What the model reads, and the score of always giving the same answer. Takes no time."""
    answer, score = scoring.baseline()
    about = "It always answers the most common birthplace."
    demo.scores.append(_score(demo, f"always “{answer}”", about, score))
    question, gold = demo.world.held_out[0]
    name = question.removeprefix("Where was ").removesuffix(" born?")
    document = next((line for line in demo.world.corpus if line.startswith(f"{name}.")), "")
    train_question, train_answer = demo.world.train[0]
    findings = [
        "Each person has one line. It states the birthplace twice, in different words, and "
        "mentions another city as a distractor. The color marks the answer for you; the model does "
        "not see it.",
    ]
    blocks = [
        Quote("A line", document, gold),
        Quote(
            "A training question with its answer", f"{train_question} {train_answer}", train_answer
        ),
        Quote("A held-out question, about the person of the line above", question),
    ]
    return [Section("text", "What it read", findings, blocks=blocks)]


def train_on_questions_only(demo: Demo, report: ProgressCallback) -> list[Section]:
    del report  # training reports its own progress
    begin, settings = time.perf_counter(), demo.settings
    out = demo.out / NONE
    recipe.finetune(
        out=out, epochs=settings.none_epochs, model=settings.model, **_training_options(demo)
    )
    return _score_run(demo, "none", NONE, begin)


def pretrain_and_finetune(demo: Demo, report: ProgressCallback) -> list[Section]:
    del report
    begin, settings, out = time.perf_counter(), demo.settings, demo.out / PRETRAINED
    recipe.pretrain(
        out=out, epochs=settings.pretraining_epochs, model=settings.model, **_training_options(demo)
    )
    recipe.finetune(
        out, out=demo.out / FINETUNED, epochs=settings.finetuning_epochs, **_training_options(demo)
    )
    return _score_run(demo, "pretrained", FINETUNED, begin)


def read_and_remember(demo: Demo, report: ProgressCallback) -> list[Section]:
    del report
    begin, settings, out = time.perf_counter(), demo.settings, demo.out / LEARNED
    learn(out=out, settings=settings.learn, model=settings.model, **_training_options(demo))
    demo.parameters = int(Run(out).config()["parameters"])
    return _score_run(demo, "learned", LEARNED, begin)


def _training_options(demo: Demo) -> dict[str, Any]:
    return {"training": {"seed": demo.seed}, "start": StartMode.OVERWRITE}


def _score_run(demo: Demo, name: str, folder: str, begin: float) -> list[Section]:
    """Scores the run, and compares all methods so far."""
    minutes = (time.perf_counter() - begin) / 60
    part = next(part for part in PARTS if part.name == name)
    score = scoring.evaluate(demo.out / folder)
    demo.scores.append(replace(_score(demo, part.title, part.about, score), minutes=minutes))
    values = {each.name: fraction_interval(each.right, each.total) for each in demo.scores}
    title = "Correct answers about people without a training question"
    rows = [
        [each.name, each.about, "–" if each.minutes is None else f"{each.minutes:.1f}",
         f"{each.right} of {each.total}", f"{values[each.name].value:.1%}",
         f"{each.decoys} of {each.mistakes}"]
        for each in demo.scores
    ]  # fmt: skip
    header = [
        "method",
        "how",
        "minutes",
        "correct",
        "accuracy",
        "mistakes that name the distractor",
    ]
    blocks: list[Block] = [
        Figure(title, Bars("correct", values, (), True), in_table=True),
        Table("", header, rows, drop=["how", "minutes"]),
    ]
    return [Section("methods", "Methods to answer", blocks=blocks)]


def _score(demo: Demo, name: str, about: str, score: scoring.Score) -> MethodScore:
    decoys = count_decoys(demo.world.corpus, score)
    return MethodScore(name, about, score.right or 0, len(score.questions), decoys=decoys)


def count_decoys(corpus: Sequence[str], score: scoring.Score) -> int:
    """How many wrong answers stand in the line of the person that the question is about."""
    library, decoys = Library(corpus), 0
    answers = score.answers or []
    for question, prediction, gold in zip(score.questions, score.predictions, answers, strict=True):
        lines = library.by_title.get(library.title_in(question) or "", [])
        word = re.compile(rf"\b{re.escape(prediction)}\b")
        decoys += bool(prediction) and prediction != gold and any(map(word.search, lines))
    return decoys


# Known, unsure or a guess


def audit(demo: Demo, report: ProgressCallback) -> list[Section]:
    """Also writes the full audit into the run's folder, as `attnlab knowledge audit` does."""
    del report
    run, settings = demo.out / LEARNED, demo.settings
    data = audit_run(run, samples=settings.samples, made_up=settings.made_up, seed=demo.seed)
    save_audit(data, run / "audit.json", run / "audit.html")
    sections = {section.name: section for section in audit_report(data).sections}
    link = Link(
        f"{LEARNED}/audit.html", "The full audit: every doubtful answer, by name and by answer"
    )
    calibration = replace(
        sections["calibration"],
        findings=[f"This is about “{LEARNED_TITLE}”.", *sections["calibration"].findings],
        tiles=sections["summary"].tiles,
        blocks=[*sections["calibration"].blocks, link],
    )
    return [_answers(demo, data), calibration]


def _answers(demo: Demo, data: dict[str, Any]) -> Section:
    """A few answers of each kind, next to those of the model that never read."""
    examples = _examples(data["answers"])
    made_up = [kind["examples"][0]["question"] for kind in data["made_up"]["kinds"]]
    off_topic = [example["question"] for example in data["off_topic"]["examples"][:1]]
    expected = {example["question"]: example["gold"] for example in examples}
    expected |= dict.fromkeys([*made_up, *off_topic])
    unread = dict.fromkeys(expected, "–")
    if "none" in demo.seconds:
        unread = {
            example.question: example.text for example, _ in ask(demo.out / NONE, list(expected))
        }
    rows = []
    for answer, verdict in ask(demo.out / LEARNED, list(expected)):
        gold = expected[answer.question]
        if answer.question in off_topic:
            truth = "No line is about this."
        elif gold is None:
            truth = "There is no such person, so no answer is correct."
        else:
            truth = "✓ correct" if gold == answer.text else f"✗ The line says {gold}."
        refused = verdict in (AnswerVerdict.UNREAD, AnswerVerdict.OTHER)
        text = f"(it would guess {answer.text})" if refused else answer.text
        confidence = f"{answer.confidence:.0%}"
        rows.append(
            [answer.question, text, str(verdict), confidence, truth, unread[answer.question]]
        )
    findings = [
        f"“{LEARNED_TITLE}” reports its confidence with each answer. Thresholds, fitted on "
        "training questions that were set aside and on made-up names, turn it into “known”, "
        "“unsure” or “guess”; or it says that a name is not in what it read. The table shows its "
        "first two answers, the least confident correct answer, a mistake that it called known and "
        "a guess, if there are any, two people who do not exist, and a question about something "
        "else.",
    ]
    header = ["question", "answer", "verdict", "confidence", "truth", "a model that never read"]
    table = Table("", header, rows, drop=["a model that never read", "confidence"])
    return Section("answers", "A few answers", findings, blocks=[table])


def _examples(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first two, the least confident correct one, the surest mistake that was called known, and
    a guess."""
    by_doubt = sorted(answers, key=lambda each: each["confidence"])
    known = [each for each in reversed(by_doubt) if each["verdict"] == AnswerVerdict.KNOWN]
    wrong = [each for each in known if not each["correct"]]
    right = [each for each in by_doubt if each["correct"]]
    guessed = [each for each in by_doubt if each["verdict"] == "guess"]
    examples = [*answers[:2], *right[:1], *wrong[:1], *guessed[:1]]
    return list({each["question"]: each for each in examples}.values())


# Claims


def judge_claims(demo: Demo, report: ProgressCallback) -> list[Section]:
    names, running, results = demo.settings.claims, dict[str, None](), list[Result]()

    def on_start(name: str) -> None:
        running[name] = None
        report(len(results), len(names), ", ".join(running))

    for result in run_claims(select_claims(names), seed=demo.seed, on_start=on_start):
        results.append(result)
        running.pop(result.name, None)
        report(len(results), len(names), ", ".join(running))
    results.sort(key=lambda result: names.index(result.name))
    data = make_ledger(results, seed=demo.seed, size="small")
    write_json(demo.out / CLAIMS_DATA, data)
    save_claims(demo.out / CLAIMS_PAGE, data, overwrite=True)
    rows, blocks = list[list[str]](), list[Block]()
    for result in results:
        claim, evidence = CLAIMS[result.name], result.evidence
        rows.append(
            [format_statement(claim), format_verdict(result.verdict), format_control(result)]
        )
        if evidence is not None:
            note = (
                f"{claim.judge.name}: {evidence.figure}. It holds if {claim.judge.threshold}. "
                f"Control: {claim.control}."
            )
            blocks.append(Figure(format_statement(claim), evidence.plot, note))
    findings = [
        "Courses and papers make many statements about attention. Here each becomes an experiment: "
        "it measures a figure and compares it with a threshold that was set beforehand. "
        "A control spoils the experiment, or corrects a wrong statement. The same judge must then "
        "reach the opposite verdict, which shows that it can tell the difference.",
        f"For {sum(result.trusted is True for result in results)} of {len(results)} statements the "
        "control had the opposite verdict, as it must.",
    ]
    table = Table("", ["statement", "verdict", "control"], rows)
    link = Link(CLAIMS_PAGE, "These claims with their explanations and interactive plots")
    blocks = [table, *blocks, link]
    return [Section("claims", "Statements about attention", findings, blocks=blocks)]


PARTS = (
    DemoPart("none", "No reading", "It sees only the training questions with their answers.",
             train_on_questions_only, 8),
    DemoPart("pretrained", "Reading, then questions",
             "It predicts hidden names and places in the lines, then sees the training questions.",
             pretrain_and_finetune, 47, (0.75, 0.25)),
    DemoPart("learned", LEARNED_TITLE,
             "It learns to find an answer in a line, reads the answers about everybody, and "
             "memorizes them.",
             read_and_remember, 89, (0.8, 0.2)),
    DemoPart("audit", "Known, unsure or a guess?",
             "It reports its confidence in each answer, also about made-up people.",
             audit, 5, needs=("learned",)),
    DemoPart("attention", "Where it looked", "Its attention while it answers.",
             look_inside, 5, needs=("learned",)),
    DemoPart("claims", "Statements about attention",
             "Statements from courses and papers, tested by experiments.",
             judge_claims, 8),
)  # fmt: skip
