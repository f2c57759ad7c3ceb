"""Several mechanisms in one layer, each for a group of heads.

Letters: H query heads, G key heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab._argument_checks import check_read
from attnlab.gates import Gates
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism
from attnlab.state import JoinedState, State


class HeadGroups(Mechanism):
    """One mechanism for each group of heads. It can do what all its members can.

    Member i computes the heads `head_indices[i]`. Without `head_indices`, the first heads belong to
    the first member, and so on.
    """

    name = "groups"

    def __init__(
        self, members: Sequence[Mechanism], head_indices: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.card = _common_card([member.card for member in members])
        limits = [member.max_length for member in members if member.max_length is not None]
        super().__init__(
            head_dim=members[0].head_dim,
            heads=sum(member.heads for member in members),
            max_length=min(limits, default=None),
        )
        self.members = nn.ModuleList(members)
        if head_indices is None:
            head_indices = _consecutive_heads(members)
        self.head_indices = [list(heads) for heads in head_indices]
        counts = [member.heads for member in members]
        order = [head for heads in self.head_indices for head in heads]
        if [len(heads) for heads in self.head_indices] != counts or sorted(order) != list(
            range(self.heads)
        ):
            raise ValueError(
                f"groups: the members have {counts} heads, but the indices are "
                f"{self.head_indices}; "
                f"list each of the {self.heads} heads once, in groups of these sizes"
            )
        self.gates = tuple(
            replace(gate, name=group_gate(gate.name, index))
            for index, member in enumerate(members)
            for gate in member.gates
        )
        # where each head lies in the members' joined output; None if they are in order
        self.order = None if order == sorted(order) else torch.tensor(order).argsort().tolist()

    @property
    def use_compiled(self) -> bool:
        return any(member.use_compiled for member in members_of(self))

    @use_compiled.setter
    def use_compiled(self, value: bool) -> None:
        for member in members_of(self):
            member.use_compiled = value

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK, **gates: Tensor) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        return self._join(
            [cast(Any, m).weights(q, k, mask, **own) for m, own, (q, k) in self._split(gates, q, k)]
        )

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        split = self._split(gates, q, k, v)
        return self._join([m.attend(q, k, v, mask, **own) for m, own, (q, k, v) in split])

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None,
        **gates: Tensor,
    ) -> State:  # fmt: skip
        k, v = self.prepare_memory(k, v, keys, state)
        old = (
            [None] * len(self.members)
            if state is None
            else self.as_own_state(state, JoinedState).parts
        )
        split = self._split(gates, k, v)
        parts = tuple(
            cast(Any, m).absorb(k, v, keys, part, **own)
            for (m, own, (k, v)), part in zip(split, old, strict=True)
        )
        return JoinedState.of(self.origin(k, v), *parts)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        parts = self.as_own_state(state, JoinedState).parts
        split = zip(self._split({}, q), parts, strict=True)
        return self._join([m.read(q, part, start) for (m, _, (q,)), part in split])

    def create_gates(self, width: int, key_heads: int) -> nn.Module | None:
        return GroupGates(members_of(self), width, key_heads) if self.gates else None

    def signature(self) -> tuple[Any, ...]:
        parts = zip(members_of(self), self.head_indices, strict=True)
        return tuple((member.signature(), *heads) for member, heads in parts)

    def condition(self, q: Tensor, k: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        split = self._split(gates, q, k)
        return self._join([m.condition(q, k, mask, **own) for m, own, (q, k) in split])

    def _join(self, parts: list[Tensor]) -> Tensor:
        """The members' heads in the order of the layer."""
        joined = torch.cat(parts, dim=1)
        return joined if self.order is None else joined[:, self.order]

    def _split(self, gates: Gates, *tensors: Tensor) -> list[tuple[Mechanism, Gates, list[Tensor]]]:
        """Each member with its gates and its heads of each tensor."""
        parts = []
        for index, (member, heads) in enumerate(
            zip(members_of(self), self.head_indices, strict=True)
        ):
            own = {
                gate.name: _heads_of(gates[group_gate(gate.name, index)], heads, self.heads)
                for gate in member.gates
                if gates
            }
            parts.append((member, own, [_heads_of(x, heads, self.heads) for x in tensors]))
        return parts


class GroupGates(nn.Module):
    """The gates of all members, each for all key heads."""

    def __init__(self, members: Sequence[Mechanism], width: int, key_heads: int) -> None:
        super().__init__()
        made = {str(i): member.create_gates(width, key_heads) for i, member in enumerate(members)}
        self.members = nn.ModuleDict({i: gates for i, gates in made.items() if gates is not None})

    def forward(self, x: Tensor) -> Gates:
        return {
            group_gate(name, int(member)): gate
            for member, gates in self.members.items()
            for name, gate in gates(x).items()
        }


def group_gate(name: str, member: int) -> str:
    """What `HeadGroups` calls a gate of one of its members."""
    return f"{name}_{member}"


def _consecutive_heads(members: Sequence[Mechanism]) -> list[list[int]]:
    ends = list(accumulate((member.heads for member in members), initial=0))
    return [list(range(first, last)) for first, last in pairwise(ends)]


def _heads_of(x: Tensor, heads: list[int], all_heads: int) -> Tensor:
    """The heads of x (B, H or G, ...) that these query heads read. Grouped keys stay grouped where
    the heads share them evenly; otherwise each head gets its own copy."""
    source = [head * x.shape[1] // all_heads for head in heads]
    unique = sorted(set(source))
    if source == [key for key in unique for _ in range(len(source) // len(unique))]:
        source = unique
    if source == list(range(source[0], source[-1] + 1)):  # a view, not a copy
        return x[:, source[0] : source[-1] + 1]
    return x[:, source]


def members_of(mechanism: Mechanism) -> list[Mechanism]:
    """The members of `HeadGroups`; for any other mechanism, a list of itself."""
    if not isinstance(mechanism, HeadGroups):
        return [mechanism]
    return [member for member in mechanism.members if isinstance(member, Mechanism)]


def name_of(mechanism: Mechanism) -> str:
    members = members_of(mechanism)
    if len(members) == 1:
        return members[0].name
    return "+".join(f"{member.heads}*{member.name}" for member in members)


def scale_of(mechanism: Mechanism) -> float | None:
    """The inverse temperature of all heads; None if they differ."""
    scales = {getattr(member, "beta", None) for member in members_of(mechanism)}
    return scales.pop() if len(scales) == 1 else None


def _common_card(cards: Sequence[Card]) -> Card:
    """A card that claims what all members can do, and what any of them needs."""
    all_of = (
        "causal",
        "bidirectional",
        "packs",
        "cross",
        "one_graph",
        "padding",
        "constant_state",
        "rows_sum_to_one",
        "continuous",
    )
    any_of = ("signed", "learned", "needs_length", "uses_query", "uses_key")
    facts: dict[str, Any] = {name: all(getattr(card, name) for card in cards) for name in all_of}
    facts |= {name: any(getattr(card, name) for card in cards) for name in any_of}
    return replace(cards[0], summary="a mechanism for each group of heads", **facts)
