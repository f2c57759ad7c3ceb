"""What `attnlab heads` found: what each head could use, and the model's loss when it gets it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from attnlab._confidence_intervals import number
from attnlab.bench._error_bench import UNIFORM, name_of
from attnlab.heads._assignment import SOFTMAX
from attnlab.heads._measured_heads import Head
from attnlab.heads._model_reader import MEASURES
from attnlab.heads._results import Results, change, findings, pieces_of
from attnlab.report import Block, Cell, Figure, Heatmap, Lines, Mark, Section, Series, Table, Value

ERROR = "relative error of the head's output"
NEEDS = "softmax (nothing cheaper)"


def heads_section(found: Results) -> Section:
    reader, measured = found.reader, found.measured
    blocks: list[Block] = [
        _choice(found),
        _losses(found),
        _loss_by_cost(found),
        _layers(found),
        _mechanisms(found),
        _error_by_cost(found),
        _least(found),
        _control(found),
    ]
    if found.ranks:
        blocks += [_ranks(found), *(_rank(found, rank) for rank in found.ranks)]
    notes = [*reader.notes, *measured.notes]
    if notes:
        blocks.append(Table("Notes", ["what was left out or changed"], [[each] for each in notes]))
    return Section(
        "heads",
        f"{reader.label}: which mechanism reproduces each head",
        findings=findings(found),
        blocks=blocks,
        settings={
            "model": reader.label,
            "tolerance": found.settings.tolerance,
            "tokens": measured.tokens,
            "windows": len(found.outcomes[0].scores),
            "reads": reader.reads,
            "measure": reader.measure,
            "mechanisms": list(found.specs),
        },
        measurements=[*_head_rows(found), *_outcome_rows(found)],
    )


# Maps: a row for each layer, a column for each head


def _map(
    found: Results,
    title: str,
    note: str,
    z: str,
    value: Callable[[Head], float | None],
    text: Callable[[Head], str] | None = None,
    **options: Any,
) -> Figure:
    measured = found.measured
    width = max(head.head for head in measured.heads) + 1
    rows = [measured.of(layer) for layer in measured.layers]
    values = [[*map(value, row), *[None] * (width - len(row))] for row in rows]
    if text:
        options["texts"] = [[*map(text, row), *[""] * (width - len(row))] for row in rows]
    columns, names = [str(head) for head in range(width)], _layer_names(found)
    return Figure(title, Heatmap("head", "layer", z, columns, names, values, **options), note)


def _layer_names(found: Results) -> list[str]:
    """Numbers, with the part that they belong to where there are several."""
    measured = found.measured
    numbers = [str(measured.number(layer)) for layer in measured.layers]
    if len(measured.parts) == 1:
        return numbers
    parts = [measured.of(layer)[0].part.removesuffix("-attention") for layer in measured.layers]
    return [" ".join(pair) for pair in zip(parts, numbers, strict=True)]


def _choice(found: Results) -> Figure:
    used = [spec for spec in found.specs if any(found.chosen(h) == spec for h in found.heads)]

    def text(head: Head) -> str:
        best = min(((head.error(spec), spec) for spec in found.tried(head)), default=None)
        return f"closest: {best[1]}, error {number(best[0])}" if best else ""

    count = len(found.heads[0].errors[UNIFORM])
    return _map(
        found,
        f"The cheapest mechanism of each head within {found.settings.tolerance:g}",
        f"{ERROR.capitalize()}, mean over {count} {pieces_of(found.reader.reads, count)} of "
        f"{found.measured.size}.",
        "mechanism",
        lambda h: len(used) if found.chosen(h) == SOFTMAX else used.index(found.chosen(h)),
        text,
        names=[*used, NEEDS],
    )


def _least(found: Results) -> Figure:
    return _map(
        found,
        "The least error of anything cheaper than softmax",
        "Above the tolerance a head needs softmax.",
        ERROR,
        lambda h: (found.closest(h) or (None,))[0],
        lambda h: (found.closest(h) or (None, ""))[1],
        log=True,
    )


def _control(found: Results) -> Figure:
    return _map(
        found,
        "The control: uniform weights",
        "A head that uniform weights reproduce looks for nothing.",
        ERROR,
        lambda h: h.error(UNIFORM),
        log=True,
    )


def _rank(found: Results, rank: int) -> Figure:
    heads = found.ranked(rank)
    return _map(
        found,
        f"What the best projection of rank {rank} leaves of the weights",
        "",
        "relative error of the weights",
        lambda h: h.ranks[rank][0] if h in heads else None,
        lambda h: f"of the output {number(h.ranks[rank][1])}" if h in heads else "",
    )


# Tables and curves


def _ranks(found: Results) -> Table:
    rows: list[list[Cell]] = []
    for rank in found.ranks:
        left = [head.ranks[rank] for head in found.ranked(rank)]
        weights, output = (statistics.median(each[i] for each in left) for i in (0, 1))
        within = sum(error <= found.settings.tolerance for _, error in left)
        rows.append([rank, len(left), weights, output, within])
    return Table(
        "What the best possible projection leaves",
        ["rank", "heads", "of the weights", "of the output", "within"],
        rows,
        "Medians over heads with more tokens than the rank, on the longest window: the part beyond "
        "the largest singular values, which no low-rank mechanism can get below. Within: heads "
        f"whose output is within {found.settings.tolerance:g}.",
    )


def _losses(found: Results) -> Table:
    reader = found.reader
    rows: list[list[Cell]] = [
        [
            each.name,
            f"{each.score.value:.4f}",
            None if each is found.outcomes[0] else change(each.worse),
            f"{each.share:.0%}",
            f"{each.cost:.0%}",
            each.seconds,
        ]
        for each in found.outcomes
    ]
    return Table(
        f"The model's {reader.measure}, on {reader.reads} that nothing was chosen on",
        ["attention", reader.measure, "more", "replaced", "products", "CPU s"],
        rows,
        f"{MEASURES[reader.measure]} More: than as it is, each against itself; 95% intervals over "
        f"{pieces_of(reader.reads)}. Replaced: of the heads that were measured. Products: "
        "multiplications of these, as a share of softmax's; feature maps and softmax itself are "
        f"not counted. CPU s: one forward of the whole model over {found.measured.size}, on one "
        "thread; for longer texts see attnlab bench speed.",
        drop=["CPU s", "replaced", "products"],
    )


def _loss_by_cost(found: Results) -> Figure:
    return Figure(
        f"The model's {found.reader.measure} by the cost of attention",
        Lines(
            "share of softmax's products",
            found.reader.measure,
            [Series(each.name, [(each.cost, each.score.value)]) for each in found.outcomes],
        ),
        "Lower is better in both; what is chosen must lie below what chance gives at its cost.",
    )


def _layers(found: Results) -> Table:
    rows: list[list[Cell]] = []
    for layer, name in zip(found.measured.layers, _layer_names(found), strict=True):
        heads = found.measured.of(layer)
        for spec in (*found.specs, SOFTMAX):
            places = [head.head for head in heads if found.chosen(head) == spec]
            if places:
                rows.append([name, spec, "all" if len(places) == len(heads) else _places(places)])
    return Table("What each layer could use", ["layer", "mechanism", "heads"], rows)


def _places(places: Sequence[int]) -> str:
    """0, 2-4"""
    runs = []
    for _, group in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        at = [place for _, place in group]
        runs.append(f"{at[0]}" if len(at) == 1 else f"{at[0]}-{at[-1]}")
    return ", ".join(runs)


def _mechanisms(found: Results) -> Table:
    rows: list[list[Cell]] = []
    for spec in (UNIFORM, *found.specs):
        heads, control = found.fitting(spec), spec == UNIFORM
        errors = [head.error(spec) for head in heads]
        pairs = zip(errors, heads, strict=True)
        rows.append(
            [
                spec,
                "" if control else f"{found.cost(spec, *heads):.0%}",
                statistics.median(errors),
                min(errors),
                None if control else sum(error < head.error(UNIFORM) for error, head in pairs),
                sum(error <= found.settings.tolerance for error in errors),
                None if control else sum(found.chosen(head) == spec for head in heads),
            ]
        )
    everywhere = all(len(found.fitting(spec)) == len(found.heads) for spec in found.specs)
    which = f"{len(found.heads)} heads" if everywhere else "the heads that can have it"
    return Table(
        "Every mechanism on every head",
        ["mechanism", "products", "median", "least", "nearer", "within", "chosen"],
        rows,
        f"Products as a share of softmax's at {found.measured.size}; {ERROR}, median and least of "
        f"{which}; heads on which it is nearer than uniform weights, is within "
        f"{found.settings.tolerance:g}, and was chosen.",
        drop=["least", "nearer", "products"],
    )


def _error_by_cost(found: Results) -> Figure:
    lines = []
    for family in dict.fromkeys(name_of(spec) for spec in found.specs):
        points = []
        for spec in (each for each in found.specs if name_of(each) == family):
            heads = found.fitting(spec)
            errors = sorted(head.error(spec) for head in heads)
            quarter = len(errors) // 4
            ends = errors[quarter], errors[len(errors) - 1 - quarter]
            points.append((found.cost(spec, *heads), statistics.median(errors), ends))
        points.sort()
        lines.append(Series(family, [p[:2] for p in points], [p[2] for p in points]))
    control = statistics.median(head.error(UNIFORM) for head in found.heads)
    return Figure(
        "Error by cost",
        Lines(
            "share of softmax's products",
            f"{ERROR}, median head",
            lines,
            x_log=True,
            y_log=True,
            marks=[Mark(UNIFORM, y=control), Mark("tolerance", y=found.settings.tolerance)],
        ),
        "Bands: the middle half of all heads.",
    )


# For programs


def _head_rows(found: Results) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for head in found.heads:
        place: dict[str, Value] = {"layer": head.layer, "name": head.name, "head": head.head}
        place |= {"part": head.part, "causal": head.causal}
        for spec in (UNIFORM, SOFTMAX, *found.tried(head)):
            rows.append(
                place
                | {
                    "mechanism": spec,
                    "error": 0.0 if spec == SOFTMAX else head.error(spec),
                    "cost": 0.0 if spec == UNIFORM else found.cost(spec, head),
                    "chosen": found.chosen(head) == spec,
                }
            )
        for rank, (weights, output) in head.ranks.items():
            rows.append(place | {"rank": rank, "weights_error": weights, "error": output})
    return rows


def _outcome_rows(found: Results) -> list[dict[str, Value]]:
    return [
        {
            "attention": each.name,
            "window": window,
            "score": score,
            "control": each.control,
            "cost": each.cost,
            "replaced": each.share,
            "seconds": each.seconds,
        }
        for each in found.outcomes
        for window, score in enumerate(each.scores)
    ]
