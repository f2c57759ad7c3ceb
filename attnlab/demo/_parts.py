"""The parts of the demo. Each is a function that returns the sections it adds to the report and
leaves its files in the demo's folder; PARTS declares them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnlab._confidence_intervals import fraction_interval
from attnlab._safe_files import write_json
from attnlab.claims import chosen
from attnlab.claims import run as run_claims
from attnlab.claims._claim import CLAIMS
from attnlab.claims._ledger import ledger
from attnlab.claims._ledger_page import save_claims
from attnlab.claims._ledger_terminal import control_told, stated, told
from attnlab.claims._run_claims import Result
from attnlab.demo._attention_part import look_inside
from attnlab.demo._progress_line import Tick
from attnlab.demo._settings import (
    CLAIMS_DATA,
    CLAIMS_PAGE,
    FINETUNED,
    LEARNED,
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
from attnlab.tasks.knowledge._certainty import Certainty
from attnlab.tasks.knowledge._learn import learn
from attnlab.training import Run

MADE_UP = 2  # people who do not exist, among the answers shown


@dataclass(frozen=True)
class Part:
    """A step of the demo that may fail without the others."""

    name: str
    title: str
    about: str
    run: Callable[[Demo, Tick], list[Section]]
    seconds: float
    """About how long it takes on two quiet cores: its share of the progress line."""
    stages: tuple[float, ...] = (1.0,)
    """Shares of it, one for each time that training counts from the beginning."""
    needs: tuple[str, ...] = ()


# Four ways to answer


def baseline(demo: Demo) -> list[Section]:
    """What it reads, and how far always giving the same answer gets. Takes no time."""
    answer, score = scoring.baseline()
    about = "It gives the commonest birthplace, whoever is asked about."
    demo.scores.append(_score(f"always “{answer}”", about, score))
    question, gold = demo.world.held_out[0]
    name = question.removeprefix("Where was ").removesuffix(" born?")
    document = next((each for each in demo.world.corpus if each.startswith(f"{name}.")), "")
    asked, known = demo.world.train[0]
    findings = [
        "Each person has one line. It tells the birthplace twice, in other words each time, and "
        "names another city to lead astray. No mark says which is which: the color is for you.",
    ]
    blocks = [
        Quote("A line", document, gold),
        Quote("A question that it was shown with its answer", f"{asked} {known}", known),
        Quote("A question about the person of the first line, never shown", question),
    ]
    return [Section("text", "What it read", findings, blocks=blocks)]


def train_without_reading(demo: Demo, tick: Tick) -> list[Section]:
    del tick  # training reports its own progress
    begin, settings = time.perf_counter(), demo.settings
    out = demo.out / NONE
    recipe.finetune(out=out, epochs=settings.none_epochs, model=settings.model, **_shared(demo))
    return _trained(demo, "none", NONE, begin)


def pretrain_and_finetune(demo: Demo, tick: Tick) -> list[Section]:
    del tick
    begin, settings, out = time.perf_counter(), demo.settings, demo.out / PRETRAINED
    recipe.pretrain(
        out=out, epochs=settings.pretraining_epochs, model=settings.model, **_shared(demo)
    )
    recipe.finetune(
        out, out=demo.out / FINETUNED, epochs=settings.finetuning_epochs, **_shared(demo)
    )
    return _trained(demo, "pretrained", FINETUNED, begin)


def read_and_remember(demo: Demo, tick: Tick) -> list[Section]:
    del tick
    begin, settings, out = time.perf_counter(), demo.settings, demo.out / LEARNED
    learn(out=out, settings=settings.learn, model=settings.model, **_shared(demo))
    demo.parameters = int(Run(out).config()["parameters"])
    return _trained(demo, "learned", LEARNED, begin)


def _shared(demo: Demo) -> dict[str, Any]:
    return {"training": {"seed": demo.seed}, "start": StartMode.OVERWRITE}


def _trained(demo: Demo, name: str, folder: str, begin: float) -> list[Section]:
    """Scores the run, and compares all ways so far."""
    minutes = (time.perf_counter() - begin) / 60
    part = next(part for part in PARTS if part.name == name)
    score = scoring.evaluate(demo.out / folder)
    demo.scores.append(replace(_score(part.title, part.about, score), minutes=minutes))
    values = {each.name: fraction_interval(each.right, each.total) for each in demo.scores}
    title = "Right answers about people it was never asked about"
    rows = [
        [each.name, each.about, "–" if each.minutes is None else f"{each.minutes:.1f}",
         f"{each.right} of {each.total}", f"{values[each.name].value:.1%}"]
        for each in demo.scores
    ]  # fmt: skip
    blocks: list[Block] = [
        Figure(title, Bars("right", values, (), True), in_table=True),
        Table("", ["way", "how", "minutes", "right", "share"], rows),
    ]
    return [Section("methods", "Ways to answer", blocks=blocks)]


def _score(name: str, about: str, score: scoring.Score) -> MethodScore:
    return MethodScore(name, about, score.right or 0, len(score.questions))


# Known, unsure or a guess


def audit(demo: Demo, tick: Tick) -> list[Section]:
    """Also writes the whole audit beside the run, as `attnlab knowledge audit` does."""
    del tick
    run, settings = demo.out / LEARNED, demo.settings
    data = audit_run(run, samples=settings.samples, made_up=settings.made_up, seed=demo.seed)
    save_audit(data, run / "audit.json", run / "audit.html")
    sections = {section.name: section for section in audit_report(data).sections}
    link = Link(f"{LEARNED}/audit.html", "The whole audit: every doubt, by name and by answer")
    calibration = replace(
        sections["calibration"],
        tiles=sections["summary"].tiles,
        blocks=[*sections["calibration"].blocks, link],
    )
    return [_answers(demo, data), calibration]


def _answers(demo: Demo, data: dict[str, Any]) -> Section:
    """A few answers of every kind; beside them what the model says that never read."""
    examples = _examples(data["answers"])
    relation = Certainty.load(demo.out / LEARNED).relations[0]
    made_up = [relation.ask(each["name"]) for each in data["made_up"]["examples"][:MADE_UP]]
    golds = {each["question"]: each["gold"] for each in examples} | dict.fromkeys(made_up)
    unread = dict.fromkeys(golds, "–")
    if "none" in demo.seconds:
        unread = {each.question: each.text for each, _ in ask(demo.out / NONE, list(golds))}
    rows = []
    for answer, verdict in ask(demo.out / LEARNED, list(golds)):
        gold = golds[answer.question]
        if gold is None:
            truth = "There is no such person: nothing can be known."
        else:
            truth = "✓ right" if gold == answer.text else f"✗ The line says {gold}."
        sure = f"{answer.confidence:.0%}"
        rows.append([answer.question, answer.text, verdict, sure, truth, unread[answer.question]])
    findings = [
        "With each answer it says how sure it is. From thresholds that were fitted on training "
        "questions kept aside, that becomes “known”, “unsure” or “guess”. Here are the first two "
        "of its answers, its most doubtful hit, its surest mistake and a guess, where there are "
        "such, and two people who do not exist.",
    ]
    header = ["question", "its answer", "it says", "sure", "truth", "a model that never read"]
    table = Table("", header, rows, drop=["a model that never read", "sure"])
    return Section("answers", "A few answers", findings, blocks=[table])


def _examples(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first two, the most doubtful hit, the surest mistake, and a guess: each once."""
    by_doubt = sorted(answers, key=lambda each: each["confidence"])
    wrong = [each for each in reversed(by_doubt) if not each["correct"]]
    right = [each for each in by_doubt if each["correct"]]
    guessed = [each for each in by_doubt if each["verdict"] == "guess"]
    examples = [*answers[:2], *right[:1], *wrong[:1], *guessed[:1]]
    return list({each["question"]: each for each in examples}.values())


# Claims


def judge_claims(demo: Demo, tick: Tick) -> list[Section]:
    names, under_way, results = demo.settings.claims, dict[str, None](), list[Result]()

    def begun(name: str) -> None:
        under_way[name] = None
        tick(len(results), len(names), ", ".join(under_way))

    for result in run_claims(chosen(names), seed=demo.seed, begun=begun):
        results.append(result)
        under_way.pop(result.name, None)
        tick(len(results), len(names), ", ".join(under_way))
    results.sort(key=lambda each: names.index(each.name))
    data = ledger(results, seed=demo.seed, size="small")
    write_json(demo.out / CLAIMS_DATA, data)
    save_claims(demo.out / CLAIMS_PAGE, data, overwrite=True)
    rows, blocks = list[list[str]](), list[Block]()
    for result in results:
        claim, evidence = CLAIMS[result.name], result.evidence
        rows.append([stated(claim), told(result.verdict), control_told(result)])
        if evidence is not None:
            note = (
                f"{claim.judge.name}: {evidence.figure}. It holds if {claim.judge.threshold}. "
                f"Control: {claim.control}."
            )
            blocks.append(Figure(stated(claim), evidence.plot, note))
    findings = [
        "Much is said about attention, in courses and papers. Here a statement is an experiment: "
        "a figure is measured, and a threshold that was set beforehand judges it. The same judge "
        "must come to the other verdict for a control, in which the experiment is spoiled (or what "
        "is wrong is put right): else it would say the same of anything.",
        f"For {sum(each.trusted is True for each in results)} of {len(results)} the control came "
        "out as it must.",
    ]
    table = Table("", ["statement", "verdict", "control"], rows)
    link = Link(CLAIMS_PAGE, "These with their reasons and figures to move through")
    blocks = [table, *blocks, link]
    return [Section("claims", "What is said about attention", findings, blocks=blocks)]


PARTS = (
    Part("none", "No reading", "It sees the answered questions and nothing else.",
         train_without_reading, 8),
    Part("pretrained", "Reading, then questions",
         "It guesses hidden names and places in the lines, then sees the answered questions.",
         pretrain_and_finetune, 47, (0.75, 0.25)),
    Part("learned", "Read and remember",
         "It learns to find an answer in a line, asks itself about everybody, and learns by heart "
         "what it found.",
         read_and_remember, 89, (0.8, 0.2)),
    Part("audit", "Known, unsure or a guess?",
         "It says how sure it is of each answer, also about people who are made up.",
         audit, 5, needs=("learned",)),
    Part("attention", "Where it looked", "Its attention while it answers.",
         look_inside, 5, needs=("learned",)),
    Part("claims", "Statements about attention", "What courses and papers say, run and judged.",
         judge_claims, 8),
)  # fmt: skip
