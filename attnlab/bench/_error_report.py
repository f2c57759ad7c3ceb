"""Report of `bench error`: where mechanisms beat uniform weights, as figures and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from attnlab._confidence_intervals import Estimate, format_number
from attnlab._join_words import format_ranges, join_words
from attnlab.bench._error_bench import (
    UNIFORM,
    Case,
    ErrorMeasurement,
    create_grid_cases,
    is_swept,
    measurable_specs,
)
from attnlab.bench._error_results import EXACT, ErrorResults, is_below_one
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

SMALL = 0.1  # an error that is acceptable for many uses
NORM = "|q| = |k|"
OUTPUT = "relative error of the output"
RATIO = "error over that of uniform weights"


def error_section(
    rows: Sequence[ErrorMeasurement], specs: Sequence[str], s: ErrorSettings
) -> Section:
    results = ErrorResults(rows, measurable_specs(specs, s.tokens), s)
    many_features = len(s.features) > 1
    blocks: list[Block] = [_mechanisms_by_norm(results), _verdicts(results), _by_norm(results)]
    for case in results.with_features:
        blocks += [_features_by_norm(results, case)]
        blocks += [_by_features(results, case)] if many_features else []
    if len(s.head_dims) > 1:
        blocks += [_head_sizes_by_norm(results, case) for case in results.with_features]
        blocks += [_by_head_size(results)]
    blocks += [
        _head_sizes_by_features(results, case, norm)
        for case in results.with_features
        for norm in (s.grid_norm, None)
        if s.has_grid
    ]
    blocks += (
        [_orthogonal_gain(results)]
        if any(case.orthogonal for case in results.with_features)
        else []
    )
    blocks += [_exponents(results)] if results.with_features and many_features else []
    blocks += [_weights_table(results)]
    return Section(
        "error",
        "Error against exact softmax attention",
        findings=findings(results),
        advice=advice(results),
        blocks=blocks,
        settings={**asdict(s), "mechanisms": list(results.specs)},
        measurements=[_measurement(row) for row in rows],
    )


def _measurement(row: ErrorMeasurement) -> dict[str, Value]:
    return {
        "mechanism": row.case.spec,
        "features": row.case.features,
        "orthogonal": row.case.orthogonal,
        "head_dim": row.head_dim,
        "norm": row.norm,
        "inputs": "N(0, I)" if row.norm is None else "one norm",
        "seed": row.seed,
        "output": row.output,
        "weights": row.weights,
    }


# Sentences


def findings(results: ErrorResults) -> list[str]:
    """Where uniform weights are enough, and which mechanisms beat them at the usual norm."""
    s = results.settings
    easy = format_ranges(s.norms, [_uniform_is_enough(results, norm) for norm in s.norms])
    where = f"at {_norms(easy)}" if easy else "at none of these norms"
    usual = _usual_norm(s)
    verdicts = {
        case.spec: _verdict(results, case, usual)
        for case in results.compared
        if not results.sees_all_keys(case)
    }
    better = join_words([name for name, verdict in verdicts.items() if verdict])
    worse = join_words([name for name, verdict in verdicts.items() if verdict is False])
    whole = [case.spec for case in results.compared if results.sees_all_keys(case)]
    sentences = [
        f"Uniform weights, the control, are within {SMALL:.0%} of softmax {where} "
        f"(head size {s.head_dim}, {s.tokens} tokens).",
        f"At norm {usual:g}, the nearest to N(0, I), better than uniform weights: "
        f"{better or 'none'}; worse: {worse or 'none'}.",
    ]
    if whole:
        sentences.append(
            f"Equal to softmax, because every key of these {s.tokens} tokens is visible, and not "
            f"cheaper: {join_words(whole)}. Give more --tokens, or smaller blocks or windows."
        )
    return [*sentences, *_grid_finding(results)]


def _usual_norm(s: ErrorSettings) -> float:
    """The norm nearest to that of q and k from N(0, I)."""
    return min(s.norms, key=lambda norm: abs(norm - math.sqrt(s.head_dim)))


def _uniform_is_enough(results: ErrorResults, norm: float) -> bool:
    return results.error(Case(UNIFORM), norm).value <= SMALL


def _verdict(results: ErrorResults, case: Case, norm: float) -> bool | None:
    """Whether it is better than uniform weights, as an exact one always is; None if undecided."""
    return results.error(case, norm).value < EXACT or is_below_one(results.ratio(case, norm))


def _norms(listed: str) -> str:
    return f"norm{'s' if ' ' in listed else ''} {listed}"


def advice(results: ErrorResults) -> list[str]:
    """What to use instead of softmax on such inputs, without training. Norms with the same answer
    share a sentence; norms at which uniform weights are enough have none."""
    norms = results.settings.norms
    answers = {
        norm: _cheapest(results, norm) for norm in norms if not _uniform_is_enough(results, norm)
    }
    sentences = []
    for answer in dict.fromkeys(answers.values()):
        at = _norms(format_ranges(norms, [answers.get(norm) == answer for norm in norms]))
        if answer:
            sentences.append(f"At {at}: {join_words(answer)} within {SMALL:.0%} of softmax.")
        else:
            sentences.append(
                f"At {at} nothing measured is reliably within {SMALL:.0%} of softmax: use "
                "softmax, or train the model with the mechanism in place."
            )
    return sentences


def _cheapest(results: ErrorResults, norm: float) -> tuple[str, ...]:
    """The mechanisms within 10%, each with the fewest features that suffice. Without those that
    see every key here: they are softmax, and cost as much."""
    s, names = results.settings, []
    for case in results.compared:
        if results.sees_all_keys(case):
            continue
        counts = s.features if case.features is not None else (None,)
        for count in counts:
            candidate = Case(case.spec, count, case.orthogonal)
            if results.error(candidate, norm).ends[1] <= SMALL:
                names.append(candidate.name)
                break
    return tuple(names)


# Figures and tables


def _mechanisms_by_norm(results: ErrorResults) -> Figure:
    s, cases = results.settings, results.compared
    return _ratio_map(
        results, f"Which mechanisms beat uniform weights: head size {s.head_dim}", "mechanism",
        {case.name: (case, s.head_dim) for case in cases},
        " Inputs have no order, which is the worst case for mechanisms that look at neighbors.",
    )  # fmt: skip


def _features_by_norm(results: ErrorResults, case: Case) -> Figure:
    s = results.settings
    return _ratio_map(
        results, f"{case.spec}: where its features beat uniform weights, head size {s.head_dim}",
        "features",
        {f"{C:,}": (Case(case.spec, C, case.orthogonal), s.head_dim) for C in s.features},
    )  # fmt: skip


def _head_sizes_by_norm(results: ErrorResults, case: Case) -> Figure:
    rows = {str(size): (case, size) for size in results.settings.head_dims}
    return _ratio_map(results, f"{case.name}: head size and norm", "head size", rows)


def _head_sizes_by_features(results: ErrorResults, case: Case, norm: float | None) -> Figure:
    """The error by head size and number of features, at one norm or for N(0, I)."""
    s = results.settings
    cells = [
        [
            (results.error(count, norm, size), results.ratio(count, norm, size))
            for count in create_grid_cases(case.spec, s)
        ]
        for size in s.head_dims
    ]
    plot = Heatmap(
        "features", "head size", OUTPUT, [f"{C:,}" for C in s.features],
        [str(size) for size in s.head_dims],
        [[error.value for error, _ in row] for row in cells], log=True,
        texts=[
            [f"{format_number(ratio.value)} times the error of uniform weights" for _, ratio in row]
            for row in cells
        ],
    )  # fmt: skip
    title = f"{case.spec}: error by head size and number of features, {_inputs(norm)}"
    return Figure(title, plot, "Does a larger head have a smaller error? It depends on the inputs.")


def _inputs(norm: float | None) -> str:
    return "q, k ~ N(0, I)" if norm is None else f"{NORM} = {norm:g}"


def _grid_finding(results: ErrorResults) -> list[str]:
    """How the error changes with the head size, at one norm and for N(0, I)."""
    s = results.settings
    cases = results.with_features
    if not s.has_grid or not cases:
        return []
    case = next((case for case in cases if case.spec == "fourier"), cases[0])
    parts = []
    for norm in (s.grid_norm, None):
        first, last = (
            results.error(case, norm, size).value for size in (s.head_dims[0], s.head_dims[-1])
        )
        verb = "falls" if last < first else "grows"
        parts.append(
            f"with {_inputs(norm)} it {verb} from {format_number(first)} to {format_number(last)}"
        )
    return [
        f"The error of {case.name} from head size {s.head_dims[0]} to {s.head_dims[-1]}: "
        f"{'; '.join(parts)}."
    ]


def _ratio_map(
    results: ErrorResults, title: str, y: str, rows: dict[str, tuple[Case, int]], note: str = ""
) -> Figure:
    """A row for each case and head size, a column for each norm."""
    norms = results.settings.norms
    cells = [
        [(results.ratio(case, norm, size), results.error(case, norm, size)) for norm in norms]
        for case, size in rows.values()
    ]
    plot = Heatmap(
        f"norm {NORM}", y, RATIO, [f"{norm:g}" for norm in norms], list(rows),
        [[0.0 if error.value < EXACT else ratio.value for ratio, error in row] for row in cells],
        log=True, center=1.0,
        texts=[
            [f"error {format_number(error.value)}; interval of the ratio "
             f"{' to '.join(map(format_number, ratio.ends))}" for ratio, error in row]
            for row in cells
        ],
    )  # fmt: skip
    return Figure(title, plot, f"Below 1: better than uniform weights, the control.{note}")


def _verdicts(results: ErrorResults) -> Table:
    s, rows = results.settings, list[list[Cell]]()
    for case in results.compared:
        verdicts = [_verdict(results, case, norm) for norm in s.norms]
        row: list[Cell] = [case.name, *(_where(s, verdicts, verdict) for verdict in (True, False))]
        if results.sees_all_keys(case):
            row = [case.name, "equals softmax: sees every key", ""]
        gains: list[bool | None] = []
        if case.orthogonal:
            other = Case(case.spec, case.features, False)
            gains = [is_below_one(results.ratio(case, norm, other=other)) for norm in s.norms]
        rows.append([*row, _where(s, gains, True) if gains else ""])
    return Table(
        f"Where each beats uniform weights: {NORM}, head size {s.head_dim}",
        ["mechanism", "better at", "worse at", "orthogonal helps at"],
        rows,
        "Better or worse at: norms at which the whole interval of the ratio to uniform weights is "
        "below 1, or above. Orthogonal helps at: norms at which the whole interval of the ratio of "
        "orthogonal to independent directions is below 1.",
        drop=["orthogonal helps at"],
    )


def _where(s: ErrorSettings, verdicts: Sequence[bool | None], expected: bool) -> str:
    return format_ranges(s.norms, [verdict is expected for verdict in verdicts]) or "none"


def _line(name: str, points: Sequence[tuple[float, Estimate]]) -> Series:
    return Series(
        name, [(at, error.value) for at, error in points], [error.ends for _, error in points]
    )


def _by_norm(results: ErrorResults) -> Figure:
    s = results.settings
    cases = [Case(UNIFORM), *results.compared]
    lines = [
        _line(case.name, [(norm, results.error(case, norm)) for norm in s.norms]) for case in cases
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    usual = math.sqrt(s.head_dim)
    marks = [Mark("N(0, I)", x=usual)] if s.norms[0] <= usual <= s.norms[-1] else []
    return Figure(
        f"Error by norm of queries and keys: head size {s.head_dim}",
        Lines(f"norm {NORM}", OUTPUT, lines, x_log=True, y_log=True, marks=marks),
        f"Means and 95% intervals over {s.seeds} seeds. Uniform weights are the control.",
    )


def _by_features(results: ErrorResults, case: Case) -> Figure:
    s = results.settings
    lines = []
    for norm in s.norms:
        slope = results.slope(case, norm)
        points = [
            (float(C), results.error(Case(case.spec, C, case.orthogonal), norm)) for C in s.features
        ]
        lines.append(
            _line(f"{NORM} = {norm:g}: exponent {slope.value:.2f}".replace("-", "−"), points)
        )
    return Figure(
        f"{case.spec}: error by number of features, head size {s.head_dim}",
        Lines("features", OUTPUT, lines, x_log=True, y_log=True),
        "Independent directions have an exponent of −0.5 in theory, once there are enough of them.",
    )


def _by_head_size(results: ErrorResults) -> Figure:
    s = results.settings
    norm = min(s.norms, key=lambda norm: abs(math.log(norm / s.head_dim**0.25)))
    lines = [
        _line(case.name, [(float(D), results.error(case, norm, D)) for D in s.head_dims])
        for case in [Case(UNIFORM), *results.compared]
    ]
    lines = [line for line in lines if max(y for _, y in line.points) > EXACT]
    return Figure(
        f"Error by head size, {NORM} = {norm:g}",
        Lines("head size", OUTPUT, lines, x_log=True, y_log=True),
        "At the same norm a larger head has smaller scores, which are divided by the square root "
        "of the head size, so its errors are smaller.",
    )


def _orthogonal_gain(results: ErrorResults) -> Figure:
    s = results.settings
    lines = []
    for case in results.with_features:
        if case.orthogonal:
            other = Case(case.spec, case.features, False)
            points = [(norm, results.ratio(case, norm, other=other)) for norm in s.norms]
            lines.append(_line(case.name, points))
    return Figure(
        f"Orthogonal directions against independent ones: head size {s.head_dim}",
        Lines(
            f"norm {NORM}", "error with orthogonal directions over that with independent ones",
            lines, x_log=True, y_log=True, marks=[Mark("no gain", y=1.0)],
        ),
    )  # fmt: skip


def _exponents(results: ErrorResults) -> Table:
    s = results.settings
    rows: list[list[Cell]] = []
    for spec in results.specs:
        if not is_swept(spec, "features"):
            continue
        choices = [True, False] if is_swept(spec, "orthogonal") else [None]
        for orthogonal in choices:
            kind = {True: "orthogonal", False: "independent", None: ""}[orthogonal]
            case = Case(spec, orthogonal=orthogonal)
            rows.append([spec, kind, *(results.slope(case, norm) for norm in s.norms)])
    return Table(
        f"Exponent of the error in the number of features, by {NORM}",
        ["mechanism", "directions", *(f"{norm:g}" for norm in s.norms)],
        rows,
        f"Features {s.features[0]:,} to {s.features[-1]:,}, head size {s.head_dim}; 95% intervals "
        f"over {s.seeds} seeds.",
    )


def _weights_table(results: ErrorResults) -> Table:
    s = results.settings
    cases = [Case(UNIFORM), *results.compared]
    return Table(
        f"Relative error of the weights, by {NORM}",
        ["mechanism", *(f"{norm:g}" for norm in s.norms)],
        [
            [case.name, *(results.weights_error(case, norm) for norm in s.norms)]
            for case in cases
        ],
        "Nearly the error of the output: values are independent, so no error cancels.",
    )  # fmt: skip
