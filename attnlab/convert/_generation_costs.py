"""Memory and time of generation at given lengths.

The states are made of random keys and values: neither depends on what the tokens are, and reading
32,000 of them would take minutes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attnlab.convert._stages import block_of
from attnlab.layers import BlockState, LayerState
from attnlab.models import Decoder
from attnlab.models._stack import StackState

STEPS = 8  # the last tokens, which are generated; the first one makes room for the others
CHUNK = 1024  # tokens absorbed at once
MOST_BYTES = 6e9  # of a state


@dataclass(frozen=True)
class GenerationCost:
    """Of one text, at the end of this many tokens."""

    tokens: int
    cache_bytes: int
    seconds: float
    """Median time of one of the last tokens."""


def generation_costs(model: Decoder, lengths: Sequence[int]) -> list[GenerationCost]:
    """Costs at the lengths that the model reads and that fit into memory."""
    limit = model.max_length
    allowed = [n for n in lengths if limit is None or n <= limit]
    if limit is not None and not allowed:
        allowed = [limit]
    return [_measure(model, n) for n in allowed if _largest_bytes(model, n) <= MOST_BYTES]


def _largest_bytes(model: Decoder, tokens: int) -> float:
    """Of a state that keeps all keys and values, with room to grow."""
    first = block_of(model, 0).attention
    return 2 * 2 * 4.0 * len(model.stack.blocks) * first.key_heads * first.head_dim * tokens


@torch.no_grad()
def _measure(model: Decoder, tokens: int) -> GenerationCost:
    generator = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    states, first = [], max(1, tokens - STEPS)
    for layer in range(len(model.stack.blocks)):
        attention = block_of(model, layer).attention
        state = None
        for start in range(0, first, CHUNK):
            shape = (1, attention.key_heads, min(CHUNK, first - start), attention.head_dim)
            k, v = (torch.randn(shape, generator=generator).to(device) for _ in range(2))
            state = attention.mechanism.absorb(k, v, state=state)
        assert state is not None
        states.append(BlockState(LayerState(state, None), None))
    whole = StackState(tuple(states), first).overwritable()
    ids, seconds = torch.zeros(1, dtype=torch.long, device=device), []
    for _ in range(STEPS):
        begin = time.perf_counter()
        _, whole = model.step(ids, whole)
        seconds.append(time.perf_counter() - begin)
    size = sum(block.attention.nbytes for block in whole.blocks)
    return GenerationCost(tokens, size, statistics.median(seconds))
