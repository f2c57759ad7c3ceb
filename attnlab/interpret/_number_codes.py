"""Number codes of docs/reference/capture-format.md: fewer bytes per number, bounded error.

Most codes store a scale (a float) per row, and each value as a fraction of it. A row is the last
axis. A code is a name in ERRORS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

Code = Literal["f32", "sqrt8", "sqrt16", "signed8", "signed16", "linear16", "u8", "bits"]
ERRORS = {
    "f32": 0.0,
    "u8": 0.0,
    "bits": 0.0,
    "sqrt8": 0.004,
    "sqrt16": 1.6e-5,
    "signed8": 0.0079,
    "signed16": 3.1e-5,
    "linear16": 1.6e-5,
}
"""For each code, the bound of a value's error as a fraction of its row's scale."""

_LEVELS = {"sqrt8": 255, "sqrt16": 65535, "signed8": 127, "signed16": 32767, "linear16": 32767}
_TYPES = {"sqrt8": "u1", "sqrt16": "<u2", "signed8": "i1", "signed16": "<i2", "linear16": "<i2"}
_SMALLEST = float(np.finfo(np.float32).tiny)  # a smaller float has fewer digits than the code
_LARGEST = float(np.finfo(np.float32).max)


def byte_count(shape: Sequence[int], code: str) -> int:
    values = math.prod(shape)
    if code == "bits":
        return -(-values // 8)
    if code in _LEVELS:
        return 4 * math.prod(shape[:-1]) + values * np.dtype(_TYPES[code]).itemsize
    return values * (4 if code == "f32" else 1)


def error_bound(code: str, step: int = 1) -> float:
    """The bound of a value's error as a fraction of its row's scale, if `encode` used `step`."""
    return ERRORS[code] if step == 1 else 0.52 / (_LEVELS[code] // step)


def encode(x: NDArray[Any], code: str, *, min_scale: float = 0.0, step: int = 1) -> bytes:
    """The bytes of an array; raises a ValueError if the code cannot hold its values.

    Both options trade precision for size. `min_scale`: a row's scale is at least this fraction of
    the row's sum (for codes without a sign). `step`: use only every `step`-th code (for
    `linear16`).
    """
    if x.size == 0 or x.ndim == 0:
        raise ValueError(f"an array of shape {x.shape} has no values")
    if code == "bits":
        return np.packbits(_check_integers(x, 1)).tobytes()
    if code == "u8":
        return _check_integers(x, 255).astype(np.uint8).tobytes()
    x = _to_finite_float32(x)
    if code == "f32":
        return x.astype("<f4").tobytes()
    if code.startswith("sqrt") and float(x.min()) < 0:
        raise ValueError(
            f"{code} cannot hold negative values; the smallest is {float(x.min()):.3g}"
        )
    scale = _row_scales(x, min_scale)
    fraction = np.divide(x, np.where(scale > 0, scale, 1)[..., None])
    fraction *= (scale > 0)[..., None]
    if code != "linear16":
        fraction = np.copysign(np.sqrt(np.abs(fraction)), fraction)
    levels = _LEVELS[code] // step
    codes = (np.rint(fraction * np.float32(levels)) * step).astype(_TYPES[code])
    stored = np.minimum(scale * (_LEVELS[code] / (levels * step)), _LARGEST)
    return stored.astype("<f4").tobytes() + _byte_planes(codes)


def decode(data: bytes | memoryview, shape: Sequence[int], code: str) -> NDArray[Any]:
    """The array of these bytes: float32, or uint8 for `u8`, or bool for `bits`."""
    if len(data) != byte_count(shape, code):
        raise ValueError(f"has {len(data)} bytes instead of {byte_count(shape, code)}")
    raw = np.frombuffer(data, np.uint8)
    values = math.prod(shape)
    if code == "bits":
        bits = np.unpackbits(raw)
        if bits[values:].any():
            raise ValueError("bits after the last value are not 0")
        return bits[:values].reshape(shape).astype(bool)
    if code == "u8":
        return raw.reshape(shape).copy()
    if code == "f32":
        return _to_finite_float32(raw.view("<f4").reshape(shape).copy())
    rows = math.prod(shape[:-1])
    scale = _to_finite_float32(raw[: 4 * rows].view("<f4"))
    if rows and float(scale.min()) < 0:
        raise ValueError("the scale of a row is negative")
    return _decode_values(raw[4 * rows :], code, (rows, shape[-1]), scale).reshape(shape)


def _decode_values(
    raw: NDArray[np.uint8], code: str, shape: tuple[int, int], scale: Floats
) -> Floats:
    kind = np.dtype(_TYPES[code])
    if kind.itemsize == 2:
        low, high = raw.reshape(2, -1).astype(np.uint16)
        raw = (low | high << 8).astype("<u2").view(np.uint8)
    codes = raw.view(kind).reshape(shape)
    levels = _LEVELS[code]
    if kind.kind == "i" and int(codes.min()) < -levels:
        raise ValueError(f"a value of {code} is beyond its row's scale")
    fraction = np.arange(-levels if kind.kind == "i" else 0, levels + 1) / levels
    table = fraction if code == "linear16" else fraction * np.abs(fraction)
    indices = codes.astype(np.int32)
    if kind.kind == "i":
        indices += levels
    values: Floats = table.astype(np.float32)[indices]
    values *= scale[:, None]
    return values


def _row_scales(x: Floats, min_scale: float) -> Floats:
    """A scale for each row, at least its largest absolute value."""
    scale = np.maximum(x.max(-1), -x.min(-1))
    if min_scale:
        least = np.minimum(x.sum(-1, dtype=np.float64) * min_scale, _LARGEST)
        scale = np.maximum(scale, least.astype(np.float32))
    return np.where(scale < _SMALLEST, np.float32(0), scale)


def _byte_planes(codes: NDArray[Any]) -> bytes:
    """All low bytes, then all high bytes: the high ones repeat, so they compress better."""
    size = codes.dtype.itemsize
    return np.ascontiguousarray(codes.reshape(-1).view(np.uint8).reshape(-1, size).T).tobytes()


def _to_finite_float32(x: NDArray[Any]) -> Floats:
    with np.errstate(over="ignore"):  # too large for a float becomes infinite, and an error below
        x = np.asarray(x, np.float32)
    # min and max are NaN if any value is: this needs no extra array
    if not (np.isfinite(x.min(initial=0)) and np.isfinite(x.max(initial=0))):
        wrong = "NaN" if np.isnan(x).any() else "infinite"
        raise ValueError(f"values are {wrong}; only finite numbers can be saved")
    return x


def _check_integers(x: NDArray[Any], largest: int) -> NDArray[Any]:
    if x.dtype != bool and (x.dtype.kind not in "iu" or int(x.min()) < 0 or int(x.max()) > largest):
        raise ValueError(f"values are {x.dtype}; give whole numbers from 0 to {largest}")
    return x
