"""Several calls of a layer made one matrix: a prompt, then token by token.

Letters: H heads that were kept, G key heads, T queries, S keys, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.interpret._attention_call import Call
from attnlab.interpret._records import Layer, plain


@dataclass
class Piece:
    """What one call adds. Tensors as in a record."""

    start: int
    length: int  # queries
    first: int
    keys: int
    weights: Tensor | None
    q: Tensor | None
    k: Tensor | None  # the new keys alone
    v: Tensor | None
    keys_from: int
    """Position of the first of them."""
    bias: Tensor | None
    allowed: Tensor | None
    difference: float | None
    excess: float
    """How much of the difference no rounding explains, as a multiple of what is tolerated."""
    gradient: Tensor | None = None

    @property
    def end(self) -> int:
        return self.start + self.length

    def before(self, position: int, self_attention: bool) -> Piece:
        """The queries before this position (and keys, if they are the same tokens)."""
        rows = position - self.start

        def cut(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[:, :rows]

        new = max(0, position - self.keys_from)

        def known(x: Tensor | None) -> Tensor | None:
            return x[:, :new] if x is not None and self_attention else x

        return replace(
            self,
            length=rows,
            weights=cut(self.weights),
            q=cut(self.q),
            k=known(self.k),
            v=known(self.v),
            bias=cut(self.bias),
            allowed=None if self.allowed is None else self.allowed[:rows],
            gradient=cut(self.gradient),
        )


class Joined:
    """The calls of one layer that belong together: each goes on where the one before ended."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.last: Call | None = None
        self.notes: dict[str, None] = {}
        self.signed, self.normalised = False, True
        self.replaced = 0
        """Times that a new text took the place of the one before."""
        self.dropped = 0
        """Calls that went on from something else."""

    def add(self, call: Call, difference: float | None, excess: float, qkv: bool) -> Piece | None:
        """None: it goes on from what was not seen here."""
        if call.start == 0:
            self.replaced += bool(self.pieces)
            self.pieces, self.notes = [], {}
            self.signed, self.normalised = False, True
        elif self.pieces and not self._goes_on(call):
            self.dropped += 1
            return None
        piece = self._piece(call, difference, excess, qkv)
        self.pieces = [
            each if each.end <= call.start else each.before(call.start, call.kind == "self")
            for each in self.pieces
            if each.start < call.start
        ]
        self.pieces.append(piece)
        self.last = call
        self.notes[call.note.strip()] = None
        self.signed, self.normalised = (
            self.signed or call.signed,
            self.normalised and call.normalised,
        )
        # what is kept of the call is in its piece
        call.weights = call.q = call.k = call.v = call.given = call.output = None
        call.bias = call.allowed = call.pick = None
        call.condition = 1.0
        return piece

    def _goes_on(self, call: Call) -> bool:
        """Its queries follow ours, and its keys are ours: beams and other texts are told by values.

        A layer's values depend on all that was read before them.
        """
        assert self.last is not None
        if call.start > self.pieces[-1].end or call.heads != self.last.heads:
            return False
        ours = self._value(call.start - 1 if call.kind == "self" else None)
        if call.kind == "cross":
            if call.k is not None and call.k.shape[1] != self.pieces[-1].keys:
                return False
            theirs = None if call.v is None else call.v[:, -1]
        else:
            at = call.start - 1 - call.first
            theirs = None if call.v is None or at < 0 else call.v[:, at]
        if ours is None or theirs is None:
            return True
        return torch.allclose(ours, plain(theirs), rtol=1e-4, atol=1e-5)

    def _value(self, position: int | None) -> Tensor | None:
        """(G, M) at this position, or at the last key."""
        if position is None:
            v = self.pieces[0].v
            return None if v is None else v[:, -1]
        for piece in self.pieces:
            if piece.v is not None and 0 <= position - piece.keys_from < piece.v.shape[1]:
                return piece.v[:, position - piece.keys_from]
        return None

    def _piece(self, call: Call, difference: float | None, excess: float, qkv: bool) -> Piece:
        goes_on = call.start > 0 and bool(self.pieces)
        T = queries_of(call)
        keys_from = call.start if goes_on and call.kind == "self" else call.first
        skip = keys_from - call.first

        def new(x: Tensor | None) -> Tensor | None:
            if x is None or (goes_on and call.kind == "cross"):
                return None
            return plain(x[:, skip:])

        return Piece(
            start=call.start,
            length=T,
            first=call.first,
            keys=keys_of(call),
            weights=_maybe(call.weights),
            q=_maybe(call.q) if qkv else None,
            k=new(call.k) if qkv else None,
            v=new(call.v),
            keys_from=keys_from,
            bias=_maybe(call.bias) if qkv else None,
            allowed=None if call.allowed is None else call.allowed.cpu(),
            difference=difference,
            excess=excess,
        )

    def layer(self, qkv: bool) -> Layer:
        """All of it as one record."""
        call, pieces = self.last, self.pieces
        assert call is not None
        begin = pieces[0].start
        T, S = pieces[-1].end - begin, pieces[-1].first + pieces[-1].keys
        v = _chain([piece.v for piece in pieces])
        differences = [piece.difference for piece in pieces if piece.difference is not None]
        allowed = self._allowed(begin, T, S)
        return Layer(
            name=call.name,
            stack=call.stack,
            kind=call.kind,
            heads=call.heads,
            all_heads=call.all_heads,
            mechanism=call.mechanism,
            signed=self.signed,
            normalised=self.normalised,
            scale=call.scale,
            start=begin,
            weights=self._matrix([piece.weights for piece in pieces], begin, T, S),
            q=_chain([piece.q for piece in pieces]),
            k=_chain([piece.k for piece in pieces]),
            v=v if qkv else None,
            groups=call.groups,
            bias=self._matrix([piece.bias for piece in pieces], begin, T, S),
            allowed=allowed,
            causal=call.causal if T == 1 else call.kind == "self" and _causal(allowed, begin),
            norms=None if v is None else v.norm(dim=-1)[call.groups],
            gradient=self._matrix([piece.gradient for piece in pieces], begin, T, S),
            no_gradient=call.no_gradient,
            difference=max(differences, default=None),
            excess=max(piece.excess for piece in pieces) if differences else None,
            note=" ".join(filter(None, self.notes)),
        )

    def _matrix(self, parts: list[Tensor | None], begin: int, T: int, S: int) -> Tensor | None:
        """(H, T, S) of parts, zeros where a query's keys were not there yet."""
        if all(part is None for part in parts):
            return None
        if len(parts) == 1:
            return parts[0]
        heads = max(len(part) for part in parts if part is not None)
        whole = torch.zeros(heads, T, S)
        for piece, part in zip(self.pieces, parts, strict=True):
            if part is not None:
                rows = slice(piece.start - begin, piece.end - begin)
                last = min(S, piece.first + part.shape[2])
                whole[:, rows, piece.first : last] = part[:, :, : last - piece.first]
        return whole

    def _allowed(self, begin: int, T: int, S: int) -> Tensor | None:
        if len(self.pieces) == 1:
            return self.pieces[0].allowed
        whole = torch.zeros(T, S, dtype=torch.bool)
        for piece in self.pieces:
            rows = slice(piece.start - begin, piece.end - begin)
            last = min(S, piece.first + piece.keys)
            part = piece.allowed
            whole[rows, piece.first : last] = (
                True if part is None else part[:, : last - piece.first]
            )
        return None if bool(whole.all()) else whole


def queries_of(call: Call) -> int:
    for x in (call.weights, call.q, call.given):
        if x is not None:
            return x.shape[1]
    raise AssertionError(f"{call.name}: a call of nothing")


def keys_of(call: Call) -> int:
    for x, axis in ((call.v, 1), (call.weights, 2)):
        if x is not None:
            return x.shape[axis]
    raise AssertionError(f"{call.name}: a call of nothing")


def _maybe(x: Tensor | None) -> Tensor | None:
    return None if x is None else plain(x)


def _chain(parts: list[Tensor | None]) -> Tensor | None:
    found = [part for part in parts if part is not None]
    return torch.cat(found, dim=1) if len(found) > 1 else found[0] if found else None


def _causal(allowed: Tensor | None, begin: int) -> bool:
    """No query may look at a key behind it."""
    return allowed is not None and not bool(allowed.triu(1 + begin).any())
