"""Which keys each query may attend to, described without a mask tensor.

Letters: B batch, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


@dataclass(frozen=True, eq=False)
class Mask:
    """Key j has position j, query i has position `start + i`.

    A query may attend to every real key; if `causal`, only to those that are not later; with
    `segments`, only to those of its own document.
    """

    causal: bool = False
    keys: Tensor | None = None
    """(B, S) True for a real token, False for padding. Padding may hold anything, even NaN."""
    start: int | Tensor = 0
    """Absolute position of the first query: one number, or (B,) one per row."""
    segments: Tensor | None = None
    """(B, S) the number of each token's document, for several documents packed into one row. It may
    not decrease along a row. Only for self-attention from start 0."""

    def __post_init__(self) -> None:
        keys, start = self.keys, self.start
        if not isinstance(self.causal, bool):  # not 1, nor a tensor
            raise ValueError(f"Mask: causal is {_describe_value(self.causal)}; give True or False")
        if keys is not None and not (
            isinstance(keys, Tensor) and keys.dtype == torch.bool and keys.dim() == 2
        ):
            raise ValueError(
                f"Mask: keys is {_describe_value(keys)}; "
                "give a torch.bool tensor (B, S), True for a real token"
            )
        if isinstance(start, Tensor):
            is_integer = not (start.is_floating_point() or start.is_complex())
            fits = is_integer and start.dtype != torch.bool and start.dim() == 1
        else:
            fits = isinstance(start, int) and not isinstance(start, bool)
        if not fits:
            raise ValueError(
                f"Mask: start is {_describe_value(start)}; "
                "give an int, or an integer tensor (B,) with one position per row"
            )
        if self.segments is not None:
            self._check_segments(self.segments)

    def _check_segments(self, segments: object) -> None:
        whole = isinstance(segments, Tensor) and segments.dtype in INTEGERS
        if not (isinstance(segments, Tensor) and whole and segments.dim() == 2):
            raise ValueError(
                f"Mask: segments is {_describe_value(segments)}; "
                "give an integer tensor (B, S) with the number of each token's document"
            )
        if not self.from_zero:
            raise ValueError(
                f"Mask: segments with start {_describe_value(self.start)}; "
                "packed documents need start 0"
            )
        if not torch.compiler.is_compiling() and bool((segments[:, 1:] < segments[:, :-1]).any()):
            raise ValueError(
                "Mask: segments decrease along a row; number the documents in their order"
            )

    def check_tokens(self, rows: int, tokens: int) -> None:
        """Refuse segments that do not number each of these tokens."""
        if self.segments is not None and self.segments.shape != (rows, tokens):
            raise ValueError(
                f"segments has shape {tuple(self.segments.shape)}; give {(rows, tokens)}, one "
                "number for each token"
            )

    @property
    def is_packed(self) -> bool:
        """Whether rows hold documents. Empty rows hold none."""
        return self.segments is not None and self.segments.numel() > 0

    @property
    def from_zero(self) -> bool:
        """Whether the first query of every row has position 0."""
        return not isinstance(self.start, Tensor) and self.start == 0

    def positions(self, T: int, device: torch.device) -> Tensor:
        """Absolute positions of T queries: (B or 1, T); with segments, within their documents."""
        steps = torch.arange(T, device=device)
        if self.segments is not None:
            first = torch.where(self.document_starts.to(device), steps, 0)
            return steps - first.cummax(1).values  # (B, T)
        if isinstance(self.start, Tensor):
            return self.start.to(device)[:, None] + steps  # (B, T)
        return (self.start + steps)[None]  # (1, T)

    def positions_to_index(self, T: int, device: torch.device) -> Tensor | slice:
        """The positions of T queries as an index of a table: a slice if all rows have the same."""
        if self.segments is None and isinstance(self.start, int):
            return slice(self.start, self.start + T)
        return self.positions(T, device)

    def allowed(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T or 1, S), True where a query may attend; None if every query sees all."""
        allowed = None if self.keys is None else self.keys[:, None, None, :]  # (B, 1, 1, S)
        if self.causal:
            later = torch.arange(S, device=device) > self.row.positions(T, device)[..., None]
            earlier = ~later[:, None]  # (B or 1, 1, T, S)
            allowed = earlier if allowed is None else earlier & allowed
        if self.segments is not None:
            same = (self.segments[:, :, None] == self.segments[:, None])[:, None]  # (B, 1, S, S)
            allowed = same if allowed is None else same & allowed
        return allowed

    @property
    def row(self) -> Mask:
        """The same mask without segments."""
        return self if self.segments is None else replace(self, segments=None)

    @property
    def document_starts(self) -> Tensor:
        """(B, S) True for the first token of each document."""
        assert self.segments is not None
        return self.segments.diff(dim=1, prepend=self.segments[:, :1] - 1) != 0

    @cached_property
    def document_lengths(self) -> list[list[int]]:
        """For each row, how many tokens each of its documents has."""
        assert self.segments is not None
        return [row.unique_consecutive(return_counts=True)[1].tolist() for row in self.segments]

    @cached_property
    def document_bounds(self) -> Tensor:
        """(B, S, 2) the first position of each token's document, and the first after it."""
        starts = self.document_starts
        S, device = starts.shape[1], starts.device
        steps = torch.arange(S, device=device)
        first = torch.where(starts, steps, 0).cummax(1).values
        begins = torch.where(starts, steps, S)[:, 1:].flip(1).cummin(1).values.flip(1)
        last = torch.cat([begins, begins.new_full((len(starts), 1), S)], dim=1)[:, :S]
        return torch.stack([first, last], dim=-1)

    def longest_document(self, S: int) -> int:
        """Tokens of the longest document in rows of S tokens."""
        if self.segments is None:
            return S
        return max((length for row in self.document_lengths for length in row), default=0)

    @cached_property
    def documents(self) -> list[list[Mask]]:
        """For each row, the mask of each of its documents alone."""
        rows = []
        for row, lengths in enumerate(self.document_lengths):
            if self.keys is None:
                rows.append([Mask(self.causal)] * len(lengths))
                continue
            parts = self.keys[row : row + 1].split(lengths, dim=1)
            rows.append([Mask(self.causal, None if bool(k.all()) else k) for k in parts])
        return rows

    def describe(self) -> str:
        """The mask as error messages show it."""
        keys = "None" if self.keys is None else str(tuple(self.keys.shape))
        start = (
            f"tensor {tuple(self.start.shape)}" if isinstance(self.start, Tensor) else self.start
        )
        segments = "" if self.segments is None else f", segments={tuple(self.segments.shape)}"
        return f"Mask(causal={self.causal}, keys={keys}, start={start}{segments})"


NO_MASK = Mask()
"""Every query may attend to every key."""


def _describe_value(x: object) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype} of shape {tuple(x.shape)}"
    return f"{type(x).__name__} {x!r}"[:80]
