"""Several mechanisms in one layer, each for a group of heads.

Letters: H query heads, G key heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from attnlab.checks import check_read
from attnlab.mask import Mask
from attnlab.mechanism import Card, Mechanism
from attnlab.state import State


@dataclass(frozen=True, eq=False)
class GroupState(State):
    """One state for each group."""

    parts: tuple[State, ...]

    @property
    def batch(self) -> int:
        return self.parts[0].batch

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def select(self, rows: Tensor) -> Self:
        return self._map(lambda part: part.select(rows))

    def trim(self, lengths: Tensor) -> Self:
        return self._map(lambda part: part.trim(lengths))

    def spend(self) -> None:
        for part in self.parts:
            part.spend()

    def _map(self, change: Callable[[State], State]) -> Self:
        parts = tuple(change(part) for part in self.parts)
        return replace(self, length=parts[0].length, reach=parts[0].reach, parts=parts)


class HeadGroups(Mechanism):
    """The first heads belong to the first member, and so on. It can do what all members can."""

    name = "groups"

    def __init__(self, members: Sequence[Mechanism]) -> None:
        self.card = _common_card([member.card for member in members])
        limits = [member.max_length for member in members if member.max_length is not None]
        super().__init__(
            head_dim=members[0].head_dim,
            heads=sum(member.heads for member in members),
            max_length=min(limits, default=None),
        )
        self.members = nn.ModuleList(members)

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        split = self._split(q, k)
        return torch.cat([m.weights(q, k, mask) for m, (q, k) in split], dim=1)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return torch.cat([m.compute(q, k, v, mask) for m, (q, k, v) in self._split(q, k, v)], dim=1)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        old = [None] * len(self.members) if state is None else self.own(state, GroupState).parts
        split = self._split(k, v)
        parts = tuple(
            m.absorb(k, v, keys, part) for (m, (k, v)), part in zip(split, old, strict=True)
        )
        return GroupState(self.origin(k, v), parts[0].length, parts[0].reach, parts)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        parts = self.own(state, GroupState).parts
        split = zip(self._split(q), parts, strict=True)
        return torch.cat([m.read(q, part, start) for (m, (q,)), part in split], dim=1)

    def signature(self) -> tuple[Any, ...]:
        return tuple(m.signature() for m in self.members if isinstance(m, Mechanism))

    def condition(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        split = self._split(q, k)
        return torch.cat([m.condition(q, k, mask) for m, (q, k) in split], dim=1)

    def _split(self, *tensors: Tensor) -> list[tuple[Mechanism, list[Tensor]]]:
        """Each member with its heads of each tensor; grouped keys are split in proportion."""
        first, found = 0, []
        for member in self.members:
            assert isinstance(member, Mechanism)
            last, parts = first + member.heads, []
            for x in tensors:
                shared = self.heads // x.shape[1]  # query heads that share one of x's heads
                if first % shared or last % shared:
                    raise ValueError(
                        f"groups: heads {first} to {last - 1} belong to {member.name}, but "
                        f"{shared} query heads share each of {x.shape[1]} key heads; "
                        f"give each mechanism a multiple of {shared} heads"
                    )
                parts.append(x[:, first // shared : last // shared])
            found.append((member, parts))
            first = last
        return found


def _common_card(cards: Sequence[Card]) -> Card:
    """What all can do; what one of them needs."""
    every = ("causal", "cross", "padding", "constant_state", "rows_sum_to_one", "continuous")
    some = ("signed", "learned", "needs_length", "uses_query", "uses_key")
    facts: dict[str, Any] = {can: all(getattr(card, can) for card in cards) for can in every}
    facts |= {has: any(getattr(card, has) for card in cards) for has in some}
    return replace(cards[0], summary="a mechanism for each group of heads", **facts)
