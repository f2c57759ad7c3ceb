"""What `bench error` found, in words, curves and maps: where mechanisms beat doing nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from attnlab.bench.error import UNIFORM, Case, Measured, cases_of, measurable, sweeps
from attnlab.bench.results import Drawn, Section, Table, Value
from attnlab.bench.settings import ErrorSettings
from attnlab.bench.words import joined, ranges
from attnlab.charts import Mark, Series, number
from attnlab.charts.plots import Heatmap, Plot
from attnlab.intervals import Figure, exponent, geometric, over

SMALL = 0.1  # an error that many could live with
EXACT = 1e-9
LENGTH = "|q| = |k|"
OUTPUT = "relative error of the output"
RATIO = "error over that of uniform weights"


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

    def error(self, case: Case, norm: float, head_dim: int | None = None) -> Figure:
        return geometric(self.outputs[case, head_dim or self.settings.head_dim, norm])

    def ratio(
        self, case: Case, norm: float, head_dim: int | None = None, other: Case | None = None
    ) -> Figure:
        """The error over that of another case on the same inputs, else of uniform weights."""
        size = head_dim or self.settings.head_dim
        pairs = zip(
            self.outputs[case, size, norm],
            self.outputs[other or Case(UNIFORM), size, norm],
            strict=True,
        )
        return geometric([one / another for one, another in pairs])

    def slope(self, case: Case, norm: float) -> Figure:
        """The exponent of the error in the number of features: a fit for each seed."""
        rows = [
            self.outputs[Case(case.spec, C, case.orthogonal), self.settings.head_dim, norm]
            for C in self.settings.features
        ]
        fits = [
            exponent(list(zip(self.settings.features, errors, strict=True))).value
            for errors in zip(*rows, strict=True)
        ]
        return over(fits)


def error_section(rows: Sequence[Measured], specs: Sequence[str], s: ErrorSettings) -> Section:
    found = Errors(rows, measurable(specs), s)
    several = len(s.features) > 1
    parts: list[Table | Drawn] = [_against_uniform(found), _by_norm(found)]
    for case in found.random:
        parts += [_features_by_norm(found, case)]
        parts += [_by_features(found, case)] if several else []
    if len(s.head_dims) > 1:
        parts += [_sizes_by_norm(found, case) for case in found.random]
        parts += [_sizes(found)]
    parts += [_draws(found)] if any(case.orthogonal for case in found.random) else []
    parts += [_exponents(found)] if found.random and several else []
    parts += [_weights_table(found)]
    return Section(
        "error",
        "Error against exact softmax attention",
        findings=findings(found),
        advice=advice(found),
        parts=parts,
        settings={**asdict(s), "mechanisms": list(found.specs)},
        measurements=[_flat(row) for row in rows],
    )


def _flat(row: Measured) -> dict[str, Value]:
    return {
        "mechanism": row.case.spec,
        "features": row.case.features,
        "orthogonal": row.case.orthogonal,
        "head_dim": row.head_dim,
        "norm": row.norm,
        "seed": row.seed,
        "output": row.output,
        "weights": row.weights,
    }


# Words


def better(figure: Figure) -> bool | None:
    """Whether a ratio is below 1, by all of its interval; None where it is open."""
    low, high = figure.ends
    return True if high < 1 else False if low > 1 else None


def findings(found: Errors) -> list[str]:
    s, said = found.settings, []
    said.append(_about_uniform(found))
    for case in found.compared:
        verdicts = [better(found.ratio(case, norm)) for norm in s.norms]
        errors = [found.error(case, norm).value for norm in s.norms]
        if max(errors) < EXACT:
            said.append(f"{case.name}: sees every key of {s.tokens} tokens, so it is exact here.")
            continue
        wins = ranges(s.norms, [each is True for each in verdicts])
        loses = ranges(s.norms, [each is False for each in verdicts])
        told = f"beats uniform weights at {LENGTH} of {wins}" if wins else (
            "beats uniform weights at none of these lengths"
        )  # fmt: skip
        worst = f"; it is worse than doing nothing at {loses}" if loses else ""
        said.append(f"{case.name}: {told}{worst}.")
    said += [each for case in found.random for each in _about_features(found, case)]
    pair = {case.spec: case for case in found.random}
    if {"favor", "fourier"} <= set(pair):
        said.append(_sines_or_positive(found, pair["favor"], pair["fourier"]))
    return said


def _about_uniform(found: Errors) -> str:
    s = found.settings
    near = [norm for norm in s.norms if found.error(Case(UNIFORM), norm).value <= SMALL]
    until = f"up to {LENGTH} = {near[-1]:g}" if near else "at none of these lengths"
    return (
        f"Uniform weights, which do nothing, are within {SMALL:.0%} of softmax {until} (head size "
        f"{s.head_dim}, {s.tokens} tokens): there attention itself is nearly uniform. q and k from "
        f"N(0, I) have {LENGTH} of about {math.sqrt(s.head_dim):.3g}."
    )


def _about_features(found: Errors, case: Case) -> list[str]:
    s, said = found.settings, []
    if len(s.features) > 1:
        slopes = [found.slope(case, norm) for norm in s.norms]
        first, last = (f"{each.value:.2f}{_interval(each)}" for each in (slopes[0], slopes[-1]))
        lawful = ranges(s.norms, [-0.65 <= each.value <= -0.35 for each in slopes])
        theory = f"; about −1/2, as independent draws promise, at {lawful}" if lawful else ""
        text = (
            f"{case.spec}: more features lower its error with an exponent of {first} at {LENGTH} "
            f"= {s.norms[0]:g} and of {last} at {s.norms[-1]:g}{theory}."
        )
        said.append(text.replace("-", "−"))
    if case.orthogonal:
        other = Case(case.spec, case.features, False)
        gains = [found.ratio(case, norm, other=other) for norm in s.norms]
        sure = [gain for gain in gains if better(gain)]
        if not sure:
            return [*said, f"{case.name}: orthogonal draws are not surely better than independent."]
        helps = ranges(s.norms, [better(gain) is True for gain in gains])
        best = min(sure, key=lambda gain: gain.value)
        said.append(
            f"{case.name}: orthogonal draws have a smaller error than independent ones at {LENGTH} "
            f"of {helps}, at best {best.value:.2f} times theirs{_interval(best)}."
        )
    return said


def _sines_or_positive(found: Errors, favor: Case, fourier: Case) -> str:
    norms = found.settings.norms
    ratios = [better(found.ratio(favor, norm, other=fourier)) for norm in norms]
    sines = ranges(norms, [each is False for each in ratios])
    positive = ranges(norms, [each is True for each in ratios])
    words = [f"sines and cosines (fourier) have the smaller error at {LENGTH} of {sines}"] * bool(
        sines
    ) + [f"positive features (favor) at {positive}"] * bool(positive)
    return f"With {favor.features:,} features {joined(words)}." if words else (
        f"With {favor.features:,} features favor and fourier cannot be told apart."
    )  # fmt: skip


def _interval(figure: Figure) -> str:
    low, high = figure.low, figure.high
    return "" if low is None or high is None else f" ({low:.2f} to {high:.2f})".replace("-", "−")


def advice(found: Errors) -> list[str]:
    """What to use instead of softmax on such inputs, without training."""
    s, said = found.settings, []
    for norm in s.norms:
        if found.error(Case(UNIFORM), norm).value <= SMALL:
            continue
        least = _cheapest(found, norm)
        if least is None:
            said.append(
                f"From {LENGTH} = {norm:g} on nothing measured here is within {SMALL:.0%} of "
                "softmax: use softmax, or train the model with the mechanism in place."
            )
            break
        said.append(f"At {LENGTH} = {norm:g}: {joined(least)} within {SMALL:.0%} of softmax.")
    return said


def _cheapest(found: Errors, norm: float) -> list[str] | None:
    """Mechanisms within 10%, those with features with as few as it takes."""
    s, names = found.settings, []
    for case in found.compared:
        counts = s.features if case.features is not None else (None,)
        for count in counts:
            tried = Case(case.spec, count, case.orthogonal)
            if EXACT < found.error(tried, norm).ends[1] <= SMALL:
                names.append(tried.name)
                break
    return names or None


# Drawings


def _against_uniform(found: Errors) -> Drawn:
    s, cases = found.settings, found.compared
    return Drawn(
        f"Who beats doing nothing: head size {s.head_dim}",
        _ratio_map(
            [case.name for case in cases],
            [[(found.ratio(case, norm), found.error(case, norm)) for norm in s.norms]
             for case in cases],
            s, "mechanism",
        ),
        "Below 1: better than uniform weights, which cost nothing. Inputs have no order, so window "
        "and bigbird, which look at neighbours, are at their worst.",
    )  # fmt: skip


def _ratio_map(
    rows: list[str], cells: list[list[tuple[Figure, Figure]]], s: ErrorSettings, y: str
) -> Heatmap:
    return Heatmap(
        f"length {LENGTH} of queries and keys", y, RATIO,
        [f"{norm:g}" for norm in s.norms], rows,
        [[ratio.value for ratio, _ in row] for row in cells],
        log=True, centre=1.0,
        texts=[
            [f"error {number(error.value)}; interval of the ratio {_between(ratio)}"
             for ratio, error in row]
            for row in cells
        ],
    )  # fmt: skip


def _between(figure: Figure) -> str:
    return " to ".join(number(end) for end in figure.ends)


def _line(name: str, points: Sequence[tuple[float, Figure]]) -> Series:
    return Series(
        name, [(at, each.value) for at, each in points], [each.ends for _, each in points]
    )


def _by_norm(found: Errors) -> Drawn:
    s = found.settings
    cases = [Case(UNIFORM), *found.compared]
    lines = [
        _line(case.name, [(norm, found.error(case, norm)) for norm in s.norms]) for case in cases
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    usual = math.sqrt(s.head_dim)
    marks = [Mark("N(0, I)", x=usual)] if s.norms[0] <= usual <= s.norms[-1] else []
    return Drawn(
        f"Error by length of queries and keys: head size {s.head_dim}",
        Plot(f"length {LENGTH}", OUTPUT, lines, x_log=True, y_log=True, marks=marks),
        f"Means and 95% intervals over {s.seeds} seeds. Uniform weights are the control.",
    )


def _features_by_norm(found: Errors, case: Case) -> Drawn:
    s = found.settings
    tried = [Case(case.spec, C, case.orthogonal) for C in s.features]
    return Drawn(
        f"{case.spec}: where its features beat doing nothing, head size {s.head_dim}",
        _ratio_map(
            [f"{C:,}" for C in s.features],
            [[(found.ratio(each, norm), found.error(each, norm)) for norm in s.norms]
             for each in tried],
            s, "features",
        ),
        "Below 1: better than uniform weights.",
    )  # fmt: skip


def _by_features(found: Errors, case: Case) -> Drawn:
    s = found.settings
    lines = []
    for norm in s.norms:
        slope = found.slope(case, norm)
        told = f"{slope.value:.2f}".replace("-", "−") + _interval(slope)
        points = [
            (float(C), found.error(Case(case.spec, C, case.orthogonal), norm)) for C in s.features
        ]
        lines.append(_line(f"{LENGTH} = {norm:g}: exponent {told}", points))
    return Drawn(
        f"{case.spec}: error by number of features, head size {s.head_dim}",
        Plot("features", OUTPUT, lines, x_log=True, y_log=True),
        "An exponent of −0.5 is what independent draws promise, once there are enough of them.",
    )


def _sizes_by_norm(found: Errors, case: Case) -> Drawn:
    s = found.settings
    return Drawn(
        f"{case.name}: head size and length",
        _ratio_map(
            [str(size) for size in s.head_dims],
            [[(found.ratio(case, norm, size), found.error(case, norm, size)) for norm in s.norms]
             for size in s.head_dims],
            s, "head size",
        ),
        "Below 1: better than uniform weights.",
    )  # fmt: skip


def _sizes(found: Errors) -> Drawn:
    s = found.settings
    norm = min(s.norms, key=lambda each: abs(math.log(each / s.head_dim**0.25)))
    lines = [
        _line(case.name, [(float(D), found.error(case, norm, D)) for D in s.head_dims])
        for case in [Case(UNIFORM), *found.compared]
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    return Drawn(
        f"Error by head size, {LENGTH} = {norm:g}",
        Plot("head size", OUTPUT, lines, x_log=True, y_log=True),
        "At one length a larger head has smaller scores (they are divided by the root of the head "
        "size), and everything is easier.",
    )


def _draws(found: Errors) -> Drawn:
    s = found.settings
    lines = []
    for case in found.random:
        if case.orthogonal:
            other = Case(case.spec, case.features, False)
            points = [(norm, found.ratio(case, norm, other=other)) for norm in s.norms]
            lines.append(_line(case.name, points))
    return Drawn(
        f"Orthogonal draws against independent ones: head size {s.head_dim}",
        Plot(
            f"length {LENGTH}", "error with orthogonal draws over that with independent ones",
            lines, x_log=True, y_log=True, marks=[Mark("no gain", y=1.0)],
        ),
    )  # fmt: skip


def _exponents(found: Errors) -> Table:
    s = found.settings
    rows: list[list[str | Figure]] = []
    for spec in found.specs:
        if not sweeps(spec, "features"):
            continue
        draws = [True, False] if sweeps(spec, "orthogonal") else [None]
        for orthogonal in draws:
            kind = {True: "orthogonal", False: "independent", None: ""}[orthogonal]
            case = Case(spec, orthogonal=orthogonal)
            rows.append([spec, kind, *(found.slope(case, norm) for norm in s.norms)])
    return Table(
        f"Exponent of the error in the number of features, by {LENGTH}",
        ["mechanism", "draws", *(f"{norm:g}" for norm in s.norms)],
        rows,
        f"Features {s.features[0]:,} to {s.features[-1]:,}, head size {s.head_dim}; 95% intervals "
        f"over {s.seeds} seeds.",
    )


def _weights_table(found: Errors) -> Table:
    s = found.settings
    cases = [Case(UNIFORM), *found.compared]
    return Table(
        f"Relative error of the weights, by {LENGTH}",
        ["mechanism", *(f"{norm:g}" for norm in s.norms)],
        [
            [case.name, *(geometric(found.weights[case, s.head_dim, norm]).value
                          for norm in s.norms)]
            for case in cases
        ],
        "Nearly that of the output: values are independent, so no error cancels.",
    )  # fmt: skip
