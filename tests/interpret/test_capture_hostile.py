"""Files that are no captures, or lie: an error of one line, never a hang or a heap of memory."""

from __future__ import annotations

import copy
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from attnlab.interpret._capture_file import MAGIC, MOST_HEADER, header_and_blocks, pack, read
from attnlab.interpret._capture_header import HEADER as HEADER_TYPE
from attnlab.interpret._records import Capture, facts_of
from tests.support.synthetic_captures import full_capture

HEADER, BLOCKS = pack(full_capture())
FIELDS = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def file_of(header: Any, blocks: list[bytes]) -> bytes:
    data = header if isinstance(header, bytes) else json.dumps(header).encode("ascii")
    return MAGIC + len(data).to_bytes(8, "little") + data + b"".join(blocks)


GOOD = file_of(HEADER, BLOCKS)


def refused(path: Path, data: bytes) -> str:
    """The message, which is one line that begins with the path."""
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r".") as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(path)) + 300
    return message.removeprefix(f"{path}: ")


def read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    found, message = Capture("", []), ""
    try:
        found = read(path)
    except ValueError as error:
        message = str(error)
    assert not message or message.startswith(f"{path}: ")
    assert len(message.splitlines()) == (0 if found.sides else 1)
    for side in found.sides:
        for layer in side.layers:
            assert layer.weights is not None
            assert bool(torch.isfinite(layer.weights).all())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.attnlab"


def test_the_good_file_is_read(path: Path) -> None:
    path.write_bytes(GOOD)
    assert len(read(path).sides) == 2


# The file around the header


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no capture"),
        (
            b"attnlab-capture 2\n" + GOOD[18:],
            "of another version; this attnlab reads version 1",
        ),
        (GOOD[:18], "says that its header has 0 bytes"),
        (GOOD[:22], "header has"),
        (GOOD[:100], "says that its header has"),
        (MAGIC + b"\xff" * 8 + GOOD[26:], "says that its header has"),
        (MAGIC + (MOST_HEADER + 1).to_bytes(8, "little") + b" " * (MOST_HEADER + 1), "says that"),
        (GOOD[:-1], "bytes, but its header and blocks"),
        (GOOD + b"\0", "bytes, but its header and blocks"),
    ],
)
def test_the_file_around_the_header(data: bytes, said: str, path: Path) -> None:
    assert said in refused(path, data)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not ASCII"),
        ('"ü"'.encode(), "not ASCII"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[]", "no object"),
        (b"{}", "not of a capture"),
        (b"NaN", "NaN"),
        (b'{"format": Infinity}', "Infinity"),
        (b'{"format": "attnlab-capture", "format": 1}', "'format' twice"),
        (b"1" * 5000, "digits"),
        (b'{"format":"attnlab-capture","version":' + b"9" * 4000 + b"}", "a huge number"),
    ],
)
def test_headers_that_are_none(header: bytes, said: str, path: Path) -> None:
    assert said in refused(path, file_of(header, []))


def test_no_file_at_all(tmp_path: Path) -> None:
    for function in (read, header_and_blocks):
        with pytest.raises(ValueError, match="there is no such file"):
            function(tmp_path / "none")
        with pytest.raises(ValueError, match="is not a file"):
            function(tmp_path)


def test_a_name_with_a_line_break(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file") as caught:
        read(tmp_path / "a\nb")
    assert len(str(caught.value).splitlines()) == 1


# Fields that lie


def at(*names: str | int) -> Callable[[Any], Any]:
    def found(header: Any) -> Any:
        for name in names:
            header = header[name]
        return header

    return found


SIDE = ("sides", 0)
LAYER = (*SIDE, "layers", 0)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("version",), 2, "version is 2; this attnlab reads version 1"),
        (("version",), True, "version is True; it should be a valid integer"),
        (("title",), 3, "title is 3; it should be text"),
        (("notes", 1), None, "notes[1] is None; it should be text"),
        (("made", "attnlab"), [], "made.attnlab is a list of 0; it should be text"),
        (("sides",), [], "sides is a list of 0; it should have at least 1 item"),
        (("blocks",), {}, "blocks is an object; it should be a valid list"),
        (("blocks", 0, "size"), 2**31, "blocks[0].size is 2147483648; it should be less than"),
        (("blocks", 0, "size"), 0, "blocks[0].size is 0"),
        (("blocks", 0, "length"), -1, "blocks[0].length is -1"),
        (("blocks", 0, "length"), 1.0, "blocks[0].length is 1.0"),
        (("blocks", 0, "length"), 10**30, "blocks[0].length is a huge number"),
        ((*SIDE, "model", "kind"), "toy", "sides[0].model.kind is 'toy'; it should be 'encoder',"),
        ((*SIDE, "model", "parameters"), -1, "model.parameters is -1"),
        ((*SIDE, "sequences", 0, "tokens"), [], "sequences[0].tokens is a list of 0"),
        (
            (*SIDE, "sequences", 0, "tokens", 2, "special"),
            0,
            "special is 0; it should be a valid boolean",
        ),
        ((*SIDE, "sequences", 0, "segments"), [0], "sequences[0].segments has 1 entries; 5"),
        ((*SIDE, "sequences", 1, "prompt"), 9, "sequences[1].prompt is 9"),
        ((*SIDE, "sequences", 0, "image", "rows"), 3, "image has 6 patches from token 1 on"),
        ((*SIDE, "sequences", 0, "image", "width"), 12, "image.pixels.shape"),
        ((*SIDE, "masks", 0, "allowed", "code"), "u8", "allowed.code is 'u8'; bits is needed"),
        ((*LAYER, "queries"), 2, "layers[0].queries is 2"),
        ((*LAYER, "keys"), 1, "layers[0].weights.shape is (4, 5, 5); (4, 5, 3)"),
        ((*LAYER, "kind"), ["self"], "layers[0].kind is a list of 1; it should be 'self' or"),
        ((*LAYER, "heads"), [0, 1, 1, 2], "layers[0].heads names a head twice"),
        ((*LAYER, "all_heads"), 3, "layers[0].heads has 4 entries"),
        ((*LAYER, "scale"), "1", "layers[0].scale is '1'; it should be a valid number"),
        ((*LAYER, "difference"), -0.5, "layers[0].difference is -0.5"),
        ((*LAYER, "excess"), -0.5, "layers[0].excess is -0.5"),
        ((*LAYER, "excess"), "1", "layers[0].excess is '1'; it should be a valid number"),
        ((*LAYER, "mask"), 2, "layers[0].mask is 2"),
        ((*LAYER, "mask"), 0, "layers[0].mask is of shape (3, 3); the layer needs (5, 5)"),
        ((*LAYER, "groups"), [0, 0, 1], "layers[0].groups has 3 entries; 4"),
        ((*LAYER, "groups", 3), 2, "layers[0].groups[3] is 2"),
        ((*LAYER, "patterns"), [], "layers[0].patterns has 0 entries; 4"),
        (
            (*LAYER, "patterns", 0, "scores", "local"),
            1.1,
            "local is 1.1; it should be less than",
        ),
        ((*LAYER, "weights", "shape"), [4, 5], "weights.shape has 2 entries; 3"),
        ((*LAYER, "weights", "shape", 0), 2**40, "weights.shape[0] is 1099511627776"),
        ((*LAYER, "weights", "code"), "pickle", "weights.code is 'pickle'"),
        ((*LAYER, "weights", "code"), "sqrt8", "it would have to be at"),
        ((*LAYER, "weights", "block"), 99, "weights.block is 99"),
        ((*LAYER, "weights", "offset"), 1, "weights is at 1 of block 0; it would have to be at 0"),
        ((*LAYER, "weights", "error"), 2, "weights.error is 2"),
        ((*LAYER, "norms"), None, "opens to"),
        ((*SIDE, "layers", 1, "weights"), at(*LAYER, "weights"), "weights.shape is (4, 5, 5)"),
        ((*LAYER, "sums"), None, "layers[0].sums is None; it should be an object"),
        ((*SIDE, "next", "sequence"), 5, "next.sequence is 5"),
        ((*SIDE, "next", "top"), [], "next.top has 0 entries; 3"),
        ((*SIDE, "next", "top", 0, 0), ["a"], "next.top[0][0][1] is a list of 1; Field required"),
        ((*SIDE, "next", "actual", 1), -1, "next.actual[1] is -1"),
        (("opening",), "cross", "opening is 'cross'; it should be an object"),
        (("opening",), {"view": "cross"}, "opening has no 'layer'"),
        (("opening", "view"), "<b>", "opening.view is '<b>'; it should be 'heads',"),
        (("opening", "layer"), 4, "opening.layer is 4; a whole number from 0 to 3"),
        (("opening", "layer"), -1, "opening.layer is -1"),
        (("opening", "layer"), True, "opening.layer is True"),
        ((*SIDE, "flow", "layers"), [9], "flow.layers[0] is 9"),
        ((*SIDE, "flow", "layers"), [], "flow.rollout has 1 entries; 0"),
        ((*SIDE, "flow", "reasons"), {"x": "y"}, "reasons.x is 'x'; it should be 'rollout' or"),
        ((*SIDE, "control"), [[]], "control has 1 entries; 4"),
        ((*SIDE, "small", "shape"), [10, 25, 1], "small.shape is (10, 25, 1); (10, 25, 25) is"),
        ((*SIDE, "small", "shape", 0), 9, "small.shape is (9, 5, 5); (10, any, any)"),
    ],
)
def test_fields_that_lie(place: tuple[str | int, ...], value: Any, said: str, path: Path) -> None:
    header = copy.deepcopy(HEADER)
    at(*place[:-1])(header)[place[-1]] = value(header) if callable(value) else value
    assert said in refused(path, file_of(header, BLOCKS))
    with pytest.raises(ValueError, match=r"."):
        header_and_blocks(path)


def test_names_that_are_missing_or_unknown(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    del at(*LAYER)(header)["weights"]
    assert refused(path, file_of(header, BLOCKS)) == "sides[0].layers[0] has no 'weights'"
    header = copy.deepcopy(HEADER)
    header["more"] = 1
    assert refused(path, file_of(header, BLOCKS)).startswith("the header has a field 'more'")


@pytest.mark.parametrize(
    "place", [(), ("blocks", 0), SIDE, (*SIDE, "model"), (*SIDE, "flow"), (*SIDE, "next"), LAYER,
              (*LAYER, "weights"), (*LAYER, "patterns", 0), (*SIDE, "sequences", 0),
              (*SIDE, "sequences", 0, "image"), (*SIDE, "sequences", 0, "tokens", 1)],
)  # fmt: skip
def test_every_name_is_needed(place: tuple[str | int, ...], path: Path) -> None:
    """But those that are newer than the first files."""
    for name in set(at(*place)(HEADER)) - {"opening", "excess"}:
        header = copy.deepcopy(HEADER)
        del at(*place)(header)[name]
        refused(path, file_of(header, BLOCKS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"notes": [1] * 99_999},
        {"sides": [{}] * 99_999},
        {"blocks": [{"length": 1, "size": {}}] * 99_999},
        {str(i): {str(j): 1 for j in range(999)} for i in range(900)},
    ],
)
def test_of_many_errors_few_are_kept(wrong: dict[str, Any], path: Path) -> None:
    """Each takes far more memory than the four bytes of the file that cause it."""
    header = {**HEADER, **wrong}
    refused(path, file_of(header, []))
    with pytest.raises(ValidationError) as caught:
        HEADER_TYPE.validate_python(header)
    assert caught.value.error_count() < 1000


@pytest.mark.parametrize("place", [(), ("made",), (*LAYER, "patterns", 0, "scores")])
def test_objects_of_many_names(place: tuple[str, ...], path: Path) -> None:
    header = copy.deepcopy(HEADER)
    at(*place)(header).update({str(i): "x" for i in range(1001)})
    assert "names in one object; 1000 is the most" in refused(path, file_of(header, BLOCKS))


def test_a_file_of_version_0_1_is_read() -> None:
    """As the first attnlab wrote it."""
    found, wanted = read(Path(__file__).parent / "version_0_1.attnlab"), full_capture()
    assert (found.title, found.notes, found.opening) == (wanted.title, wanted.notes, wanted.opening)
    for side, like in zip(found.sides, wanted.sides, strict=True):
        assert (side.label, side.model, side.next) == (like.label, like.model, like.next)
        for layer, other in zip(side.layers, like.layers, strict=True):
            assert facts_of(layer) == facts_of(other)
            assert layer.weights is not None
            assert other.weights is not None
            torch.testing.assert_close(layer.weights, other.weights, rtol=1e-3, atol=1e-3)


def test_files_from_before_the_excess_are_read(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    layer = at(*LAYER)(header)
    assert layer.pop("excess") == 2e-4
    for difference, doubtful in ((1e-3, False), (1.1e-3, True)):
        layer["difference"] = difference
        path.write_bytes(file_of(header, BLOCKS))
        found = read(path).sides[0].layers[0]
        assert (found.excess, found.doubtful) == (None, doubtful)


def test_files_from_before_the_opening_are_read(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    del header["opening"]
    path.write_bytes(file_of(header, BLOCKS))
    assert read(path).opening is None
    assert header_and_blocks(path)[0] == header


def test_an_array_that_is_used_twice(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    layers = header["sides"][0]["layers"]
    layers[0]["v"], layers[0]["k"] = layers[0]["k"], layers[0]["k"]
    assert "it would have to be at" in refused(path, file_of(header, BLOCKS))


def test_more_numbers_than_there_may_be(path: Path) -> None:
    """Small when it is opened, as bits are, but not as a tensor."""
    header = copy.deepcopy(HEADER)
    tokens = [{"text": "", "word": 0, "special": False}] * 30_000
    header["sides"][1]["sequences"].append(
        {"name": "", "tokens": tokens, "segments": None, "prompt": None, "image": None}
    )
    header["sides"][1]["masks"].append(
        {
            "causal": False,
            "allowed": {
                "block": len(BLOCKS), "offset": 0, "shape": [30_000, 30_000], "code": "bits",
                "error": 0,
            },
        }
    )  # fmt: skip
    header["blocks"].append({"length": 10, "size": 30_000**2 // 8})
    said = refused(path, file_of(header, [*BLOCKS, b"\0" * 10]))
    assert "numbers; 536870912 is the most" in said


# Blocks that lie


def with_block(number: int, data: bytes, size: int | None = None) -> bytes:
    header, blocks = copy.deepcopy(HEADER), list(BLOCKS)
    blocks[number] = data
    header["blocks"][number]["length"] = len(data)
    if size is not None:
        header["blocks"][number]["size"] = size
    return file_of(header, blocks)


def test_a_bomb_is_not_opened(path: Path) -> None:
    """50 MB of zeros in 50 KB, where 128 bytes were promised."""
    bomb = zlib.compress(bytes(50_000_000), 9)
    path.write_bytes(with_block(1, bomb))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="opens to more than"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_size_that_is_promised_is_not_reserved(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    weights = header["sides"][0]["small"]
    maps, size, _ = weights["shape"]
    weights["shape"] = [maps, 8000, 8000]
    header["blocks"][weights["block"]]["size"] = maps * 8000 * 8000
    path.write_bytes(file_of(header, BLOCKS))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"does not open to exactly 640000000 bytes|numbers"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert size == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda block: block[:-1], "does not open to exactly"),
        (lambda block: block + b"\0", "does not open to exactly"),
        (lambda block: block + block, "does not open to exactly"),
        (lambda block: b"\0" * len(block), "is damaged"),
        (lambda block: block[:0], "does not open to exactly"),
        (lambda block: block[:-1] + bytes([block[-1] ^ 1]), "is damaged"),
        (lambda block: zlib.compress(zlib.decompress(block)[:-1]), "does not open to exactly"),
        (lambda block: zlib.compress(zlib.decompress(block) + b"\0"), "opens to more than"),
        (lambda block: zlib.compress(b"\xff" * len(zlib.decompress(block))), "NaN"),
    ],
)
def test_blocks_that_lie(change: Callable[[bytes], bytes], said: str, path: Path) -> None:
    assert said in refused(path, with_block(1, change(BLOCKS[1])))


def test_a_row_that_is_not_finite_names_its_array(path: Path) -> None:
    data = bytearray(zlib.decompress(BLOCKS[0]))
    data[:4] = b"\0\0\xc0\x7f"
    said = refused(path, with_block(0, zlib.compress(bytes(data))))
    assert said.startswith("sides[0].layers[0].weights: values are NaN")


# Anything at all


@FIELDS
@given(length=st.integers(0, len(GOOD)))
def test_any_part_of_a_file(length: int, path: Path) -> None:
    if length < len(GOOD):
        refused(path, GOOD[:length])


@FIELDS
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_any_bytes_changed(changes: list[tuple[int, int]], path: Path) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    read_or_refused(path, bytes(data))


@given(data=st.binary(max_size=200))
def test_any_header(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    refused(tmp_path_factory.mktemp("any") / "file", file_of(data, []))


def places_of(value: Any, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for name, each in inside:
        yield (*here, name)
        yield from places_of(each, (*here, name))


PLACES = list(places_of(HEADER))
VALUES = st.one_of(
    st.sampled_from(
        [None, True, False, -1, 0, 1, 2, 3, 5, 2**31, 2**53, 2**64, 10**400, 0.5, 1e308, "", "x"]
    ),
    st.sampled_from(["sqrt8", "sqrt16", "signed16", "f32", "bits", "u8", "self", "encoder"]),
    st.sampled_from([[], {}, [[]], [0], [{}], {"": None}, [1, 2, 3]]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(PLACES).map(lambda place: copy.deepcopy(at(*place)(HEADER))),
)


@FIELDS
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "twice"]), VALUES),
        min_size=1,
        max_size=3,
    )
)
def test_any_field_changed(
    changes: list[tuple[tuple[str | int, ...], str, Any]], path: Path
) -> None:
    header = copy.deepcopy(HEADER)
    for place, how, value in changes:
        try:
            parent: Any = at(*place[:-1])(header)
            if how == "set":
                parent[place[-1]] = value
            elif how == "drop":
                del parent[place[-1]]
            elif isinstance(parent, list):
                parent.insert(0, copy.deepcopy(parent[int(place[-1])]))
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # an earlier change took the place away
    read_or_refused(path, file_of(header, BLOCKS))
