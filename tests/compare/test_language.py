"""attnlab compare language, with tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._engine import compare
from attnlab.compare._jobs import TrialJob, describe_job, read_job
from attnlab.run_folder import StartMode
from attnlab.tasks.comparison import ComparisonTrial, TrainingBudget
from attnlab.tasks.language import LanguageComparison

SIZES = {"width": 8, "layers": 1, "heads": 2}
TEXTS = ["to be or not to be. " * 30, "that is the question. " * 30, "whether it is nobler " * 30]


def create_comparison(folder: Path, **options: Any) -> LanguageComparison:
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    files = tuple(sorted(folder.glob("[0-9].txt")))
    training = {"batch_tokens": 64, "device": "cpu"}
    options = {"files": files, "context": 12, "model": SIZES, "training": training, **options}
    return LanguageComparison(**options)


def test_language(tmp_path: Path) -> None:
    comparison = create_comparison(tmp_path)
    options: dict[str, Any] = {"out": tmp_path / "out", "steps": 2, "quiet": True}
    result = compare(comparison, ["softmax", "gla"], seeds=1, **options)
    softmax, gla = result.conclusions.best
    assert softmax.state_bytes == 4 * 2 * 8 * 12
    assert abs(gla.parameters / softmax.parameters - 1) <= 0.02
    assert softmax.metrics["bits"].value > 0
    more = compare(comparison, ["softmax", "gla"], seeds=2, start=StartMode.RESUME, **options)
    assert len(more.attempts) == 4
    first, second = more.attempts[0], more.attempts[2]
    assert (first.trial.seed, second.trial.seed) == (0, 1)
    text = " ".join(more.report.sections[0].findings)
    assert "All learned from" in text
    (tmp_path / "0.txt").write_text("another text. " * 50)
    with pytest.raises(ValueError, match=r"the comparison has (text|test) "):
        compare(
            create_comparison(tmp_path, files=(tmp_path / "0.txt",)),
            ["softmax", "gla"],
            seeds=2,
            start=StartMode.RESUME,
            **options,
        )


def test_validation_and_test_rows_differ(tmp_path: Path) -> None:
    comparison = create_comparison(tmp_path)
    validation, test = comparison._held_out
    assert not set(validation.starts.tolist()) & set(test.starts.tolist())
    with pytest.raises(ValueError, match="held-out row of 5000 tokens; give a longer text"):
        _ = create_comparison(tmp_path, context=5000)._held_out


def test_a_job_is_plain_data(tmp_path: Path) -> None:
    comparison = create_comparison(tmp_path, widths=(8, 16))
    trial = ComparisonTrial("elu", "elu", 1.0, 0, 8.0, (("feed_width", 31),))
    job = TrialJob(comparison, trial, TrainingBudget(steps=1), tmp_path / "run", StartMode.NEW)
    again = read_job(json.loads(json.dumps(describe_job(job))))
    assert (again.comparison, again.trial) == (comparison, trial)
