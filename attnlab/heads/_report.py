"""Report of `attnlab heads`: what each head could use, and how the model's loss then changes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from attnlab._confidence_intervals import format_number
from attnlab.bench._error_bench import UNIFORM, mechanism_name
from attnlab.heads._assignment import SOFTMAX
from attnlab.heads._measured_heads import Head
from attnlab.heads._model_reader import MEASURES
from attnlab.heads._results import HeadResults, findings, format_change, unit_name
from attnlab.report import Block, Cell, Figure, Heatmap, Lines, Mark, Section, Series, Table, Value

ERROR = "relative error of the head's output"
NEEDS_SOFTMAX = "softmax (nothing cheaper)"


def heads_section(results: HeadResults) -> Section:
    reader, measured = results.reader, results.measured
    blocks: list[Block] = [
        _choice_map(results),
        _loss_table(results),
        _loss_by_cost(results),
        _layer_table(results),
        _mechanism_table(results),
        _error_by_cost(results),
        _least_error_map(results),
        _control_map(results),
    ]
    if results.ranks:
        blocks += [_rank_table(results), *(_rank_map(results, rank) for rank in results.ranks)]
    notes = [*reader.notes, *measured.notes]
    if notes:
        rows = [[note] for note in notes]
        blocks.append(Table("Notes", ["what was left out or changed"], rows))
    return Section(
        "heads",
        f"{reader.label}: which mechanism reproduces each head",
        findings=findings(results),
        blocks=blocks,
        settings={
            "model": reader.label,
            "tolerance": results.settings.tolerance,
            "tokens": measured.tokens,
            "windows": len(results.outcomes[0].scores),
            "reads": reader.reads,
            "measure": reader.measure,
            "mechanisms": list(results.specs),
        },
        measurements=[*_head_rows(results), *_outcome_rows(results)],
    )


# Maps: a row for each layer, a column for each head


def _head_map(
    results: HeadResults,
    title: str,
    note: str,
    z: str,
    value: Callable[[Head], float | None],
    text: Callable[[Head], str] | None = None,
    **options: Any,
) -> Figure:
    measured = results.measured
    width = max(head.head for head in measured.heads) + 1
    rows = [measured.heads_in(layer) for layer in measured.layers]
    values = [[*map(value, row), *[None] * (width - len(row))] for row in rows]
    if text:
        options["texts"] = [[*map(text, row), *[""] * (width - len(row))] for row in rows]
    columns, names = [str(head) for head in range(width)], _layer_names(results)
    return Figure(title, Heatmap("head", "layer", z, columns, names, values, **options), note)


def _layer_names(results: HeadResults) -> list[str]:
    """Layer numbers, with the part of the model if it has several."""
    measured = results.measured
    numbers = [str(measured.layer_number(layer)) for layer in measured.layers]
    if len(measured.parts) == 1:
        return numbers
    parts = [
        measured.heads_in(layer)[0].part.removesuffix("-attention") for layer in measured.layers
    ]
    return [" ".join(pair) for pair in zip(parts, numbers, strict=True)]


def _choice_map(results: HeadResults) -> Figure:
    used = [spec for spec in results.specs if any(results.choice(h) == spec for h in results.heads)]

    def text(head: Head) -> str:
        best = min(
            ((head.error(spec), spec) for spec in results.supported_specs(head)), default=None
        )
        return f"closest: {best[1]}, error {format_number(best[0])}" if best else ""

    count = len(results.heads[0].errors[UNIFORM])
    return _head_map(
        results,
        f"The cheapest mechanism of each head within {results.settings.tolerance:g}",
        f"{ERROR.capitalize()}, mean over {count} {unit_name(results.reader.reads, count)} of "
        f"{results.measured.lengths_text}.",
        "mechanism",
        lambda h: len(used) if results.choice(h) == SOFTMAX else used.index(results.choice(h)),
        text,
        names=[*used, NEEDS_SOFTMAX],
    )


def _least_error_map(results: HeadResults) -> Figure:
    return _head_map(
        results,
        "The least error of anything cheaper than softmax",
        "A head above the tolerance needs softmax.",
        ERROR,
        lambda h: (results.closest(h) or (None,))[0],
        lambda h: (results.closest(h) or (None, ""))[1],
        log=True,
    )


def _control_map(results: HeadResults) -> Figure:
    return _head_map(
        results,
        "The control: uniform weights",
        "A head that uniform weights reproduce attends to all tokens equally.",
        ERROR,
        lambda h: h.error(UNIFORM),
        log=True,
    )


def _rank_map(results: HeadResults, rank: int) -> Figure:
    heads = results.heads_above_rank(rank)
    return _head_map(
        results,
        f"Error of the best approximation of the weights of rank {rank}",
        "",
        "relative error of the weights",
        lambda h: h.ranks[rank][0] if h in heads else None,
        lambda h: f"of the output {format_number(h.ranks[rank][1])}" if h in heads else "",
    )


# Tables and curves


def _rank_table(results: HeadResults) -> Table:
    rows: list[list[Cell]] = []
    for rank in results.ranks:
        errors = [head.ranks[rank] for head in results.heads_above_rank(rank)]
        weights, output = (statistics.median(pair[i] for pair in errors) for i in (0, 1))
        within = sum(error <= results.settings.tolerance for _, error in errors)
        rows.append([rank, len(errors), weights, output, within])
    return Table(
        "Errors of the best low-rank approximation",
        ["rank", "heads", "of the weights", "of the output", "within"],
        rows,
        "Medians over heads with more tokens than the rank, on the longest window: the error "
        "without the smaller singular values, a lower bound for every low-rank mechanism. Within: "
        f"heads whose output is within {results.settings.tolerance:g}.",
    )


def _loss_table(results: HeadResults) -> Table:
    reader = results.reader
    rows: list[list[Cell]] = [
        [
            outcome.name,
            f"{outcome.score.value:.4f}",
            None if outcome is results.outcomes[0] else format_change(outcome.score_increase),
            f"{outcome.replaced:.0%}",
            f"{outcome.cost:.0%}",
            outcome.seconds,
        ]
        for outcome in results.outcomes
    ]
    return Table(
        f"The model's {reader.measure}, on {reader.reads} not used to choose",
        ["attention", reader.measure, "more", "replaced", "products", "CPU s"],
        rows,
        f"{MEASURES[reader.measure]} More: the increase over the unchanged model (as it is), with "
        f"95% interval over {unit_name(reader.reads)}. Replaced: the fraction of measured heads. "
        "Products: their multiplications as a fraction of softmax's, without feature maps and "
        "softmax itself. CPU s: one forward pass of the whole model over "
        f"{results.measured.lengths_text}, on one thread; for longer texts see "
        "attnlab bench speed.",
        drop=["CPU s", "replaced", "products"],
    )


def _loss_by_cost(results: HeadResults) -> Figure:
    return Figure(
        f"The model's {results.reader.measure} by the cost of attention",
        Lines(
            "fraction of softmax's products",
            results.reader.measure,
            [Series(plan.name, [(plan.cost, plan.score.value)]) for plan in results.outcomes],
        ),
        "Lower is better in both; the choice must lie below random heads at the same cost.",
    )


def _layer_table(results: HeadResults) -> Table:
    rows: list[list[Cell]] = []
    for layer, name in zip(results.measured.layers, _layer_names(results), strict=True):
        heads = results.measured.heads_in(layer)
        for spec in (*results.specs, SOFTMAX):
            indices = [head.head for head in heads if results.choice(head) == spec]
            if indices:
                listed = "all" if len(indices) == len(heads) else _format_ranges(indices)
                rows.append([name, spec, listed])
    return Table("What each layer could use", ["layer", "mechanism", "heads"], rows)


def _format_ranges(indices: Sequence[int]) -> str:
    """For example "0, 2-4"."""
    ranges = []
    for _, group in groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        ranges.append(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges)


def _mechanism_table(results: HeadResults) -> Table:
    rows: list[list[Cell]] = []
    for spec in (UNIFORM, *results.specs):
        heads, control = results.heads_supporting(spec), spec == UNIFORM
        errors = [head.error(spec) for head in heads]
        pairs = zip(errors, heads, strict=True)
        rows.append(
            [
                spec,
                "" if control else f"{results.relative_cost(spec, *heads):.0%}",
                statistics.median(errors),
                min(errors),
                None if control else sum(error < head.error(UNIFORM) for error, head in pairs),
                sum(error <= results.settings.tolerance for error in errors),
                None if control else sum(results.choice(head) == spec for head in heads),
            ]
        )
    everywhere = all(
        len(results.heads_supporting(spec)) == len(results.heads) for spec in results.specs
    )
    which = f"{len(results.heads)} heads" if everywhere else "the heads that it can replace"
    return Table(
        "Every mechanism on every head",
        ["mechanism", "products", "median", "least", "nearer", "within", "chosen"],
        rows,
        f"Products as a fraction of softmax's at {results.measured.lengths_text}; {ERROR}, median "
        f"and least of {which}; heads on which it is nearer than uniform weights, is within "
        f"{results.settings.tolerance:g}, and was chosen.",
        drop=["least", "nearer", "products"],
    )


def _error_by_cost(results: HeadResults) -> Figure:
    lines = []
    for family in dict.fromkeys(mechanism_name(spec) for spec in results.specs):
        points = []
        for spec in (spec for spec in results.specs if mechanism_name(spec) == family):
            heads = results.heads_supporting(spec)
            errors = sorted(head.error(spec) for head in heads)
            quarter = len(errors) // 4
            ends = errors[quarter], errors[len(errors) - 1 - quarter]
            points.append((results.relative_cost(spec, *heads), statistics.median(errors), ends))
        points.sort()
        lines.append(Series(family, [p[:2] for p in points], [p[2] for p in points]))
    control = statistics.median(head.error(UNIFORM) for head in results.heads)
    return Figure(
        "Error by cost",
        Lines(
            "fraction of softmax's products",
            f"{ERROR}, median head",
            lines,
            x_log=True,
            y_log=True,
            marks=[Mark(UNIFORM, y=control), Mark("tolerance", y=results.settings.tolerance)],
        ),
        "Bands: the middle half of all heads.",
    )


# Measurements in JSON


def _head_rows(results: HeadResults) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for head in results.heads:
        labels: dict[str, Value] = {"layer": head.layer, "name": head.name, "head": head.head}
        labels |= {"part": head.part, "causal": head.causal}
        for spec in (UNIFORM, SOFTMAX, *results.supported_specs(head)):
            rows.append(
                labels
                | {
                    "mechanism": spec,
                    "error": 0.0 if spec == SOFTMAX else head.error(spec),
                    "cost": 0.0 if spec == UNIFORM else results.relative_cost(spec, head),
                    "chosen": results.choice(head) == spec,
                }
            )
        for rank, (weights, output) in head.ranks.items():
            rows.append(labels | {"rank": rank, "weights_error": weights, "error": output})
    return rows


def _outcome_rows(results: HeadResults) -> list[dict[str, Value]]:
    return [
        {
            "attention": outcome.name,
            "window": window,
            "score": score,
            "control": outcome.control,
            "cost": outcome.cost,
            "replaced": outcome.replaced,
            "seconds": outcome.seconds,
        }
        for outcome in results.outcomes
        for window, score in enumerate(outcome.scores)
    ]
