"""Which parts a block adds to the residual stream of one token: attention and feed-forward.

No family of models needs an adapter: the modules of the block are watched, and the parts are the
module outputs that add up to the stream after the block (or to the inputs of its norms, where these
follow each part). A block that adds up in no such way has no parts here.

Letters: W width, n modules, P parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.interpret._attention_sites import AttentionSite
from attnlab.interpret._walkthrough import BlockPart

TOLERANCE = 1e-4  # relative to the size of the stream
MAX_OUTPUTS = 60  # of one block that are combined
MAX_PARTS = 3


@dataclass
class ModuleRun:
    """One module of the block at the token: its first input and output, if they are vectors."""

    module: nn.Module
    before: Tensor | None
    after: Tensor | None


class BlockWatcher:
    """Keeps what the modules inside a block do with one token, in the order in which they end."""

    def __init__(self, block: nn.Module, query: int, length: int) -> None:
        self.block, self.query, self.length = block, query, length
        self.runs: list[ModuleRun] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            given = (*args, *kwargs.values())
            self.runs.append(ModuleRun(module, self.vector(given), self.vector(output)))

        with ExitStack() as stack:
            for module in self.block.modules():
                if module is not self.block:
                    stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)
            yield

    def vector(self, value: Any) -> Tensor | None:
        """The token's vector in the first tensor of a module's inputs or outputs."""
        if isinstance(value, tuple | list):
            tensors = [x for x in value if isinstance(x, Tensor)]
            return self.vector(tensors[0]) if tensors else None
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return None
        if value.dim() == 3 and value.shape[1] == self.length:
            value = value[0]
        if value.dim() != 2 or len(value) != self.length:  # some families join batch and tokens
            return None
        return value[self.query].detach().to("cpu", torch.float64, copy=True)


@dataclass
class SplitBlock:
    parts: list[BlockPart]
    norm_first: bool
    hidden: Tensor | None


def split_block(
    before: Tensor, after: Tensor, runs: Sequence[ModuleRun], sites: Sequence[AttentionSite]
) -> SplitBlock | None:
    """The parts of a block that turns the stream `before` into `after`, (W,) each."""
    tolerance = max(TOLERANCE, 4 * torch.finfo(after.dtype).eps)
    before, after = before.double().cpu(), after.double().cpu()
    order = [id(run.module) for run in runs]
    sites = sorted(
        (site for site in sites if id(site.module) in order),
        key=lambda site: order.index(id(site.module)),
    )
    # an output projection may be inside the attention layer, or behind it
    inside = {id(module) for site in sites for module in site.module.modules()}
    first = next((number for number, module in enumerate(order) if module in inside), 0)
    outputs = _distinct(runs[first:], len(before))
    matched = _added_at_once(before, after, outputs, len(sites), tolerance)
    norm_first = matched is not None
    matched = matched or _added_in_turn(before, after, outputs, runs[first:], tolerance)
    if matched is None:
        return None
    kinds = [*(site.kind for site in sites), "feed_forward"][: len(matched)]
    kinds += ["feed_forward"] * (len(matched) - len(kinds))
    parts = [
        BlockPart(cast(Any, kind), run.after.float())
        for kind, run in zip(kinds, matched, strict=True)
        if run.after is not None
    ]
    hidden = _hidden(matched[-1], runs) if kinds[-1] == "feed_forward" else None
    return SplitBlock(parts, norm_first, hidden)


def _distinct(runs: Sequence[ModuleRun], width: int) -> list[ModuleRun]:
    """Runs whose outputs are as wide as the stream; of equal outputs the last, the outer module."""
    kept: list[ModuleRun] = []
    for run in reversed(runs):
        x = run.after
        if x is None or len(x) != width or not bool(x.any()):
            continue
        if not any(torch.equal(x, other.after) for other in kept if other.after is not None):
            kept.append(run)
    return kept[:MAX_OUTPUTS][::-1]


def _added_at_once(
    before: Tensor, after: Tensor, outputs: list[ModuleRun], attending: int, tolerance: float
) -> list[ModuleRun] | None:
    """Outputs, in order, whose sum is what the block adds: of each attention layer and of the
    feed-forward layer, or (in blocks without one) of the attention layers alone."""
    if not outputs:
        return None
    stacked = torch.stack([run.after for run in outputs if run.after is not None])  # (n, W)
    target = after - before
    limit = tolerance * float(torch.maximum(before.abs(), after.abs()).max().clamp(min=1e-6))
    for count in range(min(attending, MAX_PARTS - 1), -1, -1):
        least, best = limit, None
        for indices in combinations(range(len(outputs)), count):
            start = indices[-1] + 1 if indices else 0
            if start == len(outputs):
                continue
            rest = target - stacked[list(indices)].sum(0)  # (W,)
            errors = (stacked[start:] - rest).abs().amax(-1)  # (n,)
            last = int(errors.argmin())
            if float(errors[last]) <= least:
                least, best = float(errors[last]), (*indices, start + last)
        if best is not None:
            return [outputs[index] for index in best]
    return None


def _added_in_turn(
    before: Tensor,
    after: Tensor,
    outputs: Sequence[ModuleRun],
    runs: Sequence[ModuleRun],
    tolerance: float,
) -> list[ModuleRun] | None:
    """Parts that are added and normalized one after the other, as in BERT."""

    def close(x: Tensor, y: Tensor) -> bool:
        return float((x - y).abs().max()) <= tolerance * float(y.abs().max().clamp(min=1e-6))

    base, parts = before, list[ModuleRun]()
    for norm in runs:
        if norm.before is None or norm.after is None or len(norm.before) != len(base):
            continue
        matching = (
            run for run in outputs if run.after is not None and close(base + run.after, norm.before)
        )
        added = None if close(base, norm.before) else next(matching, None)
        if added is None:
            continue
        base = norm.after
        parts.append(added)
        if close(base, after):
            return parts
    return None


def _hidden(part: ModuleRun, runs: Sequence[ModuleRun]) -> Tensor | None:
    """The input of the matrix whose output is the feed-forward layer's."""
    for run in runs:
        weight = getattr(run.module, "weight", None)
        if run.before is None or run.after is None or part.after is None or weight is None:
            continue
        if weight.dim() == 2 and torch.equal(run.after, part.after):
            return run.before.float()
    return None
