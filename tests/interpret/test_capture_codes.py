"""The number codes of captures: round trips and error bounds."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from attnlab.interpret._number_codes import ERRORS, byte_count, decode, encode, error_bound

ROOTS = {"sqrt8": 255, "sqrt16": 65535, "signed8": 127, "signed16": 32767}
SCALED = [*ROOTS, "linear16"]
TINY = float(np.finfo(np.float32).tiny)

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=7)
LARGE = float(np.float32(1e38))
plain_floats = st.floats(-LARGE, LARGE, width=32)
mixed_floats = st.one_of(
    plain_floats,
    st.floats(0, 1, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1.2e-38, -1e-30, 3e38, 1e-7]).map(
        lambda x: float(np.float32(x))
    ),
)
arrays = hnp.arrays(np.float32, shapes, elements=mixed_floats)


def floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def row_scales(x: NDArray[Any], min_scale: float = 0.0) -> NDArray[np.float64]:
    """(..., 1), by the definition."""
    wide = x.astype(np.float64)
    largest = np.abs(wide).max(-1, keepdims=True)
    least = np.minimum(min_scale * wide.sum(-1, keepdims=True), np.finfo(np.float32).max)
    return np.maximum(largest, least) if min_scale else largest


def value_by_definition(code: str, scale: float, c: int) -> float:
    """As the table in docs/reference/capture-format.md defines it."""
    if code == "linear16":
        return scale * c / 32767
    fraction = c / ROOTS[code]
    return scale * math.copysign(fraction**2, c)


@pytest.mark.parametrize("code", SCALED)
@given(x=arrays)
def test_error_stays_below_its_bound(code: str, x: NDArray[Any]) -> None:
    if code.startswith("sqrt"):
        x = np.abs(x)
    decoded = decode(encode(x, code), x.shape, code)
    assert decoded.shape == x.shape
    assert decoded.dtype == np.float32
    scale = row_scales(x)
    error = np.abs(decoded.astype(np.float64) - x)
    real = scale >= TINY
    assert (error <= ERRORS[code] * scale)[np.broadcast_to(real, x.shape)].all()
    assert (decoded == 0)[np.broadcast_to(~real, x.shape)].all()
    if code in ROOTS:  # small values are closer
        d = 0.5 / ROOTS[code]
        bound = d * (2 * np.sqrt(np.abs(x) * scale) + d * scale) + 1e-6 * np.abs(x) + 1e-44
        assert (error <= 1.02 * bound)[np.broadcast_to(real, x.shape)].all()


@given(x=arrays, min_scale=st.floats(0.01, 4), code=st.sampled_from(["sqrt8", "sqrt16"]))
def test_min_scale_raises_the_scale_of_uniform_rows(
    x: NDArray[Any], min_scale: float, code: str
) -> None:
    x = np.abs(x)
    data = encode(x, code, min_scale=min_scale)
    rows = math.prod(x.shape[:-1])
    scale = np.frombuffer(data[: 4 * rows], "<f4").reshape(*x.shape[:-1], 1)
    expected = row_scales(x, min_scale)
    assert np.allclose(scale, np.where(expected < TINY, 0, expected), rtol=1e-6, atol=0)
    error = np.abs(decode(data, x.shape, code).astype(np.float64) - x)
    assert (error <= ERRORS[code] * expected + TINY).all()


@given(x=hnp.arrays(np.float32, shapes, elements=plain_floats), step=st.sampled_from([2, 8, 64]))
def test_step_uses_fewer_codes(x: NDArray[Any], step: int) -> None:
    data = encode(x, "linear16", step=step)
    error = np.abs(decode(data, x.shape, "linear16").astype(np.float64) - x)
    scale = row_scales(x)
    assert (error <= error_bound("linear16", step) * scale + TINY).all()
    low = np.frombuffer(data[4 * math.prod(x.shape[:-1]) :], np.uint8)[: x.size]
    assert (low % min(step, 256) == 0).all()


def test_documented_errors() -> None:
    assert error_bound("linear16", 8) == pytest.approx(1.3e-4, rel=0.03)
    assert error_bound("sqrt8") == ERRORS["sqrt8"] == 0.004
    uniform = np.full((1, 2048), 1 / 2048, np.float32)
    decoded = decode(encode(uniform, "sqrt8", min_scale=384 / 2048), uniform.shape, "sqrt8")
    assert np.abs(decoded / uniform - 1).max() <= 0.08


@pytest.mark.parametrize("code", SCALED)
@given(data=st.data())
def test_decoding_matches_the_definition(code: str, data: st.DataObject) -> None:
    """Random bytes, value by value."""
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    largest = 32767 if code == "linear16" else ROOTS[code]
    least = 0 if code.startswith("sqrt") else -largest
    codes = [data.draw(st.integers(least, largest)) for _ in range(rows * columns)]
    scales = [data.draw(st.sampled_from([0.0, 1.0, 0.3, 2.5e-7, 3e38])) for _ in range(rows)]
    raw = struct.pack(f"<{rows}f", *scales)
    if code.endswith("8"):
        raw += bytes(c & 255 for c in codes)
    else:
        raw += bytes(c & 255 for c in codes) + bytes(c >> 8 & 255 for c in codes)
    decoded = decode(raw, (rows, columns), code)
    for index, c in enumerate(codes):
        row, column = divmod(index, columns)
        expected = value_by_definition(code, float(np.float32(scales[row])), c)
        assert float(decoded[row, column]) == pytest.approx(expected, rel=1e-6, abs=1e-44)


def test_bytes_by_hand() -> None:
    one = struct.pack("<f", 1.0)
    assert encode(floats([[0, 0.25, 1]]), "sqrt8") == one + bytes([0, 128, 255])
    assert encode(floats([[-1, 0.25, 0]]), "signed8") == one + bytes([129, 64, 0])
    # -32767 is 0x8001, 16384 is 0x4000: low bytes first
    assert encode(floats([-1, 0.5]), "linear16") == one + bytes([0x01, 0x00, 0x80, 0x40])
    assert encode(floats([1, 0]), "sqrt16") == one + bytes([255, 0, 255, 0])
    bits = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1]], bool)
    assert encode(bits, "bits") == bytes([0b10110000, 0b10000000])
    assert encode(floats([1.5]), "f32") == struct.pack("<f", 1.5)
    assert encode(np.array([[7, 255]], np.uint8), "u8") == bytes([7, 255])


@given(x=hnp.arrays(bool, shapes))
def test_round_trip_of_bits(x: NDArray[Any]) -> None:
    data = encode(x, "bits")
    assert len(data) == byte_count(x.shape, "bits")
    assert (decode(data, x.shape, "bits") == x).all()


@given(x=hnp.arrays(np.uint8, shapes))
def test_round_trip_of_bytes(x: NDArray[Any]) -> None:
    decoded = decode(encode(x, "u8"), x.shape, "u8")
    assert decoded.dtype == np.uint8
    assert (decoded == x).all()


@given(x=hnp.arrays(np.float32, shapes, elements=st.floats(width=32, allow_nan=False)))
def test_round_trip_of_floats(x: NDArray[Any]) -> None:
    if not np.isfinite(x).all():
        with pytest.raises(ValueError, match="infinite"):
            encode(x, "f32")
        return
    assert (decode(encode(x, "f32"), x.shape, "f32") == x).all()


@pytest.mark.parametrize("code", [*SCALED, "f32"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite"), (1e39, "infinite")],
)
def test_values_must_be_finite(code: str, bad: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.*finite numbers"):
        encode(np.array([[0.5, bad], [0.25, 1.0]]), code)


@pytest.mark.parametrize(
    ("x", "code", "message"),
    [
        (floats([0.5, -1e-9]), "sqrt8", "cannot hold negative values"),
        (np.array([3, 256]), "u8", "from 0 to 255"),
        (np.array([3, -1]), "u8", "from 0 to 255"),
        (np.array([0.5]), "u8", "whole numbers"),
        (np.array([0, 2]), "bits", "from 0 to 1"),
        (np.zeros((3, 0), np.float32), "sqrt8", "no values"),
        (np.float32(3), "f32", "no values"),
    ],
)
def test_values_that_a_code_cannot_hold(x: NDArray[Any], code: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(np.asarray(x), code)


@pytest.mark.parametrize(
    ("data", "shape", "code", "message"),
    [
        (struct.pack("<f", math.nan) + b"\0", (1, 1), "sqrt8", "NaN"),
        (struct.pack("<f", math.inf) + b"\0\0", (1, 1), "linear16", "infinite"),
        (struct.pack("<f", -1.0) + b"\0", (1, 1), "sqrt8", "negative"),
        (struct.pack("<f", 1.0) + b"\x80", (1, 1), "signed8", "beyond"),
        (struct.pack("<f", 1.0) + b"\x00\x80", (1, 1), "linear16", "beyond"),
        (struct.pack("<f", math.nan), (1,), "f32", "NaN"),
        (b"\xff", (3,), "bits", "after the last"),
        (b"\0" * 5, (2, 1), "sqrt8", "5 bytes instead of 10"),
    ],
)
def test_invalid_bytes(data: bytes, shape: tuple[int, ...], code: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(data, shape, code)
