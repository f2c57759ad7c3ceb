"""The story as one page that works offline: question, text, table, answers, attention, claims."""

from __future__ import annotations

from pathlib import Path

import torch

import attnlab
from attnlab.charts import Bar, bar_chart, reliability_chart
from attnlab.demo import blocks
from attnlab.demo.attention import BOX
from attnlab.demo.commands import commands
from attnlab.demo.found import Found, Seen, Way
from attnlab.demo.parts import AUDIT, CLAIMS_PAGE, LEARNED, LOOK, READING
from attnlab.demo.settings import PARTS
from attnlab.page import Figure, Section, Table, Tile, page
from attnlab.tasks.knowledge.audit_words import percent, summary

TITLE = "Does it know, or does it guess?"
SMALL = 60  # seconds below which a time is told in seconds


def demo_page(found: Found, out: Path) -> str:
    """Of what was found so far; what is missing is said."""
    sections = [_short(found), _question(found)]
    if len(found.ways) > 1:
        sections.append(_ways(found))
    if found.audit is not None:
        sections += [_answers(found), _calibration(found)]
    if found.seen is not None:
        sections.append(_attention(found, found.seen))
    if found.claims:
        sections.append(_claims(found))
    lines = "What can be typed into a terminal now, in the folder where the demo was started."
    sections.append(Section("What to try next", [lines], html=blocks.to_try(commands(found, out))))
    sections.append(_made(found))
    return page(
        TITLE,
        sections,
        style=blocks.style(),
        script=blocks.static("copy.js"),
        framed=[found.look] if found.look else [],
    )


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
    return Section("", prose, tiles=tiles, html=_missing(found))


def _missing(found: Found) -> str:
    """What went wrong, or was not done (yet)."""
    titles = {part.name: part.title for part in PARTS}
    made = [
        blocks.paragraph(f"“{titles[name]}” failed. {reason}", "problem")
        for name, reason in found.problems.items()
    ]
    left = [part.title for part in PARTS if part.name not in {**found.seconds, **found.problems}]
    if left and not found.finished:
        stopped = f"It was stopped at “{titles[found.stopped]}”. " if found.stopped else ""
        listed = ", ".join(f"“{each}”" for each in left)
        made.append(blocks.paragraph(f"{stopped}Not done yet: {listed}.", "problem"))
    return "".join(made)


def _question(found: Found) -> Section:
    world = found.world
    question, gold = world.held_out[0]
    name = question.removeprefix("Where was ").removesuffix(" born?")
    document = next((each for each in world.corpus if each.startswith(f"{name}.")), "")
    asked, known = world.train[0]
    prose = [
        "Each person has one line. It tells the birthplace twice, in other words each time, and "
        "names another city to lead astray. No mark says which is which: the colour is for you.",
    ]
    return Section(
        "What it read",
        prose,
        html=blocks.quote("A line", document, gold)
        + blocks.quote("A question that it was shown with its answer", f"{asked} {known}", known)
        + blocks.quote("A question about the person of the first line, never shown", question),
    )


def _ways(found: Found) -> Section:
    ways = found.ways
    bars = [Bar(way.name, way.share, way.between) for way in ways]
    chart = bar_chart(
        bars,
        title="Right answers about people it was never asked about",
        label="way",
        value="right",
        percent=True,
    )
    rows = [(way.name, _minutes(way), f"{way.right} of {way.total}") for way in ways]
    prose = [f"{_capital(way.name)}: {way.about}." for way in ways]
    prose.append("The thin lines are 95% intervals.")
    table = Table(("way", "minutes", "right"), rows)
    heading = "Four ways to answer" if len(ways) == 4 else "Ways to answer"
    return Section(heading, prose, figures=[Figure(chart)], tables=[table])


def _minutes(way: Way) -> str:
    return "–" if way.minutes is None else f"{way.minutes:.1f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answers(found: Found) -> Section:
    prose = [
        "With each answer it says how sure it is. From thresholds that were fitted on training "
        "questions kept aside, that becomes “known”, “unsure” or “guess”. Here are the first two "
        "of its answers, its most doubtful hit, its surest mistake and a guess, where there are "
        "such, and two people who do not exist.",
    ]
    return Section("A few answers", prose, html=blocks.answers(found.asked))


def _calibration(found: Found) -> Section:
    report = found.audit
    assert report is not None
    bins = report["reliability"]
    prose = [*summary(report), "Bars on the dashed line mean that it is as sure as it should be."]
    chart = reliability_chart(bins, title="Share of right answers by confidence")
    more = blocks.link(f"{LEARNED}/{AUDIT}", "The whole audit: every doubt, by name and by answer")
    return Section("Does it know when it knows?", prose, figures=[Figure(chart)], html=more)


def _attention(found: Found, seen: Seen) -> Section:
    bars = [
        Bar(f"layer {number}", mine, beside=none) for number, (mine, none) in enumerate(seen.names)
    ]
    chart = bar_chart(
        bars,
        title="Weight on the name, when the answer is due",
        label="layer",
        value="trained",
        beside="untrained",
        percent=True,
        mark=(f"its share of the tokens: {percent(seen.chance)}", seen.chance),
    )
    cities = seen.answer + seen.other
    prose = [
        "While it still learns to read, it has the line before it. Nobody told it what a city is, "
        f"yet one head (layer {seen.layer}, head {seen.head}) gives {percent(cities)} of its "
        f"weight to the cities there, {percent(seen.answer)} to the birthplace and "
        f"{percent(seen.other)} to others: the mean over {seen.people} people without a label. "
        f"Cities are {percent(seen.share)} of the tokens, and an untrained head gives them "
        f"{percent(seen.untrained)}. Which of them is meant, later layers decide.",
        "Later the line is gone, and there is nothing to find. What it looks at then is the name: "
        "the answer must come from what the weights make of it.",
        f"Below, the stronger a word's colour, the more weight is on it when the answer is due, "
        f"which is at the last {BOX}.",
    ]
    inside = (
        "<h3>The reader, with the line before it</h3>"
        + blocks.strip(seen.reading)
        + "<h3>The same question from memory, the mean of all heads</h3>"
        + blocks.strip(seen.remembering)
        + "<h3>Look for yourself</h3>"
        + blocks.paragraph(
            "Every layer and head for this answer from memory. Choose a layer, point at a token, "
            "press ? for help.",
            "note",
        )
        + blocks.frame(found.look, f"Attention: {seen.question}")
        + blocks.link(LOOK, "The same on a page of its own")
        + blocks.link(READING, "The reader with its line")
    )
    return Section("Where did it look?", prose, figures=[Figure(chart)], html=inside)


def _claims(found: Found) -> Section:
    count = len(found.claims)
    outcomes = [each.verdict.outcome for each in found.claims]
    kinds = [f"{kind}: {outcomes.count(kind)}" for kind in dict.fromkeys(outcomes)]
    trusted = sum(each.trusted is True for each in found.claims)
    prose = [
        "Much is said about attention, in courses and papers. Here a statement is an experiment: "
        "a figure is measured, and a threshold that was set beforehand judges it. The same judge "
        "must come to the other verdict for a control, in which the experiment is spoilt (or what "
        "is wrong is put right): else it would say the same of anything.",
        f"{count} of them were run just now ({', '.join(kinds)}). For {trusted} the control came "
        "out as it must.",
    ]
    made = blocks.claims(found.claims, CLAIMS_PAGE)
    more = blocks.link(CLAIMS_PAGE, "These with their reasons and figures to move through")
    return Section("What is said about attention", prose, html=made + more)


def _made(found: Found) -> Section:
    rows = [(part.title, _time(found.seconds[part.name])) for part in PARTS
            if part.name in found.seconds]  # fmt: skip
    rows.append(("together", _time(sum(found.seconds.values()))))
    size = f", {found.parameters:,} parameters" if found.parameters else ""
    prose = [
        f"attnlab {attnlab.__version__}, torch {torch.__version__}, seed {found.seed}, "
        f"{torch.get_num_threads()} threads{size}. The world is invented by attnlab; nothing was "
        "downloaded, and this page asks nobody for anything.",
    ]
    return Section("How this was made", prose, tables=[Table(("part", "time"), rows)])


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < SMALL else f"{seconds / 60:.1f} min"
