"""CIFAR's python batches are pickles; this reads them without running anything that they say.

A pickle is a program: it may name any function and call it, so `pickle.load` of a stranger's file
is running a stranger's code. Here nothing is imported. The few names that a pickled numpy array
needs are stand-ins that keep what they are given; every other name is refused. An array is then
made from the kept bytes after its shape, its type and their number were checked, so numpy's own
unpickling takes no part either. The machine is the one that `pickle` has in Python: the one
in C reserves a table as large as the file asks for, which would be a way to take all memory.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.tasks.vision.images import MOST_BYTES

TYPES = {b"u1": np.uint8, b"i8": np.int64, b"i4": np.int32}  # of what a batch may hold


class _Type:
    """numpy.dtype"""

    def __init__(self, code: Any = None, *rest: Any) -> None:
        del rest
        self.code = code.encode() if isinstance(code, str) else code
        self.big = False

    def __setstate__(self, state: Any) -> None:
        self.big = isinstance(state, tuple) and len(state) > 1 and state[1] in (b">", ">")


class _Kind:
    """numpy.ndarray: only ever an argument."""


class _Array:
    """numpy's _reconstruct gives it, empty; its state fills it."""

    def __init__(self, *begun: Any) -> None:
        del begun
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def made(self) -> np.ndarray[Any, Any]:
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise ValueError("an array without its state")
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _Type) or kind.big or kind.code not in TYPES:
            raise ValueError("an array that is not of bytes or whole numbers")
        numbers = isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)
        if not numbers or not isinstance(content, bytes | bytearray) or len(shape) > 4:
            raise ValueError("an array without shape or content")
        made = np.frombuffer(content, TYPES[kind.code])
        if math.prod(shape) != len(made):
            raise ValueError(f"an array of shape {shape} with {len(made)} numbers")
        return made.reshape(shape, order="F" if by_columns else "C")


def _encode(text: Any, code: Any = "latin1") -> bytes:
    """_codecs.encode: how Python 3 writes bytes into an old kind of pickle."""
    if not isinstance(text, str) or code not in ("latin1", b"latin1"):
        raise ValueError("bytes written in an unknown way")
    return text.encode("latin1")


def _no_bytes(*arguments: Any) -> bytes:
    """bytes(): how Python 3 writes b"" into an old kind of pickle; bytes(n) would take memory."""
    if arguments:
        raise ValueError("bytes written in an unknown way")
    return b""


def _frombuffer(content: Any, kind: Any, shape: Any, order: Any) -> _Array:
    """How newer versions of numpy write an array."""
    array = _Array()
    array.state = (1, shape, kind, order in ("F", b"F"), content)
    return array


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Kind,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
}


class _Machine(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image needs")
        return ALLOWED[module, name]


def read_pickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a batch: keys are bytes, values as they are, arrays as numpy's."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        content = path.read_bytes()
        found = _Machine(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError("it is no dictionary")
        return {
            key.encode() if isinstance(key, str) else key: (
                value.made() if isinstance(value, _Array) else value
            )
            for key, value in found.items()
        }
    except Exception as error:  # a damaged pickle can fail in any way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path}: not a CIFAR batch ({reason})") from None
