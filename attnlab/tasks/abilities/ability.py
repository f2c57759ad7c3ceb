"""What all abilities have in common. Importing this module imports neither torch nor numpy."""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attnlab.tasks._task_options import option_names, with_options
from attnlab.tasks.abilities.kind import GROUP
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.simple import IGNORE, ArrayRows, Row, SimpleTask

if TYPE_CHECKING:
    import numpy as np


class Ability(SimpleTask):
    """A task with generated rows, one right answer for each target, and a chance level.

    A subclass is a frozen dataclass; its fields are options. It defines `generate` and `answers`.
    Every epoch has new training rows, so a model cannot learn the rows by heart.
    """

    group = GROUP
    fresh_rows = True
    row_counts: ClassVar[Mapping[str, int]] = {"train": 2048, "validation": 256, "test": 1024}
    """Rows of each part. An epoch has those of "train"."""
    model: ClassVar[Mapping[str, Any]] = {
        "width": 64,
        "layers": 2,
        "heads": 2,
        "position": "none",
        "convolution": 4,
        "tie": True,
    }
    training: ClassVar[Mapping[str, Any]] = {
        "steps": 1500,
        "batch_size": 64,
        "optimizer": "muon",
        "learning_rate": 0.01,
        "schedule": "wsd",
        "evaluations": 20,
        "stop_at": 0.995,
    }
    quick: ClassVar[Mapping[str, Any]] = {}
    """Options of a smaller variant, and training settings of it under "training"."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Options of a row that is short enough to print."""
    collects_answers: ClassVar[bool] = False
    """Whether all answers are given at the end of the row, wherever its targets stand."""

    @property
    @abstractmethod
    def answers(self) -> Sequence[int]:
        """The ids that can be an answer."""

    @abstractmethod
    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Ids and targets of `count` rows, each (count, tokens). IGNORE is no target."""

    @property
    def chance(self) -> float:
        """The accuracy of guessing among `answers`."""
        return 1 / len(self.answers)

    def word(self, token: int) -> str:
        """A token as `attnlab abilities` prints it."""
        return str(token)

    def longer(self, factor: int) -> Self:
        """The same ability on rows that are `factor` times as long."""
        if "length" not in option_names(self):
            raise ValueError(f"{self.name}: has no option length, so it has no longer rows")
        return replace(self, length=factor * self.length)  # type: ignore[attr-defined,type-var]

    def quick_variant(self) -> tuple[Self, dict[str, Any]]:
        """The smaller variant of this ability, and its training settings."""
        options = {name: value for name, value in self.quick.items() if name != "training"}
        return with_options(self, options), dict(self.quick.get("training", {}))

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        import numpy as np

        rng = np.random.default_rng(random.getrandbits(128))
        return ArrayRows(*self.generate(self.row_counts[part], rng))

    def measure(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, float]:
        """The accuracy over all targets, and the fraction of rows with every target right."""
        counts = _counts(rows, predictions)
        right, total = (sum(numbers) for numbers in zip(*counts, strict=True))
        whole = sum(r == n for r, n in counts)
        return {"accuracy": right / total, "whole_rows": whole / len(counts)}

    def count_correct(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, tuple[int, int]]:
        """Targets of one row are right or wrong together more often than by chance, so they do not
        count as independent: the number of examples is chosen such that they have the variance of
        the mean over rows. It is at least the number of rows."""
        counts = _counts(rows, predictions)
        right, total = (sum(numbers) for numbers in zip(*counts, strict=True))
        accuracy, examples = right / total, len(counts)
        if 0 < accuracy < 1 and len(counts) > 1:
            mean = total / len(counts)
            deviations = [(r - accuracy * n) / mean for r, n in counts]
            variance = statistics.variance(deviations) / len(counts)
            if variance > 0:
                examples = round(accuracy * (1 - accuracy) / variance)
            examples = min(max(examples, len(counts)), total)
        whole = sum(r == n for r, n in counts)
        return {
            "accuracy": (round(accuracy * examples), examples),
            "whole_rows": (whole, len(counts)),
        }

    def kind(self) -> TaskKind:
        return replace(super().kind(), example=None)  # there are too many to show all


def _counts(rows: Sequence[Row], predictions: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The right targets and all targets of each row."""
    counts = []
    for row, predicted in zip(rows, predictions, strict=True):
        pairs = zip(predicted, row.targets, strict=True)
        hits = [guess == target for guess, target in pairs if target != IGNORE]
        counts.append((sum(hits), len(hits)))
    return counts
