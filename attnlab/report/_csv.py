"""A report's measurements as CSV: one row for each, with a column for every name."""

from __future__ import annotations

import csv
import io
from typing import Any

from attnlab.report._content import Report


def to_csv(report: Report) -> str:
    """All measurements of a report. The column `section` is there if several sections have some.

    >>> from attnlab.report import Report, Section, to_csv
    >>> rows = [{"mechanism": "elu", "accuracy": 0.5}, {"mechanism": "gla", "problem": "inf"}]
    >>> print(to_csv(Report("example", "Example", [Section("runs", "Runs", measurements=rows)])))
    mechanism,accuracy,problem
    elu,0.5,
    gla,,inf
    <BLANKLINE>
    """
    sections = [section for section in report.sections if section.measurements]
    rows: list[dict[str, Any]] = []
    for section in sections:
        extra = {"section": section.name} if len(sections) > 1 else {}
        rows += [{**extra, **measurement} for measurement in section.measurements]
    file = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(file, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
