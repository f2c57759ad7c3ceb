"""Remembers the keys and values that a decoding state has absorbed: a kernel's state keeps none.

Letters: B batch, G key heads, S keys, D head size, M value size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attnlab.gates import Gates
from attnlab.state import KeyValues, State


class AbsorbedTokens(NamedTuple):
    """What a state absorbed, for all rows; without the first axis for one row."""

    k: Tensor  # (B, G, S, D)
    v: Tensor  # (B, G, S, M)
    keys: Tensor | None  # (B, S)
    gates: Gates  # (B, G, S) or (B, G, S, D) each

    def of_row(self, row: int) -> AbsorbedTokens:
        keys = None if self.keys is None else self.keys[row]
        gates = {name: gate[row] for name, gate in self.gates.items()}
        return AbsorbedTokens(self.k[row], self.v[row], keys, gates)

    def first(self, length: int) -> AbsorbedTokens:
        """The first tokens of one row."""
        keys = None if self.keys is None else self.keys[:length]
        gates = {name: gate[:, :length] for name, gate in self.gates.items()}
        return AbsorbedTokens(self.k[:, :length], self.v[:, :length], keys, gates)


class AbsorbedStep:
    """One step of a state (it absorbed keys, or its rows changed), linked to the step before."""

    def __init__(
        self,
        before: AbsorbedStep | None,
        absorbed: AbsorbedTokens | None = None,
        rows: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        self.before = before
        self.absorbed = absorbed
        self.rows = rows  # after `select`: these rows of `before`
        self.lengths = lengths  # after `trim`: the remaining length of each row
        self.cached: tuple[int, AbsorbedTokens] | None = None

    def of_row(self, row: int) -> AbsorbedTokens:
        """All keys and values that this row has absorbed."""
        requested, steps = row, list[AbsorbedTokens | int]()
        node: AbsorbedStep | None = self
        while node is not None:
            if node.cached is not None and node.cached[0] == row:
                steps.append(node.cached[1])
                node.cached = None  # only the newest node keeps the copy
                break
            if node.absorbed is not None:
                steps.append(node.absorbed.of_row(row))
            if node.lengths is not None:
                steps.append(int(node.lengths[row]))
            if node.rows is not None:
                row = int(node.rows[row])
            node = node.before
        self.cached = requested, _replay(steps[::-1])
        return self.cached[1]


def _replay(steps: list[AbsorbedTokens | int]) -> AbsorbedTokens:
    """Join all parts from the oldest on; a number trims to that many keys."""
    parts: list[AbsorbedTokens] = []
    for step in steps:
        if isinstance(step, int):
            parts = [_concatenate(parts).first(step)]
        else:
            parts.append(step)
    return _concatenate(parts)


def _concatenate(parts: list[AbsorbedTokens]) -> AbsorbedTokens:
    if len(parts) == 1:
        return parts[0]
    keys = None
    if any(part.keys is not None for part in parts):
        keys = torch.cat([_key_mask(part) for part in parts])
    k, v = (torch.cat(x, dim=1) for x in zip(*(part[:2] for part in parts), strict=True))
    gates = {name: torch.cat([part.gates[name] for part in parts], 1) for name in parts[0].gates}
    return AbsorbedTokens(k, v, keys, gates)


def _key_mask(part: AbsorbedTokens) -> Tensor:
    ones = part.v.new_ones(part.v.shape[1], dtype=torch.bool)
    return ones if part.keys is None else part.keys


_absorbed: WeakKeyDictionary[State, AbsorbedStep] = WeakKeyDictionary()


def absorbed_by(state: State) -> AbsorbedStep | None:
    """None if no capture ran when the state was created and the state keeps no keys."""
    return _absorbed.get(state) or _from_key_values(state)


def remember(
    new: State, old: State | None, k: Tensor, v: Tensor, keys: Tensor | None, gates: Gates
) -> None:
    """Note that `new` is `old` with these tokens absorbed."""
    before = None if old is None else absorbed_by(old)
    if old is None or before is not None:
        detached = {name: gate.detach() for name, gate in gates.items()}
        tokens = AbsorbedTokens(k.detach(), v.detach(), keys, detached)
        _absorbed[new] = AbsorbedStep(before, tokens)


def _from_key_values(state: State) -> AbsorbedStep | None:
    if type(state) is not KeyValues or state.k.shape[3] != state.origin.key_width:
        return None  # it holds more than keys and values
    k, v, keys = state.k.detach(), state.v.detach(), state.keys
    if state.first:  # keys that a window has dropped count as padding
        real = k.new_ones(len(k), state.slots, dtype=torch.bool) if keys is None else keys
        keys = _spread(state, real[:, None, :, None])[:, 0, :, 0]
        k, v = _spread(state, k), _spread(state, v)
    earlier = AbsorbedStep(None, AbsorbedTokens(k, v, keys, {}))
    return (
        AbsorbedStep(earlier, lengths=state.length) if isinstance(state.length, Tensor) else earlier
    )


def _spread(state: KeyValues, x: Tensor) -> Tensor:
    """The slots (B, G, slots, D) at their positions, with zeros where keys were dropped."""
    spread = x.new_zeros(*x.shape[:2], state.longest, x.shape[3])
    return spread.index_copy(2, state.positions, x)


# Rows are reordered (beams, finished texts) and trimmed: the remembered keys follow them.

_lock = threading.RLock()
_follower_count = 0
_originals: list[tuple[type[State], str, Callable[..., Any]]] = []


@contextmanager
def follow_states() -> Iterator[None]:
    """Copies what is remembered to the states that are derived from others."""
    global _follower_count
    with _lock:
        _follower_count += 1
        if _follower_count == 1:
            _patch_methods(State)
    try:
        yield
    finally:
        with _lock:
            _follower_count -= 1
            while not _follower_count and _originals:
                kind, name, method = _originals.pop()
                setattr(kind, name, method)


def _patch_methods(kind: type[State]) -> None:
    for name, change in CHANGES.items():
        method = vars(kind).get(name)
        if method is not None:
            _originals.append((kind, name, method))
            setattr(kind, name, _wrap(method, change))
    for child in kind.__subclasses__():
        _patch_methods(child)


CHANGES: dict[str, Callable[..., AbsorbedStep]] = {
    "select": lambda earlier, rows: AbsorbedStep(earlier, rows=rows),
    "trim": lambda earlier, lengths: AbsorbedStep(earlier, lengths=lengths),
    "overwritable": lambda earlier: earlier,
}
"""Methods of a state that return a new one, and what the new one remembers."""


def _wrap(method: Callable[..., Any], change: Callable[..., AbsorbedStep]) -> Callable[..., Any]:
    @wraps(method)
    def wrapper(self: State, *arguments: Tensor) -> State:
        new: State = method(self, *arguments)
        earlier = _absorbed.get(self)
        if earlier is not None:
            _absorbed[new] = change(earlier, *arguments)
        return new

    return wrapper
