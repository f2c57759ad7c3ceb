"""Reports of interventions: head importance, logit lens, attribution, patching, kinds of heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnlab._confidence_intervals import format_number
from attnlab.interpret._attribution import Attribution, Term
from attnlab.interpret._average_attention import AverageAttention
from attnlab.interpret._find_heads import KINDS, HeadScores
from attnlab.interpret._head_importance import HeadImportance
from attnlab.interpret._logit_lens import LensResult
from attnlab.interpret._patching_map import PatchingMap
from attnlab.report import Block, Cell, Figure, Heatmap, Report, Section, Table, Value

MAX_ROWS = 20  # of a table


def _report(
    kind: str,
    title: str,
    findings: Sequence[str],
    blocks: Sequence[Block],
    settings: Mapping[str, Value],
    measurements: Sequence[Mapping[str, Value]] = (),
    notes: Sequence[str] = (),
    seconds: float = 0.0,
) -> Report:
    if notes:
        blocks = [*blocks, Table("Notes", ["note"], [[note] for note in notes])]
    section = Section(
        kind, title, findings=list(findings), blocks=list(blocks), settings=dict(settings),
        measurements=list(measurements),
    )  # fmt: skip
    return Report(kind, title, [section], seconds=seconds)


def _head_map(
    rows: Sequence[Sequence[float | None]], numbers: Sequence[int], z: str, center: float | None
) -> Heatmap:
    width = max(len(row) for row in rows)
    values = [[*row, *[None] * (width - len(row))] for row in rows]
    columns, names = [str(head) for head in range(width)], [str(layer) for layer in numbers]
    return Heatmap("head", "layer", z, columns, names, values, center=center)


def position_names(tokens: Sequence[str]) -> list[str]:
    """Names of positions, all different, for the columns of a map."""
    return [f"{position} {text}" for position, text in enumerate(tokens)]


def importance_report(result: HeadImportance) -> Report:
    ranked = result.ranked()
    best = ranked[0]
    total = len(ranked)
    half = sum(abs(head.effect) for head in ranked) / 2
    needed, sum_so_far = 0, 0.0
    for head in ranked:
        if sum_so_far >= half:
            break
        needed, sum_so_far = needed + 1, sum_so_far + abs(head.effect)
    findings = [
        f"The whole model has {format_number(result.baseline)} ({result.description}, mean over "
        f"{result.texts} texts).",
        f"Head {best.layer}.{best.head} has the largest effect: {best.effect:+.4f} without it.",
        f"Half of the sum of all effects comes from {needed} of {total} heads.",
    ]
    names = dict(zip(result.numbers, result.layers, strict=True))
    table = Table(
        "Heads with the largest effect",
        ["layer.head", f"change of the {result.metric}", "layer"],
        [
            [f"{head.layer}.{head.head}", head.effect, names[head.layer]]
            for head in ranked[:MAX_ROWS]
        ],
        note=f"The effect is the metric without the head ({result.how} ablation) minus the metric "
        "of the whole model. Heads are ablated one at a time, so effects do not add up.",
    )
    how = (
        "only the blocks from the head on were run again"
        if result.replayed
        else "the whole model was run for each head"
    )
    figure = Figure(
        "Effect of each head",
        _head_map(result.effects, result.numbers, f"change of the {result.metric}", 0.0),
        f"{result.description[:1].upper()}{result.description[1:]}; {how}.",
    )
    rows: list[Mapping[str, Value]] = [
        {"layer": head.layer, "head": head.head, "effect": head.effect} for head in result.heads
    ]
    return _report(
        "head-importance", f"{result.label}: what each head does", findings, [figure, table],
        {"model": result.label, "metric": result.metric, "how": result.how, "texts": result.texts,
         "baseline": round(result.baseline, 4)},
        rows, result.notes, result.seconds,
    )  # fmt: skip


def lens_report(result: LensResult) -> Report:
    last = len(result.tokens) - 1
    final_token = result.top[-1][last][0][0]
    same = [row[last][0][0] == final_token for row in result.top]
    first = next(i for i in range(len(same)) if all(same[i:]))
    findings = [
        f"After the last token the model predicts {final_token!r} with probability "
        f"{result.top[-1][last][0][1]:.1%}.",
        f"From {result.layers[first]} on, every layer predicts it.",
    ]
    header = ["layer", "predicted", "probability", "next", "probability of next", "divergence"]
    rows: list[list[Cell]] = []
    for number, name in enumerate(result.layers):
        (one, p), (two, q) = result.top[number][last][0], (*result.top[number][last], ("", 0.0))[1]
        rows.append([name, one, p, two, q, float(result.divergence[number, last])])
    names = position_names(result.tokens)
    texts = [[f"{cell[0][0]} {cell[0][1]:.1%}" for cell in row] for row in result.top]
    blocks: list[Block] = [
        Table("Prediction after the last token, layer by layer", header, rows,
              note="Divergence (Kullback-Leibler, nats) is from the prediction of the whole model.",
              drop=["probability of next", "next", "divergence"]),
        Figure(
            "Probability of the token that the whole model predicts",
            Heatmap("position", "layer", "probability", names, list(reversed(result.layers)),
                    list(reversed(result.final_probability.tolist())),
                    texts=list(reversed(texts))),
            "The last layer is at the top. Each cell's text is what the layer predicts there.",
        ),
    ]  # fmt: skip
    settings: dict[str, Value] = {"model": result.label, "tuned": result.probe is not None}
    if result.probe is not None:
        probe = result.probe
        held = probe.held_out_tokens or probe.tokens
        where = "held-out tokens" if probe.held_out_tokens else "tokens of the fit itself"
        findings.append(f"The probes were fitted on {probe.tokens} tokens.")
        blocks.append(
            Table("What the probes gain", ["layer", "plain lens", "tuned lens"],
                  [list(row) for row in zip(result.layers, probe.plain_divergence,
                                            probe.tuned_divergence, strict=True)],
                  note=f"Mean divergence from the whole model's prediction, on {held} {where}.")
        )  # fmt: skip
    measurements: list[Mapping[str, Value]] = [
        {"layer": name, "position": position, "token": token,
         "predicted": result.top[number][position][0][0],
         "probability": result.top[number][position][0][1],
         "divergence": float(result.divergence[number, position])}
        for number, name in enumerate(result.layers) for position, token in enumerate(result.tokens)
    ]  # fmt: skip
    title = f"{result.label}: what each layer predicts"
    return _report("logit-lens", title, findings, blocks, settings, measurements, result.notes)


def term_name(term: Term) -> str:
    if term.kind == "head":
        return f"head {term.layer}.{term.head}"
    return term.kind if term.layer is None else f"{term.kind} {term.layer}"


def attribution_report(result: Attribution) -> Report:
    where = "" if result.position is None else f" after token {result.position}"
    findings = [
        f"The logit of {result.token!r}{where} is {result.logit:.4f}; the {len(result.terms)} "
        f"terms sum to {result.total:.4f}.",
        f"The largest term is {term_name(result.ranked()[0])}: {result.ranked()[0].value:+.4f}.",
    ]
    table = Table(
        "The largest terms",
        ["term", "adds to the logit"],
        [[term_name(term), term.value] for term in result.ranked()[:MAX_ROWS]],
        note="The scale of every norm is frozen at its value. A term's effect through later layers "
        "is not part of it.",
    )
    rows: list[Mapping[str, Value]] = [
        {"term": term_name(term), "kind": term.kind, "layer": term.layer, "head": term.head,
         "name": term.name, "value": term.value}
        for term in result.terms
    ]  # fmt: skip
    return _report(
        "attribution", f"{result.label}: what adds to the logit of {result.token!r}", findings,
        [table], {"model": result.label, "token": result.token, "logit": result.logit}, rows,
        result.notes,
    )  # fmt: skip


def head_scores_report(result: HeadScores) -> Report:
    listed = ", ".join(f"{head.layer}.{head.head} ({head.score:.2f})" for head in result.heads[:8])
    more = f" and {len(result.heads) - 8} more" if len(result.heads) > 8 else ""
    findings = [
        f"{len(result.heads)} {result.kind} heads: {listed}{more}."
        if result.heads
        else f"No {result.kind} head scores {result.threshold:g} or more."
    ]
    figure = Figure(
        f"Scores of all heads: {result.kind}",
        _head_map(result.scores, result.numbers, "score", None),
        f"The share of the weight on {KINDS[result.kind]}, minus chance, relative to the maximum; "
        f"on {result.scored_on}.",
    )
    rows: list[Mapping[str, Value]] = [
        {"layer": layer, "head": head, "score": score}
        for layer, row in zip(result.numbers, result.scores, strict=True)
        for head, score in enumerate(row)
    ]
    settings: dict[str, Value] = {
        "model": result.label, "kind": result.kind, "threshold": result.threshold,
    }  # fmt: skip
    title = f"{result.label}: {result.kind} heads"
    return _report("head-scores", title, findings, [figure], settings, rows)


def average_report(result: AverageAttention) -> Report:
    figure = Figure(
        f"Mean attention of head {result.layer}.{result.head} by {result.by}",
        Heatmap("attended to", "attends", "mean weight", result.names, result.names,
                result.weights.tolist()),
        f"Over {result.texts} texts.",
    )  # fmt: skip
    settings: dict[str, Value] = {
        "model": result.label, "layer": result.layer, "head": result.head, "texts": result.texts,
    }  # fmt: skip
    title = f"{result.label}: mean attention of head {result.layer}.{result.head}"
    return _report("average-attention", title, [], [figure], settings)


def patching_report(result: PatchingMap) -> Report:
    best = int(result.restored.flatten().argmax())
    layer, position = divmod(best, result.restored.shape[1])
    value = float(result.restored[layer, position])
    findings = [
        f"The clean text has {result.clean:.4f}, the corrupted one {result.corrupted:.4f} "
        f"({result.description}).",
        f"The best patch is after {result.layers[layer]} at token {position} "
        f"({result.clean_tokens[position]!r}): it restores {value:.0%} of the difference.",
    ]
    changed = [
        one if one == other else f"{one}/{other}"
        for one, other in zip(result.clean_tokens, result.corrupted_tokens, strict=True)
    ]
    # without -0 where rounding leaves nearly nothing
    rounded = [[round(x, 6) + 0.0 for x in row] for row in reversed(result.restored.tolist())]
    figure = Figure(
        "Part of the difference that a patch restores",
        Heatmap("position", "layer", "restored", position_names(changed),
                list(reversed(result.layers)), rounded,
                center=0.0),
        "The residual stream after the layer, at the position, comes from the clean text. The last "
        "layer is at the top.",
    )  # fmt: skip
    rows: list[Mapping[str, Value]] = [
        {"layer": name, "position": place, "restored": float(result.restored[number, place]),
         "value": float(result.values[number, place])}
        for number, name in enumerate(result.layers) for place in range(len(changed))
    ]  # fmt: skip
    return _report(
        "patching", f"{result.label}: where the answer is decided", findings, [figure],
        {"model": result.label, "metric": result.description, "clean": round(result.clean, 4),
         "corrupted": round(result.corrupted, 4)},
        rows,
    )  # fmt: skip
