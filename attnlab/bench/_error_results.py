"""The measurements of `bench error` by case, head size and norm, with intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlab._confidence_intervals import (
    SMALLEST,
    Estimate,
    geometric_mean_interval,
    log_log_slope,
    mean_interval,
)
from attnlab._create_mechanism import is_softmax
from attnlab.bench._error_bench import UNIFORM, Case, ErrorMeasurement, create_cases
from attnlab.bench._settings import ErrorSettings

EXACT = 1e-9


@dataclass(frozen=True)
class ErrorResults:
    """All measurements by case, head size and norm; lists are over seeds."""

    rows: Sequence[ErrorMeasurement]
    specs: Sequence[str]
    settings: ErrorSettings

    @cached_property
    def outputs(self) -> dict[tuple[Case, int, float | None], list[float]]:
        return self._group(lambda row: row.output)

    @cached_property
    def weights(self) -> dict[tuple[Case, int, float | None], list[float]]:
        return self._group(lambda row: row.weights)

    def _group(
        self, value_of: Callable[[ErrorMeasurement], float]
    ) -> dict[tuple[Case, int, float | None], list[float]]:
        values: dict[tuple[Case, int, float | None], list[float]] = {}
        for row in sorted(self.rows, key=lambda row: row.seed):
            values.setdefault((row.case, row.head_dim, row.norm), []).append(value_of(row))
        return values

    @property
    def compared(self) -> list[Case]:
        """One case of each mechanism."""
        return [create_cases(spec, self.settings, swept=False)[0] for spec in self.specs]

    @property
    def with_features(self) -> list[Case]:
        """The compared cases whose number of features is swept."""
        return [case for case in self.compared if case.features is not None]

    def sees_all_keys(self, case: Case) -> bool:
        """Whether a mechanism that skips far keys skips none of these tokens, and so is softmax."""
        return is_softmax(case.full_spec, self.settings.tokens, self.settings.causal)

    def error(self, case: Case, norm: float | None, head_dim: int | None = None) -> Estimate:
        return geometric_mean_interval(self.outputs[case, head_dim or self.settings.head_dim, norm])

    def weights_error(self, case: Case, norm: float) -> float:
        """0 if there is nothing but rounding."""
        value = geometric_mean_interval(self.weights[case, self.settings.head_dim, norm]).value
        return 0.0 if value < EXACT else value

    def ratio(
        self, case: Case, norm: float | None, head_dim: int | None = None, other: Case | None = None
    ) -> Estimate:
        """The error over that of another case on the same inputs; by default uniform weights."""
        size = head_dim or self.settings.head_dim
        pairs = zip(
            self.outputs[case, size, norm],
            self.outputs[other or Case(UNIFORM), size, norm],
            strict=True,
        )
        return geometric_mean_interval(
            [max(error, SMALLEST) / max(control, SMALLEST) for error, control in pairs]
        )

    def slope(self, case: Case, norm: float) -> Estimate:
        """The exponent of the error in the number of features, fitted for each seed. NaN if no seed
        has errors to fit: all are 0 or not finite."""
        rows = [
            self.outputs[Case(case.spec, C, case.orthogonal), self.settings.head_dim, norm]
            for C in self.settings.features
        ]
        fits = [
            log_log_slope(list(zip(self.settings.features, errors, strict=True))).value
            for errors in zip(*rows, strict=True)
            if all(math.isfinite(error) and error > 0 for error in errors)
        ]
        return mean_interval(fits) if fits else Estimate(math.nan)


def is_below_one(ratio: Estimate) -> bool | None:
    """Whether the whole interval of a ratio is below 1; None if the interval contains 1."""
    low, high = ratio.ends
    return True if high < 1 else False if low > 1 else None
