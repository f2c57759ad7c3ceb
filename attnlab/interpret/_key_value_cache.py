"""What a decoding state has absorbed, remembered beside it: a kernel's state keeps no keys.

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

Memory = tuple[Tensor, Tensor, Tensor | None]
"""k (G, S, D), v (G, S, M) and keys (S,) of one row."""


class Absorbed:
    """The keys and values absorbed last, or a change of the rows, and what came before it."""

    def __init__(
        self,
        before: Absorbed | None,
        absorbed: tuple[Tensor, Tensor, Tensor | None] | None = None,
        rows: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        self.before = before
        self.absorbed = absorbed  # k (B, G, S, D), v (B, G, S, M), keys (B, S)
        self.rows = rows  # after `select`: which rows of `before` these are
        self.lengths = lengths  # after `trim`: how much of each row is left
        self.known: tuple[int, Memory] | None = None

    def of_row(self, row: int) -> Memory:
        """Everything that this row has absorbed."""
        asked, steps = row, list[Memory | int]()
        node: Absorbed | None = self
        while node is not None:
            if node.known is not None and node.known[0] == row:
                steps.append(node.known[1])
                node.known = None  # the newest has it: one copy in all, and no long way back
                break
            if node.absorbed is not None:
                k, v, keys = node.absorbed
                steps.append((k[row], v[row], None if keys is None else keys[row]))
            if node.lengths is not None:
                steps.append(int(node.lengths[row]))
            if node.rows is not None:
                row = int(node.rows[row])
            node = node.before
        self.known = asked, _replayed(steps[::-1])
        return self.known[1]


def _replayed(steps: list[Memory | int]) -> Memory:
    """All parts joined, from the oldest on; a number says how many keys are left then."""
    parts: list[Memory] = []
    for step in steps:
        if isinstance(step, int):
            k, v, keys = _joined(parts)
            parts = [(k[:, :step], v[:, :step], None if keys is None else keys[:step])]
        else:
            parts.append(step)
    return _joined(parts)


def _joined(parts: list[Memory]) -> Memory:
    if len(parts) == 1:
        return parts[0]
    keys = None
    if any(part[2] is not None for part in parts):
        keys = torch.cat([_real(part) for part in parts])
    k = torch.cat([part[0] for part in parts], dim=1)
    return k, torch.cat([part[1] for part in parts], dim=1), keys


def _real(part: Memory) -> Tensor:
    _, v, keys = part
    return v.new_ones(v.shape[1], dtype=torch.bool) if keys is None else keys


_absorbed: WeakKeyDictionary[State, Absorbed] = WeakKeyDictionary()


def absorbed_by(state: State) -> Absorbed | None:
    """None: nobody watched when it was made, and it keeps no keys."""
    return _absorbed.get(state) or _opened(state)


def remember(new: State, old: State | None, k: Tensor, v: Tensor, keys: Tensor | None) -> None:
    """`new` has absorbed this too."""
    before = None if old is None else absorbed_by(old)
    if old is None or before is not None:
        _absorbed[new] = Absorbed(before, (k.detach(), v.detach(), keys))


def _opened(state: State) -> Absorbed | None:
    if not isinstance(state, KeyValues):
        return None
    first, keys = state.first, state.keys  # what a window has forgotten counts as padding
    k, v = (F.pad(x.detach(), (0, 0, first, 0)) for x in (state.k, state.v))
    if first:
        keys = k.new_ones(len(k), state.slots, dtype=torch.bool) if keys is None else keys
        keys = F.pad(keys, (first, 0))
    earlier = Absorbed(None, (k, v, keys))
    return Absorbed(earlier, lengths=state.length) if isinstance(state.length, Tensor) else earlier


# Rows change places (beams, finished texts) and lose their padding: what is remembered follows.

_lock = threading.RLock()
_watchers = 0
_originals: list[tuple[type[State], str, Callable[..., Any]]] = []


@contextmanager
def follow_states() -> Iterator[None]:
    """What is remembered stays with the states that are made of others."""
    global _watchers
    with _lock:
        _watchers += 1
        if _watchers == 1:
            _watch(State)
    try:
        yield
    finally:
        with _lock:
            _watchers -= 1
            while not _watchers and _originals:
                kind, name, method = _originals.pop()
                setattr(kind, name, method)


def _watch(kind: type[State]) -> None:
    for name, change in CHANGES.items():
        method = vars(kind).get(name)
        if method is not None:
            _originals.append((kind, name, method))
            setattr(kind, name, _following(method, change))
    for child in kind.__subclasses__():
        _watch(child)


CHANGES: dict[str, Callable[..., Absorbed]] = {
    "select": lambda earlier, rows: Absorbed(earlier, rows=rows),
    "trim": lambda earlier, lengths: Absorbed(earlier, lengths=lengths),
    "overwritable": lambda earlier: earlier,
}
"""Methods of a state that give another one, and what that one remembers."""


def _following(method: Callable[..., Any], change: Callable[..., Absorbed]) -> Callable[..., Any]:
    @wraps(method)
    def followed(self: State, *numbers: Tensor) -> State:
        new: State = method(self, *numbers)
        earlier = _absorbed.get(self)
        if earlier is not None:
            _absorbed[new] = change(earlier, *numbers)
        return new

    return followed
