"""The audit's report and terminal account, of made-up but realistic data."""

from __future__ import annotations

import copy
import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from attnlab._confidence_intervals import format_percent
from attnlab.report import Figure, Report, Table, render_page, to_markdown
from attnlab.tasks.knowledge._audit_report import audit_report, print_audit
from attnlab.tasks.knowledge._scoring import top_fraction
from tests.support.audit_reports import make_report
from tests.support.claim_ledgers import HOSTILE


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(make_report(), allow_nan=False))
    return made


def without_gold(report: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    for key in ("accuracy", "interval", "baseline", "ece", "roc_area", "precision95"):
        changed[key] = None
    for key in (
        *("reliability", "risk_coverage", "risk_coverage_unknown"),
        *("origins", "gold_histogram"),
    ):
        changed[key] = []
    for each in changed["answers"]:
        each["gold"] = each["correct"] = None
    for verdict in changed["verdicts"].values():
        verdict["accuracy"] = None
    for key in ("agreement_when_right", "agreement_when_wrong"):
        changed["sampling"][key] = None
    return changed


def printed(report: dict[str, Any], **settings: Any) -> str:
    file = io.StringIO()
    print_audit(report, Console(file=file, width=settings.pop("width", 80), **settings))
    return file.getvalue()


def headings(report: Report) -> list[str]:
    return [section.title for section in report.sections]


def words_of(report: Report) -> str:
    return " ".join(finding for section in report.sections for finding in section.findings)


def summary(report: dict[str, Any]) -> str:
    return " ".join(audit_report(report).sections[0].findings)


def test_page_has_all_sections(report: dict[str, Any]) -> None:
    made = audit_report(report)
    assert headings(made) == [
        "In short",
        "Is its confidence right?",
        "How many answers can be trusted?",
        "Verdicts: what it says it knows",
        "Kinds of questions",
        "What does it answer?",
        "Does it depend on the name?",
        "What it cannot know",
        "Sampled answers",
        "Surprises",
    ]
    blocks = [block for section in made.sections for block in section.blocks]
    assert sum(isinstance(block, Figure) for block in blocks) == 4
    assert made.title == "Knowledge or a guess? runs/knowledge-rope"
    page = render_page(made)
    assert "Is its confidence right?" in page
    assert "| known | " in to_markdown(made)


def test_summary_matches_the_answers(report: dict[str, Any]) -> None:
    words = summary(report)
    tiles = {tile.name: tile.value for tile in audit_report(report).sections[0].tiles}
    right = [each["correct"] for each in report["answers"]]
    known = [each["correct"] for each in report["answers"] if each["verdict"] == "known"]
    assert (
        f"The model answered {sum(right)} of 500 questions right ({sum(right) / 5:.0f}%)" in words
    )
    assert tiles["Right"] == f"{sum(right) / 5:.0f}%"
    assert tiles["Right if “known”"] == f"{100 * sum(known) / len(known):.0f}%"
    assert "Answering “London” every time would be right in 5%." in words
    assert tiles["Made-up “known”"] == "6%"
    assert tiles["Off-topic “known”"] == "0%"
    assert "collapsed" not in words


def test_summary_names_a_collapse(report: dict[str, Any]) -> None:
    natural = top_fraction(report["gold_histogram"])
    assert natural < 0.4
    assert "collapsed" in summary({**report, "top_three_share": 0.9})
    few = {**report, "top_three_share": 0.9, "pairs": 5}  # five answers are no collapse
    assert "collapsed" not in summary(few)
    narrow = [["London", 300], ["Paris", 200]]  # where the world itself is narrow
    assert "collapsed" not in summary({**report, "top_three_share": 0.9, "gold_histogram": narrow})


def test_without_right_answers(report: dict[str, Any]) -> None:
    made = audit_report(without_gold(report))
    assert headings(made) == [
        "In short",
        "Verdicts: what it says it knows",
        "Kinds of questions",
        "What does it answer?",
        "What it cannot know",
        "Sampled answers",
    ]
    assert "without known right answers" in words_of(made)
    assert "does not say how often it is right" in words_of(made)
    terminal = printed(without_gold(report))
    assert "without known right answers" in " ".join(terminal.split())
    assert "Sure and wrong" not in terminal


def test_unknown_names_by_kind_and_off_topic_questions(report: dict[str, Any]) -> None:
    made = audit_report(report)
    section = next(each for each in made.sections if each.name == "made-up")
    table, examples = section.blocks
    assert isinstance(table, Table)
    assert isinstance(examples, Table)
    assert [row[:3] for row in table.rows] == [
        ["names: parts recombined", 100, 9],
        ["names: new spellings", 100, 3],
        ["off-topic questions", 40, 0],
    ]
    assert len(examples.rows) == 12
    few = {**report["thresholds"], "fitted": False, "fitted_on": "nothing: 4 are too few"}
    words = words_of(audit_report({**report, "thresholds": few}))
    assert "No answer is called “known”: thresholds were fitted on nothing: 4 are too few." in words


def test_report_of_extreme_values(report: dict[str, Any]) -> None:
    """All right, no threshold, no made-up names, nothing invented, one question only."""
    answers = [{**each, "correct": True, "gold": each["answer"]} for each in report["answers"][:1]]
    answers[0]["nearest"] = []
    changed = {
        **report,
        "pairs": 1,
        "answers": answers,
        "accuracy": 1.0,
        "roc_area": None,
        "precision95": None,
        "risk_coverage": [[0.5, 1.0, 1.0]],
        "reliability": report["reliability"][:1],
        "verdicts": {"known": {"count": 0, "accuracy": None}},
        "invented": {"count": 0, "examples": []},
        "made_up": {"count": 0, "mean_confidence": None, "known_share": None, "examples": []},
        "off_topic": {"count": 0},
        "relations": [],
        "risk_coverage_unknown": [],
        "origins": [],
    }
    text = words_of(audit_report(changed))
    assert "The model answered 1 of 1 questions right (100%" in text
    assert "At no confidence threshold" in text
    assert "Every answer occurred in training." in text
    assert "No made-up names" in text
    assert "None" not in to_markdown(audit_report(changed))
    assert "The model answered 1 of 1" in printed(changed)


def test_some_right_answers_missing(report: dict[str, Any]) -> None:
    changed = copy.deepcopy(report)
    for each in changed["answers"][:100]:
        each["gold"] = each["correct"] = None
    assert re.search(r"The model answered \d+ of 400 questions right", summary(changed))
    assert render_page(audit_report(changed))


def test_surprises_are_sorted_by_confidence(report: dict[str, Any]) -> None:
    table = audit_report(report).sections[-1].blocks[0]
    assert isinstance(table, Table)
    assert table.title == "Sure and wrong"
    assert len(table.rows) == 10
    sure = [float(str(row[3])) for row in table.rows]
    assert sure == sorted(sure, reverse=True)
    wrong = [
        each for each in report["answers"] if not each["correct"] and each["verdict"] == "known"
    ]
    worst = max(wrong, key=lambda each: float(each["confidence"]))
    assert table.rows[0][0] == worst["question"]
    assert {row[0] for row in table.rows} <= {each["question"] for each in wrong}
    assert all(row[1] != row[2] for row in table.rows)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_are_escaped(hostile: str, report: dict[str, Any]) -> None:
    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: each if key == "verdict" else poisoned(each) for key, each in value.items()
            }
        if isinstance(value, list):
            return [poisoned(each) for each in value]
        return hostile if isinstance(value, str) else value

    changed = poisoned(report)
    assert render_page(audit_report(changed)).count("<script") == 2  # its own
    terminal = printed(changed)
    assert all(c.isprintable() or c == "\n" for c in terminal)


def test_terminal_output(report: dict[str, Any]) -> None:
    text = printed(report)
    right = sum(each["correct"] for each in report["answers"])
    assert f"The model answered {right} of 500" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    row = next(line.split() for line in text.splitlines() if line.startswith("known"))
    known = report["verdicts"]["known"]
    assert row[1:] == [
        f"{known['count']}",
        f"{known['count'] / 5:.0f}%",
        format_percent(known["accuracy"]),
    ]
    assert "Sure and wrong" in text
    markup = copy.deepcopy(report)
    markup["baseline"]["answer"] = "[red]London[/red]"
    assert "[red]London[/red]" in printed(markup, width=200)


def test_percent_does_not_round_to_0_or_100() -> None:
    assert [format_percent(each) for each in (0, 0.004, 0.872, 0.998, 1)] == [
        "0%",
        "0.4%",
        "87%",
        "99.8%",
        "100%",
    ]
    assert format_percent(None) == "–"
