"""The codes of docs/capture-format.md: numbers in fewer bytes, with a known error.

A row is the last axis. Each function works on whole arrays; a code is a name in ERRORS.
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
"""Of each code, the bound of a value's error as a share of its row's float."""

_LEVELS = {"sqrt8": 255, "sqrt16": 65535, "signed8": 127, "signed16": 32767, "linear16": 32767}
_TYPES = {"sqrt8": "u1", "sqrt16": "<u2", "signed8": "i1", "signed16": "<i2", "linear16": "<i2"}
_SMALLEST = float(np.finfo(np.float32).tiny)  # below, a float has fewer digits than the code
_LARGEST = float(np.finfo(np.float32).max)


def byte_count(shape: Sequence[int], code: str) -> int:
    values = math.prod(shape)
    if code == "bits":
        return -(-values // 8)
    if code in _LEVELS:
        return 4 * math.prod(shape[:-1]) + values * np.dtype(_TYPES[code]).itemsize
    return values * (4 if code == "f32" else 1)


def error_of(code: str, step: int = 1) -> float:
    """The bound of a value's error as a share of its row's float, where `encode` used `step`."""
    return ERRORS[code] if step == 1 else 0.52 / (_LEVELS[code] // step)


def encode(x: NDArray[Any], code: str, *, flat: float = 0.0, step: int = 1) -> bytes:
    """The bytes of an array; a ValueError where the code cannot hold its values.

    Both options trade digits for size. `flat`: no row's float is below this share of the
    row's sum, for codes without a sign. `step`: only each so manieth code is used, for `linear16`.
    """
    if x.size == 0 or x.ndim == 0:
        raise ValueError(f"an array of shape {x.shape} has no values")
    if code == "bits":
        return np.packbits(_whole(x, 1)).tobytes()
    if code == "u8":
        return _whole(x, 255).astype(np.uint8).tobytes()
    x = _finite(x)
    if code == "f32":
        return x.astype("<f4").tobytes()
    if code.startswith("sqrt") and float(x.min()) < 0:
        raise ValueError(f"{code} holds no negative values; the smallest is {float(x.min()):.3g}")
    scale = _scales(x, flat)
    share = np.divide(x, np.where(scale > 0, scale, 1)[..., None])
    share *= (scale > 0)[..., None]
    if code != "linear16":
        share = np.copysign(np.sqrt(np.abs(share)), share)
    levels = _LEVELS[code] // step
    codes = (np.rint(share * np.float32(levels)) * step).astype(_TYPES[code])
    whole = np.minimum(scale * (_LEVELS[code] / (levels * step)), _LARGEST)
    return whole.astype("<f4").tobytes() + _planes(codes)


def decode(data: bytes | memoryview, shape: Sequence[int], code: str) -> NDArray[Any]:
    """The array of these bytes: float32, or uint8 for `u8`, or bool for `bits`."""
    if len(data) != byte_count(shape, code):
        raise ValueError(f"{len(data)} bytes where {byte_count(shape, code)} are needed")
    raw = np.frombuffer(data, np.uint8)
    values = math.prod(shape)
    if code == "bits":
        bits = np.unpackbits(raw)
        if bits[values:].any():
            raise ValueError("bits behind the last value are not 0")
        return bits[:values].reshape(shape).astype(bool)
    if code == "u8":
        return raw.reshape(shape).copy()
    if code == "f32":
        return _finite(raw.view("<f4").reshape(shape).copy())
    rows = math.prod(shape[:-1])
    scale = _finite(raw[: 4 * rows].view("<f4"))
    if rows and float(scale.min()) < 0:
        raise ValueError("the float of a row is negative")
    return _values(raw[4 * rows :], code, (rows, shape[-1]), scale).reshape(shape)


def _values(raw: NDArray[np.uint8], code: str, shape: tuple[int, int], scale: Floats) -> Floats:
    kind = np.dtype(_TYPES[code])
    if kind.itemsize == 2:
        low, high = raw.reshape(2, -1).astype(np.uint16)
        raw = (low | high << 8).astype("<u2").view(np.uint8)
    codes = raw.view(kind).reshape(shape)
    levels = _LEVELS[code]
    if kind.kind == "i" and int(codes.min()) < -levels:
        raise ValueError(f"a value of {code} is beyond its row's float")
    share = np.arange(-levels if kind.kind == "i" else 0, levels + 1) / levels
    table = share if code == "linear16" else share * np.abs(share)
    places = codes.astype(np.int32)
    if kind.kind == "i":
        places += levels
    found: Floats = table.astype(np.float32)[places]
    found *= scale[:, None]
    return found


def _scales(x: Floats, flat: float) -> Floats:
    """A float for each row, never below its largest absolute value."""
    scale = np.maximum(x.max(-1), -x.min(-1))
    if flat:
        least = np.minimum(x.sum(-1, dtype=np.float64) * flat, _LARGEST)
        scale = np.maximum(scale, least.astype(np.float32))
    return np.where(scale < _SMALLEST, np.float32(0), scale)


def _planes(codes: NDArray[Any]) -> bytes:
    """All low bytes, then all high ones: the high ones repeat, so they become smaller."""
    size = codes.dtype.itemsize
    return np.ascontiguousarray(codes.reshape(-1).view(np.uint8).reshape(-1, size).T).tobytes()


def _finite(x: NDArray[Any]) -> Floats:
    with np.errstate(over="ignore"):  # what is too large for a float becomes infinite here
        x = np.asarray(x, np.float32)
    # the extremes of an array with a NaN are NaN; no array of flags is needed
    if not (np.isfinite(x.min(initial=0)) and np.isfinite(x.max(initial=0))):
        wrong = "NaN" if np.isnan(x).any() else "infinite"
        raise ValueError(f"values are {wrong}; only finite numbers can be kept")
    return x


def _whole(x: NDArray[Any], most: int) -> NDArray[Any]:
    if x.dtype != bool and (x.dtype.kind not in "iu" or int(x.min()) < 0 or int(x.max()) > most):
        raise ValueError(f"whole numbers from 0 to {most} were expected, not {x.dtype}")
    return x
