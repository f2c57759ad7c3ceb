"""The audit for people: a page to read and a shorter account for the terminal, from one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.text import Text

from attnlab.charts import (
    Bar,
    Mark,
    Series,
    bar_chart,
    clean,
    line_chart,
    number,
    reliability_chart,
)
from attnlab.files import write_json
from attnlab.page import Figure, Section, Table, Tile, page, write_page
from attnlab.tasks.knowledge.audit_words import VERDICTS, between, part_of, percent, summary

Report = dict[str, Any]
SHOWN = 10  # rows of a table of answers


def audit_page(report: Report) -> str:
    """One HTML file; what needs right answers is left out, and said to be, where none are known."""
    sections = [Section("In short", summary(report), tiles=_tiles(report))]
    if report["accuracy"] is not None:
        sections += [_calibration(report), _coverage(report)]
    sections += [_verdicts(report), _places(report)]
    if report["accuracy"] is not None and report["origins"]:
        sections.append(_origins(report))
    sections += [_made_up(report), _sampling(report)]
    if report["accuracy"] is not None:
        sections.append(_surprises(report))
    return page(f"Knowledge or a guess? {report['run']}", sections)


def save_audit(report: Report, json: Path, html: Path) -> None:
    """As a file for programs and a page for people."""
    for path in (json, html):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(json, report)
    write_page(html, audit_page(report), overwrite=True)


def print_audit(report: Report, console: Console) -> None:
    """The summary, what each verdict is worth, and the worst mistakes."""
    for sentence in summary(report):
        console.print(_plain(sentence, console))
    console.print()
    _print(console, *_verdict_rows(report))
    if report["accuracy"] is None:
        return
    rows = [
        (each["label"], number(each["count"]), percent(each["accuracy"]), between(each))
        for each in report["origins"]
    ]
    _print(console, ("names like", "answers", "right", "95% interval"), rows)
    rows = [
        (each["question"], each["answer"], str(each["gold"]), f"{each['confidence']:.2f}")
        for each in _ranked(report, correct=False)[: SHOWN // 2]
    ]
    _print(console, ("sure and wrong", "answer", "right answer", "confidence"), rows)


def _tiles(report: Report) -> list[Tile]:
    known, made_up = report["verdicts"]["known"], report["made_up"]
    share = percent(part_of(known["count"], len(report["answers"])))
    area = "–" if report["roc_area"] is None else f"{report['roc_area']:.2f}"
    tiles = [Tile("Questions", number(report["pairs"]), report.get("asked", ""))]
    if report["accuracy"] is not None:
        tiles += [
            Tile("Right", percent(report["accuracy"]), between(report)),
            Tile("Right if “known”", percent(known["accuracy"]), f"{share} of the answers"),
            Tile("Ranking", area, "area under ROC, 0.5 is chance"),
            Tile("Calibration error", percent(report["ece"]), "confidence against accuracy"),
        ]
    else:
        tiles.append(Tile("Says “known”", share, "of the answers"))
    if made_up["count"]:
        tiles.append(Tile("Made-up “known”", percent(made_up["known_share"]), "0% is best"))
    return tiles


def _calibration(report: Report) -> Section:
    bins = report["reliability"]
    total = sum(each["count"] for each in bins)
    sure = part_of(sum(each["count"] * each["confidence"] for each in bins), total)
    gap = sure - report["accuracy"]
    if abs(gap) < 0.02:
        verdict = "on the whole it is as sure as it should be"
    else:
        verdict = f"on the whole it is too {'sure' if gap > 0 else 'modest'}"
    prose = [
        "An answer given with 80% confidence should be right 80 times of 100. Bars below the "
        "dashed line are answers it was too sure of, bars above it answers it doubted too much.",
        f"Its mean confidence is {percent(sure)} and it is right in {percent(report['accuracy'])}: "
        f"{verdict}. Weighted by the number of answers, confidence and accuracy lie "
        f"{100 * report['ece']:.1f} percentage points apart (expected calibration error).",
    ]
    chart = reliability_chart(bins, title="Share of right answers by confidence")
    return Section("Does it know when it knows?", prose, figures=[Figure(chart)])


def _coverage(report: Report) -> Section:
    wanted = report["precision95"]
    points = [(coverage, precision) for _, coverage, precision in report["risk_coverage"]]
    lowest = min(precision for _, precision in points)
    marks = []
    if wanted is None:
        found = "No threshold makes its answers right 95 times of 100."
    else:
        marks = [Mark(f"above {wanted['threshold']:.2f}", wanted["coverage"], wanted["precision"])]
        found = (
            f"If it answers only with a confidence of {wanted['threshold']:.2f} or more, it "
            f"answers {percent(wanted['coverage'])} of the questions and is right in "
            f"{percent(wanted['precision'])}: the lowest threshold that reaches 95%. It was found "
            "on these same answers, which flatters it a little."
        )
    chart = line_chart(
        [Series("precision", points)],
        title="Right answers, when it may stay silent",
        x_label="share of questions answered",
        y_label="share of these right",
        x_range=(0, 1),
        x_percent=True,
        percent=True,
        y_range=(min(0.9, int(10 * lowest) / 10), 1),
        marks=marks,
    )
    prose = [
        "From left to right the threshold falls and more questions are answered. A model whose "
        "confidence means something starts at 100% and falls late.",
        found,
    ]
    return Section("How many answers can be trusted?", prose, figures=[Figure(chart)])


def _verdict_rows(report: Report) -> tuple[Sequence[str], list[list[str]]]:
    header = ["verdict", "answers", "share"]
    rows = []
    judged = report["accuracy"] is not None
    for name in VERDICTS:
        found = report["verdicts"].get(name, {"count": 0, "accuracy": None})
        share = percent(part_of(found["count"], len(report["answers"])))
        row = [name, number(found["count"]), share]
        rows.append([*row, percent(found["accuracy"])] if judged else row)
    return [*header, "right"] if judged else header, rows


def _verdicts(report: Report) -> Section:
    limits = report["thresholds"]
    if limits["known"] is None:
        said = "“Known” is never said: at no confidence were 95 of 100 answers right; “guess” is "
        said += f"said below {limits['guess']:.2f}, “unsure” from there on."
    else:
        said = f"“Known” is said from a confidence of {limits['known']:.2f}, “guess” below "
        said += f"{limits['guess']:.2f}, “unsure” between them."
    prose = [f"{said} Fitted on {limits['fitted_on']}."]
    return Section("What it says of its answers", prose, tables=[Table(*_verdict_rows(report))])


def _places(report: Report) -> Section:
    total = sum(count for _, count in report["histogram"])
    gold = dict(report["gold_histogram"] or [])
    given = dict(report["histogram"])
    names = [name for name, _ in report["histogram"][:SHOWN]]
    names += [name for name in list(gold)[: SHOWN // 2] if name not in names]
    bars = [
        Bar(
            name,
            part_of(given.get(name, 0), total),
            beside=part_of(gold.get(name, 0), sum(gold.values())) if gold else None,
        )
        for name in names
    ]
    chart = bar_chart(
        bars,
        title="Most frequent answers",
        label="answer",
        value="its answers",
        beside="right answers",
        percent=True,
    )
    invented = report["invented"]
    prose = [
        f"It gave {len(given):,} different answers to {total:,} questions. The three "
        f"most frequent make up {percent(report['top_three_share'])}; a model that has learnt no "
        "facts collapses onto two or three answers.",
    ]
    if invented["count"]:
        prose.append(
            f"{invented['count']:,} of its answers are none that training ever had: "
            f"{', '.join(dict.fromkeys(invented['examples']))}."
        )
    else:
        prose.append("Every answer is one that training had.")
    return Section("What does it answer?", prose, figures=[Figure(chart)])


def _origins(report: Report) -> Section:
    bars = [
        Bar(each["label"], each["accuracy"], tuple(each["interval"])) for each in report["origins"]
    ]
    chart = bar_chart(
        bars,
        title="Share right, by the spelling of the name",
        label="names like",
        value="right",
        percent=True,
        mark=(f"all: {percent(report['accuracy'])}", report["accuracy"]),
    )
    prose = [
        "Names grouped by their letters, a rough sign of where they come from: “-ov” ends a word, "
        "“Mc-” begins one. The thin lines are 95% intervals: groups whose lines overlap widely "
        "need not differ."
    ]
    rows = [
        (each["label"], ", ".join(each["examples"]), each["count"]) for each in report["origins"]
    ]
    table = Table(("names like", "examples", "answers"), rows)
    figures = [Figure(chart)]
    return Section("Does it depend on the name?", prose, figures=figures, tables=[table])


def _made_up(report: Report) -> Section:
    made_up = report["made_up"]
    heading = "People who do not exist"
    if not made_up["count"]:
        return Section(heading, ["No made-up names were asked about."])
    prose = [
        "Nothing can be known about these people, so every “known” is wrong. It said it of "
        f"{percent(made_up['known_share'])} of {made_up['count']:,} made-up names; its mean "
        f"confidence in these answers was {made_up['mean_confidence']:.2f}."
    ]
    rows = [
        (each["name"], each["answer"], f"{each['confidence']:.2f}")
        for each in made_up["examples"][:SHOWN]
    ]
    tables = [Table(("made-up name", "answer", "confidence"), rows)] if rows else []
    return Section(heading, prose, tables=tables)


def _sampling(report: Report) -> Section:
    found = report["sampling"]
    prose = [
        f"Each question was answered {found['samples']:,} more times by chance, at a "
        f"temperature of {found['temperature']:g}. A fact comes back; a guess changes. On average "
        f"{percent(found['mean_agreement'])} of the samples repeat the first answer."
    ]
    right, wrong = found["agreement_when_right"], found["agreement_when_wrong"]
    if right is not None and wrong is not None:
        prose.append(
            f"Where that answer is right {percent(right)} repeat it, where it is wrong "
            f"{percent(wrong)}."
        )
    return Section("Asked again", prose)


def _surprises(report: Report) -> Section:
    header = (
        *("question", "its answer", "right answer", "confidence"),
        *("runner-up", "margin", "samples agree", "nearest name in training"),
    )
    sure = [_row(each) for each in _ranked(report, correct=False)[:SHOWN]]
    doubted = [_row(each) for each in _ranked(report, correct=True)[::-1][:SHOWN]]
    tables = [
        Table(header, sure, "Sure and wrong", "the most confident mistakes"),
        Table(header, doubted, "Unsure and right", "the least confident hits"),
    ]
    prose = [
        "A mistake made with confidence is the dangerous kind; a name that resembles one seen in "
        "training may have misled it. The margin is the lead over the runner-up."
    ]
    return Section("Surprises", prose, tables=[each for each in tables if each.rows])


def _ranked(report: Report, correct: bool) -> list[Report]:
    found = [each for each in report["answers"] if each["correct"] is correct]
    return sorted(found, key=lambda each: -each["confidence"])


def _row(answer: Report) -> tuple[str, ...]:
    place = answer["answer"] + ("" if answer["seen_place"] else " (invented)")
    nearest = [f"{name} ({similarity:.2f})" for name, similarity in answer["nearest"][:1]]
    return (
        answer["question"],
        place,
        answer["gold"] or "–",
        f"{answer['confidence']:.2f}",
        answer["runner_up"],
        f"{answer['margin']:.2f}",
        percent(answer["sampled"]["agreement"]),
        *(nearest or ["–"]),
    )


# The terminal


def _plain(text: str, console: Console) -> Text:
    """Text is never read as markup; what the console cannot encode becomes a question mark."""
    encoding = console.encoding
    simple = clean(text).translate(str.maketrans("“”–", '""-'))
    return Text(simple.encode(encoding, "replace").decode(encoding))


def _print(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = rich_table.Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for i, name in enumerate(header):
        values = [row[i] for row in rows]
        digits = all(value[:1].isdigit() or value == "–" for value in values)
        table.add_column(name, justify="right" if digits else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_plain(value, console) for value in row))
    console.print(table)
    console.print()
