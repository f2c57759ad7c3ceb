"""Remembers the keys and values that a decoding state has absorbed: a kernel's state keeps none.

Letters: B batch, G key heads, S keys, D head size, M value size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.state import KeyValues, State

RowKeyValues = tuple[Tensor, Tensor, Tensor | None]
"""k (G, S, D), v (G, S, M) and keys (S,) of one row."""


class AbsorbedStep:
    """One step of a state (it absorbed keys, or its rows changed), linked to the step before."""

    def __init__(
        self,
        before: AbsorbedStep | None,
        absorbed: tuple[Tensor, Tensor, Tensor | None] | None = None,
        rows: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        self.before = before
        self.absorbed = absorbed  # k (B, G, S, D), v (B, G, S, M), keys (B, S)
        self.rows = rows  # after `select`: these rows of `before`
        self.lengths = lengths  # after `trim`: the remaining length of each row
        self.cached: tuple[int, RowKeyValues] | None = None

    def of_row(self, row: int) -> RowKeyValues:
        """All keys and values that this row has absorbed."""
        requested, steps = row, list[RowKeyValues | int]()
        node: AbsorbedStep | None = self
        while node is not None:
            if node.cached is not None and node.cached[0] == row:
                steps.append(node.cached[1])
                node.cached = None  # only the newest node keeps the copy
                break
            if node.absorbed is not None:
                k, v, keys = node.absorbed
                steps.append((k[row], v[row], None if keys is None else keys[row]))
            if node.lengths is not None:
                steps.append(int(node.lengths[row]))
            if node.rows is not None:
                row = int(node.rows[row])
            node = node.before
        self.cached = requested, _replay(steps[::-1])
        return self.cached[1]


def _replay(steps: list[RowKeyValues | int]) -> RowKeyValues:
    """Join all parts from the oldest on; a number trims to that many keys."""
    parts: list[RowKeyValues] = []
    for step in steps:
        if isinstance(step, int):
            k, v, keys = _concatenate(parts)
            parts = [(k[:, :step], v[:, :step], None if keys is None else keys[:step])]
        else:
            parts.append(step)
    return _concatenate(parts)


def _concatenate(parts: list[RowKeyValues]) -> RowKeyValues:
    if len(parts) == 1:
        return parts[0]
    keys = None
    if any(part[2] is not None for part in parts):
        keys = torch.cat([_key_mask(part) for part in parts])
    k = torch.cat([part[0] for part in parts], dim=1)
    return k, torch.cat([part[1] for part in parts], dim=1), keys


def _key_mask(part: RowKeyValues) -> Tensor:
    _, v, keys = part
    return v.new_ones(v.shape[1], dtype=torch.bool) if keys is None else keys


_absorbed: WeakKeyDictionary[State, AbsorbedStep] = WeakKeyDictionary()


def absorbed_by(state: State) -> AbsorbedStep | None:
    """None if no capture ran when the state was created and the state keeps no keys."""
    return _absorbed.get(state) or _from_key_values(state)


def remember(new: State, old: State | None, k: Tensor, v: Tensor, keys: Tensor | None) -> None:
    """Note that `new` is `old` with these keys and values absorbed."""
    before = None if old is None else absorbed_by(old)
    if old is None or before is not None:
        _absorbed[new] = AbsorbedStep(before, (k.detach(), v.detach(), keys))


def _from_key_values(state: State) -> AbsorbedStep | None:
    if not isinstance(state, KeyValues):
        return None
    first, keys = state.first, state.keys  # keys that a window has dropped count as padding
    k, v = (F.pad(x.detach(), (0, 0, first, 0)) for x in (state.k, state.v))
    if first:
        keys = k.new_ones(len(k), state.slots, dtype=torch.bool) if keys is None else keys
        keys = F.pad(keys, (first, 0))
    earlier = AbsorbedStep(None, (k, v, keys))
    return (
        AbsorbedStep(earlier, lengths=state.length) if isinstance(state.length, Tensor) else earlier
    )


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
