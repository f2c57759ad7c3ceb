"""The sentences, tables and figures of a comparison's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._engine import compare
from attnlab.compare._training_curves import mean_curve
from attnlab.report import Figure, Lines, Report, Table
from tests.support.browser import Watched, chromium
from tests.support.fake_comparison import FakeComparison, FakeSweep


def create_report(out: Path, comparison: FakeComparison, **options: Any) -> Report:
    defaults: dict[str, Any] = {"seeds": 2, "steps": 5}
    return compare(comparison, ["softmax", "elu"], out=out, quiet=True, **defaults | options).report


def findings_text(report: Report) -> str:
    return " ".join(report.sections[0].findings)


def find_blocks(report: Report, kind: type[Any]) -> list[Any]:
    blocks = (block for section in report.sections for block in section.blocks)
    return [block for block in blocks if isinstance(block, kind)]


def test_findings(tmp_path: Path) -> None:
    worse = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]})
    text = findings_text(create_report(tmp_path / "a", worse))
    assert "softmax did best: loss 2.05" in text
    assert "elu is worse than softmax: loss +0.505 (95% interval +0.4415 to +0.5685)" in text
    assert "right tokens 0 points (95% interval 0 to 0), over 2 seeds." in text
    assert "Every run had 5 steps." in text
    assert "lies between −0.1 and +0.1." in text
    same = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.0, 2.1]}, floor=0.9)
    text = findings_text(create_report(tmp_path / "b", same))
    assert "did best" not in text
    assert "It is undecided whether elu matches softmax: loss 0" in text
    assert "softmax has not learned enough to compare with: it does not beat the baseline (a g" in (
        text
    )
    early = findings_text(create_report(tmp_path / "early", worse, steps=12))  # they had 9
    assert "Every run had at most 12 steps." in early
    one = findings_text(create_report(tmp_path / "c", worse, seeds=1))
    assert "undecided whether elu matches softmax: loss +0.5, right tokens 0 points, with 1 " in one


def test_tables_and_figures(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]}, floor=0.1)
    report = create_report(tmp_path, comparison)
    best, runs = find_blocks(report, Table)
    assert [row[0] for row in best.rows] == ["softmax", "elu", "a guess"]
    assert best.rows[0][-3:] == ["1,234", "9", 0.2]
    assert runs.header[-3:] == ["validation", "steps", "minutes"]
    assert [row[5] for row in runs.rows] == ["2", "2.5", "2.1", "2.61"]  # as it was measured
    loss, accuracy = find_blocks(report, Figure)
    assert isinstance(loss.plot, Lines)
    assert [series.name for series in loss.plot.series] == ["softmax", "elu"]
    assert accuracy.plot.y_percent
    assert [mark.y for mark in accuracy.plot.marks] == [0.1]


def test_report_of_a_sweep(tmp_path: Path) -> None:
    crossing = FakeSweep({"softmax": [-1.0, -1.1], "elu": [1.0, 1.1]})
    report = create_report(tmp_path / "a", crossing)
    text = findings_text(report)
    assert "elu is worse than softmax with 1,000 images" in text
    assert "The curves of elu and softmax cross at about 316 images. Of random samples" in text
    figure, *curves = find_blocks(report, Figure)
    assert [each.title for each in curves] == [
        "training loss over minutes of training (images 1,000)",
        "validation accuracy over minutes of training (images 1,000)",
    ]
    assert [[x for x, _ in series.points] for series in figure.plot.series] == [[100.0, 1000.0]] * 2
    best, differences, runs = find_blocks(report, Table)
    assert [row[0] for row in best.rows] == ["100", "100", "1,000", "1,000"]
    assert [row[-1] for row in differences.rows] == ["better", "worse"]
    assert len(runs.rows) == 8
    apart = FakeSweep({"softmax": [0.0, 0.0], "elu": [0.0, 0.0]})
    assert "The curves of elu and softmax end level." in findings_text(
        create_report(tmp_path / "b", apart)
    )
    one = findings_text(create_report(tmp_path / "c", crossing, seeds=1))
    assert "cross at about 316 images." in one
    assert "samples" not in one


def test_mean_curve_interpolates_over_time() -> None:
    """One seed is twice as fast as the other, but both are on the same line over time."""
    fast = [(x / 10, 5 - x / 10) for x in range(1, 11)]
    slow = [(x / 5, 5 - x / 5) for x in range(1, 6)]
    points, band = mean_curve([fast, slow])
    assert [x for x, _ in points] == pytest.approx([x / 10 for x in range(2, 11)])
    for (x, y), (low, high) in zip(points, band, strict=True):
        assert (y, low, high) == pytest.approx((5 - x,) * 3)
    alone, _ = mean_curve([slow])
    assert list(alone) == slow
    apart, _ = mean_curve([[(1.0, 2.0)], [(3.0, 4.0)]])  # one step each, at different times
    assert apart == [(3.0, 3.0)]


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1200, "light")])
def test_pages_in_a_browser(width: int, scheme: str, tmp_path: Path) -> None:
    create_report(tmp_path / "curves", FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]}))
    create_report(tmp_path / "sweep", FakeSweep({"softmax": [-1.0, -1.1], "elu": [1.0]}))
    with chromium() as browser:
        view = Watched(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
        for name in ("curves", "sweep"):
            view.page.goto((tmp_path / name / "compare.html").as_uri())
            view.page.wait_for_selector("figure svg")
            overflow = view.page.evaluate(
                "document.documentElement.scrollWidth - window.innerWidth"
            )
            assert overflow <= 0
        view.check()
        view.close()
