"""What a mechanism remembers of the keys and values it has absorbed. A state is a value.

Letters: B batch, H key heads, S slots, T new tokens, D key size, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

SPARE = 64  # slots that a fresh buffer has beyond what it holds


@dataclass(frozen=True, eq=False)
class State:
    """Every tensor field has the batch as its first axis."""

    length: int | Tensor
    """Positions absorbed so far: one number for all rows, or (B,) after `trim`."""

    @property
    def batch(self) -> int:
        return len(next(t for name, t in self._tensors().items() if name != "length"))

    @property
    def longest(self) -> int:
        if isinstance(self.length, Tensor):
            return int(self.length.max()) if len(self.length) else 0
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes of what is remembered; spare capacity does not count."""
        return sum(t.numel() * t.element_size() for t in self._tensors().values())

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, in this order, repeats allowed: beams, finished rows."""
        return replace(self, **{name: t[rows] for name, t in self._tensors().items()})

    def trim(self, lengths: Tensor) -> Self:
        """Forget each row's positions from `lengths` (B,) on: the padding after its last token.

        The next token of a row then stands right after its last one, as if alone in its batch.
        """
        self._check(lengths)
        return replace(self, length=lengths.clone())

    def _check(self, lengths: Tensor) -> None:
        length = self.length if isinstance(self.length, Tensor) else torch.tensor(self.length)
        length = length.to(lengths.device)
        if lengths.dim() != 1 or bool(((lengths > length) | (lengths < 0)).any()):
            raise ValueError(
                f"trim: lengths {lengths.tolist()} for a state of length "
                f"{length.tolist()}; give (B,) lengths between 0 and that"
            )

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True, eq=False)
class KeyValues(State):
    """All keys and values, in buffers with spare capacity.

    The newest state of a buffer appends in place; an older one copies first. So a token costs no
    concatenation, and a state still never changes under its owner.
    """

    k_buffer: Tensor  # (B, H, capacity, D)
    v_buffer: Tensor  # (B, H, capacity, M)
    real_buffer: Tensor | None  # (B, capacity) False for padding and free slots; None: no padding
    ticket: list[int]  # [version of the newest state], shared by all states of one buffer
    version: int
    first: int = 0
    """Position of slot 0: a window forgets what it will never see again."""

    @property
    def slots(self) -> int:
        return self.longest - self.first

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.k, self.v))

    @property
    def k(self) -> Tensor:
        return self.k_buffer[:, :, : self.slots]

    @property
    def v(self) -> Tensor:
        return self.v_buffer[:, :, : self.slots]

    @property
    def keys(self) -> Tensor | None:
        return None if self.real_buffer is None else self.real_buffer[:, : self.slots]

    @staticmethod
    def empty(k: Tensor, v: Tensor) -> KeyValues:
        """A state that has absorbed nothing yet, for keys and values like these."""
        return KeyValues(0, k[:, :, :0].detach(), v[:, :, :0].detach(), None, [0], 0)

    def append(self, k: Tensor, v: Tensor, keys: Tensor | None, keep: int | None = None) -> Self:
        """A state with T more tokens; of the old ones at least the last `keep` stay (None: all)."""
        T, tensors = k.shape[2], (k, v, self.k_buffer, self.v_buffer)
        # In place would change what the backward pass of an earlier read still needs.
        in_place = not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
        room = self.version == self.ticket[0] and self.slots + T <= self.k_buffer.shape[2]
        old = self if in_place and room else self._moved(T, keep, spare=in_place)
        at = old.length - old.first
        real = old.real_buffer
        if real is None and keys is not None:
            real = keys.new_ones(len(k), old.k_buffer.shape[2])
        if real is not None:
            new = real.new_ones(len(k), T) if keys is None else keys
            real = _write(real[:, None, :, None], new[:, None, :, None], at, True)[:, 0, :, 0]
        old.ticket[0] += 1
        return replace(
            old,
            length=old.length + T,
            k_buffer=_write(old.k_buffer, k, at, in_place),
            v_buffer=_write(old.v_buffer, v, at, in_place),
            real_buffer=real,
            version=old.ticket[0],
        )

    def select(self, rows: Tensor) -> Self:
        return replace(super().select(rows), ticket=[0], version=0)

    def trim(self, lengths: Tensor) -> Self:
        trimmed = super().trim(lengths)
        real = torch.arange(self.k_buffer.shape[2], device=lengths.device) + self.first
        real = real < lengths[:, None]  # (B, capacity)
        if self.real_buffer is not None:
            real = real & self.real_buffer
        # A version that is never the newest: what lies behind a row's end still belongs to this
        # state, so the first append to the trimmed one must copy.
        return replace(trimmed, real_buffer=real, version=-1)

    def _moved(self, T: int, keep: int | None, spare: bool) -> Self:
        """The same content in new buffers with room for T more, the forgotten part left out."""
        shortest = int(self.length.min()) if isinstance(self.length, Tensor) else self.length
        drop = 0 if keep is None else max(0, shortest - keep - self.first)
        used = self.slots - drop
        # The first tokens get just the room they need: a memory that is only read never grows.
        room = T + max(SPARE, used // 2) if spare and used else T

        def move(buffer: Tensor) -> Tensor:
            kept = buffer[:, :, drop : drop + used]
            return torch.cat([kept, kept.new_zeros(*kept.shape[:2], room, kept.shape[3])], dim=2)

        real = self.real_buffer
        return replace(
            self,
            k_buffer=move(self.k_buffer),
            v_buffer=move(self.v_buffer),
            real_buffer=None if real is None else move(real[:, None, :, None])[:, 0, :, 0],
            ticket=[0],
            version=0,
            first=self.first + drop,
        )


def _write(buffer: Tensor, new: Tensor, at: int | Tensor, in_place: bool) -> Tensor:
    """The buffer (B, H, capacity, D) with `new` (B, H, T, D) from slot `at` on, one or (B,)."""
    T = new.shape[2]
    if isinstance(at, Tensor):
        slots = at.to(new.device)[:, None] + torch.arange(T, device=new.device)  # (B, T)
        slots = slots[:, None, :, None].expand_as(new)
        return buffer.scatter_(2, slots, new) if in_place else buffer.scatter(2, slots, new)
    if in_place:
        buffer[:, :, at : at + T] = new
        return buffer
    return torch.cat([buffer[:, :, :at], new, buffer[:, :, at + T :]], dim=2)
