"""What `bench error --model` found, in words and maps: what each head could do with, and what the
model says when it gets it."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from attnlab.bench.error import UNIFORM, name_of
from attnlab.bench.results import Cell, Drawn, Section, Table, Value
from attnlab.charts import Mark, Series, number
from attnlab.charts.plots import Heatmap, Lines
from attnlab.heads.assignment import SOFTMAX
from attnlab.heads.findings import Found, advice, change, findings, pieces_of
from attnlab.heads.head import Head
from attnlab.heads.readers import MEASURES

ERROR = "relative error of the head's output"
NEEDS = "softmax (nothing cheaper)"


def model_section(found: Found) -> Section:
    s = found.settings
    parts: list[Table | Drawn] = [
        _choice(found),
        _losses(found),
        _loss_by_cost(found),
        _mechanisms(found),
        _error_by_cost(found),
        _least(found),
        _control(found),
        *(_rank(found, rank) for rank in found.ranks),
    ]
    return Section(
        "model",
        f"{found.label}: which mechanism reproduces each head",
        findings=[*findings(found), *found.notes, *found.measured.notes],
        advice=advice(found),
        parts=parts,
        settings={
            "model": found.label,
            "tolerance": s.tolerance,
            "tokens": found.measured.tokens,
            "windows": len(found.outcomes[0].scores),
            "reads": found.reads,
            "measure": found.measure,
            "mechanisms": list(found.specs),
        },
        measurements=[*_head_rows(found), *_outcome_rows(found)],
    )


# Maps: a row for each layer, a column for each head


def _map(
    found: Found,
    title: str,
    note: str,
    z: str,
    value: Callable[[Head], float | None],
    **more: object,
) -> Drawn:
    measured = found.measured
    width = max(head.head for head in measured.heads) + 1
    texts = more.pop("text", None)
    rows = [measured.of(layer) for layer in measured.layers]

    def cells(of: Callable[[Head], object], empty: object) -> list[list[object]]:
        return [[*(of(head) for head in row), *[empty] * (width - len(row))] for row in rows]

    told = {"texts": cells(texts, "")} if callable(texts) else {}
    plot = Heatmap(
        "head",
        "layer",
        z,
        [str(i) for i in range(width)],
        _names(found),
        cells(value, None),  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
        **told,  # type: ignore[arg-type]
    )
    return Drawn(title, plot, note)


def _names(found: Found) -> list[str]:
    """Of the layers: numbers, with the part that they belong to where there are several."""
    measured = found.measured
    several = len(measured.parts) > 1
    parts = [measured.of(layer)[0].part.removesuffix("-attention") for layer in measured.layers]
    numbers = [str(measured.number(layer)) for layer in measured.layers]
    return [f"{a} {b}" for a, b in zip(parts, numbers, strict=True)] if several else numbers


def _choice(found: Found) -> Drawn:
    used = [spec for spec in found.specs if any(found.chosen(h) == spec for h in found.heads)]
    names = [*used, NEEDS]

    def text(head: Head) -> str:
        best = min(((head.error(spec), spec) for spec in found.tried(head)), default=None)
        return f"closest: {best[1]}, error {number(best[0])}" if best else ""

    count = len(found.heads[0].errors[UNIFORM])
    return _map(
        found,
        f"The cheapest mechanism of each head within {found.settings.tolerance:g}",
        f"{ERROR.capitalize()}, mean over {count} {pieces_of(found.reads, count)} of "
        f"{found.measured.size}.",
        "mechanism",
        lambda h: len(used) if found.chosen(h) == SOFTMAX else names.index(found.chosen(h)),
        names=names,
        text=text,
    )


def _least(found: Found) -> Drawn:
    def best(head: Head) -> tuple[float, str]:
        return min((head.error(spec), spec) for spec in found.cheaper(head))

    return _map(
        found,
        "The least error of anything cheaper than softmax",
        "Above the tolerance a head needs softmax.",
        ERROR,
        lambda h: best(h)[0] if found.cheaper(h) else None,
        log=True,
        text=lambda h: best(h)[1] if found.cheaper(h) else "",
    )


def _control(found: Found) -> Drawn:
    return _map(
        found,
        "The control: uniform weights",
        "A head that uniform weights reproduce looks for nothing.",
        ERROR,
        lambda h: h.error(UNIFORM),
        log=True,
    )


def _rank(found: Found, rank: int) -> Drawn:
    heads = found.ranked(rank)
    return _map(
        found,
        f"What the best projection of rank {rank} leaves of the weights",
        "The part beyond the largest singular values: no low-rank mechanism can do better on "
        "these weights. Of the longest window.",
        "relative error of the weights",
        lambda h: h.ranks[rank][0] if h in heads else None,
        text=lambda h: f"of the output {number(h.ranks[rank][1])}" if h in heads else "",
    )


# Tables and curves


def _losses(found: Found) -> Table:
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
        f"The model's own word, on {found.reads} that nothing was chosen on",
        ["attention", found.measure, "more", "replaced", "products", "CPU s"],
        rows,
        f"{MEASURES[found.measure]} More: than as it is, each against itself; 95% intervals over "
        f"{found.pieces}. Replaced: of the heads that were measured. Products: multiplications of "
        "these, as a share of softmax's; feature maps and softmax itself are not counted. "
        f"CPU s: one forward of the whole model over {found.measured.size}, on one thread; for "
        "longer texts see attnlab bench speed.",
        drop=["CPU s", "replaced", "products"],
    )


def _loss_by_cost(found: Found) -> Drawn:
    return Drawn(
        "The model's own word by the cost of attention",
        Lines(
            "share of softmax's products",
            found.measure,
            [Series(each.name, [(each.cost, each.score.value)]) for each in found.outcomes],
        ),
        "Lower is better in both; what is chosen must lie below what chance gives at its cost.",
    )


def _mechanisms(found: Found) -> Table:
    rows = []
    for spec in (UNIFORM, *found.specs):
        heads = found.fitting(spec)
        errors = [head.error(spec) for head in heads]
        within = sum(error <= found.settings.tolerance for error in errors)
        chosen = sum(found.chosen(head) == spec for head in heads)
        nearer = sum(error < head.error(UNIFORM) for error, head in zip(errors, heads, strict=True))
        row: list[Cell] = [
            spec,
            "" if spec == UNIFORM else f"{found.cost(spec, *heads):.0%}",
            statistics.median(errors),
            min(errors),
            None if spec == UNIFORM else nearer,
            within,
            None if spec == UNIFORM else chosen,
        ]
        rows.append(row)
    return Table(
        "Every mechanism on every head",
        ["mechanism", "products", "median", "least", "nearer", "within", "chosen"],
        rows,
        f"Products as a share of softmax's at {found.measured.size}; {ERROR}, median and least of "
        f"{_which(found)}; heads on which it is nearer than uniform weights, is within "
        f"{found.settings.tolerance:g}, and was chosen.",
        drop=["least", "nearer", "products"],
    )


def _which(found: Found) -> str:
    everywhere = all(len(found.fitting(spec)) == len(found.heads) for spec in found.specs)
    return f"{len(found.heads)} heads" if everywhere else "the heads that can have it"


def _error_by_cost(found: Found) -> Drawn:
    lines = []
    for family in dict.fromkeys(name_of(spec) for spec in found.specs):
        specs = [spec for spec in found.specs if name_of(spec) == family]
        points = []
        for spec in specs:
            heads = found.fitting(spec)
            errors = sorted(head.error(spec) for head in heads)
            quarter = len(errors) // 4
            middle = statistics.median(errors)
            ends = errors[quarter], errors[len(errors) - 1 - quarter]
            points.append((found.cost(spec, *heads), middle, ends))
        points.sort()
        lines.append(Series(family, [p[:2] for p in points], [p[2] for p in points]))
    control = statistics.median(head.error(UNIFORM) for head in found.heads)
    return Drawn(
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


def _head_rows(found: Found) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for head in found.heads:
        place: dict[str, Value] = {"layer": head.layer, "name": head.name, "head": head.head}
        place |= {"part": head.part, "causal": head.causal}
        for spec in (UNIFORM, SOFTMAX, *found.tried(head)):
            exact = spec == SOFTMAX
            rows.append(
                place
                | {
                    "mechanism": spec,
                    "error": 0.0 if exact else head.error(spec),
                    "cost": 0.0 if spec == UNIFORM else found.cost(spec, head),
                    "chosen": found.chosen(head) == spec,
                }
            )
        for rank, (weights, output) in head.ranks.items():
            rows.append(place | {"rank": rank, "weights_error": weights, "error": output})
    return rows


def _outcome_rows(found: Found) -> list[dict[str, Value]]:
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
