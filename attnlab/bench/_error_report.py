"""What `bench error` found: where mechanisms beat doing nothing, as figures and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from attnlab._confidence_intervals import Estimate, number
from attnlab._number_words import joined, ranges
from attnlab.bench._error_bench import UNIFORM, Case, Measured, measurable, sweeps
from attnlab.bench._error_results import EXACT, Errors, better
from attnlab.bench._settings import ErrorSettings
from attnlab.report._content import (
    Block,
    Cell,
    Figure,
    Heatmap,
    Lines,
    Mark,
    Section,
    Series,
    Table,
    Value,
)

SMALL = 0.1  # an error that many could live with
NORM = "|q| = |k|"
OUTPUT = "relative error of the output"
RATIO = "error over that of uniform weights"


def error_section(rows: Sequence[Measured], specs: Sequence[str], s: ErrorSettings) -> Section:
    found = Errors(rows, measurable(specs, s.tokens), s)
    several = len(s.features) > 1
    blocks: list[Block] = [_against_uniform(found), _verdicts(found), _by_norm(found)]
    for case in found.random:
        blocks += [_features_by_norm(found, case)]
        blocks += [_by_features(found, case)] if several else []
    if len(s.head_dims) > 1:
        blocks += [_sizes_by_norm(found, case) for case in found.random]
        blocks += [_sizes(found)]
    blocks += [_draws(found)] if any(case.orthogonal for case in found.random) else []
    blocks += [_exponents(found)] if found.random and several else []
    blocks += [_weights_table(found)]
    return Section(
        "error",
        "Error against exact softmax attention",
        findings=findings(found),
        advice=advice(found),
        blocks=blocks,
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


def findings(found: Errors) -> list[str]:
    """Where doing nothing is enough, and who does better where queries and keys usually are."""
    s = found.settings
    near = ranges(s.norms, [_nothing_needed(found, norm) for norm in s.norms])
    where = f"at {_norms(near)}" if near else "at none of these norms"
    usual = _usual_norm(s)
    verdicts = {case.spec: _verdict(found, case, usual) for case in found.compared}
    ahead = joined([name for name, each in verdicts.items() if each])
    behind = joined([name for name, each in verdicts.items() if each is False])
    return [
        f"Uniform weights, which do nothing, are within {SMALL:.0%} of softmax {where} "
        f"(head size {s.head_dim}, {s.tokens} tokens).",
        f"At norm {usual:g}, the nearest to N(0, I), better than uniform weights: "
        f"{ahead or 'none'}; worse: {behind or 'none'}.",
    ]


def _usual_norm(s: ErrorSettings) -> float:
    """The nearest to the norm of q and k from N(0, I)."""
    return min(s.norms, key=lambda norm: abs(norm - math.sqrt(s.head_dim)))


def _nothing_needed(found: Errors, norm: float) -> bool:
    return found.error(Case(UNIFORM), norm).value <= SMALL


def _verdict(found: Errors, case: Case, norm: float) -> bool | None:
    """Whether it is better than uniform weights; what is exact always is."""
    return found.error(case, norm).value < EXACT or better(found.ratio(case, norm))


def _norms(places: str) -> str:
    return f"norm{'s' if ' ' in places else ''} {places}"


def advice(found: Errors) -> list[str]:
    """What to use instead of softmax on such inputs, without training: norms with one answer
    together, those left out at which doing nothing is enough."""
    norms = found.settings.norms
    answers = {norm: _cheapest(found, norm) for norm in norms if not _nothing_needed(found, norm)}
    sentences = []
    for answer in dict.fromkeys(answers.values()):
        at = _norms(ranges(norms, [answers.get(norm) == answer for norm in norms]))
        if answer:
            sentences.append(f"At {at}: {joined(answer)} within {SMALL:.0%} of softmax.")
        else:
            sentences.append(
                f"At {at} nothing measured here is surely within {SMALL:.0%} of softmax: use "
                "softmax, or train the model with the mechanism in place."
            )
    return sentences


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


# Figures and tables


def _against_uniform(found: Errors) -> Figure:
    s, cases = found.settings, found.compared
    return _ratio_map(
        found, f"Who beats doing nothing: head size {s.head_dim}", "mechanism",
        {case.name: (case, s.head_dim) for case in cases},
        " Inputs have no order, so what looks at neighbors is at its worst.",
    )  # fmt: skip


def _features_by_norm(found: Errors, case: Case) -> Figure:
    s = found.settings
    return _ratio_map(
        found, f"{case.spec}: where its features beat doing nothing, head size {s.head_dim}",
        "features",
        {f"{C:,}": (Case(case.spec, C, case.orthogonal), s.head_dim) for C in s.features},
    )  # fmt: skip


def _sizes_by_norm(found: Errors, case: Case) -> Figure:
    rows = {str(size): (case, size) for size in found.settings.head_dims}
    return _ratio_map(found, f"{case.name}: head size and norm", "head size", rows)


def _ratio_map(
    found: Errors, title: str, y: str, rows: dict[str, tuple[Case, int]], note: str = ""
) -> Figure:
    """A row for each case and head size, a column for each norm."""
    norms = found.settings.norms
    cells = [
        [(found.ratio(case, norm, size), found.error(case, norm, size)) for norm in norms]
        for case, size in rows.values()
    ]
    plot = Heatmap(
        f"norm {NORM}", y, RATIO, [f"{norm:g}" for norm in norms], list(rows),
        [[0.0 if error.value < EXACT else ratio.value for ratio, error in row] for row in cells],
        log=True, center=1.0,
        texts=[
            [f"error {number(error.value)}; interval of the ratio "
             f"{' to '.join(map(number, ratio.ends))}" for ratio, error in row]
            for row in cells
        ],
    )  # fmt: skip
    return Figure(title, plot, f"Below 1: better than uniform weights, which cost nothing.{note}")


def _verdicts(found: Errors) -> Table:
    s, rows = found.settings, list[list[Cell]]()
    for case in found.compared:
        verdicts = [_verdict(found, case, norm) for norm in s.norms]
        row: list[Cell] = [case.name, *(_where(s, verdicts, each) for each in (True, False))]
        gains: list[bool | None] = []
        if case.orthogonal:
            other = Case(case.spec, case.features, False)
            gains = [better(found.ratio(case, norm, other=other)) for norm in s.norms]
        rows.append([*row, _where(s, gains, True) if gains else ""])
    return Table(
        f"Where each beats doing nothing: {NORM}, head size {s.head_dim}",
        ["mechanism", "better at", "worse at", "orthogonal helps at"],
        rows,
        "Norms at which the whole interval of the ratio to uniform weights is below 1, or above; "
        "and those at which orthogonal draws have a surely smaller error than independent ones.",
        drop=["orthogonal helps at"],
    )


def _where(s: ErrorSettings, verdicts: Sequence[bool | None], wanted: bool) -> str:
    return ranges(s.norms, [each is wanted for each in verdicts]) or "none"


def _line(name: str, points: Sequence[tuple[float, Estimate]]) -> Series:
    return Series(
        name, [(at, each.value) for at, each in points], [each.ends for _, each in points]
    )


def _by_norm(found: Errors) -> Figure:
    s = found.settings
    cases = [Case(UNIFORM), *found.compared]
    lines = [
        _line(case.name, [(norm, found.error(case, norm)) for norm in s.norms]) for case in cases
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    usual = math.sqrt(s.head_dim)
    marks = [Mark("N(0, I)", x=usual)] if s.norms[0] <= usual <= s.norms[-1] else []
    return Figure(
        f"Error by norm of queries and keys: head size {s.head_dim}",
        Lines(f"norm {NORM}", OUTPUT, lines, x_log=True, y_log=True, marks=marks),
        f"Means and 95% intervals over {s.seeds} seeds. Uniform weights are the control.",
    )


def _by_features(found: Errors, case: Case) -> Figure:
    s = found.settings
    lines = []
    for norm in s.norms:
        slope = found.slope(case, norm)
        points = [
            (float(C), found.error(Case(case.spec, C, case.orthogonal), norm)) for C in s.features
        ]
        lines.append(
            _line(f"{NORM} = {norm:g}: exponent {slope.value:.2f}".replace("-", "−"), points)
        )
    return Figure(
        f"{case.spec}: error by number of features, head size {s.head_dim}",
        Lines("features", OUTPUT, lines, x_log=True, y_log=True),
        "An exponent of −0.5 is what independent draws promise, once there are enough of them.",
    )


def _sizes(found: Errors) -> Figure:
    s = found.settings
    norm = min(s.norms, key=lambda each: abs(math.log(each / s.head_dim**0.25)))
    lines = [
        _line(case.name, [(float(D), found.error(case, norm, D)) for D in s.head_dims])
        for case in [Case(UNIFORM), *found.compared]
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    return Figure(
        f"Error by head size, {NORM} = {norm:g}",
        Lines("head size", OUTPUT, lines, x_log=True, y_log=True),
        "At one norm a larger head has smaller scores (they are divided by the root of the head "
        "size), and everything is easier.",
    )


def _draws(found: Errors) -> Figure:
    s = found.settings
    lines = []
    for case in found.random:
        if case.orthogonal:
            other = Case(case.spec, case.features, False)
            points = [(norm, found.ratio(case, norm, other=other)) for norm in s.norms]
            lines.append(_line(case.name, points))
    return Figure(
        f"Orthogonal draws against independent ones: head size {s.head_dim}",
        Lines(
            f"norm {NORM}", "error with orthogonal draws over that with independent ones",
            lines, x_log=True, y_log=True, marks=[Mark("no gain", y=1.0)],
        ),
    )  # fmt: skip


def _exponents(found: Errors) -> Table:
    s = found.settings
    rows: list[list[Cell]] = []
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
