"""Reports as Markdown."""

from __future__ import annotations

import re

import pytest

from attnlab.report import (
    Bars,
    Figure,
    Heatmap,
    Lines,
    Report,
    Section,
    Series,
    markers,
    place_between_markers,
    to_markdown,
)
from attnlab.report._markdown import figure_table
from tests.support.made_up_reports import full_report, hostile_report, ratio_map


def test_markdown_has_every_block_once() -> None:
    text = to_markdown(full_report())
    assert text.startswith("# Attention mechanisms, measured\n\n## Time by length\n")
    assert text.count("\n## ") == 3
    assert "Settings: threads 1; head\\_dims 16 64." in text
    assert "| favor | 5.25 | 40 | 0.97 (0.90 to 1.04) | 1,500 |" in text
    assert "| --- | ---: | ---: | ---: | --- |" in text
    assert "| 16 | 0.01 | 0.04 | 0.16 | 0.64 | 2.56 |" in text
    assert "**Time by length**" not in text  # its table has the same numbers
    assert "**Time by tokens**" in text
    assert "| London | 0.50 (0.25 to 0.75) | 0.125 |" in text
    assert "- 3, said 8: 99% sure" in text
    assert "> The **cat** sat on the mat." in text
    assert "the 0.1; cat 0.7; sat 0.2" in text
    assert "```sh\nattnlab look runs/a\n```" in text
    assert "[The audit](<audit.html>)" in text
    assert text.endswith("Measured in 12 s: processor a fast one, cores 2; attnlab 0.1.0.\n")


def test_markdown_inside_another_page() -> None:
    text = to_markdown(full_report(), level=3)
    assert text.startswith("### Time by length\n")
    assert "\n# " not in text


def test_hostile_texts_stay_in_their_lines() -> None:
    text = re.sub(r"(?s)\n(`{3,})sh\n.*?\n\1\n", "", to_markdown(hostile_report()))  # commands
    for line in text.splitlines():
        assert not line.startswith("|") or line.count("|") - line.count("\\|") > 2
        assert "<script" not in line.replace("\\<", "")
    assert "\n# e" not in text


def test_figures_as_tables() -> None:
    blocks = [b for b in full_report().sections[1].blocks if isinstance(b, Figure)]
    kinds = {type(block.plot): figure_table(block) for block in reversed(blocks)}
    assert set(kinds) == {Lines, Bars, Heatmap}
    assert kinds[Heatmap].rows[0][1:] == list(ratio_map().values[0])
    assert [row[0] for row in kinds[Lines].rows] == ["softmax", "favor", "window"]
    long = Lines("x", "y", [Series("a", [(float(i), float(i)) for i in range(1000)])])
    table = figure_table(Figure("long", long))
    assert len(table.header) <= 25
    assert table.note == "One of every 42 values."


def test_an_empty_report() -> None:
    assert to_markdown(Report("bench", "Empty", [])) == "# Empty\n"
    assert to_markdown(Report("bench", "t", [Section("a", "A")])) == "# t\n\n## A\n"


def test_a_report_goes_between_its_markers() -> None:
    begin, end = markers("kernels")
    assert begin == "<!-- attnlab bench kernels -->"
    page = f"# Costs\n{begin}\nold\n{end}\n\u2028more\n"
    text = place_between_markers(page, "new", "kernels")
    assert text == f"# Costs\n{begin}\n\nnew\n\n{end}\n\u2028more\n"
    assert place_between_markers(text, "new", "kernels") == text
    for wrong in ("", begin, f"{end}\n{begin}", f"{begin}\n{end}\n{begin}\n{end}"):
        with pytest.raises(ValueError, match="a report goes between a line"):
            place_between_markers(wrong, "new", "kernels")
    with pytest.raises(ValueError, match="markers have names of"):
        markers("-->")
