"""The path of a token: its parts add up to what the model does, for models of both libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import attnlab
from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._attention_sites import block_of, find_blocks
from attnlab.interpret._block_parts import BlockWatcher, split_block
from attnlab.interpret._capture_file import read
from attnlab.interpret._record import StreamRecorder
from tests.support.text_models import TOKENS, both_stacks, decoder, encoder


def walk_of(model: Any, **options: Any) -> tuple[Any, Any]:
    seen = attnlab.look(
        model, "the dog ran", tokenizer=TOKENS, control=False, gradients=False, **options
    )
    walk = seen.panels[0].walkthrough
    assert walk is not None
    return walk, seen


@pytest.mark.parametrize("name", ["softmax", "favor", "gla"])
def test_the_path_adds_up(name: str) -> None:
    model = decoder(name, key_heads=1) if name == "softmax" else decoder(name)
    walk, seen = walk_of(model, neurons=True, walkthrough="1.2.6")
    layer = seen.panels[0].layers[1]
    assert (walk.layer, walk.head, walk.query, walk.block, walk.blocks) == (1, 2, 6, 1, 2)
    assert [part.kind for part in walk.parts] == ["self", "feed_forward"]
    total = walk.input + sum(part.values for part in walk.parts)
    torch.testing.assert_close(total, walk.stream)
    torch.testing.assert_close(walk.q, layer.q[:, 6])
    torch.testing.assert_close(walk.v, layer.v[layer.groups])
    expected = layer.weights[:, 6, None] @ layer.v[layer.groups]  # (H, 1, M)
    if name != "gla":  # whose layer normalizes and gates what its heads return
        torch.testing.assert_close(walk.outputs, expected[:, 0], atol=1e-4, rtol=1e-4)
    ids = torch.tensor([TOKENS.encode("the dog ran")])
    logits = model(ids)[0, 6].detach()
    assert walk.top[0][1] == pytest.approx(float(logits.max()), rel=1e-4)
    assert walk.top[0][2] == pytest.approx(float(logits.softmax(-1).max()), rel=1e-4)
    assert seen.capture.initial_view.view == "walkthrough"
    assert walk.reasons == {}


def test_scores_of_softmax_give_its_weights() -> None:
    walk, seen = walk_of(decoder(position="rotary"), walkthrough="0.1.4")
    layer = seen.panels[0].layers[0]
    assert walk.rotary
    scores = (walk.dots[1] * layer.scale).masked_fill(~layer.allowed[4], -torch.inf)
    torch.testing.assert_close(scores.softmax(-1), layer.weights[1, 4])


def test_other_models() -> None:
    walk, _ = walk_of(encoder())
    assert walk.top
    assert walk.reasons == {}
    walk, _ = walk_of(both_stacks(), pair="I am", walkthrough="3.1.1")
    assert [part.kind for part in walk.parts] == ["self", "cross", "feed_forward"]
    walk, _ = walk_of(both_stacks(), pair="I am", walkthrough="0.1.1")
    assert walk.top == []
    assert "the decoder reads it" in walk.reasons["output"]


def test_of_few_heads(tmp_path: Path) -> None:
    """Numbers are those of the model; the file keeps everything."""
    walk, seen = walk_of(decoder(), layers=[1], heads=[2], walkthrough="1.2.3")
    assert (walk.layer, walk.head) == (0, 0)
    assert walk.outputs.shape == (1, 8)
    again: Any = read(seen.save(tmp_path / "a.attnlab")).panels[0].walkthrough
    torch.testing.assert_close(again.stream, walk.stream, atol=1e-4, rtol=1e-3)
    assert [part.kind for part in again.parts] == ["self", "feed_forward"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("1.2", "no walkthrough '1.2'; give LAYER.HEAD.TOKEN"),
        ("a.0.0", "no walkthrough 'a.0.0'"),
        ("2.0.0", "no layer 2; give one of 0, 1"),
        ("0.3.0", "no head 3; give one of 0, 1, 2"),
        ("0.0.11", "no token 11; give 0 to 10"),
    ],
)
def test_places_that_do_not_exist(place: str, message: str) -> None:
    with pytest.raises(ValueError, match="no ") as caught:
        walk_of(decoder(), walkthrough=place)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "norm_first"),
    [("gpt2", True), ("bert", False), ("gemma2", True), ("t5", True), ("bart", False),
     ("bloom", True), ("gptj", True), ("vit", True)],
)  # fmt: skip
def test_parts_of_blocks_of_many_families(name: str, norm_first: bool) -> None:
    """No family needs an adapter: what the modules of a block add is found by its sum."""
    from tests.support.small_transformers import inputs, small

    model, batch = small(name), inputs(name)
    sites = attention_sites(model)
    blocks = find_blocks(model, sites)
    number = block_of(sites[-1], blocks)
    assert number is not None
    streams = StreamRecorder(blocks)
    length = 10 if name == "vit" else 5 if "decoder_input_ids" in batch else 7
    watcher = BlockWatcher(blocks[number].module, 3, length)
    with streams.recording(), watcher.watching(), torch.no_grad():
        model(**batch)
    run: Any = streams.runs[number][0]
    before, after = (x[0, 3] for x in run)
    split = split_block(before, after, watcher.runs, sites)
    assert split is not None
    cross = ["cross"] if "decoder_input_ids" in batch else []
    assert [part.kind for part in split.parts] == ["self", *cross, "feed_forward"]
    assert split.norm_first == norm_first
    if norm_first:
        total = before + sum(part.values for part in split.parts)
        torch.testing.assert_close(total, after, atol=1e-3, rtol=1e-3)
