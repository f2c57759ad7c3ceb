"""The decoding state of a mechanism: the keys and values it absorbed. A state never changes.

Letters: B batch, H key heads, S slots, T new tokens, D key size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from attnlab._compiling import is_mapped

SPARE = 64  # free slots of a new buffer


class StateOrigin(NamedTuple):
    """Which mechanism made a state, and the shapes of its keys and values."""

    mechanism: tuple[Any, ...]
    heads: int
    key_width: int
    value_width: int
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class State:
    """The first axis of every tensor field is the batch."""

    origin: StateOrigin
    length: int | Tensor
    """Positions absorbed so far: one number for all rows, or (B,) after `trim`."""
    real_length: int | Tensor
    """The position after each row's last real key: one number for all rows, or (B,)."""

    @property
    def batch(self) -> int:
        return len(next(t for name, t in self._tensors().items() if name not in COUNTS))

    @property
    def longest(self) -> int:
        return _extreme(self.length, "max")

    @property
    def shortest(self) -> int:
        """The least `real_length` of all rows."""
        return _extreme(self.real_length, "min")

    @property
    def nbytes(self) -> int:
        """Bytes of the content, without spare capacity."""
        return sum(t.numel() * t.element_size() for t in self._tensors().values())

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, in this order, repeats allowed. For beams and finished rows."""
        selected: dict[str, Any] = {name: t[rows] for name, t in self._tensors().items()}
        return replace(self, **selected)

    def trim(self, lengths: Tensor) -> Self:
        """Remove the padding at the end of each row, after its first `lengths` (B,) positions.

        The next token of a row then follows its last real one, as if the row were alone.
        """
        is_integer = not (lengths.is_floating_point() or lengths.dtype == torch.bool)
        if lengths.shape != (self.batch,) or not is_integer:
            raise ValueError(
                f"trim: lengths are {lengths.dtype} of shape {tuple(lengths.shape)}; "
                f"give whole numbers ({self.batch},), one per row"
            )
        both = (self.length, self.real_length)
        length, real_length = (torch.as_tensor(x).to(lengths.device) for x in both)
        if bool(((lengths > length) | (lengths < real_length)).any()):
            raise ValueError(
                f"trim: lengths {lengths.tolist()} for rows of length {length.tolist()} whose "
                f"last real keys end at {real_length.tolist()}; only padding can be removed"
            )
        return replace(self, length=lengths.clone())

    def overwritable(self) -> Self:
        """A copy for a loop that keeps only the newest state, as generation does.

        `absorb` may overwrite the copy and the states made from it, instead of copying them.
        Reading an overwritten state raises an error. This state itself does not change.
        """
        return self

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True, eq=False)
class JoinedState(State):
    """Several states of the same tokens, such as one for each group of heads."""

    parts: tuple[State, ...]

    @classmethod
    def of(cls, origin: StateOrigin, *parts: State) -> Self:
        return cls(origin, parts[0].length, parts[0].real_length, parts)

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

    def overwritable(self) -> Self:
        return self._map(lambda part: part.overwritable())

    def _map(self, change: Callable[[State], State]) -> Self:
        return self.of(self.origin, *map(change, self.parts))


COUNTS = ("length", "real_length")


def advance(state: State | None, S: int, keys: Tensor | None) -> dict[str, Any]:
    """`length` and `real_length` after S more keys, of which `keys` (B, S) are real."""
    length = 0 if state is None else state.length
    real_length = 0 if state is None else state.real_length
    if keys is None:
        return {"length": length + S, "real_length": length + S if S else real_length}
    steps = torch.arange(1, S + 1, device=keys.device)
    last = (keys * steps).amax(1) if S else keys.new_zeros(len(keys), dtype=torch.long)
    before = torch.as_tensor(real_length, device=keys.device)
    return {"length": length + S, "real_length": torch.where(last > 0, length + last, before)}


def _extreme(count: int | Tensor, which: str) -> int:
    if isinstance(count, Tensor):
        return int(getattr(count, which)()) if len(count) else 0
    return count


@dataclass(frozen=True, eq=False)
class KeyValues(State):
    """All keys and values, in buffers with spare capacity.

    The newest state of a buffer appends in place; an older one copies first. So a new token needs
    no concatenation, and still no state ever changes.
    """

    k_buffer: Tensor  # (B, H, capacity, D)
    v_buffer: Tensor  # (B, H, capacity, M); the k_buffer itself if values are the keys
    real_buffer: Tensor | None  # (B, capacity) False for padding and free slots; None if no padding
    newest_version: list[int]  # one number, shared by all states of a buffer
    version: int
    first: int = 0
    """How many keys were dropped: a window never needs them again."""
    pinned: int = 0
    """The first slots, which are never dropped. Slot s after them has position s + first."""
    recent: int = 0
    """Tokens of the last append."""

    @property
    def batch(self) -> int:  # for each step of decoding, so without a search for the first tensor
        return self.k_buffer.shape[0]

    @property
    def slots(self) -> int:
        return self.longest - self.first

    @property
    def nbytes(self) -> int:
        stored = (self.k,) if self.is_shared else (self.k, self.v)
        return sum(t.numel() * t.element_size() for t in stored)

    @property
    def is_shared(self) -> bool:
        """Whether the values are the keys, stored once."""
        return self.v_buffer is self.k_buffer

    @property
    def k(self) -> Tensor:
        return self.k_buffer[:, :, : self.slots]

    @property
    def v(self) -> Tensor:
        return self.v_buffer[:, :, : self.slots]

    @property
    def keys(self) -> Tensor | None:
        if self.real_buffer is not None:
            return self.real_buffer[:, : self.slots]
        return self._within() if isinstance(self.length, Tensor) else None

    def _within(self) -> Tensor:
        """(B, slots) True up to each row's length."""
        length = torch.as_tensor(self.length, device=self.k_buffer.device)
        return self.positions < length[..., None]

    @property
    def positions(self) -> Tensor:
        """(slots,) the position of each slot."""
        first, device = self.first, self.k_buffer.device
        positions = torch.arange(first, first + self.slots, device=device)
        if first and self.pinned:
            positions[: self.pinned] -= first
        return positions

    @classmethod
    def empty(cls, origin: StateOrigin, k: Tensor, v: Tensor) -> Self:
        """A state that has absorbed nothing yet, for keys and values like these."""
        k_buffer = k[:, :, :0].detach()
        v_buffer = k_buffer if v is k else v[:, :, :0].detach()
        return cls(origin, 0, 0, k_buffer, v_buffer, None, [0], 0)

    def tensors_to_read(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """k, v and keys. Backward needs them unchanged, so the next append copies."""
        if torch.is_grad_enabled():
            self.newest_version[0] += 1
        return self.k, self.v, self.keys

    def append(
        self, k: Tensor, v: Tensor, keys: Tensor | None, keep: int | None = None, pinned: int = 0
    ) -> Self:
        """A state with T more tokens. At least the first `pinned` and last `keep` old ones stay;
        without `keep`, all do.

        If `v` is `k`, they are stored once. That must then hold for every append.
        """
        T = k.shape[2]
        if self.is_shared and v is not k:
            raise ValueError("this state stores keys that are also the values; absorb(k, k)")
        # Writing in place would change what the backward pass of an earlier read needs.
        in_place = not (torch.is_grad_enabled() or is_mapped())
        is_inference = self.k_buffer.is_inference() and not torch.is_inference_mode_enabled()
        fits = self.version == self.newest_version[0] and self.slots + T <= self.k_buffer.shape[2]
        wasteful = keep is not None and self.slots > 2 * (keep + pinned + SPARE)  # a long prompt
        reusable = in_place and fits and not is_inference and not wasteful
        old = self if reusable else self._copy(T, keep, pinned, spare=in_place)
        at = old.length - old.first
        real = old.real_buffer
        if real is None and keys is not None:
            real = keys.new_zeros(len(k), old.k_buffer.shape[2])
            before = old.keys
            real[:, : old.slots] = True if before is None else before
        if real is not None:
            new = real.new_ones(len(k), T) if keys is None else keys
            real = _write(real[:, None, :, None], new[:, None, :, None], at, True)[:, 0, :, 0]
        old.newest_version[0] += 1
        k_buffer = _write(old.k_buffer, k, at, in_place)
        return replace(
            old,
            **advance(old, T, keys),
            recent=T,
            k_buffer=k_buffer,
            v_buffer=k_buffer if old.is_shared else _write(old.v_buffer, v, at, in_place),
            real_buffer=real,
            version=old.newest_version[0],
        )

    def select(self, rows: Tensor) -> Self:
        selected = replace(super().select(rows), newest_version=[0], version=0)
        return replace(selected, v_buffer=selected.k_buffer) if self.is_shared else selected

    def trim(self, lengths: Tensor) -> Self:
        trimmed = super().trim(lengths)
        if trimmed.real_buffer is not None:
            real, within = trimmed.real_buffer[:, : trimmed.slots], trimmed._within()
            if bool((real == within).all()):  # no padding is left, so the lengths are enough
                trimmed = replace(trimmed, real_buffer=None)
            else:
                free = self.k_buffer.new_zeros(len(real), self.k_buffer.shape[2], dtype=torch.bool)
                free[:, : trimmed.slots] = real & within
                trimmed = replace(trimmed, real_buffer=free)
        # Both states may append in place: this one never reads the padding that was removed.
        return trimmed

    def _copy(self, T: int, keep: int | None, pinned: int, spare: bool) -> Self:
        """The same content in new buffers with space for T more, without the tokens to drop."""
        # Rows may be trimmed to their last real key later, and continue from there.
        dropped = self.first
        if keep is not None:
            dropped = max(dropped, self.shortest - keep - pinned)
        drop = dropped - self.first
        used = self.slots - drop
        free = T + max(SPARE, used // 2) if spare else T

        def copy(buffer: Tensor) -> Tensor:
            content = buffer[:, :, drop : drop + used]
            if drop and pinned:
                rest = buffer[:, :, pinned + drop : drop + used]
                content = torch.cat([buffer[:, :, :pinned], rest], dim=2)
            if not spare:  # tracked by autograd
                empty = content.new_zeros(*content.shape[:2], free, content.shape[3])
                return torch.cat([content, empty], dim=2)
            moved = content.new_zeros(*content.shape[:2], used + free, content.shape[3])
            moved[:, :, :used] = content
            return moved

        real, k_buffer = self.real_buffer, copy(self.k_buffer)
        return replace(
            self,
            k_buffer=k_buffer,
            v_buffer=k_buffer if self.is_shared else copy(self.v_buffer),
            real_buffer=None if real is None else copy(real[:, None, :, None])[:, 0, :, 0],
            newest_version=[0],
            version=0,
            first=dropped,
            pinned=pinned,
        )


def _write(buffer: Tensor, new: Tensor, at: int | Tensor, in_place: bool) -> Tensor:
    """The buffer (B, H, capacity, D) with `new` (B, H, T, D) from slot `at` on, one or (B,)."""
    T = new.shape[2]
    if isinstance(at, Tensor) and T == 1 and in_place:  # decoding: one vector per row
        rows = torch.arange(len(new), device=new.device)
        buffer[rows, :, at.to(new.device)] = new[:, :, 0]
        return buffer
    if isinstance(at, Tensor):
        slots = at.to(new.device)[:, None] + torch.arange(T, device=new.device)  # (B, T)
        slots = slots[:, None, :, None].expand_as(new)
        return buffer.scatter_(2, slots, new) if in_place else buffer.scatter(2, slots, new)
    if in_place:
        buffer[:, :, at : at + T] = new
        return buffer
    return torch.cat([buffer[:, :, :at], new, buffer[:, :, at + T :]], dim=2)
