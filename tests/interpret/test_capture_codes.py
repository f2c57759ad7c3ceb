"""The codes of a capture's arrays: what comes back, and how exact it is."""

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

from attnlab.interpret._number_codes import ERRORS, byte_count, decode, encode, error_of

ROOTS = {"sqrt8": 255, "sqrt16": 65535, "signed8": 127, "signed16": 32767}
SCALED = [*ROOTS, "linear16"]
TINY = float(np.finfo(np.float32).tiny)

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=7)
LARGE = float(np.float32(1e38))
plain_floats = st.floats(-LARGE, LARGE, width=32)
unlike_floats = st.one_of(
    plain_floats,
    st.floats(0, 1, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1.2e-38, -1e-30, 3e38, 1e-7]).map(
        lambda x: float(np.float32(x))
    ),
)
arrays = hnp.arrays(np.float32, shapes, elements=unlike_floats)


def floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def row_floats(x: NDArray[Any], flat: float = 0.0) -> NDArray[np.float64]:
    """By the definition, (..., 1)."""
    wide = x.astype(np.float64)
    most = np.abs(wide).max(-1, keepdims=True)
    least = np.minimum(flat * wide.sum(-1, keepdims=True), np.finfo(np.float32).max)
    return np.maximum(most, least) if flat else most


def slow_value(code: str, scale: float, c: int) -> float:
    """A line of the table in docs/capture-format.md."""
    if code == "linear16":
        return scale * c / 32767
    share = c / ROOTS[code]
    return scale * math.copysign(share**2, c)


@pytest.mark.parametrize("code", SCALED)
@given(x=arrays)
def test_the_error_stays_below_its_bound(code: str, x: NDArray[Any]) -> None:
    if code.startswith("sqrt"):
        x = np.abs(x)
    back = decode(encode(x, code), x.shape, code)
    assert back.shape == x.shape
    assert back.dtype == np.float32
    scale = row_floats(x)
    off = np.abs(back.astype(np.float64) - x)
    real = scale >= TINY
    assert (off <= ERRORS[code] * scale)[np.broadcast_to(real, x.shape)].all()
    assert (back == 0)[np.broadcast_to(~real, x.shape)].all()
    if code in ROOTS:  # small values are closer
        d = 0.5 / ROOTS[code]
        bound = d * (2 * np.sqrt(np.abs(x) * scale) + d * scale) + 1e-6 * np.abs(x) + 1e-44
        assert (off <= 1.02 * bound)[np.broadcast_to(real, x.shape)].all()


@given(x=arrays, flat=st.floats(0.01, 4), code=st.sampled_from(["sqrt8", "sqrt16"]))
def test_a_flat_row_has_a_larger_float(x: NDArray[Any], flat: float, code: str) -> None:
    x = np.abs(x)
    data = encode(x, code, flat=flat)
    rows = math.prod(x.shape[:-1])
    scale = np.frombuffer(data[: 4 * rows], "<f4").reshape(*x.shape[:-1], 1)
    wanted = row_floats(x, flat)
    assert np.allclose(scale, np.where(wanted < TINY, 0, wanted), rtol=1e-6, atol=0)
    off = np.abs(decode(data, x.shape, code).astype(np.float64) - x)
    assert (off <= ERRORS[code] * wanted + TINY).all()


@given(x=hnp.arrays(np.float32, shapes, elements=plain_floats), step=st.sampled_from([2, 8, 64]))
def test_steps_of_a_code(x: NDArray[Any], step: int) -> None:
    data = encode(x, "linear16", step=step)
    off = np.abs(decode(data, x.shape, "linear16").astype(np.float64) - x)
    scale = row_floats(x)
    assert (off <= error_of("linear16", step) * scale + TINY).all()
    low = np.frombuffer(data[4 * math.prod(x.shape[:-1]) :], np.uint8)[: x.size]
    assert (low % min(step, 256) == 0).all()


def test_the_stated_errors() -> None:
    assert error_of("linear16", 8) == pytest.approx(1.3e-4, rel=0.03)
    assert error_of("sqrt8") == ERRORS["sqrt8"] == 0.004
    even = np.full((1, 2048), 1 / 2048, np.float32)
    back = decode(encode(even, "sqrt8", flat=384 / 2048), even.shape, "sqrt8")
    assert np.abs(back / even - 1).max() <= 0.08


@pytest.mark.parametrize("code", SCALED)
@given(data=st.data())
def test_decoding_is_the_table(code: str, data: st.DataObject) -> None:
    """Bytes that no encoder made, one value after the other, against the fast way."""
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    most = 32767 if code == "linear16" else ROOTS[code]
    least = 0 if code.startswith("sqrt") else -most
    codes = [data.draw(st.integers(least, most)) for _ in range(rows * columns)]
    scales = [data.draw(st.sampled_from([0.0, 1.0, 0.3, 2.5e-7, 3e38])) for _ in range(rows)]
    raw = struct.pack(f"<{rows}f", *scales)
    if code.endswith("8"):
        raw += bytes(c & 255 for c in codes)
    else:
        raw += bytes(c & 255 for c in codes) + bytes(c >> 8 & 255 for c in codes)
    found = decode(raw, (rows, columns), code)
    for place, c in enumerate(codes):
        row, column = divmod(place, columns)
        wanted = slow_value(code, float(np.float32(scales[row])), c)
        assert float(found[row, column]) == pytest.approx(wanted, rel=1e-6, abs=1e-44)


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
def test_bits_come_back(x: NDArray[Any]) -> None:
    data = encode(x, "bits")
    assert len(data) == byte_count(x.shape, "bits")
    assert (decode(data, x.shape, "bits") == x).all()


@given(x=hnp.arrays(np.uint8, shapes))
def test_bytes_come_back(x: NDArray[Any]) -> None:
    back = decode(encode(x, "u8"), x.shape, "u8")
    assert back.dtype == np.uint8
    assert (back == x).all()


@given(x=hnp.arrays(np.float32, shapes, elements=st.floats(width=32, allow_nan=False)))
def test_floats_come_back(x: NDArray[Any]) -> None:
    if not np.isfinite(x).all():
        with pytest.raises(ValueError, match="infinite"):
            encode(x, "f32")
        return
    assert (decode(encode(x, "f32"), x.shape, "f32") == x).all()


@pytest.mark.parametrize("code", [*SCALED, "f32"])
@pytest.mark.parametrize(
    ("bad", "said"),
    [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite"), (1e39, "infinite")],
)
def test_what_is_not_finite_is_refused(code: str, bad: float, said: str) -> None:
    with pytest.raises(ValueError, match=f"{said}.*finite numbers"):
        encode(np.array([[0.5, bad], [0.25, 1.0]]), code)


@pytest.mark.parametrize(
    ("x", "code", "said"),
    [
        (floats([0.5, -1e-9]), "sqrt8", "no negative values"),
        (np.array([3, 256]), "u8", "from 0 to 255"),
        (np.array([3, -1]), "u8", "from 0 to 255"),
        (np.array([0.5]), "u8", "whole numbers"),
        (np.array([0, 2]), "bits", "from 0 to 1"),
        (np.zeros((3, 0), np.float32), "sqrt8", "no values"),
        (np.float32(3), "f32", "no values"),
    ],
)
def test_what_a_code_cannot_hold(x: NDArray[Any], code: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode(np.asarray(x), code)


@pytest.mark.parametrize(
    ("data", "shape", "code", "said"),
    [
        (struct.pack("<f", math.nan) + b"\0", (1, 1), "sqrt8", "NaN"),
        (struct.pack("<f", math.inf) + b"\0\0", (1, 1), "linear16", "infinite"),
        (struct.pack("<f", -1.0) + b"\0", (1, 1), "sqrt8", "negative"),
        (struct.pack("<f", 1.0) + b"\x80", (1, 1), "signed8", "beyond"),
        (struct.pack("<f", 1.0) + b"\x00\x80", (1, 1), "linear16", "beyond"),
        (struct.pack("<f", math.nan), (1,), "f32", "NaN"),
        (b"\xff", (3,), "bits", "behind the last"),
        (b"\0" * 5, (2, 1), "sqrt8", "5 bytes where 10"),
    ],
)
def test_bytes_that_no_encoder_made(
    data: bytes, shape: tuple[int, ...], code: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        decode(data, shape, code)
