"""Captures as files: round trips, codes and blocks, and captures that cannot be saved."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.interpret._capture_file import MAGIC, header_and_blocks, pack, read, save
from attnlab.interpret._capture_packing import thumbnail
from attnlab.interpret._number_codes import ERRORS
from attnlab.interpret._page import save_page
from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Flow,
    HeadPattern,
    Layer,
    ModelInfo,
    Sequence,
)
from tests.support.examples import examples
from tests.support.synthetic_captures import (
    full_capture,
    full_panel,
    make_layer,
    make_sequence,
    softmax_weights,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "capture-format.md"


def capture_of(layer: Layer, *tokens: int) -> Capture:
    """A capture of one layer; `tokens` are the lengths of its sequences."""
    sequences = [make_sequence([f"t{i}" for i in range(count)]) for count in tokens]
    model = ModelInfo("m", "decoder", "huggingface", 1)
    return Capture("t", [CapturePanel("s", model, sequences, [layer], [(0, len(tokens) - 1)])])


def save_and_read(capture: Capture, tmp_path: Path, **options: Any) -> Capture:
    save(capture, tmp_path / "file", **options)
    return read(tmp_path / "file")


def is_close(result: Tensor | None, expected: Tensor | None, error: float) -> bool:
    """Whether the error is within a fraction of each row's largest value."""
    if result is None or expected is None:
        return result is expected
    scale = expected.abs().amax(-1, keepdim=True)
    return result.shape == expected.shape and bool(
        ((result - expected).abs() <= error * scale).all()
    )


# Round trips


def test_round_trip_of_a_full_capture(tmp_path: Path) -> None:
    expected = full_capture()
    result = save_and_read(expected, tmp_path)
    assert (result.title, result.notes) == (expected.title, expected.notes)
    assert result.versions == expected.versions
    assert result.initial_view == expected.initial_view
    assert result.highlights == expected.highlights
    for one, other in zip(result.panels, expected.panels, strict=True):
        for name in ("label", "model", "sequence_indices", "patterns", "control", "next_tokens"):
            assert getattr(one, name) == getattr(other, name), name
        for sequence, expected_sequence in zip(one.sequences, other.sequences, strict=True):
            assert replace(sequence, image=None) == replace(expected_sequence, image=None)
        image, expected_image = one.sequences[0].image, other.sequences[0].image
        assert image is not None
        assert expected_image is not None
        assert torch.equal(image.pixels, expected_image.pixels)
        assert (image.rows, image.columns, image.first) == (2, 2, 1)
        flow, expected_flow = one.flow, other.flow
        assert flow.rollout is not None
        assert expected_flow.rollout is not None
        assert is_close(flow.rollout[0], expected_flow.rollout[0], 1.6e-5)
        assert (flow.gradient, flow.target, flow.reasons, flow.layers) == (
            None, "the logit", {"gradient": "not captured"}, [0],
        )  # fmt: skip
        for layer, expected_layer in zip(one.layers, other.layers, strict=True):
            check_same_layer(layer, expected_layer, 3.1e-5)


def check_same_layer(result: Layer, expected: Layer, error: float) -> None:
    for name in (
        "name", "stack", "kind", "heads", "all_heads", "mechanism", "signed", "normalised", "scale",
        "groups", "causal", "difference", "excess", "note",
    ):  # fmt: skip
        assert getattr(result, name) == getattr(expected, name), name
    for name in ("weights", "q", "k", "v", "bias", "norms"):
        assert is_close(getattr(result, name), getattr(expected, name), error), name
    if expected.allowed is None:
        assert result.allowed is None
    else:
        assert result.allowed is not None
        assert result.allowed.dtype == torch.bool
        assert torch.equal(result.allowed, expected.allowed)


@examples(40)
@given(
    heads=st.integers(1, 4),
    queries=st.integers(1, 9),
    keys=st.integers(1, 40),
    bits=st.sampled_from([8, 16]),
    signed=st.booleans(),
    data=st.data(),
)
def test_round_trip_of_any_size(
    heads: int, queries: int, keys: int, bits: int, signed: bool, data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    weights = torch.randn(heads, queries, keys, generator=generator)
    weights = weights if signed else weights.softmax(-1)
    layer = make_layer(weights, kind="cross", signed=signed, normalised=not signed)
    groups = data.draw(st.integers(1, heads))
    if data.draw(st.booleans()):
        layer.q = torch.randn(heads, queries, 3, generator=generator)
        layer.k = torch.randn(groups, keys, 3, generator=generator)
        layer.v = torch.randn(groups, keys, 5, generator=generator)
        layer.groups = [data.draw(st.integers(0, groups - 1)) for _ in range(heads)]
        layer.norms = torch.rand(heads, keys, generator=generator)
        layer.bias = torch.randn(data.draw(st.sampled_from([1, heads])), queries, keys)
    if data.draw(st.booleans()):
        layer.allowed = torch.rand(queries, keys, generator=generator) > 0.5
    folder = tmp_path_factory.mktemp("sizes")
    result = save_and_read(capture_of(layer, queries, keys), folder, bits=bits).panels[0].layers[0]
    code = f"{'signed' if signed else 'sqrt'}{bits}"
    loose = {"sqrt8": 0.004 * keys}  # of the row's sum, not of its largest value
    assert is_close(result.weights, layer.weights, loose.get(code, ERRORS[code]))
    check_same_layer(
        replace(result, weights=None), replace(layer, weights=None), 1.3e-4 if bits == 8 else 1.6e-5
    )


@given(tokens=st.lists(st.text(st.characters(codec=None), max_size=9), min_size=1, max_size=5))
def test_round_trip_of_any_token(
    tokens: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also of lone surrogates; JSON joins two that form a pair."""
    capture = capture_of(make_layer(softmax_weights(1, len(tokens), len(tokens))), len(tokens))
    capture.panels[0].sequences[0].texts = tokens
    result = save_and_read(capture, tmp_path_factory.mktemp("tokens")).panels[0].sequences[0].texts
    assert [json.loads(json.dumps(token)) for token in tokens] == result


def test_file_layout(tmp_path: Path) -> None:
    save(full_capture(), tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    assert data.startswith(b"attnlab-capture 1\n")
    length = int.from_bytes(data[18:26], "little")
    header = json.loads(data[26 : 26 + length].decode("ascii"))
    blocks = []
    offset = 26 + length
    for block in header["blocks"]:
        blocks.append(data[offset : offset + block["length"]])
        assert len(zlib.decompress(blocks[-1])) == block["size"]
        offset += block["length"]
    assert offset == len(data)
    assert header_and_blocks(tmp_path / "file") == (header, blocks)
    assert pack(full_capture()) == (header, blocks)
    names = set(header) | set(header["sides"][0]) | set(header["sides"][0]["layers"][0])
    document = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in names if name not in document] == []


# Blocks and codes


def test_each_view_has_its_own_blocks() -> None:
    header, blocks = pack(full_capture())
    assert len(blocks) == len(header["blocks"])
    panel = header["sides"][0]
    first = panel["layers"][0]
    shared = {first[name]["block"] for name in ("weights", "sums", "norms")}
    more = {first[name]["block"] for name in ("q", "k", "v", "bias")}
    assert len(shared) == len(more) == 1
    assert shared != more
    arrays = [layer["weights"] for layer in panel["layers"]]
    arrays += [panel["small"], *panel["flow"]["rollout"], panel["sequences"][0]["image"]["pixels"]]
    assert len({array["block"] for array in arrays}) == len(arrays)


def test_equal_masks_are_stored_once() -> None:
    header, _ = pack(full_capture())
    panel = header["sides"][0]
    assert [layer["mask"] for layer in panel["layers"]] == [None, 0, 1, 0]
    assert [mask["causal"] for mask in panel["masks"]] == [True, False]


def test_causal_and_other_masks_are_stored_separately() -> None:
    panel = full_panel()
    panel.layers[3].causal = False
    header, _ = pack(Capture("t", [panel]))
    assert [layer["mask"] for layer in header["sides"][0]["layers"]] == [None, 0, 1, 2]


def test_number_of_weights_decides_the_bits() -> None:
    few = capture_of(make_layer(softmax_weights(3, 250, 400), kind="cross"), 250, 400)
    header, _ = pack(few)
    assert header["sides"][0]["layers"][0]["weights"]["code"] == "sqrt16"
    assert pack(few, bits=8)[0]["sides"][0]["layers"][0]["weights"]["code"] == "sqrt8"
    few.panels.append(capture_of(make_layer(softmax_weights(1, 1, 1)), 1).panels[0])
    codes = [panel["layers"][0]["weights"]["code"] for panel in pack(few)[0]["sides"]]
    assert codes == ["sqrt8", "sqrt8"]


def test_code_depends_on_the_values() -> None:
    layers = pack(full_capture())[0]["sides"][0]["layers"]
    assert [layer["weights"]["code"] for layer in layers] == [
        "sqrt16", "signed16", "sqrt16", "sqrt16",
    ]  # fmt: skip
    assert [layer["sums"]["code"] for layer in layers] == ["linear16", "f32", "linear16", "f32"]
    negative = make_layer(torch.tensor([[[1.5, -0.5]]]), kind="cross", signed=False)
    header, _ = pack(capture_of(negative, 1, 2))
    assert header["sides"][0]["layers"][0]["weights"]["code"] == "signed16"


def test_sums_are_those_before_rounding(tmp_path: Path) -> None:
    weights = torch.tensor([[[0.1, 0.2, 0.4], [0.0, 0.0, 0.0]]])
    save(capture_of(make_layer(weights, kind="cross", normalised=False), 2, 3), tmp_path / "f")
    header, blocks = header_and_blocks(tmp_path / "f")
    sums = header["sides"][0]["layers"][0]["sums"]
    data = zlib.decompress(blocks[sums["block"]])[sums["offset"] :]
    assert np.frombuffer(data, "<f4").tolist() == pytest.approx([0.7, 0.0])


def test_empty_queries_and_keys_are_not_saved() -> None:
    """A mechanism that ignores queries and keys gets them with width 0."""
    layer = make_layer(softmax_weights(2, 3, 3), q=torch.zeros(2, 3, 0), k=torch.zeros(2, 3, 0))
    header, _ = pack(capture_of(layer, 3))
    saved = header["sides"][0]["layers"][0]
    assert (saved["q"], saved["k"], saved["groups"]) == (None, None, [])


def test_default_groups_need_all_heads() -> None:
    layer = make_layer(softmax_weights(4, 3, 3), v=torch.ones(2, 3, 5))
    header, _ = pack(capture_of(layer, 3))
    assert header["sides"][0]["layers"][0]["groups"] == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="`groups` is empty; give the key head"):
        pack(capture_of(replace(layer, all_heads=8), 3))


def test_panel_without_patterns_gets_empty_ones() -> None:
    panel = pack(capture_of(make_layer(softmax_weights(2, 3, 3)), 3))[0]["sides"][0]
    assert panel["layers"][0]["patterns"] == [{"label": "", "scores": {}}] * 2


# Thumbnails


def test_thumbnail_by_hand() -> None:
    """2 queries and 4 keys become 2 x 2: the larger weight of each pair of keys."""
    weights = torch.tensor([[[0.0, 0.25, 0.75, 0.0], [-1.0, 0.0, 0.0, 0.0]]])
    # 31 sqrt(1/4) is 15.5, rounded to 16, which is 16 * 255 / 31 = 131.6; sqrt(3/4) gives 27: 222.1
    assert thumbnail(weights, 2).tolist() == [[[132, 222], [255, 0]]]
    assert thumbnail(torch.zeros(1, 2, 3), 2).tolist() == [[[0, 0], [0, 0]]]


@given(T=st.integers(1, 50), S=st.integers(1, 50), size=st.integers(1, 32))
def test_thumbnails_match_the_definition(T: int, S: int, size: int) -> None:
    weights = softmax_weights(2, T, S, seed=T, spread=3)
    result = thumbnail(weights, size)
    assert result.shape == (2, size, size)
    for row in range(size):
        for column in range(size):
            rows = slice(row * T // size, max(row * T // size + 1, (row + 1) * T // size))
            columns = slice(
                column * S // size, max(column * S // size + 1, (column + 1) * S // size)
            )
            cell = weights[1, rows, columns].max() / weights[1].max()
            assert abs(int(result[1, row, column]) - 255 * float(cell) ** 0.5) <= 255 / 62 + 0.5
    assert int(result.max()) == 255


def test_thumbnail_of_a_short_text_has_its_size() -> None:
    header, _ = pack(full_capture())
    assert header["sides"][0]["small"]["shape"] == [4 + 2 + 3 + 1, 5, 5]
    long = capture_of(make_layer(softmax_weights(2, 3, 70), kind="cross"), 3, 70)
    assert pack(long)[0]["sides"][0]["small"]["shape"] == [2, 32, 32]


# Captures that cannot be saved


def changed_capture(**changes: Any) -> Capture:
    return capture_of(replace(make_layer(softmax_weights(2, 3, 3)), **changes), 3)


@pytest.mark.parametrize(
    ("capture", "message"),
    [
        (changed_capture(weights=None), r"encoder.layer.0: has no weights"),
        (
            changed_capture(weights=torch.full((2, 3, 3), torch.nan)),
            r"encoder.layer.0: weights: .*NaN",
        ),
        (changed_capture(k=torch.full((2, 3, 3), torch.inf)), r"encoder.layer.0: k: .*infinite"),
        (changed_capture(weights=torch.ones(3, 3)), r"shape \(3, 3\); they must be \(H, T, S\)"),
        (
            changed_capture(weights=torch.ones(2, 4, 3)),
            r"weights.shape is \(2, 4, 3\); it must be \(2, 3, 3\)",
        ),
        (changed_capture(heads=[0]), r"weights.shape is \(2, 3, 3\); it must be \(1, 3, 3\)"),
        (changed_capture(heads=[1, 1]), r"heads lists a head twice"),
        (changed_capture(heads=[0, 2]), r"heads\[1\] is 2; it must be a whole number from 0 to 1"),
        (changed_capture(norms=torch.ones(2, 4)), r"norms.shape"),
        (changed_capture(causal=True), r"is causal, but `allowed`"),
        (changed_capture(allowed=torch.ones(2, 3)), r"mask has shape \(2, 3\)"),
        (changed_capture(start=2), r"captured from query 2 on"),
        (
            changed_capture(stack="middle"),
            r"stack is 'middle'; it should be 'encoder' or 'decoder'",
        ),
        (
            changed_capture(difference=float("nan")),
            r"difference is nan; it should be a finite number",
        ),
        (changed_capture(excess=float("inf")), r"excess is inf; it should be a finite number"),
        (changed_capture(bias=torch.ones(3, 3, 3)), r"bias has 3 heads; it must have 1 or 2"),
        (
            changed_capture(k=torch.ones(2, 3, 4), q=torch.ones(2, 3, 5)),
            r"k.shape is \(2, 3, 4\)",
        ),
        (Capture("t", []), r"sides is a list of 0; it should have at least 1 item"),
        (Capture("t", [full_panel()] * 3), r"sides is a list of 3; it should have at most 2 items"),
        (Capture("t", [replace(full_panel(), layers=[], sequence_indices=[])]), r"nothing to save"),
        (
            Capture("t", [replace(full_panel(), sequence_indices=[])]),
            r"4 layers, but 0 sequence_indices",
        ),
        (Capture("t", [replace(full_panel(), patterns=[[]])]), r"4 layers, but patterns for 1"),
        (
            Capture(
                "t", [replace(full_panel(), flow=Flow(rollout=[torch.ones(4, 4)], layers=[0]))]
            ),
            r"flow.rollout\[0\].shape is \(4, 4\); it must be \(5, 5\)",
        ),
        (
            Capture("t", [replace(full_panel(), sequences=[Sequence("x", ["a"], [], [False])])]),
            r"sequence x: texts, words and special differ",
        ),
        (
            Capture("t", [replace(full_panel(), control=[[HeadPattern("", {"local": 1.5})]])]),
            r"control has 1 entries; it must have 4",
        ),
    ],
)
def test_captures_that_cannot_be_saved(capture: Capture, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(ValueError, match=message):
        save(capture, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_bits_are_eight_or_sixteen(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bits is 7; give 8, 16 or None"):
        save(full_capture(), tmp_path / "file", bits=7)


def test_too_many_numbers_raise_before_any_work() -> None:
    weights = torch.zeros(1).expand(129, 2048, 2048)
    with pytest.raises(ValueError, match=r"541329408 numbers.*fewer layers, heads or tokens"):
        pack(capture_of(make_layer(weights), 2048))


def test_flow_maps_count_as_numbers() -> None:
    capture = capture_of(make_layer(torch.zeros(1).expand(127, 2048, 2048)), 2048)
    capture.panels[0].flow = Flow([torch.zeros(1).expand(2048, 2048)], None, layers=[0])
    with pytest.raises(ValueError, match=r"537131008 numbers"):
        pack(capture)
    capture.panels[0].flow = Flow(None, [torch.zeros(1).expand(2048, 2048)] * 2, layers=[0, 0])
    with pytest.raises(ValueError, match=r"541325312 numbers"):
        pack(capture)


def test_header_that_is_too_large(tmp_path: Path) -> None:
    capture = full_capture()
    capture.notes = ["x" * 2**24]
    message = r"the header has \d+ bytes, more than 16777216: choose fewer layers"
    with pytest.raises(ValueError, match=message):
        save(capture, tmp_path / "file")
    with pytest.raises(ValueError, match=message):
        save_page(tmp_path / "page.html", *pack(capture), overwrite=False)
    assert not list(tmp_path.iterdir())


def test_saving_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not be written"):
        save(full_capture(), tmp_path / "none" / "file")


def test_probabilities_are_rounded_to_at_most_1() -> None:
    panel = full_panel()
    assert panel.next_tokens is not None
    panel.next_tokens.actual = [1.0000001, 1e-9, None]
    header, _ = pack(Capture("t", [panel]))
    assert header["sides"][0]["next"]["actual"] == [1.0, 1e-9, None]


def test_magic_is_documented() -> None:
    assert len(MAGIC) == 18
    assert "18 bytes" in DOCUMENT.read_text(encoding="utf-8")
