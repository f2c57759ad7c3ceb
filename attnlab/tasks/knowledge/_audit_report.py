"""Make a readable report, for a page and the terminal, from the data of an audit."""

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
from attnlab.tasks.knowledge._audit_verdicts import (
    format_interval,
    made_up_section,
    ratio,
    relations_section,
    verdicts_section,
)
from attnlab.tasks.knowledge._scoring import top_fraction

Audit = dict[str, Any]
MIN_QUESTIONS = 30  # with fewer, three answers may well be most of all
MAX_ROWS = 10  # of a table
MAX_POINTS = 400  # of a curve
TERMINAL_SECTIONS = ("summary", "verdicts", "relations", "made-up", "names", "surprises")


def audit_report(audit: Audit) -> Report:
    """The report. Parts that need right answers are left out if there are none."""
    judged = audit["accuracy"] is not None
    sections = [
        Section("summary", "In short", _summary(audit), tiles=_tiles(audit)),
        *([_calibration(audit), _coverage(audit)] if judged else []),
        verdicts_section(audit),
        *([relations_section(audit)] if audit["relations"] else []),
        _answers(audit),
        *([_name_groups(audit)] if judged and audit["origins"] else []),
        made_up_section(audit),
        _sampling(audit),
        *([_surprises(audit)] if judged else []),
    ]
    return Report("audit", f"Knowledge or a guess? {audit['run']}", sections)


def save_audit(audit: Audit, json: Path, html: Path) -> None:
    """Save the audit as JSON for programs and as a page for people."""
    for path in (json, html):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(json, audit)
    save_page(html, audit_report(audit), overwrite=True)


def print_audit(audit: Audit, console: Console) -> None:
    """Print the summary, the verdicts, the names and the worst mistakes."""
    print_report(audit_report(audit), console, charts=False, sections=TERMINAL_SECTIONS)


def _summary(audit: Audit) -> list[str]:
    """Sentences about what the tiles do not show."""
    sentences = []
    if audit["accuracy"] is None:
        sentences.append(
            f"The model answered {audit['pairs']:,} questions without known right answers. "
            "So this report does not say how often it is right or whether its confidence means "
            "anything."
        )
    else:
        judged = [each for each in audit["answers"] if each["correct"] is not None]
        sentences.append(
            f"The model answered {sum(each['correct'] for each in judged):,} of {len(judged):,} "
            f"questions right ({format_percent(audit['accuracy'])}). Answering "
            f"“{audit['baseline']['answer']}” every time would be right in "
            f"{format_percent(audit['baseline']['accuracy'])}."
        )
    top, natural = audit["top_three_share"], top_fraction(audit["gold_histogram"] or [])
    if audit["pairs"] >= MIN_QUESTIONS and top > max(0.5, 2 * natural):
        right = f" (of the right answers, {format_percent(natural)})" if natural else ""
        sentences.append(
            f"Three answers make up {format_percent(top)} of all answers{right}: the model has "
            "collapsed onto a few answers."
        )
    return sentences


def _tiles(audit: Audit) -> list[Tile]:
    known, made_up = audit["verdicts"]["known"], audit["made_up"]
    fraction = format_percent(ratio(known["count"], len(audit["answers"])))
    ranking = "–" if audit["roc_area"] is None else f"{audit['roc_area']:.2f}"
    tiles = [Tile("Questions", format_number(audit["pairs"]), audit.get("asked", ""))]
    if audit["accuracy"] is not None:
        tiles += [
            Tile(
                "Right",
                format_percent(audit["accuracy"]),
                f"95% interval {format_interval(audit)}",
            ),
            Tile(
                "Right if “known”", format_percent(known["accuracy"]), f"{fraction} of the answers"
            ),
            Tile("Ranking", ranking, "area under ROC, 0.5 is chance"),
            Tile("Calibration error", format_percent(audit["ece"]), "confidence against accuracy"),
        ]
    else:
        tiles.append(Tile("Says “known”", fraction, "of the answers"))
    for name, data in (("Made-up", made_up), ("Off-topic", audit["off_topic"])):
        if data["count"]:
            share = format_percent(data["known_share"])
            tiles.append(Tile(f"{name} “known”", share, "0% is best"))
    return tiles


def _calibration(audit: Audit) -> Section:
    bins = audit["reliability"]
    total = sum(each["count"] for each in bins)
    mean_confidence = ratio(sum(each["count"] * each["confidence"] for each in bins), total)
    gap = mean_confidence - audit["accuracy"]
    if abs(gap) < 0.02:
        verdict = "on average its confidence is right"
    else:
        verdict = f"on average it is {'overconfident' if gap > 0 else 'underconfident'}"
    findings = [
        f"Its mean confidence is {format_percent(mean_confidence)} and it is right in "
        f"{format_percent(audit['accuracy'])}: {verdict}.",
        "Weighted by the number of answers, confidence and accuracy lie "
        f"{100 * audit['ece']:.1f} percentage points apart (expected calibration error).",
    ]
    blocks = reliability_blocks(bins, "Accuracy by confidence")
    return Section("calibration", "Is its confidence right?", findings, blocks=blocks)


def _coverage(audit: Audit) -> Section:
    threshold = audit["precision95"]
    points = [(coverage, precision) for _, coverage, precision in audit["risk_coverage"]]
    every = -(-len(points) // MAX_POINTS) or 1
    marks = []
    if threshold is None:
        finding = "At no confidence threshold are 95% of its answers right."
    else:
        marks = [
            Mark(
                f"above {threshold['threshold']:.2f}", threshold["coverage"], threshold["precision"]
            )
        ]
        finding = (
            f"If it answers only with a confidence of {threshold['threshold']:.2f} or more, it "
            f"answers {format_percent(threshold['coverage'])} of the questions and is right in "
            f"{format_percent(threshold['precision'])}: the lowest threshold that reaches 95%. It "
            "was chosen on the same answers, which makes it look slightly too good."
        )
    with_unknown = [(x, y) for _, x, y in audit["risk_coverage_unknown"]]
    every_unknown = -(-len(with_unknown) // MAX_POINTS) or 1
    series = [Series("these questions", [*points[:-1:every], *points[-1:]])]
    if with_unknown:
        thinned = [*with_unknown[:-1:every_unknown], *with_unknown[-1:]]
        series.append(Series("half of them about people who do not exist", thinned))
    plot = Lines(
        "fraction of questions answered",
        "fraction of these right",
        series,
        marks=marks,
        x_percent=True,
        y_percent=True,
    )
    note = (
        "From left to right the threshold falls and more questions are answered. A model whose "
        "confidence means something starts at 100% and falls late. In the second curve as many "
        "questions are about people who do not exist, so at most half of the answers can be right: "
        "a model that admits what it does not know answers half of them, nearly all right."
    )
    figure = Figure("Precision if it answers only when it is confident", plot, note)
    return Section("coverage", "How many answers can be trusted?", [finding], blocks=[figure])


def _answers(audit: Audit) -> Section:
    total = sum(count for _, count in audit["histogram"])
    gold = dict(audit["gold_histogram"] or [])
    counts = dict(audit["histogram"])
    names = [name for name, _ in audit["histogram"][:MAX_ROWS]]
    names += [name for name in list(gold)[: MAX_ROWS // 2] if name not in names]
    plot = Bars(
        "its answers",
        {name: Estimate(ratio(counts.get(name, 0), total)) for name in names},
        percent=True,
        beside={name: ratio(gold.get(name, 0), sum(gold.values())) for name in names}
        if gold
        else {},
        beside_name="right answers",
    )
    findings = [
        f"The model gave {len(counts):,} different answers to {total:,} questions. The three most "
        f"frequent make up {format_percent(audit['top_three_share'])}; a model that has learned no "
        "facts collapses onto two or three answers.",
    ]
    invented = audit["invented"]
    if invented["count"]:
        findings.append(
            f"{invented['count']:,} of its answers never occurred in training: "
            f"{', '.join(dict.fromkeys(invented['examples']))}."
        )
    else:
        findings.append("Every answer occurred in training.")
    figure = Figure("Most frequent answers", plot)
    return Section("answers", "What does it answer?", findings, blocks=[figure])


def _name_groups(audit: Audit) -> Section:
    origins = audit["origins"]
    plot = Bars(
        "right",
        {each["label"]: Estimate(each["accuracy"], *each["interval"]) for each in origins},
        [Mark(f"all: {format_percent(audit['accuracy'])}", y=audit["accuracy"])],
        percent=True,
    )
    note = (
        "Names grouped by spelling, a rough sign of their origin: “-ov” ends a word, “Mc-” begins "
        "one. Groups whose 95% intervals overlap widely need not differ."
    )
    rows = [
        [each["label"], ", ".join(each["examples"]), each["count"],
         format_percent(each["accuracy"]), format_interval(each)]
        for each in origins
    ]  # fmt: skip
    header = ["names like", "examples", "answers", "right", "95% interval"]
    blocks: list[Block] = [
        Figure("Accuracy by the spelling of the name", plot, note, in_table=True),
        Table("", header, rows, drop=["examples"]),
    ]
    return Section("names", "Does it depend on the name?", blocks=blocks)


def _sampling(audit: Audit) -> Section:
    sampling = audit["sampling"]
    findings = [
        f"Each question was answered {sampling['samples']:,} more times by sampling at a "
        f"temperature of {sampling['temperature']:g}. A known fact repeats; a guess changes."
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
    return Section("sampling", "Sampled answers", findings, blocks=[table])


def _surprises(audit: Audit) -> Section:
    header = (
        *("question", "its answer", "right answer", "confidence"),
        *("runner-up", "margin", "samples agree", "nearest name in training"),
    )
    drop = ("nearest name in training", "margin", "samples agree", "runner-up")
    known_and_wrong = [each for each in _ranked(audit, correct=False) if each["verdict"] == "known"]
    confident_mistakes = [_row(each) for each in known_and_wrong[:MAX_ROWS]]
    unsure_hits = [_row(each) for each in _ranked(audit, correct=True)[::-1][:MAX_ROWS]]
    tables = [
        Table("Sure and wrong", header, confident_mistakes, "called known, and wrong", drop),
        Table("Unsure and right", header, unsure_hits, "the least confident hits", drop),
    ]
    findings = [
        "Confident mistakes are the dangerous ones; a similar name in training may have misled the "
        "model. The margin is the difference from the confidence of the runner-up."
    ]
    blocks = [each for each in tables if each.rows]
    return Section("surprises", "Surprises", findings, blocks=blocks)


def _ranked(audit: Audit, correct: bool) -> list[Audit]:
    answers = [each for each in audit["answers"] if each["correct"] is correct]
    return sorted(answers, key=lambda each: -each["confidence"])


def _row(answer: Audit) -> Sequence[str]:
    text = answer["answer"] + ("" if answer["seen_place"] else " (invented)")
    nearest = [f"{name} ({similarity:.2f})" for name, similarity in answer["nearest"][:1]]
    return (
        answer["question"],
        text,
        answer["gold"] or "–",
        f"{answer['confidence']:.2f}",
        answer["runner_up"],
        f"{answer['margin']:.2f}",
        format_percent(answer["sampled"]["agreement"]),
        *(nearest or ["–"]),
    )
