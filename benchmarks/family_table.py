"""Writes docs/reference/families.md from the rows of benchmarks/families.py."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

CHECKS = ("capture", "look", "replace")
MARKS = {"equal": "yes", "part": "in part", "refused": "no", "wrong": "WRONG", "crash": "CRASH"}
START = "<!-- families -->"


def summary(rows: list[dict[str, Any]]) -> str:
    """One line of counts for each check."""
    built = [row for row in rows if row["built"]]
    tested = [row for row in built if row["attention"]]
    lines = [
        f"{len(rows)} families; {len(built)} were built; {len(tested)} of them have attention."
    ]
    for check in (*CHECKS, "row", "unchanged"):
        counts = Counter(row[check][0] for row in tested if check in row)
        lines.append(f"{check}: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
    return "\n".join(lines)


def reason(row: dict[str, Any]) -> str:
    """Why something does not work; the same sentence only once."""
    sentences = dict.fromkeys(
        row[check][1] for check in CHECKS if row[check][1] and row[check][0] != "equal"
    )
    return as_cell("; ".join(sentences))


def as_cell(text: str) -> str:
    """A message of another library as text of a table; a missing package in a few words."""
    text = re.sub(r"\w+: \w+ requires the (\w+) library\b.*", r"needs \1", text)
    for sign, escaped in (("`", "'"), ("|", "\\|"), ("<", "&lt;"), ("$", "\\$")):
        text = text.replace(sign, escaped)
    return text


def _versions(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["version"] for row in rows)
    listed = ", ".join(f"{name} ({count} families)" for name, count in counts.most_common())
    return f"Code version: {listed}."


def write_page(rows: list[dict[str, Any]], path: Path) -> None:
    """Replace everything after the marker of the page."""
    rows = sorted(rows, key=lambda row: row["family"])
    tested = [row for row in rows if row["built"] and row["attention"]]
    lines = [START, "", "## In numbers", ""]
    lines += ["| | yes | in part | no | wrong | crash |", "| --- | --- | --- | --- | --- | --- |"]
    for check, label in zip(CHECKS, ("capture", "look", "attnlab-softmax"), strict=True):
        counts = Counter(row[check][0] for row in tested)
        numbers = " | ".join(str(counts[name]) for name in MARKS)
        lines.append(f"| {label} | {numbers} |")
    lines += [
        "",
        f"Of {len(tested)} families with attention. {_versions(rows)}",
        "",
        "## Families with attention",
        "",
    ]
    lines += ["| family | class | capture | look | from | softmax | why not |"]
    lines += ["| --- " * 7 + "|"]
    for row in tested:
        capture, look, softmax = (MARKS[row[check][0]] for check in CHECKS)
        marks = f"{capture} | {look} | {row['reads']} | {softmax}"
        lines.append(f"| {row['family']} | {row['class']} | {marks} | {reason(row)} |")
    lines += ["", "## Not tested", "", "| family | class | why |", "| --- | --- | --- |"]
    for row in rows:
        if row in tested:
            continue
        why = "has no attention" if row["built"] else row["reason"]
        lines.append(f"| {row['family']} | {row['class']} | {as_cell(why)} |")
    before = path.read_text().split(START)[0] if path.exists() else ""
    path.write_text(before + "\n".join(lines) + "\n")
