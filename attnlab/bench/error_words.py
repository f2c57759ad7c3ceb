"""What `bench error` found, gathered and in words: where mechanisms beat doing nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlab.bench.error import UNIFORM, Case, Measured, cases_of
from attnlab.bench.settings import ErrorSettings
from attnlab.intervals import LEAST, Estimate, exponent, geometric, over
from attnlab.words import joined, ranges

SMALL = 0.1  # an error that many could live with
EXACT = 1e-9
NORM = "|q| = |k|"


@dataclass(frozen=True)
class Errors:
    """All that was measured, by case, head size and norm; lists are over seeds."""

    rows: Sequence[Measured]
    specs: Sequence[str]
    settings: ErrorSettings

    @cached_property
    def outputs(self) -> dict[tuple[Case, int, float], list[float]]:
        return self._gathered(lambda row: row.output)

    @cached_property
    def weights(self) -> dict[tuple[Case, int, float], list[float]]:
        return self._gathered(lambda row: row.weights)

    def _gathered(
        self, of: Callable[[Measured], float]
    ) -> dict[tuple[Case, int, float], list[float]]:
        found: dict[tuple[Case, int, float], list[float]] = {}
        for row in sorted(self.rows, key=lambda row: row.seed):
            found.setdefault((row.case, row.head_dim, row.norm), []).append(of(row))
        return found

    @property
    def compared(self) -> list[Case]:
        """One case of each mechanism."""
        return [cases_of(spec, self.settings, swept=False)[0] for spec in self.specs]

    @property
    def random(self) -> list[Case]:
        """Those whose number of features is swept."""
        return [case for case in self.compared if case.features is not None]

    def error(self, case: Case, norm: float, head_dim: int | None = None) -> Estimate:
        return geometric(self.outputs[case, head_dim or self.settings.head_dim, norm])

    def weights_error(self, case: Case, norm: float) -> float:
        """Nothing but rounding is nothing."""
        value = geometric(self.weights[case, self.settings.head_dim, norm]).value
        return 0.0 if value < EXACT else value

    def ratio(
        self, case: Case, norm: float, head_dim: int | None = None, other: Case | None = None
    ) -> Estimate:
        """The error over that of another case on the same inputs, else of uniform weights."""
        size = head_dim or self.settings.head_dim
        pairs = zip(
            self.outputs[case, size, norm],
            self.outputs[other or Case(UNIFORM), size, norm],
            strict=True,
        )
        return geometric([max(one, LEAST) / max(another, LEAST) for one, another in pairs])

    def slope(self, case: Case, norm: float) -> Estimate:
        """The exponent of the error in the number of features: a fit for each seed. No number
        where no seed has errors to fit: all are nothing, or not finite."""
        rows = [
            self.outputs[Case(case.spec, C, case.orthogonal), self.settings.head_dim, norm]
            for C in self.settings.features
        ]
        fits = [
            exponent(list(zip(self.settings.features, errors, strict=True))).value
            for errors in zip(*rows, strict=True)
            if all(math.isfinite(error) and error > 0 for error in errors)
        ]
        return over(fits) if fits else Estimate(math.nan)


def better(figure: Estimate) -> bool | None:
    """Whether a ratio is below 1, by all of its interval; None where it is open."""
    low, high = figure.ends
    return True if high < 1 else False if low > 1 else None


def findings(found: Errors) -> list[str]:
    """Random features first: it is about them that people are told most."""
    said = [_about_uniform(found)]
    others = [case for case in found.compared if case not in found.random]
    said += [_against_nothing(found, case) for case in [*found.random, *others]]
    said += [each for case in found.random for each in _about_features(found, case)]
    pair = {case.spec: case for case in found.random}
    if {"favor", "fourier"} <= set(pair):
        said.append(_sines_or_positive(found, pair["favor"], pair["fourier"]))
    return said


def _against_nothing(found: Errors, case: Case) -> str:
    s = found.settings
    if max(found.error(case, norm).value for norm in s.norms) < EXACT:
        return f"{case.name}: the same as softmax here, but for rounding."
    verdicts = [better(found.ratio(case, norm)) for norm in s.norms]
    wins = ranges(s.norms, [each is True for each in verdicts])
    loses = ranges(s.norms, [each is False for each in verdicts])
    told = f"beats uniform weights at {_norms(wins)}" if wins else "never beats uniform weights"
    worse = f"; worse than doing nothing at {_norms(loses)}" if loses else ""
    return f"{case.name}: {told}{worse}."


def _norms(places: str) -> str:
    return f"norm{'s' if ' ' in places else ''} {places}"


def _about_uniform(found: Errors) -> str:
    s = found.settings
    near = ranges(s.norms, [_nothing_needed(found, norm) for norm in s.norms])
    where = f"at {_norms(near)}" if near else "at none of these norms"
    why = ": there attention itself is nearly uniform" if near else ""
    return (
        f"The norm is {NORM}; q and k from N(0, I) have about {math.sqrt(s.head_dim):.3g}. Uniform "
        f"weights, which do nothing, are within {SMALL:.0%} of softmax {where} (head size "
        f"{s.head_dim}, {s.tokens} tokens){why}."
    )


def _nothing_needed(found: Errors, norm: float) -> bool:
    return found.error(Case(UNIFORM), norm).value <= SMALL


def _about_features(found: Errors, case: Case) -> list[str]:
    s, said = found.settings, []
    slopes = {norm: found.slope(case, norm) for norm in s.norms if len(s.features) > 1}
    slopes = {norm: each for norm, each in slopes.items() if math.isfinite(each.value)}
    if slopes:
        first, last = (
            f"{slopes[norm].value:.2f}{interval(slopes[norm])} at norm {norm:g}"
            for norm in (min(slopes), max(slopes))
        )
        both = first if len(slopes) == 1 else f"{first} and of {last}"
        lawful = ranges(list(slopes), [-0.65 <= each.value <= -0.35 for each in slopes.values()])
        theory = f"; about −1/2, as independent draws promise, at {_norms(lawful)}" * bool(lawful)
        text = f"{case.spec}: more features lower its error with an exponent of {both}{theory}."
        said.append(text.replace("-", "−"))
    if case.orthogonal:
        other = Case(case.spec, case.features, False)
        gains = [found.ratio(case, norm, other=other) for norm in s.norms]
        sure = [gain for gain in gains if better(gain)]
        if not sure:
            told = "orthogonal draws are at none of these norms surely better than independent ones"
            return [*said, f"{case.name}: {told}."]
        helps = ranges(s.norms, [better(gain) is True for gain in gains])
        best = min(sure, key=lambda gain: gain.value)
        said.append(
            f"{case.name}: orthogonal draws have a smaller error than independent ones at "
            f"{_norms(helps)}, at best {best.value:.2f} times theirs{interval(best)}."
        )
    return said


def _sines_or_positive(found: Errors, favor: Case, fourier: Case) -> str:
    norms = found.settings.norms
    ratios = [better(found.ratio(favor, norm, other=fourier)) for norm in norms]
    sines = ranges(norms, [each is False for each in ratios])
    positive = ranges(norms, [each is True for each in ratios])
    words = [f"sines and cosines (fourier) have the smaller error at {_norms(sines)}"] * bool(
        sines
    ) + [f"positive features (favor) at {_norms(positive)}"] * bool(positive)
    return f"With {favor.features:,} features {joined(words)}." if words else (
        f"With {favor.features:,} features favor and fourier cannot be told apart."
    )  # fmt: skip


def interval(figure: Estimate) -> str:
    low, high = figure.low, figure.high
    return "" if low is None or high is None else f" ({low:.2f} to {high:.2f})".replace("-", "−")


def advice(found: Errors) -> list[str]:
    """What to use instead of softmax on such inputs, without training: norms with one answer
    together, those left out at which doing nothing is enough."""
    norms = found.settings.norms
    wanted = [norm for norm in norms if not _nothing_needed(found, norm)]
    answers = {norm: _cheapest(found, norm) for norm in wanted}
    said = []
    for answer in dict.fromkeys(answers.values()):
        at = _norms(ranges(norms, [answers.get(norm) == answer for norm in norms]))
        if answer:
            said.append(f"At {at}: {joined(answer)} within {SMALL:.0%} of softmax.")
        else:
            said.append(
                f"At {at} nothing measured here is surely within {SMALL:.0%} of softmax: use "
                "softmax, or train the model with the mechanism in place."
            )
    return said


def _cheapest(found: Errors, norm: float) -> tuple[str, ...]:
    """Mechanisms within 10%, those with features with as few as it takes."""
    s, names = found.settings, []
    for case in found.compared:
        counts = s.features if case.features is not None else (None,)
        for count in counts:
            tried = Case(case.spec, count, case.orthogonal)
            if found.error(tried, norm).ends[1] <= SMALL:
                names.append(tried.name)
                break
    return tuple(names)
