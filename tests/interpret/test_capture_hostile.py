"""Invalid and malicious files: an error of one line, without hanging or using much memory."""

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

from attnlab.interpret._capture_file import MAGIC, MAX_HEADER_BYTES, header_and_blocks, pack, read
from attnlab.interpret._capture_header import HEADER as HEADER_TYPE
from attnlab.interpret._records import Capture, InitialView, layer_fields
from tests.support.synthetic_captures import full_capture

HEADER, BLOCKS = pack(full_capture())
MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def file_of(header: Any, blocks: list[bytes]) -> bytes:
    data = header if isinstance(header, bytes) else json.dumps(header).encode("ascii")
    return MAGIC + len(data).to_bytes(8, "little") + data + b"".join(blocks)


VALID = file_of(HEADER, BLOCKS)


def read_error(path: Path, data: bytes) -> str:
    """The error message, without the path that it begins with."""
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r".") as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(path)) + 300
    return message.removeprefix(f"{path}: ")


def read_or_fail(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    result, message = Capture("", []), ""
    try:
        result = read(path)
    except ValueError as error:
        message = str(error)
    assert not message or message.startswith(f"{path}: ")
    assert len(message.splitlines()) == (0 if result.panels else 1)
    for panel in result.panels:
        for layer in panel.layers:
            assert layer.weights is not None
            assert bool(torch.isfinite(layer.weights).all())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.attnlab"


def test_valid_file_is_read(path: Path) -> None:
    path.write_bytes(VALID)
    assert len(read(path).panels) == 2


# The file around the header


def highlight(**changes: Any) -> dict[str, Any]:
    valid = {"layer": 0, "head": 1, "query": 2, "key": 3, "weight": 0.5, "pattern": "local"}
    return valid | changes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an attnlab capture"),
        (
            b"attnlab-capture 2\n" + VALID[18:],
            "of another version; this attnlab reads version 1",
        ),
        (VALID[:18], "declares a header of 0 bytes"),
        (VALID[:22], "declares a header of"),
        (VALID[:100], "declares a header of"),
        (MAGIC + b"\xff" * 8 + VALID[26:], "declares a header of"),
        (
            MAGIC + (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b" " * (MAX_HEADER_BYTES + 1),
            "declares a header of",
        ),
        (VALID[:-1], "bytes, but its header and blocks need"),
        (VALID + b"\0", "bytes, but its header and blocks need"),
    ],
)
def test_the_file_around_the_header(data: bytes, message: str, path: Path) -> None:
    assert message in read_error(path, data)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not ASCII"),
        ('"ü"'.encode(), "not ASCII"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b"{}", "format is not attnlab-capture"),
        (b"NaN", "NaN"),
        (b'{"format": Infinity}', "Infinity"),
        (b'{"format": "attnlab-capture", "format": 1}', "'format' twice"),
        (b"1" * 5000, "digits"),
        (b'{"format":"attnlab-capture","version":' + b"9" * 4000 + b"}", "a huge number"),
    ],
)
def test_invalid_headers(header: bytes, message: str, path: Path) -> None:
    assert message in read_error(path, file_of(header, []))


def test_missing_file(tmp_path: Path) -> None:
    for function in (read, header_and_blocks):
        with pytest.raises(ValueError, match="does not exist"):
            function(tmp_path / "none")
        with pytest.raises(ValueError, match="is not a file"):
            function(tmp_path)


def test_file_name_with_a_line_break(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist") as caught:
        read(tmp_path / "a\nb")
    assert len(str(caught.value).splitlines()) == 1


# Invalid fields


def at(*names: str | int) -> Callable[[Any], Any]:
    def follow(header: Any) -> Any:
        for name in names:
            header = header[name]
        return header

    return follow


PANEL = ("sides", 0)
LAYER = (*PANEL, "layers", 0)
WALK = (*PANEL, "walkthrough")


@pytest.mark.parametrize(
    ("path_in_header", "value", "message"),
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
        ((*PANEL, "model", "kind"), "toy", "sides[0].model.kind is 'toy'; it should be 'encoder',"),
        ((*PANEL, "model", "parameters"), -1, "model.parameters is -1"),
        ((*PANEL, "sequences", 0, "tokens"), [], "sequences[0].tokens is a list of 0"),
        (
            (*PANEL, "sequences", 0, "tokens", 2, "special"),
            0,
            "special is 0; it should be a valid boolean",
        ),
        (
            (*PANEL, "sequences", 0, "segments"),
            [0],
            "sequences[0].segments has 1 entries; it must have 5",
        ),
        ((*PANEL, "sequences", 1, "prompt"), 9, "sequences[1].prompt is 9"),
        ((*PANEL, "sequences", 0, "image", "rows"), 3, "image has 6 patches from token 1 on"),
        ((*PANEL, "sequences", 0, "image", "width"), 12, "image.pixels.shape"),
        ((*PANEL, "masks", 0, "allowed", "code"), "u8", "allowed.code is 'u8'; it must be bits"),
        ((*LAYER, "queries"), 2, "layers[0].queries is 2"),
        ((*LAYER, "keys"), 1, "layers[0].weights.shape is (4, 5, 5); it must be (4, 5, 3)"),
        ((*LAYER, "kind"), ["self"], "layers[0].kind is a list of 1; it should be 'self' or"),
        ((*LAYER, "heads"), [0, 1, 1, 2], "layers[0].heads lists a head twice"),
        ((*LAYER, "all_heads"), 3, "layers[0].heads has 4 entries"),
        ((*LAYER, "scale"), "1", "layers[0].scale is '1'; it should be a valid number"),
        ((*LAYER, "difference"), -0.5, "layers[0].difference is -0.5"),
        ((*LAYER, "excess"), -0.5, "layers[0].excess is -0.5"),
        ((*LAYER, "excess"), "1", "layers[0].excess is '1'; it should be a valid number"),
        ((*LAYER, "mask"), 2, "layers[0].mask is 2"),
        ((*LAYER, "mask"), 0, "layers[0].mask has shape (3, 3); the layer needs (5, 5)"),
        ((*LAYER, "groups"), [0, 0, 1], "layers[0].groups has 3 entries; it must have 4"),
        ((*LAYER, "groups", 3), 2, "layers[0].groups[3] is 2"),
        ((*LAYER, "patterns"), [], "layers[0].patterns has 0 entries; it must have 4"),
        (
            (*LAYER, "patterns", 0, "scores", "local"),
            1.1,
            "local is 1.1; it should be less than",
        ),
        ((*LAYER, "weights", "shape"), [4, 5], "weights.shape has 2 entries; it must have 3"),
        ((*LAYER, "weights", "shape", 0), 2**40, "weights.shape[0] is 1099511627776"),
        ((*LAYER, "weights", "code"), "pickle", "weights.code is 'pickle'"),
        ((*LAYER, "weights", "code"), "sqrt8", "it must be at"),
        ((*LAYER, "weights", "block"), 99, "weights.block is 99"),
        ((*LAYER, "weights", "offset"), 1, "weights is at 1 of block 0; it must be at 0"),
        ((*LAYER, "weights", "error"), 2, "weights.error is 2"),
        ((*LAYER, "norms"), None, "bytes; its arrays need"),
        ((*PANEL, "layers", 1, "weights"), at(*LAYER, "weights"), "weights.shape is (4, 5, 5)"),
        ((*LAYER, "sums"), None, "layers[0].sums is None; it should be an object"),
        ((*PANEL, "next", "sequence"), 5, "next.sequence is 5"),
        ((*PANEL, "next", "top"), [], "next.top has 0 entries; it must have 3"),
        ((*PANEL, "next", "top", 0, 0), ["a"], "next.top[0][0][1] is a list of 1; Field required"),
        ((*PANEL, "next", "actual", 1), -1, "next.actual[1] is -1"),
        (("opening",), "cross", "opening is 'cross'; it should be an object"),
        (("opening",), {"view": "cross"}, "opening has no 'layer'"),
        (("opening", "view"), "<b>", "opening.view is '<b>'; it should be 'heads',"),
        (("opening", "layer"), 4, "opening.layer is 4; it must be a whole number from 0 to 3"),
        (("opening", "layer"), -1, "opening.layer is -1"),
        (("opening", "layer"), True, "opening.layer is True"),
        (("opening", "head"), 9, "opening.head is 9; it must be a whole number from 0 to"),
        (("opening", "query"), 9, "opening.query is 9; it must be a whole number from 0 to"),
        (("highlights",), 3, "highlights is 3; it should be a valid list"),
        (("highlights",), [{}], "highlights[0] has no 'layer'"),
        (("highlights",), [highlight(layer=4)], "highlights[0].layer is 4; it must be"),
        (("highlights",), [highlight(head=-1)], "highlights[0].head is -1"),
        (("highlights",), [highlight(query=99)], "highlights[0].query is 99; it must be"),
        (("highlights",), [highlight(key=99)], "highlights[0].key is 99; it must be"),
        (("highlights",), [highlight(weight=-1.0)], "highlights[0].weight is -1.0"),
        (("highlights",), [highlight(pattern=3)], "highlights[0].pattern is 3"),
        (("highlights",), [highlight()] * 101, "highlights is a list of 101; it should have at"),
        ((*PANEL, "flow", "layers"), [9], "flow.layers[0] is 9"),
        ((*PANEL, "flow", "layers"), [], "flow.rollout has 1 entries; it must have 0"),
        ((*PANEL, "flow", "reasons"), {"x": "y"}, "reasons.x is 'x'; it should be 'rollout' or"),
        ((*PANEL, "effects", "kind"), "all", "effects.kind is 'all'; it should be 'next',"),
        ((*PANEL, "effects", "kind"), "classes", "effects.sequence must be null for classes"),
        ((*PANEL, "effects", "sequence"), 2, "effects.sequence is 2"),
        ((*PANEL, "effects", "sequence"), 0, "effects.targets has 3 entries; it must have 5"),
        ((*PANEL, "effects", "measured"), 3, "effects.measured is 3"),
        ((*PANEL, "effects", "targets", 0, "token"), 1, "targets[0].token is 1; it should be text"),
        ((*PANEL, "effects", "targets", 0, "probability"), 1.5, "probability is 1.5"),
        ((*PANEL, "effects", "heads"), [None], "effects.heads has 1 entries; it must have 4"),
        ((*PANEL, "effects", "heads", 0, "shape"), [3, 4], "heads[0].shape is (3, 4)"),
        ((*PANEL, "effects", "heads", 0, "code"), "u8", "heads[0].code is 'u8'"),
        ((*PANEL, "effects", "keys", "points", 1, "position"), 3, "points[1].position is 3"),
        ((*PANEL, "effects", "keys", "points", 1, "sequence"), 2, "points[1].sequence is 2"),
        ((*PANEL, "effects", "keys", "correlation"), 1.5, "keys.correlation is 1.5"),
        ((*PANEL, "effects", "lens", "best", 1, 2), 9, "lens.best[1] is 9"),
        ((*PANEL, "effects", "lens", "best", 1), [], "lens.best[1] has 0 entries"),
        ((*PANEL, "effects", "lens", "layers"), ["a"], "lens.best has 2 entries; it must have 1"),
        ((*PANEL, "effects", "patching", "corrupted_tokens"), ["x"], "corrupted_tokens has 1"),
        ((*PANEL, "effects", "reasons"), {"x": "y"}, "reasons.x is 'x'; it should be 'heads',"),
        ((*WALK, "layer"), 4, "walkthrough.layer is 4"),
        ((*WALK, "query"), 3, "walkthrough.query is 3"),
        ((*WALK, "head"), 3, "walkthrough.head is 3"),
        ((*WALK, "block"), 2, "walkthrough.block is 2; there are 2 blocks"),
        ((*WALK, "rotary"), 1, "rotary is 1; it should be a valid boolean"),
        ((*WALK, "key_heads"), [0], "walkthrough.k.shape is (2, 5, 6); it must be (1, 5, 6)"),
        ((*WALK, "key_heads", 1), 3, "walkthrough.key_heads[1] is 3"),
        ((*WALK, "dots", "shape"), [5, 3], "walkthrough.dots.shape is (5, 3); it must be (3, 5)"),
        ((*WALK, "bias", "shape"), [5, 1], "walkthrough.bias.shape is (5, 1)"),
        ((*WALK, "stream", "shape"), [9], "walkthrough.stream.shape is (9,); it must be (8)"),
        ((*WALK, "stream", "code"), "u8", "stream.code is 'u8'"),
        ((*WALK, "parts"), ["self"], "walkthrough.added.shape is (2, 8); it must be (1, 8)"),
        ((*WALK, "parts", 0), "other", "parts[0] is 'other'; it should be 'self',"),
        ((*WALK, "added"), None, "walkthrough.added must have a row for each of 2 parts"),
        ((*WALK, "top", 0, 2), 1.5, "top[0][2] is 1.5"),
        ((*WALK, "top"), [["a", 1.0, 0.5]] * 101, "walkthrough.top is a list of 101"),
        ((*WALK, "reasons"), {"x": "y"}, "reasons.x is 'x'; it should be 'embedding',"),
        ((*PANEL, "control"), [[]], "control has 1 entries; it must have 4"),
        (
            (*PANEL, "small", "shape"),
            [10, 25, 1],
            "small.shape is (10, 25, 1); it must be (10, 25, 25)",
        ),
        ((*PANEL, "small", "shape", 0), 9, "small.shape is (9, 5, 5); it must be (10, any, any)"),
    ],
)
def test_invalid_fields(
    path_in_header: tuple[str | int, ...], value: Any, message: str, path: Path
) -> None:
    header = copy.deepcopy(HEADER)
    parent = at(*path_in_header[:-1])(header)
    parent[path_in_header[-1]] = value(header) if callable(value) else value
    assert message in read_error(path, file_of(header, BLOCKS))
    with pytest.raises(ValueError, match=r"."):
        header_and_blocks(path)


def test_missing_and_unknown_names(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    del at(*LAYER)(header)["weights"]
    assert read_error(path, file_of(header, BLOCKS)) == "sides[0].layers[0] has no 'weights'"
    header = copy.deepcopy(HEADER)
    header["more"] = 1
    assert read_error(path, file_of(header, BLOCKS)).startswith(
        "the header has an unknown field 'more'"
    )


@pytest.mark.parametrize(
    "path_in_header",
    [(), ("blocks", 0), PANEL, (*PANEL, "model"), (*PANEL, "flow"), (*PANEL, "next"), LAYER,
     (*LAYER, "weights"), (*LAYER, "patterns", 0), (*PANEL, "sequences", 0),
     (*PANEL, "sequences", 0, "image"), (*PANEL, "sequences", 0, "tokens", 1),
     (*PANEL, "effects"), (*PANEL, "effects", "lens"), (*PANEL, "effects", "patching"),
     (*PANEL, "effects", "keys"), (*PANEL, "effects", "targets", 0), WALK],
)  # fmt: skip
def test_every_name_is_required(path_in_header: tuple[str | int, ...], path: Path) -> None:
    """Except those that version 0.1 did not write."""
    optional = {"opening", "highlights", "excess", "effects", "walkthrough"}
    for name in set(at(*path_in_header)(HEADER)) - optional:
        header = copy.deepcopy(HEADER)
        del at(*path_in_header)(header)[name]
        assert read_error(path, file_of(header, BLOCKS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"notes": [1] * 99_999},
        {"sides": [{}] * 99_999},
        {"blocks": [{"length": 1, "size": {}}] * 99_999},
        {str(i): {str(j): 1 for j in range(999)} for i in range(900)},
    ],
)
def test_few_of_many_errors_are_collected(wrong: dict[str, Any], path: Path) -> None:
    """Each error needs far more memory than the bytes that cause it."""
    header = {**HEADER, **wrong}
    read_error(path, file_of(header, []))
    with pytest.raises(ValidationError) as caught:
        HEADER_TYPE.validate_python(header)
    assert caught.value.error_count() < 1000


@pytest.mark.parametrize("path_in_header", [(), ("made",), (*LAYER, "patterns", 0, "scores")])
def test_object_with_too_many_names(path_in_header: tuple[str, ...], path: Path) -> None:
    header = copy.deepcopy(HEADER)
    at(*path_in_header)(header).update({str(i): "x" for i in range(1001)})
    assert "names in one object; at most 1000 are allowed" in read_error(
        path, file_of(header, BLOCKS)
    )


def test_a_file_of_version_0_1_is_read() -> None:
    """As the first attnlab wrote it."""
    result, expected = read(Path(__file__).parent / "version_0_1.attnlab"), full_capture()
    assert (result.title, result.notes, result.initial_view) == (
        expected.title,
        expected.notes,
        InitialView("cross", 3),  # without a head and a query
    )
    assert result.highlights == []
    for panel, expected_panel in zip(result.panels, expected.panels, strict=True):
        assert (panel.label, panel.model, panel.next_tokens) == (
            expected_panel.label,
            expected_panel.model,
            expected_panel.next_tokens,
        )
        for layer, other in zip(panel.layers, expected_panel.layers, strict=True):
            assert layer_fields(layer) == layer_fields(other)
            assert layer.weights is not None
            assert other.weights is not None
            torch.testing.assert_close(layer.weights, other.weights, rtol=1e-3, atol=1e-3)


def test_files_without_excess_are_read(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    layer = at(*LAYER)(header)
    assert layer.pop("excess") == 2e-4
    for difference, doubtful in ((1e-3, False), (1.1e-3, True)):
        layer["difference"] = difference
        path.write_bytes(file_of(header, BLOCKS))
        result = read(path).panels[0].layers[0]
        assert (result.excess, result.doubtful) == (None, doubtful)


def test_files_without_opening_are_read(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    del header["opening"], header["highlights"]
    path.write_bytes(file_of(header, BLOCKS))
    assert read(path).initial_view is None
    assert read(path).highlights == []
    assert header_and_blocks(path)[0] == header


def test_bytes_used_by_two_arrays(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    layers = header["sides"][0]["layers"]
    layers[0]["v"], layers[0]["k"] = layers[0]["k"], layers[0]["k"]
    assert "it must be at" in read_error(path, file_of(header, BLOCKS))


def test_too_many_numbers(path: Path) -> None:
    """Small as bits in the file, but large as a tensor."""
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
    message = read_error(path, file_of(header, [*BLOCKS, b"\0" * 10]))
    assert "numbers; at most 536870912 are allowed" in message


# Invalid blocks


def with_block(number: int, data: bytes, size: int | None = None) -> bytes:
    header, blocks = copy.deepcopy(HEADER), list(BLOCKS)
    blocks[number] = data
    header["blocks"][number]["length"] = len(data)
    if size is not None:
        header["blocks"][number]["size"] = size
    return file_of(header, blocks)


def test_zip_bomb_is_not_decompressed(path: Path) -> None:
    """50 MB of zeros in 50 KB, declared as 128 bytes."""
    bomb = zlib.compress(bytes(50_000_000), 9)
    path.write_bytes(with_block(1, bomb))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="decompresses to more than"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_declared_size_is_not_allocated(path: Path) -> None:
    header = copy.deepcopy(HEADER)
    weights = header["sides"][0]["small"]
    maps, size, _ = weights["shape"]
    weights["shape"] = [maps, 8000, 8000]
    header["blocks"][weights["block"]]["size"] = maps * 8000 * 8000
    path.write_bytes(file_of(header, BLOCKS))
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match=r"does not decompress to exactly 640000000 bytes|numbers"
        ):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert size == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda block: block[:-1], "does not decompress to exactly"),
        (lambda block: block + b"\0", "does not decompress to exactly"),
        (lambda block: block + block, "does not decompress to exactly"),
        (lambda block: b"\0" * len(block), "is damaged"),
        (lambda block: block[:0], "does not decompress to exactly"),
        (lambda block: block[:-1] + bytes([block[-1] ^ 1]), "is damaged"),
        (
            lambda block: zlib.compress(zlib.decompress(block)[:-1]),
            "does not decompress to exactly",
        ),
        (lambda block: zlib.compress(zlib.decompress(block) + b"\0"), "decompresses to more than"),
        (lambda block: zlib.compress(b"\xff" * len(zlib.decompress(block))), "NaN"),
    ],
)
def test_invalid_blocks(change: Callable[[bytes], bytes], message: str, path: Path) -> None:
    assert message in read_error(path, with_block(1, change(BLOCKS[1])))


def test_error_of_an_infinite_row_names_its_array(path: Path) -> None:
    data = bytearray(zlib.decompress(BLOCKS[0]))
    data[:4] = b"\0\0\xc0\x7f"
    message = read_error(path, with_block(0, zlib.compress(bytes(data))))
    assert message.startswith("sides[0].layers[0].weights: values are NaN")


# Random changes


@MANY
@given(length=st.integers(0, len(VALID)))
def test_truncated_file(length: int, path: Path) -> None:
    if length < len(VALID):
        read_error(path, VALID[:length])


@MANY
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_changed_bytes(changes: list[tuple[int, int]], path: Path) -> None:
    data = bytearray(VALID)
    for index, value in changes:
        data[index] = value
    read_or_fail(path, bytes(data))


@given(data=st.binary(max_size=200))
def test_random_header(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_error(tmp_path_factory.mktemp("any") / "file", file_of(data, []))


def paths_of(value: Any, parent: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, item in items:
        yield (*parent, name)
        yield from paths_of(item, (*parent, name))


PATHS = list(paths_of(HEADER))
VALUES = st.one_of(
    st.sampled_from(
        [None, True, False, -1, 0, 1, 2, 3, 5, 2**31, 2**53, 2**64, 10**400, 0.5, 1e308, "", "x"]
    ),
    st.sampled_from(["sqrt8", "sqrt16", "signed16", "f32", "bits", "u8", "self", "encoder"]),
    st.sampled_from([[], {}, [[]], [0], [{}], {"": None}, [1, 2, 3]]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(PATHS).map(lambda path_in_header: copy.deepcopy(at(*path_in_header)(HEADER))),
)


@MANY
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(PATHS), st.sampled_from(["set", "drop", "twice"]), VALUES),
        min_size=1,
        max_size=3,
    )
)
def test_changed_fields(changes: list[tuple[tuple[str | int, ...], str, Any]], path: Path) -> None:
    header = copy.deepcopy(HEADER)
    for path_in_header, how, value in changes:
        try:
            parent: Any = at(*path_in_header[:-1])(header)
            if how == "set":
                parent[path_in_header[-1]] = value
            elif how == "drop":
                del parent[path_in_header[-1]]
            elif isinstance(parent, list):
                parent.insert(0, copy.deepcopy(parent[int(path_in_header[-1])]))
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # an earlier change removed it
    read_or_fail(path, file_of(header, BLOCKS))
