"""Arrays, rounded and compressed, in blocks that grow one behind the other.

Letters: H heads that were kept, T queries, S keys.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.interpret.arrays import encode, error_of
from attnlab.interpret.records import plain

STEPS = 31  # of the values of a small map: an eye sees no more
# In 8 bits a page of 128 tokens must stay below 1.5 MB, one of 512 below 15. So the float of a row
# of S weights is at least this / S of its sum: even weights are then exact to 8 % of themselves.
# And of the codes of q, k, v and bias only each eighth is used, which is still more exact.
FLAT, STEP = 384, 8
# Of 19 million weights of a real model this leaves 0.482 bytes each in 1.8 s; level 9 0.477 in 4.4,
# level 4 0.489 in 0.8; with zlib's own strategy level 6 leaves 0.512, level 1 0.550.
LEVEL, STRATEGY = 6, zlib.Z_FILTERED


class Blocks:
    """What was added between two times that it was closed is a block; `bits` of a weight."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.blocks: list[bytes] = []
        self.sizes: list[int] = []
        self.parts: list[bytes] = []
        self.offset = 0

    def maybe(self, x: Tensor | None, what: str, step: int = 1) -> dict[str, Any] | None:
        """A mechanism that ignores its queries or keys gets them with width 0: nothing to keep."""
        return None if x is None or x.numel() == 0 else self.array(x, "linear16", what, step=step)

    def array(
        self, x: Tensor, code: str, what: str, *, flat: bool = False, step: int = 1
    ) -> dict[str, Any]:
        share = min(1.0, FLAT / x.shape[-1]) if flat and self.bits == 8 else 0.0
        try:
            data = encode(numbers(x), code, flat=share, step=step)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
        found = {
            "block": len(self.blocks),
            "offset": self.offset,
            "shape": list(x.shape),
            "code": code,
            "error": error_of(code, step),
        }
        self.parts.append(data)
        self.offset += len(data)
        return found

    def close(self) -> None:
        """What was added since the last time is a block."""
        if not self.parts:
            return
        press = zlib.compressobj(LEVEL, strategy=STRATEGY)
        pressed = [press.compress(part) for part in self.parts]
        self.blocks.append(b"".join([*pressed, press.flush()]))
        self.sizes.append(self.offset)
        self.parts, self.offset = [], 0


def small_map(weights: Tensor, size: int) -> NDArray[np.uint8]:
    """(H, T, S) to (H, size, size): the largest of each cell, as the square root of its share."""
    x = np.abs(numbers(weights))
    for axis in (1, 2):
        length = x.shape[axis]
        x = np.maximum.reduceat(x, np.arange(size) * length // size, axis)
    most = x.max((1, 2), keepdims=True)
    share = np.divide(x, np.where(most > 0, most, 1))
    steps = np.rint(np.sqrt(share) * np.float32(STEPS))
    return np.rint(steps * np.float32(255 / STEPS)).astype(np.uint8)


def numbers(x: Tensor) -> NDArray[Any]:
    whole = x.dtype in (torch.bool, torch.uint8)
    return (x.detach().cpu() if whole else plain(x)).contiguous().numpy()
