"""Longer rows than in training: another ability, tested at 1, 2, 4 and 8 times its length.

    attnlab extrapolate train --ability copy:length=8,symbols=16

A row is one of the other ability. Training rows have its length; validation and test rows have 1,
2, 4, ... times that length, equally many of each. `accuracy` is the mean over the lengths, and
`accuracy_4x` that at four times the length. Every ability with an option `length` can be used, but
not `listops`, whose length is only a limit. Only the rows grow (`recall` keeps its pairs, which are
then asked at longer distances). A model with learned positions gets a table that is long enough,
whose later entries are never trained.

Press et al. 2021 (arXiv:2108.12409) and Kazemnejad et al. 2023 (arXiv:2305.19466) measure this for
position encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities._spec import parse_ability
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import Row

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from attnlab.training._batches import Batch, Forward


@dataclass(frozen=True)
class Extrapolate(Ability):
    """Rows of another ability, in the tests longer than in training."""

    name = "extrapolate"
    ability: Annotated[
        str, "The ability, with options after a colon, as in recall:length=32,pairs=4."
    ] = "induction:length=32,tokens=6,vocabulary=32"
    times: Annotated[
        int, "Test up to this many times the length of the training rows.", Bounds(1, 64)
    ] = 8

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"ability": "copy:length=3", "times": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner.longer(self.factors[-1]).vocabulary != self.inner.vocabulary:
            raise ValueError(
                f"extrapolate: {self.inner.name} has other token ids in longer rows; choose "
                "another ability"
            )

    @cached_property
    def inner(self) -> Ability:
        return parse_ability(self.ability, self.name)

    @property
    def factors(self) -> list[int]:
        """1, 2, 4, ... up to `times`."""
        return [2**power for power in range(self.times.bit_length())]

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        return self.inner.vocabulary

    @property
    def answers(self) -> Sequence[int]:
        return self.inner.answers

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        if part == "train":
            return self.inner.rows(part, random)
        rows: list[Row] = []
        for factor in self.factors:  # the rows of a part are divided among the lengths
            count = self.row_counts[part] // len(self.factors)
            longer = self.inner.longer(factor).rows(part, random)
            rows += [longer[index] for index in range(min(count, len(longer)))]
        return rows

    def measure(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, float]:
        parts = self._by_factor(rows, predictions)
        measured = {factor: Ability.measure(self, *part) for factor, part in parts.items()}
        means = {
            name: sum(each[name] for each in measured.values()) / len(measured)
            for name in ("accuracy", "whole_rows")
        }
        return {**means, **{f"accuracy_{f}x": each["accuracy"] for f, each in measured.items()}}

    def count_correct(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, tuple[int, int]]:
        parts = self._by_factor(rows, predictions)
        counts = {f: Ability.count_correct(self, *part) for f, part in parts.items()}
        size = min(each["accuracy"][1] for each in counts.values()) * len(counts)
        mean = sum(r / n for r, n in (each["accuracy"] for each in counts.values())) / len(counts)
        whole = [each["whole_rows"] for each in counts.values()]
        return {
            "accuracy": (round(mean * size), size),
            "whole_rows": (sum(r for r, _ in whole), sum(n for _, n in whole)),
            **{f"accuracy_{f}x": each["accuracy"] for f, each in counts.items()},
        }

    def _by_factor(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[int, tuple[Sequence[Row], Sequence[Sequence[int]]]]:
        """The rows of each length, which `rows` puts one after the other."""
        size = len(rows) // len(self.factors)
        slices = [slice(i * size, (i + 1) * size) for i in range(len(self.factors))]
        return {
            factor: ([rows[i] for i in range(len(rows))[part]], predictions[part])
            for factor, part in zip(self.factors, slices, strict=True)
        }

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return self.inner.generate(count, rng)

    def target_logits(self, forward: Forward, batch: Batch) -> Tensor:
        return self.inner.target_logits(forward, batch)

    def word(self, token: int) -> str:
        return self.inner.word(token)
