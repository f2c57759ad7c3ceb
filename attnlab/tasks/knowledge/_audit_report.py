"""The audit for people: a report for a page and the terminal, made from its data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from attnlab._confidence_intervals import Estimate, format_number, format_percent
from attnlab._safe_files import write_json
from attnlab.report import (
    Bars,
    Block,
    Figure,
    Lines,
    Mark,
    Report,
    Section,
    Series,
    Table,
    Tile,
    print_report,
    save_page,
)
from attnlab.report._calibration_section import reliability_blocks
from attnlab.tasks.knowledge._scoring import top_share

Audit = dict[str, Any]
VERDICTS = ("known", "unsure", "guess")
ENOUGH = 30  # of fewer questions three answers may well be most
SHOWN = 10  # rows of a table of answers
MAX_POINTS = 400  # of a curve
IN_TERMINAL = ("summary", "verdicts", "names", "surprises")


def audit_report(audit: Audit) -> Report:
    """What needs right answers is left out, and said to be, where none are known."""
    judged = audit["accuracy"] is not None
    sections = [
        Section("summary", "In short", _summary(audit), tiles=_tiles(audit)),
        *([_calibration(audit), _coverage(audit)] if judged else []),
        _verdicts(audit),
        _places(audit),
        *([_origins(audit)] if judged and audit["origins"] else []),
        _made_up(audit),
        _sampling(audit),
        *([_surprises(audit)] if judged else []),
    ]
    return Report("audit", f"Knowledge or a guess? {audit['run']}", sections)


def save_audit(audit: Audit, json: Path, html: Path) -> None:
    """As a file for programs and a page for people."""
    for path in (json, html):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(json, audit)
    save_page(html, audit_report(audit), overwrite=True)


def print_audit(audit: Audit, console: Console) -> None:
    """The summary, what each verdict is worth, names, and the worst mistakes."""
    print_report(audit_report(audit), console, charts=False, sections=IN_TERMINAL)


def _summary(audit: Audit) -> list[str]:
    """What the tiles cannot say."""
    sentences = []
    if audit["accuracy"] is None:
        sentences.append(
            f"It was asked {audit['pairs']:,} questions whose right answers are not given. "
            "So nothing can be said about how often it is right or whether its confidence means "
            "anything: those parts are left out."
        )
    else:
        judged = [each for each in audit["answers"] if each["correct"] is not None]
        sentences.append(
            f"It answered {sum(each['correct'] for each in judged):,} of {len(judged):,} questions "
            f"right ({format_percent(audit['accuracy'])}). Answering "
            f"“{audit['baseline']['answer']}” every time would be right in "
            f"{format_percent(audit['baseline']['accuracy'])}."
        )
    top, natural = audit["top_three_share"], top_share(audit["gold_histogram"] or [])
    if audit["pairs"] >= ENOUGH and top > max(0.5, 2 * natural):
        right = f" (of the right answers, {format_percent(natural)})" if natural else ""
        sentences.append(
            f"Three answers make up {format_percent(top)} of all it gave{right}: it has "
            "collapsed onto a few answers."
        )
    return sentences


def _tiles(audit: Audit) -> list[Tile]:
    known, made_up = audit["verdicts"]["known"], audit["made_up"]
    share = format_percent(_part_of(known["count"], len(audit["answers"])))
    area = "–" if audit["roc_area"] is None else f"{audit['roc_area']:.2f}"
    tiles = [Tile("Questions", format_number(audit["pairs"]), audit.get("asked", ""))]
    if audit["accuracy"] is not None:
        tiles += [
            Tile("Right", format_percent(audit["accuracy"]), f"95% interval {_between(audit)}"),
            Tile("Right if “known”", format_percent(known["accuracy"]), f"{share} of the answers"),
            Tile("Ranking", area, "area under ROC, 0.5 is chance"),
            Tile("Calibration error", format_percent(audit["ece"]), "confidence against accuracy"),
        ]
    else:
        tiles.append(Tile("Says “known”", share, "of the answers"))
    if made_up["count"]:
        tiles.append(Tile("Made-up “known”", format_percent(made_up["known_share"]), "0% is best"))
    return tiles


def _part_of(part: float, total: float) -> float:
    return part / total if total else 0.0


def _between(found: Audit) -> str:
    return f"{format_percent(found['interval'][0])} to {format_percent(found['interval'][1])}"


def _calibration(audit: Audit) -> Section:
    bins = audit["reliability"]
    total = sum(each["count"] for each in bins)
    sure = _part_of(sum(each["count"] * each["confidence"] for each in bins), total)
    gap = sure - audit["accuracy"]
    if abs(gap) < 0.02:
        verdict = "on the whole it is as sure as it should be"
    else:
        verdict = f"on the whole it is too {'sure' if gap > 0 else 'modest'}"
    findings = [
        f"Its mean confidence is {format_percent(sure)} and it is right in "
        f"{format_percent(audit['accuracy'])}: {verdict}.",
        "Weighted by the number of answers, confidence and accuracy lie "
        f"{100 * audit['ece']:.1f} percentage points apart (expected calibration error).",
    ]
    blocks = reliability_blocks(bins, "Share of right answers by confidence")
    return Section("calibration", "Does it know when it knows?", findings, blocks=blocks)


def _coverage(audit: Audit) -> Section:
    wanted = audit["precision95"]
    points = [(coverage, precision) for _, coverage, precision in audit["risk_coverage"]]
    every = -(-len(points) // MAX_POINTS) or 1
    marks = []
    if wanted is None:
        finding = "No threshold makes its answers right 95 times of 100."
    else:
        marks = [Mark(f"above {wanted['threshold']:.2f}", wanted["coverage"], wanted["precision"])]
        finding = (
            f"If it answers only with a confidence of {wanted['threshold']:.2f} or more, it "
            f"answers {format_percent(wanted['coverage'])} of the questions and is right in "
            f"{format_percent(wanted['precision'])}: the lowest threshold that reaches 95%. It "
            "was found on these same answers, which flatters it a little."
        )
    plot = Lines(
        "share of questions answered",
        "share of these right",
        [Series("precision", [*points[:-1:every], *points[-1:]])],
        marks=marks,
        x_percent=True,
        y_percent=True,
    )
    note = (
        "From left to right the threshold falls and more questions are answered. A model whose "
        "confidence means something starts at 100% and falls late."
    )
    figure = Figure("Right answers, when it may stay silent", plot, note)
    return Section("coverage", "How many answers can be trusted?", [finding], blocks=[figure])


def _verdicts(audit: Audit) -> Section:
    limits = audit["thresholds"]
    if limits["known"] is None:
        finding = "“Known” is never said: at no confidence were 95 of 100 answers right; “guess” "
        finding += f"is said below {limits['guess']:.2f}, “unsure” from there on."
    else:
        finding = f"“Known” is said from a confidence of {limits['known']:.2f}, “guess” below "
        finding += f"{limits['guess']:.2f}, “unsure” between them."
    judged = audit["accuracy"] is not None
    rows = []
    for name in VERDICTS:
        given = audit["verdicts"].get(name, {"count": 0, "accuracy": None})
        share = format_percent(_part_of(given["count"], len(audit["answers"])))
        right = [format_percent(given["accuracy"])] if judged else []
        rows.append([name, given["count"], share, *right])
    header = ["verdict", "answers", "share", *(["right"] if judged else [])]
    findings = [f"{finding} Fitted on {limits['fitted_on']}."]
    table = Table("", header, rows)
    return Section("verdicts", "What it says of its answers", findings, blocks=[table])


def _places(audit: Audit) -> Section:
    total = sum(count for _, count in audit["histogram"])
    gold = dict(audit["gold_histogram"] or [])
    given = dict(audit["histogram"])
    names = [name for name, _ in audit["histogram"][:SHOWN]]
    names += [name for name in list(gold)[: SHOWN // 2] if name not in names]
    plot = Bars(
        "its answers",
        {name: Estimate(_part_of(given.get(name, 0), total)) for name in names},
        percent=True,
        beside={name: _part_of(gold.get(name, 0), sum(gold.values())) for name in names}
        if gold
        else {},
        beside_name="right answers",
    )
    findings = [
        f"It gave {len(given):,} different answers to {total:,} questions. The three most frequent "
        f"make up {format_percent(audit['top_three_share'])}; a model that has learned no facts "
        "collapses onto two or three answers.",
    ]
    invented = audit["invented"]
    if invented["count"]:
        findings.append(
            f"{invented['count']:,} of its answers are none that training ever had: "
            f"{', '.join(dict.fromkeys(invented['examples']))}."
        )
    else:
        findings.append("Every answer is one that training had.")
    figure = Figure("Most frequent answers", plot)
    return Section("answers", "What does it answer?", findings, blocks=[figure])


def _origins(audit: Audit) -> Section:
    origins = audit["origins"]
    plot = Bars(
        "right",
        {each["label"]: Estimate(each["accuracy"], *each["interval"]) for each in origins},
        [Mark(f"all: {format_percent(audit['accuracy'])}", y=audit["accuracy"])],
        percent=True,
    )
    note = (
        "Names grouped by their letters, a rough sign of where they come from: “-ov” ends a word, "
        "“Mc-” begins one. Groups whose 95% intervals overlap widely need not differ."
    )
    rows = [
        [each["label"], ", ".join(each["examples"]), each["count"],
         format_percent(each["accuracy"]), _between(each)]
        for each in origins
    ]  # fmt: skip
    header = ["names like", "examples", "answers", "right", "95% interval"]
    blocks: list[Block] = [
        Figure("Share right, by the spelling of the name", plot, note, in_table=True),
        Table("", header, rows, drop=["examples"]),
    ]
    return Section("names", "Does it depend on the name?", blocks=blocks)


def _made_up(audit: Audit) -> Section:
    made_up, title = audit["made_up"], "People who do not exist"
    if not made_up["count"]:
        return Section("made-up", title, ["No made-up names were asked about."])
    findings = [
        "Nothing can be known about these people, so every “known” is wrong. It said it of "
        f"{format_percent(made_up['known_share'])} of {made_up['count']:,} made-up names; its mean "
        f"confidence in these answers was {made_up['mean_confidence']:.2f}."
    ]
    rows = [
        [each["name"], each["answer"], f"{each['confidence']:.2f}"]
        for each in made_up["examples"][:SHOWN]
    ]
    table = Table("", ["made-up name", "answer", "confidence"], rows)
    return Section("made-up", title, findings, blocks=[table] if rows else [])


def _sampling(audit: Audit) -> Section:
    sampling = audit["sampling"]
    findings = [
        f"Each question was answered {sampling['samples']:,} more times by chance, at a "
        f"temperature of {sampling['temperature']:g}. A fact comes back; a guess changes."
    ]
    names = {
        "all answers": "mean_agreement",
        "right answers": "agreement_when_right",
        "wrong answers": "agreement_when_wrong",
    }
    rows = [
        [name, format_percent(sampling[key])]
        for name, key in names.items()
        if sampling[key] is not None
    ]
    table = Table("", ["", "samples that repeat the first answer"], rows)
    return Section("sampling", "Asked again", findings, blocks=[table])


def _surprises(audit: Audit) -> Section:
    header = (
        *("question", "its answer", "right answer", "confidence"),
        *("runner-up", "margin", "samples agree", "nearest name in training"),
    )
    drop = ("nearest name in training", "margin", "samples agree", "runner-up")
    sure = [_row(each) for each in _ranked(audit, correct=False)[:SHOWN]]
    doubted = [_row(each) for each in _ranked(audit, correct=True)[::-1][:SHOWN]]
    tables = [
        Table("Sure and wrong", header, sure, "the most confident mistakes", drop),
        Table("Unsure and right", header, doubted, "the least confident hits", drop),
    ]
    findings = [
        "A mistake made with confidence is the dangerous kind; a name that resembles one seen in "
        "training may have misled it. The margin is the lead over the runner-up."
    ]
    blocks = [each for each in tables if each.rows]
    return Section("surprises", "Surprises", findings, blocks=blocks)


def _ranked(audit: Audit, correct: bool) -> list[Audit]:
    chosen = [each for each in audit["answers"] if each["correct"] is correct]
    return sorted(chosen, key=lambda each: -each["confidence"])


def _row(answer: Audit) -> Sequence[str]:
    place = answer["answer"] + ("" if answer["seen_place"] else " (invented)")
    nearest = [f"{name} ({similarity:.2f})" for name, similarity in answer["nearest"][:1]]
    return (
        answer["question"],
        place,
        answer["gold"] or "–",
        f"{answer['confidence']:.2f}",
        answer["runner_up"],
        f"{answer['margin']:.2f}",
        format_percent(answer["sampled"]["agreement"]),
        *(nearest or ["–"]),
    )
