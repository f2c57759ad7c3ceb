"""`attnlab.patching_map`: where in a model the answer is decided, by activation patching.

Two texts of equal length differ in a few tokens. The model reads the corrupted one while the
residual stream at one layer and one position is replaced by that of the clean one. The value is the
part of the difference between both answers that this restores: 0 none, 1 all.

Letters: L layers, T tokens, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlab.interpret._adapters import open_model
from attnlab.interpret._head_importance import Progress
from attnlab.interpret._logit_lens import RUN_ENTRIES, LensInput
from attnlab.interpret._metrics import FixedMetric, create_metric
from attnlab.interpret._model_input import ModelInput, Text, read_input
from attnlab.interpret._run_model import evaluating

if TYPE_CHECKING:
    from attnlab.report import Report

LEAST = 1e-6  # a smaller difference between the two texts cannot be restored


@dataclass(frozen=True, eq=False)
class PatchingMap:
    """`restored[layer][position]`, first of the embedding."""

    label: str
    layers: list[str]
    clean_tokens: list[str]
    corrupted_tokens: list[str]
    restored: Tensor
    """(L, T)."""
    values: Tensor
    """(L, T) the metric itself after each patch."""
    clean: float
    corrupted: float
    description: str

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import patching_report

        return patching_report(self)


def patching_map(
    model: Any,
    clean: Text,
    corrupted: Text,
    answer: str | int,
    *,
    other: str | int | None = None,
    position: int | None = None,
    tokenizer: Any = None,
    pair: str | None = None,
    progress: Progress | None = None,
) -> PatchingMap:
    """Patch the residual stream at every layer and position from a clean into a corrupted text.

    It measures the logit of `answer` (minus that of `other`, if given) after the last token or at
    `position`. Both texts need equally many tokens.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> found = attnlab.patching_map(model, [5, 6, 7, 5], [5, 8, 7, 5], answer=6)
    >>> found.restored.shape  # embedding and layers, positions
    torch.Size([3, 4])
    >>> round(float(found.restored[0, 1]), 3)  # the only token that differs restores everything
    1.0
    """
    by_ids = not isinstance(clean, str) and not isinstance(corrupted, str)
    opened = model  # with token ids, a model in memory needs no tokenizer
    if not (by_ids and tokenizer is None and isinstance(model, torch.nn.Module)):
        opened = open_model(model, tokenizer)
    sources = [read_input(opened, text, pair=pair) for text in (clean, corrupted)]
    _check_lengths(*sources)
    metric = create_metric(
        "logit" if other is None else "logit_difference", answer, other, position
    )
    with evaluating(sources[0].model), torch.no_grad():
        good, bad = (LensInput(source) for source in sources)
        fixed = [metric.fix(each.source, each.replay.output) for each in (good, bad)]
        before = [
            float(each.read(x.replay.output)[0]) for each, x in zip(fixed, (good, bad), strict=True)
        ]
        if abs(before[0] - before[1]) < LEAST:
            raise ValueError(
                f"both texts give the same {fixed[0].describe()} ({before[0]:.4f}), so a patch has "
                "nothing to restore; give texts or an answer that differ"
            )
        values = _patched_values(good, bad, metric, progress)
    restored = (values - before[1]) / (before[0] - before[1])
    return PatchingMap(
        sources[0].label, good.names, sources[0].tokens, sources[1].tokens, restored, values,
        before[0], before[1], fixed[0].describe(),
    )  # fmt: skip


def _patched_values(
    good: LensInput, bad: LensInput, metric: Any, progress: Progress | None
) -> Tensor:
    """(L, T) the metric after each patch. All positions of a layer run as rows of one batch."""
    L, T, _ = bad.streams.shape
    entries = bad.replay.output.values[0].numel()
    step = max(1, RUN_ENTRIES // max(1, entries))
    rows = []
    for layer in range(L):
        parts = []
        for positions in torch.arange(T).split(step):
            streams = bad.streams[layer : layer + 1].repeat(len(positions), 1, 1)
            number = torch.arange(len(positions))
            streams[number, positions] = good.streams[layer, positions]
            output = bad.run_from(layer, streams)
            source = bad.source.repeated(len(streams))
            fixed = FixedMetric(metric, source, output)
            fixed.prepare()
            parts.append(fixed.read(output))
        rows.append(torch.cat(parts))
        if progress is not None:
            progress(layer + 1, L)
    return torch.stack(rows)


def _check_lengths(clean: ModelInput, corrupted: ModelInput) -> None:
    one, other = clean.ids.shape[1], corrupted.ids.shape[1]
    if one != other or any(
        clean.inputs[name].shape != corrupted.inputs[name].shape for name in clean.inputs
    ):
        raise ValueError(
            f"the clean text has {one} tokens and the corrupted one {other}; give texts with "
            "equally many tokens"
        )
    same = all(torch.equal(clean.inputs[name], corrupted.inputs[name]) for name in clean.inputs)
    if same:
        raise ValueError("both texts have the same tokens; give texts that differ")
