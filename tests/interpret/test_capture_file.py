"""Captures as files: what is saved comes back, each thing once, in the bits that were asked for."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnlab.interpret._capture_file import MAGIC, header_and_blocks, pack, read, save
from attnlab.interpret._capture_packing import small_map
from attnlab.interpret._number_codes import ERRORS
from attnlab.interpret._page import save_page
from attnlab.interpret._records import Capture, Flow, Layer, ModelFacts, Pattern, Sequence, Side
from tests.support.synthetic_captures import (
    full_capture,
    full_side,
    make_layer,
    make_sequence,
    softmax_weights,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "capture-format.md"


def capture_of(layer: Layer, *tokens: int) -> Capture:
    """Of one layer, whose queries and keys have as many tokens."""
    sequences = [make_sequence([f"t{i}" for i in range(count)]) for count in tokens]
    model = ModelFacts("m", "decoder", "huggingface", 1)
    return Capture("t", [Side("s", model, sequences, [layer], [(0, len(tokens) - 1)])])


def again(capture: Capture, tmp_path: Path, **options: Any) -> Capture:
    save(capture, tmp_path / "file", **options)
    return read(tmp_path / "file")


def close(found: Tensor | None, wanted: Tensor | None, error: float) -> bool:
    """Within a share of each row's largest."""
    if found is None or wanted is None:
        return found is wanted
    scale = wanted.abs().amax(-1, keepdim=True)
    return found.shape == wanted.shape and bool(((found - wanted).abs() <= error * scale).all())


# Everything comes back


def test_a_full_capture_comes_back(tmp_path: Path) -> None:
    wanted = full_capture()
    found = again(wanted, tmp_path)
    assert (found.title, found.notes, found.made) == (wanted.title, wanted.notes, wanted.made)
    assert found.opening == wanted.opening
    for one, other in zip(found.sides, wanted.sides, strict=True):
        for name in ("label", "model", "places", "patterns", "control", "next"):
            assert getattr(one, name) == getattr(other, name), name
        for sequence, like in zip(one.sequences, other.sequences, strict=True):
            assert replace(sequence, picture=None) == replace(like, picture=None)
        picture, like_picture = one.sequences[0].picture, other.sequences[0].picture
        assert picture is not None
        assert like_picture is not None
        assert torch.equal(picture.pixels, like_picture.pixels)
        assert (picture.rows, picture.columns, picture.first) == (2, 2, 1)
        flow, like_flow = one.flow, other.flow
        assert flow.rollout is not None
        assert like_flow.rollout is not None
        assert close(flow.rollout[0], like_flow.rollout[0], 1.6e-5)
        assert (flow.gradient, flow.target, flow.reasons, flow.layers) == (
            None, "the logit", {"gradient": "not captured"}, [0],
        )  # fmt: skip
        for layer, like_layer in zip(one.layers, other.layers, strict=True):
            same_layer(layer, like_layer, 3.1e-5)


def same_layer(found: Layer, wanted: Layer, error: float) -> None:
    for name in (
        "name", "stack", "kind", "heads", "all_heads", "mechanism", "signed", "normalised", "scale",
        "groups", "causal", "difference", "excess", "note",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(wanted, name), name
    for name in ("weights", "q", "k", "v", "bias", "norms"):
        assert close(getattr(found, name), getattr(wanted, name), error), name
    if wanted.allowed is None:
        assert found.allowed is None
    else:
        assert found.allowed is not None
        assert found.allowed.dtype == torch.bool
        assert torch.equal(found.allowed, wanted.allowed)


@settings(max_examples=40)
@given(
    heads=st.integers(1, 4),
    queries=st.integers(1, 9),
    keys=st.integers(1, 40),
    bits=st.sampled_from([8, 16]),
    signed=st.booleans(),
    data=st.data(),
)
def test_sizes_of_all_kinds(
    heads: int, queries: int, keys: int, bits: int, signed: bool, data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    weights = torch.randn(heads, queries, keys, generator=draw)
    weights = weights if signed else weights.softmax(-1)
    layer = make_layer(weights, kind="cross", signed=signed, normalised=not signed)
    groups = data.draw(st.integers(1, heads))
    if data.draw(st.booleans()):
        layer.q = torch.randn(heads, queries, 3, generator=draw)
        layer.k = torch.randn(groups, keys, 3, generator=draw)
        layer.v = torch.randn(groups, keys, 5, generator=draw)
        layer.groups = [data.draw(st.integers(0, groups - 1)) for _ in range(heads)]
        layer.norms = torch.rand(heads, keys, generator=draw)
        layer.bias = torch.randn(data.draw(st.sampled_from([1, heads])), queries, keys)
    if data.draw(st.booleans()):
        layer.allowed = torch.rand(queries, keys, generator=draw) > 0.5
    folder = tmp_path_factory.mktemp("sizes")
    found = again(capture_of(layer, queries, keys), folder, bits=bits).sides[0].layers[0]
    code = f"{'signed' if signed else 'sqrt'}{bits}"
    loose = {"sqrt8": 0.004 * keys}  # of the row's sum, not of its largest
    assert close(found.weights, layer.weights, loose.get(code, ERRORS[code]))
    same_layer(
        replace(found, weights=None), replace(layer, weights=None), 1.3e-4 if bits == 8 else 1.6e-5
    )


@given(tokens=st.lists(st.text(st.characters(codec=None), max_size=9), min_size=1, max_size=5))
def test_any_token_comes_back(tokens: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also half surrogates; two halves that fit each other are one character in JSON."""
    capture = capture_of(make_layer(softmax_weights(1, len(tokens), len(tokens))), len(tokens))
    capture.sides[0].sequences[0].texts = tokens
    found = again(capture, tmp_path_factory.mktemp("tokens")).sides[0].sequences[0].texts
    assert [json.loads(json.dumps(token)) for token in tokens] == found


def test_the_file_by_hand(tmp_path: Path) -> None:
    save(full_capture(), tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    assert data.startswith(b"attnlab-capture 1\n")
    length = int.from_bytes(data[18:26], "little")
    header = json.loads(data[26 : 26 + length].decode("ascii"))
    blocks = []
    place = 26 + length
    for block in header["blocks"]:
        blocks.append(data[place : place + block["length"]])
        assert len(zlib.decompress(blocks[-1])) == block["size"]
        place += block["length"]
    assert place == len(data)
    assert header_and_blocks(tmp_path / "file") == (header, blocks)
    assert pack(full_capture()) == (header, blocks)
    names = set(header) | set(header["sides"][0]) | set(header["sides"][0]["layers"][0])
    document = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in names if name not in document] == []


# Each thing in its place


def test_blocks_hold_what_a_view_needs() -> None:
    header, blocks = pack(full_capture())
    assert len(blocks) == len(header["blocks"])
    side = header["sides"][0]
    first = side["layers"][0]
    shared = {first[name]["block"] for name in ("weights", "sums", "norms")}
    more = {first[name]["block"] for name in ("q", "k", "v", "bias")}
    assert len(shared) == len(more) == 1
    assert shared != more
    arrays = [layer["weights"] for layer in side["layers"]]
    arrays += [side["small"], *side["flow"]["rollout"], side["sequences"][0]["image"]["pixels"]]
    assert len({each["block"] for each in arrays}) == len(arrays)


def test_the_same_mask_is_stored_once() -> None:
    header, _ = pack(full_capture())
    side = header["sides"][0]
    assert [layer["mask"] for layer in side["layers"]] == [None, 0, 1, 0]
    assert [mask["causal"] for mask in side["masks"]] == [True, False]


def test_masks_that_differ_in_meaning_are_two() -> None:
    side = full_side()
    side.layers[3].causal = False
    header, _ = pack(Capture("t", [side]))
    assert [layer["mask"] for layer in header["sides"][0]["layers"]] == [None, 0, 1, 2]


def test_bits_are_chosen_by_the_number_of_weights() -> None:
    few = capture_of(make_layer(softmax_weights(3, 250, 400), kind="cross"), 250, 400)
    header, _ = pack(few)
    assert header["sides"][0]["layers"][0]["weights"]["code"] == "sqrt16"
    assert pack(few, bits=8)[0]["sides"][0]["layers"][0]["weights"]["code"] == "sqrt8"
    few.sides.append(capture_of(make_layer(softmax_weights(1, 1, 1)), 1).sides[0])
    codes = [side["layers"][0]["weights"]["code"] for side in pack(few)[0]["sides"]]
    assert codes == ["sqrt8", "sqrt8"]


def test_codes_follow_the_numbers() -> None:
    layers = pack(full_capture())[0]["sides"][0]["layers"]
    assert [layer["weights"]["code"] for layer in layers] == [
        "sqrt16", "signed16", "sqrt16", "sqrt16",
    ]  # fmt: skip
    assert [layer["sums"]["code"] for layer in layers] == ["linear16", "f32", "linear16", "f32"]
    unsaid = make_layer(torch.tensor([[[1.5, -0.5]]]), kind="cross", signed=False)
    header, _ = pack(capture_of(unsaid, 1, 2))
    assert header["sides"][0]["layers"][0]["weights"]["code"] == "signed16"


def test_sums_are_those_before_rounding(tmp_path: Path) -> None:
    weights = torch.tensor([[[0.1, 0.2, 0.4], [0.0, 0.0, 0.0]]])
    save(capture_of(make_layer(weights, kind="cross", normalised=False), 2, 3), tmp_path / "f")
    header, blocks = header_and_blocks(tmp_path / "f")
    sums = header["sides"][0]["layers"][0]["sums"]
    data = zlib.decompress(blocks[sums["block"]])[sums["offset"] :]
    assert np.frombuffer(data, "<f4").tolist() == pytest.approx([0.7, 0.0])


def test_what_has_no_width_is_not_kept() -> None:
    """A mechanism that ignores queries and keys gets them with width 0."""
    layer = make_layer(softmax_weights(2, 3, 3), q=torch.zeros(2, 3, 0), k=torch.zeros(2, 3, 0))
    header, _ = pack(capture_of(layer, 3))
    found = header["sides"][0]["layers"][0]
    assert (found["q"], found["k"], found["groups"]) == (None, None, [])


def test_groups_are_known_where_all_heads_are_there() -> None:
    layer = make_layer(softmax_weights(4, 3, 3), v=torch.ones(2, 3, 5))
    header, _ = pack(capture_of(layer, 3))
    assert header["sides"][0]["layers"][0]["groups"] == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="`groups` does not say"):
        pack(capture_of(replace(layer, all_heads=8), 3))


def test_a_side_without_patterns_has_empty_ones() -> None:
    found = pack(capture_of(make_layer(softmax_weights(2, 3, 3)), 3))[0]["sides"][0]
    assert found["layers"][0]["patterns"] == [{"label": "", "scores": {}}] * 2


# Small maps


def test_a_small_map_by_hand() -> None:
    """Of 2 queries and 4 keys, 2 x 2: pairs of keys, the larger of each."""
    weights = torch.tensor([[[0.0, 0.25, 0.75, 0.0], [-1.0, 0.0, 0.0, 0.0]]])
    # 31 sqrt(1/4) is 15.5, rounded to 16, which is 16 * 255 / 31 = 131.6; sqrt(3/4) gives 27: 222.1
    assert small_map(weights, 2).tolist() == [[[132, 222], [255, 0]]]
    assert small_map(torch.zeros(1, 2, 3), 2).tolist() == [[[0, 0], [0, 0]]]


@given(T=st.integers(1, 50), S=st.integers(1, 50), size=st.integers(1, 32))
def test_small_maps_against_the_definition(T: int, S: int, size: int) -> None:
    weights = softmax_weights(2, T, S, seed=T, spread=3)
    found = small_map(weights, size)
    assert found.shape == (2, size, size)
    for row in range(size):
        for column in range(size):
            rows = slice(row * T // size, max(row * T // size + 1, (row + 1) * T // size))
            places = slice(
                column * S // size, max(column * S // size + 1, (column + 1) * S // size)
            )
            cell = weights[1, rows, places].max() / weights[1].max()
            assert abs(int(found[1, row, column]) - 255 * float(cell) ** 0.5) <= 255 / 62 + 0.5
    assert int(found.max()) == 255


def test_a_short_text_has_a_map_of_its_size() -> None:
    header, _ = pack(full_capture())
    assert header["sides"][0]["small"]["shape"] == [4 + 2 + 3 + 1, 5, 5]
    long = capture_of(make_layer(softmax_weights(2, 3, 70), kind="cross"), 3, 70)
    assert pack(long)[0]["sides"][0]["small"]["shape"] == [2, 32, 32]


# What cannot be saved


def changed(**changes: Any) -> Capture:
    return capture_of(replace(make_layer(softmax_weights(2, 3, 3)), **changes), 3)


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        (changed(weights=None), r"encoder.layer.0: has no weights"),
        (changed(weights=torch.full((2, 3, 3), torch.nan)), r"encoder.layer.0: weights: .*NaN"),
        (changed(k=torch.full((2, 3, 3), torch.inf)), r"encoder.layer.0: k: .*infinite"),
        (changed(weights=torch.ones(3, 3)), r"shape \(3, 3\); \(H, T, S\)"),
        (changed(weights=torch.ones(2, 4, 3)), r"weights.shape is \(2, 4, 3\); \(2, 3, 3\)"),
        (changed(heads=[0]), r"weights.shape is \(2, 3, 3\); \(1, 3, 3\)"),
        (changed(heads=[1, 1]), r"heads names a head twice"),
        (changed(heads=[0, 2]), r"heads\[1\] is 2; a whole number from 0 to 1"),
        (changed(norms=torch.ones(2, 4)), r"norms.shape"),
        (changed(causal=True), r"is causal, but `allowed`"),
        (changed(allowed=torch.ones(2, 3)), r"mask is of shape \(2, 3\)"),
        (changed(start=2), r"captured from query 2 on"),
        (changed(stack="middle"), r"stack is 'middle'; it should be 'encoder' or 'decoder'"),
        (changed(difference=float("nan")), r"difference is nan; it should be a finite number"),
        (changed(excess=float("inf")), r"excess is inf; it should be a finite number"),
        (changed(bias=torch.ones(3, 3, 3)), r"bias has 3 heads; 1 or 2"),
        (
            changed(k=torch.ones(2, 3, 4), q=torch.ones(2, 3, 5)),
            r"k.shape is \(2, 3, 4\)",
        ),
        (Capture("t", []), r"sides is a list of 0; it should have at least 1 item"),
        (Capture("t", [full_side()] * 3), r"sides is a list of 3; it should have at most 2 items"),
        (Capture("t", [replace(full_side(), layers=[], places=[])]), r"nothing to save"),
        (Capture("t", [replace(full_side(), places=[])]), r"4 layers, but 0 places"),
        (Capture("t", [replace(full_side(), patterns=[[]])]), r"4 layers, but patterns of 1"),
        (
            Capture("t", [replace(full_side(), flow=Flow(rollout=[torch.ones(4, 4)], layers=[0]))]),
            r"flow.rollout\[0\].shape is \(4, 4\); \(5, 5\)",
        ),
        (
            Capture("t", [replace(full_side(), sequences=[Sequence("x", ["a"], [], [False])])]),
            r"sequence x: texts, words and special differ",
        ),
        (
            Capture("t", [replace(full_side(), control=[[Pattern("", {"local": 1.5})]])]),
            r"control has 1 entries; 4 are needed",
        ),
    ],
)
def test_what_cannot_be_saved(capture: Capture, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(ValueError, match=said):
        save(capture, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_bits_are_eight_or_sixteen(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bits is 7; give 8 or 16"):
        save(full_capture(), tmp_path / "file", bits=7)


def test_too_many_numbers_are_refused_before_any_work() -> None:
    weights = torch.zeros(1).expand(129, 2048, 2048)
    with pytest.raises(ValueError, match=r"541329408 numbers.*fewer layers, heads or tokens"):
        pack(capture_of(make_layer(weights), 2048))


def test_maps_of_the_flow_are_numbers_too() -> None:
    capture = capture_of(make_layer(torch.zeros(1).expand(127, 2048, 2048)), 2048)
    capture.sides[0].flow = Flow([torch.zeros(1).expand(2048, 2048)], None, layers=[0])
    with pytest.raises(ValueError, match=r"537131008 numbers"):
        pack(capture)
    capture.sides[0].flow = Flow(None, [torch.zeros(1).expand(2048, 2048)] * 2, layers=[0, 0])
    with pytest.raises(ValueError, match=r"541325312 numbers"):
        pack(capture)


def test_a_header_is_no_larger_than_readers_accept(tmp_path: Path) -> None:
    """A file's, a page's, or a widget's."""
    capture = full_capture()
    capture.notes = ["x" * 2**24]
    said = r"the header has \d+ bytes; 16777216 is the most: choose fewer layers"
    with pytest.raises(ValueError, match=said):
        save(capture, tmp_path / "file")
    with pytest.raises(ValueError, match=said):
        save_page(tmp_path / "page.html", *pack(capture), overwrite=False)
    assert not list(tmp_path.iterdir())


def test_no_folder_to_save_in(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not be written"):
        save(full_capture(), tmp_path / "none" / "file")


def test_probabilities_of_floats_that_are_a_little_off() -> None:
    side = full_side()
    assert side.next is not None
    side.next.actual = [1.0000001, 1e-9, None]
    header, _ = pack(Capture("t", [side]))
    assert header["sides"][0]["next"]["actual"] == [1.0, 1e-9, None]


def test_the_magic_is_the_documented_one() -> None:
    assert len(MAGIC) == 18
    assert "18 bytes" in DOCUMENT.read_text(encoding="utf-8")
