"""What `bench error` found, as curves, maps and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from attnlab.bench.error import UNIFORM, Case, Measured, measurable, sweeps
from attnlab.bench.error_words import EXACT, NORM, Errors, advice, findings, interval
from attnlab.bench.results import Drawn, Section, Table, Value
from attnlab.bench.settings import ErrorSettings
from attnlab.charts import Mark, Series, number
from attnlab.charts.plots import Heatmap, Lines
from attnlab.intervals import Estimate

OUTPUT = "relative error of the output"
RATIO = "error over that of uniform weights"


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
    rows: list[str], cells: list[list[tuple[Estimate, Estimate]]], s: ErrorSettings, y: str
) -> Heatmap:
    return Heatmap(
        f"norm {NORM}", y, RATIO,
        [f"{norm:g}" for norm in s.norms], rows,
        [[0.0 if error.value < EXACT else ratio.value for ratio, error in row] for row in cells],
        log=True, centre=1.0,
        texts=[
            [f"error {number(error.value)}; interval of the ratio {_between(ratio)}"
             for ratio, error in row]
            for row in cells
        ],
    )  # fmt: skip


def _between(figure: Estimate) -> str:
    return " to ".join(number(end) for end in figure.ends)


def _line(name: str, points: Sequence[tuple[float, Estimate]]) -> Series:
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
        f"Error by norm of queries and keys: head size {s.head_dim}",
        Lines(f"norm {NORM}", OUTPUT, lines, x_log=True, y_log=True, marks=marks),
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
        told = f"{slope.value:.2f}".replace("-", "−") + interval(slope)
        points = [
            (float(C), found.error(Case(case.spec, C, case.orthogonal), norm)) for C in s.features
        ]
        lines.append(_line(f"{NORM} = {norm:g}: exponent {told}", points))
    return Drawn(
        f"{case.spec}: error by number of features, head size {s.head_dim}",
        Lines("features", OUTPUT, lines, x_log=True, y_log=True),
        "An exponent of −0.5 is what independent draws promise, once there are enough of them.",
    )


def _sizes_by_norm(found: Errors, case: Case) -> Drawn:
    s = found.settings
    return Drawn(
        f"{case.name}: head size and norm",
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
        f"Error by head size, {NORM} = {norm:g}",
        Lines("head size", OUTPUT, lines, x_log=True, y_log=True),
        "At one norm a larger head has smaller scores (they are divided by the root of the head "
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
        Lines(
            f"norm {NORM}", "error with orthogonal draws over that with independent ones",
            lines, x_log=True, y_log=True, marks=[Mark("no gain", y=1.0)],
        ),
    )  # fmt: skip


def _exponents(found: Errors) -> Table:
    s = found.settings
    rows: list[list[str | Estimate]] = []
    for spec in found.specs:
        if not sweeps(spec, "features"):
            continue
        draws = [True, False] if sweeps(spec, "orthogonal") else [None]
        for orthogonal in draws:
            kind = {True: "orthogonal", False: "independent", None: ""}[orthogonal]
            case = Case(spec, orthogonal=orthogonal)
            rows.append([spec, kind, *(found.slope(case, norm) for norm in s.norms)])
    return Table(
        f"Exponent of the error in the number of features, by {NORM}",
        ["mechanism", "draws", *(f"{norm:g}" for norm in s.norms)],
        rows,
        f"Features {s.features[0]:,} to {s.features[-1]:,}, head size {s.head_dim}; 95% intervals "
        f"over {s.seeds} seeds.",
    )


def _weights_table(found: Errors) -> Table:
    s = found.settings
    cases = [Case(UNIFORM), *found.compared]
    return Table(
        f"Relative error of the weights, by {NORM}",
        ["mechanism", *(f"{norm:g}" for norm in s.norms)],
        [
            [case.name, *(found.weights_error(case, norm) for norm in s.norms)]
            for case in cases
        ],
        "Nearly that of the output: values are independent, so no error cancels.",
    )  # fmt: skip
