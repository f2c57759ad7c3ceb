"""Mutants of a file: a few random changes that respect its structure, or only its bytes.

Everything is drawn from one `random.Random`, so the number of a mutant is enough to make it again.
"""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Mutator = Callable[[bytes, random.Random], bytes]

DEEP, LONG_NUMBER, TWICE = "\u0001deep\u0001", "\u0001digits\u0001", "\u0001twice\u0001"
NUMBERS: list[Any] = [
    0, -1, 1, 2, 3, 7, 2**15, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, -(2**63),
    2**64,
    10**6, 10**9, 10**10, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e300, float("nan"), float("inf"),
    float("-inf"), 1.0, 12.0,
]  # fmt: skip
TEXTS = [
    "", "x", "0", "NaN", "null", "a" * 1000, "a" * 300_000, "\x00", "\ud800", "\u202e\u2066",
    "../../x",
    "/dev/zero", "é\n", "\t", "</script>", "[bold]", "%s%n", "softmax", "favor", "window",
    "favor:features=1000000000", "favor:features=20000", "bigbird:block=16777216",
    "bigbird:window_blocks=16777215", "bigbird:random_blocks=16777216", "window:window=16777216",
    "elu:chunk=16777216", "linformer", "linformer:rank=65536", "synthesizer_random",
    "synthesizer:max_length=1", "softmax:beta=1e308", "softmax:beta=1e-308", "softmax:heads=3",
    "1*softmax+1*favor", "999999999*softmax", "+", "*", ":", "performer", "digits", "decoder",
    "encoder", "seq2seq", "vit", "convnet", "rotary", "sinusoidal", "none", "learned", "language",
    "knowledge", "summary", "vision", "recall", "higher", "loss",
]  # fmt: skip
CONSTANTS: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, DEEP, LONG_NUMBER]
BYTES = [0, 1, 9, 10, 13, 34, 44, 92, 127, 128, 191, 192, 224, 237, 240, 255]
FRAGMENTS = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\n\n", b"\t\t", b'"', b'""',
    b",",
    b"{", b"[" * 5000, b"\x00" * 4096, b"a" * 70_000, b"1" * 5000, b"NaN", b"1e999", b"\\ud800",
    "\u2028é\U0001f600".encode(),
]  # fmt: skip
SIZES = [0, 1, 2, 255, 256, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1]


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
        length = rng.choice((1, 2, 4, 8, 16, 64, 1024))
        match rng.randrange(9):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice(BYTES)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = data[other : other + length]
            case 5:
                data[at : at + length] = data[other : other + length]
            case 6:
                data[at:at] = rng.choice(FRAGMENTS)
            case 7:
                data[at : at + 4] = struct.pack(rng.choice(("<I", ">I")), rng.choice(SIZES))
            case 8:
                data[at : at + length] = rng.randbytes(length)
    return bytes(data)


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Change values, names and nesting; sometimes only the bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(content, rng)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_bytes(content, rng)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        document = _change_document(document, rng)
    return _to_text(document, rng).encode("utf-8", "surrogatepass")


def mutate_json_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines[at] = mutate_bytes(lines[at], rng)
            case 1:
                del lines[at]
            case 2:
                lines.insert(at, rng.choice((b"", b"{}", b"[]", b"null", b"3", *FRAGMENTS)))
            case 3:
                lines.insert(at, lines[rng.randrange(len(lines))] if lines else b"")
            case _:
                lines[at] = mutate_json(lines[at], rng)
        lines = lines or [b""]
    return b"\n".join(lines)


def mutate_safetensors(content: bytes, rng: random.Random) -> bytes:
    return _mutate_framed(content, rng, prefix=0)


def mutate_capture(content: bytes, rng: random.Random) -> bytes:
    """A capture begins with a line with its format; then it is framed like safetensors."""
    return _mutate_framed(content, rng, prefix=content.index(b"\n") + 1)


def mutate_npz(content: bytes, rng: random.Random) -> bytes:
    """Change an array inside the archive, and its checksum with it."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(files))
    array = files[name]
    begin = array.index(b"{")
    end = array.index(b"}", begin) + 1
    if rng.random() < 0.7:
        header = array[begin:end].decode("latin-1")
        old = rng.choice(("|u1", "<i8", "(40, 6, 6)", "(40,)", "False", "descr", "shape"))
        new = rng.choice((
            "|O", "<f4", ">f8", "<f2", "<U1000000", "|V3", "<c16", "|b1", "<M8[s]", "(0,)", "()",
            "(-1, 6, 6)", "(40, 6, 0)", "(1099511627776,)", "(2, 20, 36)", "True", "x", "(" * 200,
            "<U" + "9" * 30,
        ))  # fmt: skip
        header = header.replace(old, new)
        files[name] = array[:begin] + header.encode("latin-1") + array[end:]
    else:
        files[name] = mutate_bytes(array, rng)
    if rng.random() < 0.2:
        files[rng.choice(("x_train.npy", "classes.npy", "y_test.npy", "../x.npy"))] = array
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return out.getvalue()


def mutate_png(content: bytes, rng: random.Random) -> bytes:
    """Change a chunk and correct its checksum."""
    if rng.random() < 0.4 or not content.startswith(b"\x89PNG"):
        return mutate_bytes(content, rng)
    chunks, at = [], 8
    while at + 12 <= len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    for _ in range(rng.choice((1, 1, 2))):
        index = rng.randrange(len(chunks))
        name, data = chunks[index]
        match rng.randrange(5):
            case 0:
                del chunks[index]
            case 1:
                chunks.insert(index, chunks[index])
            case 2:
                chunks.insert(
                    index,
                    (rng.choice((b"tEXt", b"zTXt", b"iCCP", b"PLTE", b"tRNS", b"acTL")), data),
                )
            case _:
                chunks[index] = (name, mutate_bytes(data, rng))
        chunks = chunks or [(b"IEND", b"")]
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def _mutate_framed(content: bytes, rng: random.Random, prefix: int) -> bytes:
    """Change the JSON header behind its length, and mostly correct the length."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    start = prefix + 8
    length = int.from_bytes(content[prefix:start], "little")
    header = mutate_json(content[start : start + length], rng)
    rest = content[start + length :]
    size = len(header)
    if rng.random() < 0.1:
        size = rng.choice((0, size - 1, size + 1, 2**24, 2**25, 2**40, 2**63, 2**64 - 1))
    if rng.random() < 0.1:
        rest = mutate_bytes(rest, rng)
    return content[:prefix] + max(size, 0).to_bytes(8, "little") + header + rest


def _change_document(document: Any, rng: random.Random) -> Any:
    places = list(_places(document))
    if not places:
        return _odd_value(rng, document)
    holder, key = rng.choice(places)
    old = holder[key]
    match rng.randrange(12):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[
                rng.choice(("", "x", "__class__", "a" * 2000, str(rng.choice(list(holder)))))
            ] = old
        case 2:
            other_holder, other_key = rng.choice(places)
            holder[key] = deepcopy(other_holder[other_key])
        case 3:
            holder[key] = rng.choice(
                ([old], {"x": old}, [old] * 300, {key if isinstance(key, str) else "k": old})
            )
        case 4 if isinstance(holder, dict):
            holder[f"{TWICE}{key}"] = _odd_value(rng, old)
        case 5 if isinstance(old, list) and old:
            holder[key] = rng.choice(
                (old * 2, old[:-1], old[::-1], old * 200, [*old, _odd_value(rng, old[0])])
            )
        case 6 if isinstance(old, int | float) and not isinstance(old, bool) and abs(old) < 1e300:
            holder[key] = rng.choice(
                (-old, old + 1, old - 1, old * 2, old * 1000, old / 3, str(old))
            )
        case 7 if isinstance(old, str):
            position = rng.randrange(len(old) + 1)
            holder[key] = old[:position] + rng.choice(TEXTS) + old[position:]
        case _:
            holder[key] = _odd_value(rng, old)
    return document


def _places(value: Any) -> Any:
    """Every (container, key) below a value."""
    stack = [value]
    while stack:
        node = stack.pop()
        items = (
            node.items()
            if isinstance(node, dict)
            else enumerate(node)
            if isinstance(node, list)
            else ()
        )
        for key, inner in items:
            yield node, key
            stack.append(inner)


def _odd_value(rng: random.Random, old: Any) -> Any:
    """Often of the same type as the old value, to get past the first check."""
    return deepcopy(_choose_value(rng, old))


def _choose_value(rng: random.Random, old: Any) -> Any:
    if isinstance(old, str) and rng.random() < 0.5:
        return rng.choice(TEXTS)
    if isinstance(old, int | float) and rng.random() < 0.5:
        return rng.choice(NUMBERS)
    return rng.choice([*NUMBERS, *TEXTS, *CONSTANTS])


def _to_text(document: Any, rng: random.Random) -> str:
    text = json.dumps(document, indent=rng.choice((None, None, 2)))
    depth = rng.choice((40, 900, 5000, 100_000))
    pair = rng.choice(("[]", ('{"a":', "}")))
    text = text.replace(json.dumps(DEEP), pair[0] * depth + "1" + pair[1] * depth)
    text = text.replace(json.dumps(LONG_NUMBER), "1" * rng.choice((20, 400, 5000)))
    return text.replace(json.dumps(TWICE)[1:-1], "")
