"""`attnlab.head_importance`: how much a model's prediction changes when each head is ablated.

Letters: L layers, H heads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._attention_sites import AttentionSite
from attnlab.interpret._intervene import Ablation, intervene
from attnlab.interpret._layer_numbers import list_numbers, numbers_among
from attnlab.interpret._metrics import MetricFunction, MetricName, create_metric
from attnlab.interpret._model_input import ModelInput, Text, read_all, read_input
from attnlab.interpret._record import recording_heads
from attnlab.interpret._replay import Replay, same_shape_batches
from attnlab.interpret._run_model import evaluating

if TYPE_CHECKING:
    from attnlab.report import Report

OUTPUT_ENTRIES = 2**25  # numbers of a batch's output: 128 MB in float32
Progress = Callable[[int, int], None]
"""Gets the number of runs that are done, and of all."""


@dataclass(frozen=True)
class HeadEffect:
    """One head: its effect is the metric without it minus the metric of the whole model."""

    layer: int
    """Its number, as in `intervene`."""
    head: int
    effect: float
    per_text: tuple[float, ...] = ()
    """In the order of the texts."""


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """The effects of all heads. `effects` has a row for each of `layers`, with None for a head that
    was not ablated."""

    label: str
    layers: list[str]
    numbers: list[int]
    """Of the layers, as in `intervene`."""
    effects: list[list[float | None]]
    heads: list[HeadEffect]
    metric: str
    description: str
    baseline: float
    """The metric of the whole model, mean over the texts."""
    texts: int
    how: str
    seconds: float
    replayed: bool
    """Whether only the blocks from the ablated head on were run again."""
    notes: list[str] = field(default_factory=list)

    def ranked(self) -> list[HeadEffect]:
        """The heads with the largest effect, of either sign, first."""
        return sorted(self.heads, key=lambda head: -abs(head.effect))

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import importance_report

        return importance_report(self)


def head_importance(
    model: Any,
    texts: Sequence[Text] | Text | None = None,
    *,
    metric: MetricName | MetricFunction = "loss",
    answer: str | int | None = None,
    other: str | int | None = None,
    position: int | None = None,
    how: Ablation = "zero",
    heads: Sequence[tuple[int, int]] | None = None,
    images: Sequence[str | Path] = (),
    tokenizer: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> HeadImportance:
    """Ablate each head alone, and measure how the model's prediction changes.

    `metric` is "loss" (of the next tokens), "logit", "probability" or "logit_difference" (of
    `answer`, and `other`, at `position`: the last token or the mask), "distance" (how far the
    output moves), or a function of one text's logits and ids. Without `answer` it is what the whole
    model predicts. `heads` are pairs of layer and head; without it, all. Only the blocks from the
    ablated head on run again. A vision model reads `images`.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> result = attnlab.head_importance(model, [[5, 6, 7, 5], [8, 9, 8, 9]])
    >>> len(result.heads), len(result.effects[0]), result.metric
    (6, 3, 'loss')
    """
    start = time.perf_counter()
    chosen = create_metric(metric, answer, other, position)
    sources = _read(model, texts, images, tokenizer)
    module = sources[0].model
    whole = intervene(module)
    with evaluating(module), torch.no_grad():
        counts, width, notes, single = ablatable_sites(module, sources[0])
        skipped = single if how in ("mean", "resample") else set()
        names = [site.name for site, _ in counts]
        numbers = numbers_among(names, [site.name for site in whole.sites])
        chosen_heads = _chosen_heads(counts, numbers, heads, skipped)
        if skipped:
            listed = ", ".join(names[row] for row in sorted(skipped))
            notes.append(f"Not ablated, because {how} needs several queries: {listed}.")
        batches = same_shape_batches(sources, OUTPUT_ENTRIES // max(1, width))
        runs = len(batches) * len(chosen_heads)
        done, effects = 0, {each: [0.0] * len(sources) for each in chosen_heads}
        baselines, descriptions, replayed = list[float](), list[str](), True
        for batch, places in batches:
            replay = Replay(batch, [site for site, _ in counts])
            fixed = chosen.fix(batch, replay.output)
            before = fixed.read(replay.output)  # (B,)
            baselines += before.tolist()
            descriptions.append(fixed.describe())
            for row, head in chosen_heads:
                site = counts[row][0]
                with whole.ablate(site.name, head, how, seed=seed):
                    after = fixed.read(replay.run_from(replay.block_index(site)))
                for text, effect in zip(places, (after - before).tolist(), strict=True):
                    effects[row, head][text] = effect
                done += 1
                if progress is not None:
                    progress(done, runs)
            replayed = replayed and replay.usable
    measured = [
        HeadEffect(numbers[row], head, sum(values) / len(values), tuple(values))
        for (row, head), values in effects.items()
    ]
    table: list[list[float | None]] = [[None] * count for _, count in counts]
    for (row, head), each in zip(effects, measured, strict=True):
        table[row][head] = each.effect
    return HeadImportance(
        label=sources[0].label,
        layers=names,
        numbers=numbers,
        effects=table,
        heads=measured,
        metric=chosen.name,
        description=descriptions[0] if len(set(descriptions)) == 1 else chosen.name,
        baseline=sum(baselines) / len(baselines),
        texts=len(sources),
        how=how,
        seconds=time.perf_counter() - start,
        replayed=replayed,
        notes=notes,
    )


def _read(
    model: Any,
    texts: Sequence[Text] | Text | None,
    images: Sequence[str | Path],
    tokenizer: Any,
) -> list[ModelInput]:
    if (texts is None) == (not images):
        raise ValueError("head_importance: give either texts or images")
    if texts is not None:
        return read_all(model, texts, tokenizer=tokenizer)
    first = read_input(model, None, tokenizer=tokenizer, image=images[0])
    return [first, *(read_input(first.inspected, None, image=image) for image in images[1:])]


def ablatable_sites(
    model: Any, source: ModelInput
) -> tuple[list[tuple[AttentionSite, int]], int, list[str], set[int]]:
    """The layers that run, in that order, with their numbers of heads; the width of the output;
    notes; the places of the layers with a single query."""
    sites = attention_sites(model)
    refused: list[str] = []
    with recording_heads(sites, refused) as outputs:
        width = int(source.run().values.shape[-1])
    if not outputs:
        raise ValueError(
            f"{source.label}: no layer shows the outputs of its heads, so none can be ablated"
        )
    by_name = {site.name: site for site in sites}
    idle = [name for name in by_name if name not in outputs and name not in refused]
    reasons = {"they did not run": idle, "they show no outputs of their heads": refused}
    notes = [
        f"Not ablated, because {reason}: {', '.join(names)}."
        for reason, names in reasons.items()
        if names
    ]
    first = {name: z for name, z in outputs.items() if name in by_name}  # without repeated runs
    single = {number for number, z in enumerate(first.values()) if z.shape[1] == 1}
    return [(by_name[name], z.shape[2]) for name, z in first.items()], width, notes, single


def _chosen_heads(
    counts: list[tuple[AttentionSite, int]],
    numbers: list[int],
    heads: Sequence[tuple[int, int]] | None,
    skipped: set[int],
) -> list[tuple[int, int]]:
    """The place of the layer and the head, of each."""
    if heads is None and len(skipped) < len(counts):
        rows = [row for row in range(len(counts)) if row not in skipped]
        return [(row, head) for row in rows for head in range(counts[row][1])]
    if heads is None:
        raise ValueError("every layer has one query only; give texts of two or more tokens")
    if not heads:
        raise ValueError("heads is empty; give pairs of layer and head, or omit it for all heads")
    if any(not isinstance(number, int) for pair in heads for number in pair):
        raise ValueError(f"heads is {heads!r}; give pairs of whole numbers, layer and head")
    for layer, head in heads:
        if layer not in numbers:
            raise ValueError(f"no layer {layer}; give {list_numbers(numbers)}")
        site, count = counts[numbers.index(layer)]
        site.check_heads([head], count)
    return list(dict.fromkeys((numbers.index(layer), head) for layer, head in heads))
