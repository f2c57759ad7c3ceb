"""Joins several calls of a layer into one matrix: a prompt, then token by token.

Letters: H captured heads, G key heads, T queries, S keys, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.interpret._attention_call import AttentionCall
from attnlab.interpret._records import Layer, to_cpu_float32


@dataclass
class CallPart:
    """What one call adds to a layer. Tensors are as in `Layer`."""

    start: int
    length: int  # queries
    first_key: int
    keys: int
    weights: Tensor | None
    q: Tensor | None
    k: Tensor | None  # only the new keys
    v: Tensor | None
    new_keys_start: int
    """Position of the first new key."""
    bias: Tensor | None
    allowed: Tensor | None
    difference: float | None
    excess: float
    """The difference as a multiple of the rounding tolerance."""
    gradient: Tensor | None = None

    @property
    def end(self) -> int:
        return self.start + self.length

    def before(self, position: int, self_attention: bool) -> CallPart:
        """The queries before this position, and their keys in self-attention."""
        rows = position - self.start

        def cut_queries(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[:, :rows]

        new_keys = max(0, position - self.new_keys_start)

        def cut_keys(x: Tensor | None) -> Tensor | None:
            return x[:, :new_keys] if x is not None and self_attention else x

        return replace(
            self,
            length=rows,
            weights=cut_queries(self.weights),
            q=cut_queries(self.q),
            k=cut_keys(self.k),
            v=cut_keys(self.v),
            bias=cut_queries(self.bias),
            allowed=None if self.allowed is None else self.allowed[:rows],
            gradient=cut_queries(self.gradient),
        )


class JoinedCalls:
    """The calls of one layer on one text: each call continues where the one before ended."""

    def __init__(self) -> None:
        self.parts: list[CallPart] = []
        self.last: AttentionCall | None = None
        self.notes: dict[str, None] = {}
        self.signed, self.normalized = False, True
        self.replaced = 0
        """How many times a new text replaced the one before."""
        self.dropped = 0
        """How many calls continued another text."""

    def add(
        self, call: AttentionCall, difference: float | None, excess: float, qkv: bool
    ) -> CallPart | None:
        """Append a call; returns None if it continues a text that was not captured."""
        if call.start == 0:
            self.replaced += bool(self.parts)
            self.parts, self.notes = [], {}
            self.signed, self.normalized = False, True
        elif self.parts and not self._continues(call):
            self.dropped += 1
            return None
        part = self._to_part(call, difference, excess, qkv)
        self.parts = [
            earlier
            if earlier.end <= call.start
            else earlier.before(call.start, call.kind == "self")
            for earlier in self.parts
            if earlier.start < call.start
        ]
        self.parts.append(part)
        self.last = call
        self.notes[call.note.strip()] = None
        self.signed, self.normalized = (
            self.signed or call.signed,
            self.normalized and call.normalized,
        )
        # free the tensors: the part has what is needed
        call.weights = call.q = call.k = call.v = call.head_outputs = call.output = None
        call.bias = call.allowed = call.select = None
        call.condition = 1.0
        return part

    def _continues(self, call: AttentionCall) -> bool:
        """Whether its queries follow the recorded ones and its keys are the recorded ones.

        Values decide: a layer's values depend on the whole text before them, so beams and other
        texts have different ones.
        """
        assert self.last is not None
        if call.start > self.parts[-1].end or call.heads != self.last.heads:
            return False
        recorded = self._value(call.start - 1 if call.kind == "self" else None)
        if call.kind == "cross":
            if call.k is not None and call.k.shape[1] != self.parts[-1].keys:
                return False
            value = None if call.v is None else call.v[:, -1]
        else:
            index = call.start - 1 - call.first_key
            value = None if call.v is None or index < 0 else call.v[:, index]
        if recorded is None or value is None:
            return True
        return torch.allclose(recorded, to_cpu_float32(value), rtol=1e-4, atol=1e-5)

    def _value(self, position: int | None) -> Tensor | None:
        """The recorded value (G, M) at this position, or of the last key if it is None."""
        if position is None:
            v = self.parts[0].v
            return None if v is None else v[:, -1]
        for part in self.parts:
            if part.v is not None and 0 <= position - part.new_keys_start < part.v.shape[1]:
                return part.v[:, position - part.new_keys_start]
        return None

    def _to_part(
        self, call: AttentionCall, difference: float | None, excess: float, qkv: bool
    ) -> CallPart:
        continues = call.start > 0 and bool(self.parts)
        T = query_count(call)
        new_keys_start = call.start if continues and call.kind == "self" else call.first_key
        skip = new_keys_start - call.first_key

        def new_keys(x: Tensor | None) -> Tensor | None:
            if x is None or (continues and call.kind == "cross"):
                return None
            return to_cpu_float32(x[:, skip:])

        return CallPart(
            start=call.start,
            length=T,
            first_key=call.first_key,
            keys=key_count(call),
            weights=_to_cpu(call.weights),
            q=_to_cpu(call.q) if qkv else None,
            k=new_keys(call.k) if qkv else None,
            v=new_keys(call.v),
            new_keys_start=new_keys_start,
            bias=_to_cpu(call.bias) if qkv else None,
            allowed=None if call.allowed is None else call.allowed.cpu(),
            difference=difference,
            excess=excess,
        )

    def layer(self, qkv: bool) -> Layer:
        """All calls as one record."""
        call, parts = self.last, self.parts
        assert call is not None
        start = parts[0].start
        T, S = parts[-1].end - start, parts[-1].first_key + parts[-1].keys
        v = _concatenate([part.v for part in parts])
        differences = [part.difference for part in parts if part.difference is not None]
        allowed = self._allowed(start, T, S)
        return Layer(
            name=call.name,
            stack=call.stack,
            kind=call.kind,
            heads=call.heads,
            all_heads=call.all_heads,
            mechanism=call.mechanism,
            signed=self.signed,
            normalised=self.normalized,
            scale=call.scale,
            start=start,
            weights=self._matrix([part.weights for part in parts], start, T, S),
            q=_concatenate([part.q for part in parts]),
            k=_concatenate([part.k for part in parts]),
            v=v if qkv else None,
            groups=call.groups,
            bias=self._matrix([part.bias for part in parts], start, T, S),
            allowed=allowed,
            causal=call.causal if T == 1 else call.kind == "self" and _is_causal(allowed, start),
            norms=None if v is None else v.norm(dim=-1)[call.groups],
            gradient=self._matrix([part.gradient for part in parts], start, T, S),
            no_gradient=call.no_gradient,
            parts=call.parts,
            difference=max(differences, default=None),
            excess=max(part.excess for part in parts) if differences else None,
            note=" ".join(filter(None, self.notes)),
        )

    def _matrix(self, tensors: list[Tensor | None], start: int, T: int, S: int) -> Tensor | None:
        """(H, T, S): all parts in one, with zeros for keys that came after a query's call."""
        if all(x is None for x in tensors):
            return None
        if len(tensors) == 1:
            return tensors[0]
        heads = max(len(x) for x in tensors if x is not None)
        whole = torch.zeros(heads, T, S)
        for part, x in zip(self.parts, tensors, strict=True):
            if x is not None:
                rows = slice(part.start - start, part.end - start)
                last = min(S, part.first_key + x.shape[2])
                whole[:, rows, part.first_key : last] = x[:, :, : last - part.first_key]
        return whole

    def _allowed(self, start: int, T: int, S: int) -> Tensor | None:
        if len(self.parts) == 1:
            return self.parts[0].allowed
        whole = torch.zeros(T, S, dtype=torch.bool)
        for part in self.parts:
            rows = slice(part.start - start, part.end - start)
            last = min(S, part.first_key + part.keys)
            allowed = part.allowed
            whole[rows, part.first_key : last] = (
                True if allowed is None else allowed[:, : last - part.first_key]
            )
        return None if bool(whole.all()) else whole


def query_count(call: AttentionCall) -> int:
    for x in (call.weights, call.q, call.head_outputs):
        if x is not None:
            return x.shape[1]
    raise AssertionError(f"{call.name}: a call without tensors")


def key_count(call: AttentionCall) -> int:
    for x, axis in ((call.v, 1), (call.weights, 2)):
        if x is not None:
            return x.shape[axis]
    raise AssertionError(f"{call.name}: a call without tensors")


def _to_cpu(x: Tensor | None) -> Tensor | None:
    return None if x is None else to_cpu_float32(x)


def _concatenate(parts: list[Tensor | None]) -> Tensor | None:
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors, dim=1) if len(tensors) > 1 else tensors[0] if tensors else None


def _is_causal(allowed: Tensor | None, start: int) -> bool:
    """Whether no query may attend to a key after it."""
    return allowed is not None and not bool(allowed.triu(1 + start).any())
