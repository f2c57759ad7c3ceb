"""The story as a report: question, text, table, answers, attention, claims."""

from __future__ import annotations

from pathlib import Path

import torch

import attnlab
from attnlab.claims.base import CLAIMS
from attnlab.claims.report import control_told, stated, told
from attnlab.demo.attention import BOX
from attnlab.demo.commands import commands
from attnlab.demo.found import Asked, Found, Seen, Strip, Way
from attnlab.demo.parts import AUDIT, CLAIMS_PAGE, LEARNED, LOOK, READING
from attnlab.demo.settings import PARTS
from attnlab.intervals import Estimate
from attnlab.report import (
    Bars,
    Block,
    Command,
    Figure,
    Link,
    Mark,
    Quote,
    Report,
    Section,
    Table,
    Tile,
)
from attnlab.report import Strip as StripBlock
from attnlab.report.calibration import reliability_blocks
from attnlab.tasks.knowledge.audit_words import percent, summary

TITLE = "Does it know, or does it guess?"
SMALL = 60  # seconds below which a time is told in seconds


def demo_report(found: Found, out: Path) -> Report:
    """Of what was found so far; what is missing is said."""
    sections = [_short(found), _question(found)]
    if len(found.ways) > 1:
        sections.append(_ways(found))
    if found.audit is not None:
        sections += [_answers(found), _calibration(found)]
    if found.seen is not None:
        sections.append(_attention(found.seen))
    if found.claims:
        sections.append(_claims(found))
    lines = "What can be typed into a terminal now, in the folder where the demo was started."
    rows = [Command(each.line, each.why) for each in commands(found, out)]
    sections += [Section("next", "What to try next", [lines], blocks=rows), _made(found)]
    versions = {"attnlab": attnlab.__version__, "torch": str(torch.__version__)}
    return Report("demo", TITLE, sections, versions=versions, seconds=sum(found.seconds.values()))


def _short(found: Found) -> Section:
    world = found.world
    prose = [
        f"A small network read {len(world.corpus)} lines about people who never lived. It was "
        f"shown {len(world.train)} questions with their answers, and then asked where "
        f"{len(world.held_out)} others were born, of whom it had never been asked. Nothing is "
        "looked up: what it answers comes out of its weights."
    ]
    trained = [way for way in found.ways if way.minutes is not None]
    if trained:
        best = max(trained, key=lambda way: way.right)
        first = found.ways[0]
        prose.append(
            f"It answered {best.right} of {best.total} right. Always giving the commonest answer "
            f"would be right {first.right} times."
        )
    tiles = [
        Tile(way.name, percent(way.share), f"{way.right} of {way.total}") for way in found.ways
    ]
    return Section("summary", "In short", [*_missing(found), *prose], tiles=tiles)


def _missing(found: Found) -> list[str]:
    """What went wrong, or was not done (yet)."""
    titles = {part.name: part.title for part in PARTS}
    made = [f"“{titles[name]}” failed. {reason}" for name, reason in found.problems.items()]
    left = [part.title for part in PARTS if part.name not in {**found.seconds, **found.problems}]
    if left and not found.finished:
        stopped = f"It was stopped at “{titles[found.stopped]}”. " if found.stopped else ""
        listed = ", ".join(f"“{each}”" for each in left)
        made.append(f"{stopped}Not done yet: {listed}.")
    return made


def _question(found: Found) -> Section:
    world = found.world
    question, gold = world.held_out[0]
    name = question.removeprefix("Where was ").removesuffix(" born?")
    document = next((each for each in world.corpus if each.startswith(f"{name}.")), "")
    asked, known = world.train[0]
    findings = [
        "Each person has one line. It tells the birthplace twice, in other words each time, and "
        "names another city to lead astray. No mark says which is which: the color is for you.",
    ]
    blocks = [
        Quote("A line", document, gold),
        Quote("A question that it was shown with its answer", f"{asked} {known}", known),
        Quote("A question about the person of the first line, never shown", question),
    ]
    return Section("text", "What it read", findings, blocks=blocks)


def _ways(found: Found) -> Section:
    ways = found.ways
    plot = Bars("right", {way.name: Estimate(way.share, *way.between) for way in ways}, (), True)
    rows = [[way.name, _minutes(way), f"{way.right} of {way.total}"] for way in ways]
    title = "Right answers about people it was never asked about"
    blocks: list[Block] = [
        Figure(title, plot, in_table=True),
        Table("", ["way", "minutes", "right"], rows),
    ]
    findings = [f"{_capital(way.name)}: {way.about}." for way in ways]
    heading = "Four ways to answer" if len(ways) == 4 else "Ways to answer"
    return Section("ways", heading, findings, blocks=blocks)


def _minutes(way: Way) -> str:
    return "–" if way.minutes is None else f"{way.minutes:.1f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answers(found: Found) -> Section:
    findings = [
        "With each answer it says how sure it is. From thresholds that were fitted on training "
        "questions kept aside, that becomes “known”, “unsure” or “guess”. Here are the first two "
        "of its answers, its most doubtful hit, its surest mistake and a guess, where there are "
        "such, and two people who do not exist.",
    ]
    rows = [
        [each.question, each.answer or "–", each.verdict, f"{each.confidence:.0%}", _truth(each),
         each.unread or "–"]
        for each in found.asked
    ]  # fmt: skip
    header = ["question", "its answer", "it says", "sure", "truth", "a model that never read"]
    drop = ["a model that never read", "sure"]
    return Section(
        "answers", "A few answers", findings, blocks=[Table("", header, rows, drop=drop)]
    )


def _truth(asked: Asked) -> str:
    if asked.gold is None:
        return "There is no such person: nothing can be known."
    return "✓ right" if asked.gold == asked.answer else f"✗ The line says {asked.gold}."


def _calibration(found: Found) -> Section:
    audit = found.audit
    assert audit is not None
    blocks = [
        *reliability_blocks(audit["reliability"], "Share of right answers by confidence"),
        Link(f"{LEARNED}/{AUDIT}", "The whole audit: every doubt, by name and by answer"),
    ]
    return Section("calibration", "Does it know when it knows?", summary(audit), blocks=blocks)


def _attention(seen: Seen) -> Section:
    layers = [f"layer {place}" for place in range(len(seen.names))]
    plot = Bars(
        "trained",
        {name: Estimate(mine) for name, (mine, _) in zip(layers, seen.names, strict=True)},
        [Mark(f"its share of the tokens: {percent(seen.chance)}", y=seen.chance)],
        True,
        {name: none for name, (_, none) in zip(layers, seen.names, strict=True)},
        "untrained",
    )
    cities = seen.answer + seen.other
    findings = [
        "While it still learns to read, it has the line before it. Nobody told it what a city is, "
        f"yet one head (layer {seen.layer}, head {seen.head}) gives {percent(cities)} of its "
        f"weight to the cities there, {percent(seen.answer)} to the birthplace and "
        f"{percent(seen.other)} to others: the mean over {seen.people} people without a label. "
        f"Cities are {percent(seen.share)} of the tokens, and an untrained head gives them "
        f"{percent(seen.untrained)}. Which of them is meant, later layers decide.",
        "Later the line is gone, and there is nothing to find. What it looks at then is the name: "
        "the answer must come from what the weights make of it.",
    ]
    blocks: list[Block] = [
        _strip("The reader, with the line before it", seen.reading),
        _strip("The same question from memory, the mean of all heads", seen.remembering),
        Figure("Weight on the name, when the answer is due", plot),
        Link(LOOK, "Look for yourself: every layer and head for this answer from memory"),
        Link(READING, "The reader with its line"),
    ]
    return Section("attention", "Where did it look?", findings, blocks=blocks)


def _strip(title: str, strip: Strip) -> StripBlock:
    note = (
        "The stronger a word's color, the more weight is on it when the answer is due, which is "
        f"at the last {BOX}. Written next: {strip.written}"
    )
    return StripBlock(
        title, [text for text, _ in strip.words], [weight for _, weight in strip.words], note
    )


def _claims(found: Found) -> Section:
    count = len(found.claims)
    outcomes = [each.verdict.outcome for each in found.claims]
    kinds = [f"{kind}: {outcomes.count(kind)}" for kind in dict.fromkeys(outcomes)]
    trusted = sum(each.trusted is True for each in found.claims)
    findings = [
        "Much is said about attention, in courses and papers. Here a statement is an experiment: "
        "a figure is measured, and a threshold that was set beforehand judges it. The same judge "
        "must come to the other verdict for a control, in which the experiment is spoilt (or what "
        "is wrong is put right): else it would say the same of anything.",
        f"{count} of them were run just now ({', '.join(kinds)}). For {trusted} the control came "
        "out as it must.",
    ]
    rows, figures = list[list[str]](), list[Block]()
    for result in found.claims:
        claim, evidence = CLAIMS[result.name], result.evidence
        measured = "" if evidence is None else f"{claim.judge.name}: {evidence.figure}"
        rows.append([stated(claim), told(result.verdict), measured, control_told(result)])
        if evidence is not None:
            note = f"It holds if {claim.judge.threshold}. Control: {claim.control}."
            figures.append(Figure(stated(claim), evidence.plot, note))
    table = Table("", ["statement", "verdict", "measured", "control"], rows)
    more = Link(CLAIMS_PAGE, "These with their reasons and figures to move through")
    blocks = [table, *figures, more]
    return Section("claims", "What is said about attention", findings, blocks=blocks)


def _made(found: Found) -> Section:
    rows = [[part.title, _time(found.seconds[part.name])] for part in PARTS
            if part.name in found.seconds]  # fmt: skip
    rows.append(["together", _time(sum(found.seconds.values()))])
    size = f", {found.parameters:,} parameters" if found.parameters else ""
    findings = [
        f"Seed {found.seed}, {torch.get_num_threads()} threads{size}. The world is invented by "
        "attnlab; nothing was downloaded, and this page asks nobody for anything.",
    ]
    return Section(
        "made", "How this was made", findings, blocks=[Table("", ["part", "time"], rows)]
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < SMALL else f"{seconds / 60:.1f} min"
