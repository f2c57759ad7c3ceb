"""What the report of a comparison says and draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._engine import compare
from attnlab.compare._training_curves import mean_curve
from attnlab.report import Figure, Lines, Report, Table
from tests.support.browser import Watched, chromium
from tests.support.fake_comparison import FakeComparison, FakeSweep


def report(out: Path, comparison: FakeComparison, **options: Any) -> Report:
    given: dict[str, Any] = {"seeds": 2, "steps": 5}
    return compare(comparison, ["softmax", "elu"], out=out, quiet=True, **given | options).report


def text(made: Report) -> str:
    return " ".join(made.sections[0].findings)


def blocks(made: Report, kind: type[Any]) -> list[Any]:
    return [block for each in made.sections for block in each.blocks if isinstance(block, kind)]


def test_findings(tmp_path: Path) -> None:
    worse = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]})
    found = text(report(tmp_path / "a", worse))
    assert "softmax did best: loss 2.05" in found
    assert "elu is worse than softmax: loss +0.505 (95% interval +0.4415 to +0.5685)" in found
    assert "right tokens 0 points (95% interval 0 to 0), over 2 seeds." in found
    assert "Every run had 5 steps." in found
    assert "lies between −0.1 and +0.1." in found
    same = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.0, 2.1]}, floor=0.9)
    found = text(report(tmp_path / "b", same))
    assert "did best" not in found
    assert "It is undecided whether elu matches softmax: loss 0" in found
    assert "softmax has not learned enough to compare with: it does not beat the baseline (a g" in (
        found
    )
    one = text(report(tmp_path / "c", worse, seeds=1))
    assert "undecided whether elu matches softmax: loss +0.5, right tokens 0 points, with 1 " in one


def test_tables_and_figures(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]}, floor=0.1)
    made = report(tmp_path, comparison)
    best, runs = blocks(made, Table)
    assert [row[0] for row in best.rows] == ["softmax", "elu", "a guess"]
    assert best.rows[0][-3:] == ["1,234", "9", 0.2]
    assert runs.header[-3:] == ["validation", "steps", "minutes"]
    assert [row[5] for row in runs.rows] == ["2", "2.5", "2.1", "2.61"]  # as it was measured
    loss, accuracy = blocks(made, Figure)
    assert isinstance(loss.plot, Lines)
    assert [each.name for each in loss.plot.series] == ["softmax", "elu"]
    assert accuracy.plot.y_percent
    assert [mark.y for mark in accuracy.plot.marks] == [0.1]


def test_a_sweep(tmp_path: Path) -> None:
    crossing = FakeSweep({"softmax": [-1.0, -1.1], "elu": [1.0, 1.1]})
    made = report(tmp_path / "a", crossing)
    found = text(made)
    assert "elu is worse than softmax with 1,000 images" in found
    assert "The curves of elu and softmax cross at about 316 images. Of draws" in found
    (figure,) = blocks(made, Figure)
    assert [[x for x, _ in each.points] for each in figure.plot.series] == [[100.0, 1000.0]] * 2
    best, differences, runs = blocks(made, Table)
    assert [row[0] for row in best.rows] == ["100", "100", "1,000", "1,000"]
    assert [row[-1] for row in differences.rows] == ["better", "worse"]
    assert len(runs.rows) == 8
    apart = FakeSweep({"softmax": [0.0, 0.0], "elu": [0.0, 0.0]})
    assert "The curves of elu and softmax end level." in text(report(tmp_path / "b", apart))
    one = text(report(tmp_path / "c", crossing, seeds=1))
    assert "cross at about 316 images." in one
    assert "draws" not in one


def test_seeds_are_joined_by_time() -> None:
    """One seed was twice as fast as the other; on the same line in time they are one line."""
    fast = [(x / 10, 5 - x / 10) for x in range(1, 11)]
    slow = [(x / 5, 5 - x / 5) for x in range(1, 6)]
    points, band = mean_curve([fast, slow])
    assert [x for x, _ in points] == pytest.approx([x / 10 for x in range(2, 11)])
    for (x, y), (low, high) in zip(points, band, strict=True):
        assert (y, low, high) == pytest.approx((5 - x,) * 3)
    alone, _ = mean_curve([slow])
    assert list(alone) == slow
    apart, _ = mean_curve([[(1.0, 2.0)], [(3.0, 4.0)]])  # a step each, at other times
    assert apart == [(3.0, 3.0)]


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1200, "light")])
def test_pages_in_a_browser(width: int, scheme: str, tmp_path: Path) -> None:
    report(tmp_path / "curves", FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5, 2.61]}))
    report(tmp_path / "sweep", FakeSweep({"softmax": [-1.0, -1.1], "elu": [1.0]}))
    with chromium() as browser:
        view = Watched(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
        for name in ("curves", "sweep"):
            view.page.goto((tmp_path / name / "compare.html").as_uri())
            view.page.wait_for_selector("figure svg")
            wide = view.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0
        view.check()
        view.close()
