"""What a comparison reads from the metrics of a finished run, also if they were changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.tasks.comparison import last_validation, trial_result
from tests.support.small_training import run_tiny


def change_rows(folder: Path, **changes: Any) -> None:
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, **changes}) + "\n" for row in rows))


def test_steps_minutes_and_curves(tmp_path: Path) -> None:
    metrics = run_tiny(tmp_path / "first", steps=3)
    run_tiny(tmp_path / "second", steps=5, evaluate_every=2)
    result = trial_result(
        tmp_path / "second", {"x": 1.0}, before=tmp_path / "first", validation=0.5
    )
    alone = trial_result(tmp_path / "second", {}, validation=0.5)
    assert (result.steps, alone.steps) == (8, 5)
    assert result.minutes > alone.minutes > 0
    assert len(result.curves["training loss"]) == 5
    assert len(result.curves["validation accuracy"]) == 3
    assert last_validation(tmp_path / "first", "accuracy") == metrics["accuracy"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": [1]}, "has no validation accuracy"),
        ({"validation": {"accuracy": "high"}}, "has no validation accuracy"),
        ({"seconds": None}, "has no training step"),
        ({"loss": "low"}, "has no training step"),
        ({"step": "first"}, "has no training step"),
    ],
)
def test_rows_without_a_value(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=2)
    change_rows(tmp_path, **changes)
    with pytest.raises(ValueError, match=rf"metrics\.jsonl {message}; delete this folder, then"):
        last_validation(tmp_path, "accuracy")


def test_no_metrics(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=2)
    (tmp_path / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="has no training step"):
        trial_result(tmp_path, {}, validation=0.5)
