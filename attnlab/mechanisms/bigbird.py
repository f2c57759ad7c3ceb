"""BigBird: softmax over a window of blocks, some global blocks and some random ones.

Letters: B batch, H heads, T queries, S keys, D head size, M value size; L block size,
Q query blocks, W key blocks that a query block attends to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnlab._argument_checks import check_read, check_seed, check_size
from attnlab._compiling import never_compiled
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms._block_sparse import (
    WindowMask,
    attend_blocks,
    gather_outputs,
    scatter_queries,
)
from attnlab.mechanisms.softmax import (
    Beta,
    Dropout,
    attend,
    dropout_rate,
    inverse_temperature,
    masked_softmax,
    scaled_scores,
)
from attnlab.state import KeyValues, State


class BigBird(Mechanism):
    """Query block a attends to key block b if one of them is global, if they are neighbors, or if b
    is one of a's random blocks."""

    name = "bigbird"
    by_scores = True
    card = Card(
        summary="softmax over a window of blocks, global blocks and random blocks",
        paper="Zaheer et al. 2020",
        arxiv="2007.14062",
        time="N W D",
        memory="N W",
        cross=False,
        packs=False,
    )
    compilable = True
    trials = (
        {"block": 2, "window_blocks": 1, "global_blocks": 1, "random_blocks": 1},
        {"block": 3, "window_blocks": 3, "global_blocks": 0, "random_blocks": 2, "seed": 5},
        {"block": 1, "window_blocks": 3, "global_blocks": 2, "random_blocks": 0},
        {"block": 64},
    )
    size_option = "block"
    # A wider window instead of random blocks: as many keys if causal, and enough where heads mostly
    # attend to the first token.
    variants = ({}, {"window_blocks": 9, "random_blocks": 0})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        block: Annotated[int, "Number of tokens in a block."] = 64,
        window_blocks: Annotated[int, "Odd number of blocks in the window around the query."] = 3,
        global_blocks: Annotated[
            int, "Number of first blocks that attend to all tokens and that all tokens attend to."
        ] = 1,
        random_blocks: Annotated[
            int, "Number of random blocks that each query block attends to."
        ] = 3,
        seed: Annotated[int, "Random seed for the random blocks."] = 0,
        beta: Beta = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, block=block, window_blocks=window_blocks)
        if window_blocks % 2 == 0:
            raise ValueError(
                f"bigbird: window_blocks is {window_blocks}; give an odd number: "
                "the query's block and the same number on each side"
            )
        check_size(self, least=0, global_blocks=global_blocks, random_blocks=random_blocks)
        check_seed(self, seed)
        self.block = block
        self.pattern = BlockPattern(window_blocks // 2, global_blocks, random_blocks, seed)
        self.beta = inverse_temperature(self, beta)
        self.dropout = dropout_rate(self, dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        T, S = q.shape[2], k.shape[2]
        edges = self.edges(S, mask.causal).to(q.device)  # (S, S)
        edges = edges[mask.positions(T, q.device)][:, None]  # (B or 1, 1, T, S)
        allowed = mask.allowed(T, S, q.device)
        allowed = edges if allowed is None else edges & allowed
        return masked_softmax(scaled_scores(q, k, self.beta), allowed)

    def edges(self, S: int, causal: bool, first: int = 0, last: int | None = None) -> Tensor:
        """(last - first, S) True where the block pattern lets a query attend to a key."""
        last, block = S if last is None else last, self.block_size(S)
        low, high = first // block, -(-last // block)  # only the requested rows
        edges = self.pattern.edges(low, high, -(-S // block), causal)
        edges = edges.repeat_interleave(block, 0).repeat_interleave(block, 1)
        return edges[first - low * block : last - low * block, :S]

    def block_size(self, S: int) -> int:
        """A block of all tokens is as good as a longer one, and needs less memory."""
        return max(1, min(self.block, S))

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        block, dropout = self.block_size(S), self.dropout if self.training else 0.0
        table = self.pattern.table(-(-S // block), mask.causal).to(q.device)
        allowed = WindowMask(mask.causal, None, self.use_compiled)
        placed = scatter_queries(q, S, mask)
        out = attend_blocks(placed, k, v, mask.keys, table, allowed, block, self.beta, dropout)
        global_queries = 0 if mask.causal else min(S, self.pattern.global_blocks * block)
        if global_queries:  # a few dense rows
            real = None if mask.keys is None else mask.keys[:, None, None, :]
            dense = attend(q[:, :, :global_queries], k, v, real, self.beta, dropout)
            out = torch.cat([dense, out[:, :, global_queries:]], dim=2)
        return gather_outputs(out, T, mask)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        own = self.as_own_state(state, KeyValues)
        k, v, keys = own.tensors_to_read()
        if q.shape[2] == 1 and len(q):
            return self._read_one(q, k, v, keys, Mask(start=start).positions(1, q.device))
        # Rows of different lengths have different patterns.
        lengths = torch.as_tensor(own.length).flatten().tolist()
        allowed = torch.zeros(len(lengths), q.shape[2], k.shape[2], dtype=torch.bool)
        for row, length in enumerate(lengths):
            edges = self.edges(length, False, length - q.shape[2], length)
            allowed[row, :, :length] = edges
        allowed = allowed[:, None].to(q.device)  # (B or 1, 1, T, S)
        if keys is not None:
            allowed = allowed & keys[:, None, None, :]
        return attend(q, k, v, allowed, self.beta, self.dropout if self.training else 0.0)

    def _read_one(
        self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, position: Tensor
    ) -> Tensor:
        """Reads for the newest token, from the blocks in its row of the causal table."""
        block = self.block_size(k.shape[2])
        rows = (position[:, 0] // block).tolist()  # (B or 1,)
        tables = [self.pattern.causal_row(row) for row in rows]
        blocks = pad_sequence(tables, True, -1).to(q.device)  # (B or 1, W)
        slots = blocks[..., None] * block + torch.arange(block, device=q.device)
        slots = slots.flatten(1)  # (B or 1, W*L)
        allowed = (slots >= 0) & (slots <= position)
        slots = slots.clamp(0, k.shape[2] - 1).expand(len(q), -1)  # (B, W*L)
        if keys is not None:
            allowed = allowed & keys.gather(1, slots)

        def pick(x: Tensor) -> Tensor:
            return x.gather(2, slots[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))

        dropout = self.dropout if self.training else 0.0
        return attend(q, pick(k), pick(v), allowed[:, None, None, :], self.beta, dropout)

    def signature(self) -> tuple[Any, ...]:
        return (*super().signature(), self.block, self.pattern)

    def visible_keys(self, tokens: int, causal: bool) -> int:
        return min(tokens, self.block * self.pattern.width(causal))

    def covers_all(self, tokens: int, causal: bool) -> bool:
        blocks = -(-tokens // self.block)
        if blocks > self.pattern.width(causal=False):
            return False  # avoids comparing every pair of blocks
        pairs = torch.ones(blocks, blocks, dtype=torch.bool)
        visible = self.pattern.edges(0, blocks, blocks, causal)
        return bool(visible[pairs.tril() if causal else pairs].all())

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        return {"block": -(-tokens // 16)}


@dataclass(frozen=True)
class BlockPattern:
    """Which key blocks each query block attends to."""

    neighbors: int
    """Neighboring blocks in each direction."""
    global_blocks: int
    random_blocks: int
    seed: int

    def width(self, causal: bool) -> int:
        """The largest number of key blocks of a query block that is not global."""
        near = self.neighbors + 1 if causal else 2 * self.neighbors + 1
        return self.global_blocks + near + self.random_blocks

    def edges(self, first: int, last: int, blocks: int, causal: bool) -> Tensor:
        """(last - first, blocks) True where a query block attends to a key block."""
        table = self.rows(first, last, blocks, causal)
        edges = torch.zeros(last - first, blocks + 1, dtype=torch.bool)  # the last column is for -1
        edges.scatter_(1, table % (blocks + 1), True)
        edges = edges[:, :blocks]
        if not causal:
            edges[: max(0, self.global_blocks - first)] = True
        return edges

    @never_compiled
    @lru_cache(maxsize=4096)  # noqa: B019
    def causal_row(self, row: int) -> Tensor:
        """The key blocks (W,) of query block `row`: the same at every length."""
        return self.rows(row, row + 1, row + 1, True)[0]

    def table(self, blocks: int, causal: bool) -> Tensor:
        """(Q, W): the key blocks that each query block attends to, -1 for an empty entry.

        The table leaves out that global query blocks attend to everything (unless causal: then
        all that they may see is global itself).
        """
        seed = (self.seed + 2**63) % 2**64 - 2**63  # equal for the hash, and fits into int64
        numbers = (self.neighbors, self.global_blocks, self.random_blocks, seed, blocks, causal)
        return _table_operator(*numbers) if torch.compiler.is_compiling() else _table(*numbers)

    @never_compiled
    def rows(self, first: int, last: int, blocks: int, causal: bool) -> Tensor:
        """Rows `first` to `last` of the table: global, window and random blocks.

        The random blocks of a row are those of smallest hash among the blocks that it does not see
        otherwise. So a causal row is the same at every length, and other rows change little.
        """
        own = np.arange(first, last)[:, None]  # (Q, 1)
        other = np.arange(blocks)[None]  # (1, blocks)
        shared = np.repeat(np.arange(min(self.global_blocks, blocks))[None], len(own), axis=0)
        neighbors = min(self.neighbors, blocks)
        near = own + np.arange(-neighbors, 1 if causal else neighbors + 1)
        near = np.where((near >= self.global_blocks) & (near < blocks), near, -1)
        far = abs(other - own) > self.neighbors
        free = far & (other >= self.global_blocks) & (own >= self.global_blocks)
        if causal:
            free &= other < own
            shared = np.where(shared <= own, shared, -1)
            near = np.where(near <= own, near, -1)
        rank = np.where(free, _hash(self.seed, own, other) >> np.uint64(1), np.uint64(2**63))
        picks = np.argsort(rank, axis=1, kind="stable")[:, : self.random_blocks]
        picks = np.where(np.take_along_axis(free, picks, 1), picks, -1)
        return torch.from_numpy(np.concatenate([shared, near, picks], axis=1).astype(np.int64))


@torch.library.custom_op("attnlab::bigbird_table", mutates_args=())
def _table_operator(
    neighbors: int, global_blocks: int, random_blocks: int, seed: int, blocks: int, causal: bool
) -> Tensor:
    """An operator, so that torch.compile does not trace it and a model works at any length."""
    return _table(neighbors, global_blocks, random_blocks, seed, blocks, causal).clone()


@_table_operator.register_fake
def _(
    neighbors: int, global_blocks: int, random_blocks: int, seed: int, blocks: int, causal: bool
) -> Tensor:
    del seed
    neighbors = torch.sym_min(neighbors, blocks)
    near = neighbors + 1 if causal else 2 * neighbors + 1
    width = torch.sym_min(global_blocks, blocks) + near + torch.sym_min(random_blocks, blocks)
    return torch.empty(blocks, width, dtype=torch.int64)


@lru_cache(maxsize=32)  # equal patterns share their tables
def _table(
    neighbors: int, global_blocks: int, random_blocks: int, seed: int, blocks: int, causal: bool
) -> Tensor:
    pattern = BlockPattern(neighbors, global_blocks, random_blocks, seed)
    step = 256  # rows at a time, so that the hashes of all pairs need not fit into memory
    starts = range(0, max(blocks, 1), step)
    rows = [pattern.rows(row, min(row + step, blocks), blocks, causal) for row in starts]
    return torch.cat(rows)


def _hash(seed: int, row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A fixed 64-bit hash of three numbers (the finalizer of SplitMix64, three times)."""
    mixed = np.array(seed % 2**64, dtype=np.uint64)
    for part in (row.astype(np.uint64), column.astype(np.uint64)):
        mixed = _mix(mixed) + part * np.uint64(0x9E3779B97F4A7C15)
    return _mix(mixed)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):  # arithmetic is modulo 2**64
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
