"""Which heads are worth a look, and what a page opens with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnlab.interpret._capture_file import pack
from attnlab.interpret._head_patterns import head_patterns
from attnlab.interpret._interesting_heads import MAX_HIGHLIGHTS, find_highlights
from attnlab.interpret._look import LookResult
from attnlab.interpret._records import (
    Highlight,
    InitialView,
    PatchedImage,
)
from tests.support.pronoun_captures import (
    ANIMAL,
    IT,
    N,
    opened,
    panel_of,
    previous,
    pronoun,
    sink,
    uniform,
)
from tests.support.synthetic_captures import make_layer, make_sequence


def test_the_head_that_finds_the_antecedent_comes_first() -> None:
    """Although other heads have larger weights: on the neighbor, and on the first token."""
    capture = opened(panel_of([previous(), uniform()], [sink(), pronoun(), uniform()]))
    first = capture.highlights[0]
    assert first == Highlight(1, 1, IT, ANIMAL, 0.64, first.pattern)
    assert capture.initial_view == InitialView("heads", 1, 1, IT)
    patterns = {(each.layer, each.head): each.pattern for each in capture.highlights}
    assert patterns[0, 0] == "previous token"
    assert patterns[1, 0] == "first-token sink"
    assert (0, 1) not in patterns  # uniform heads are not worth a look
    assert len(patterns) == len(capture.highlights)


def test_a_stronger_antecedent_wins() -> None:
    capture = opened(panel_of([pronoun(0.3)], [pronoun(0.8)], [pronoun(0.5)]))
    assert [each.layer for each in capture.highlights[:3]] == [1, 2, 0]


def test_a_later_word_in_a_causal_layer_is_not_counted() -> None:
    panel = panel_of([pronoun()])
    allowed = torch.ones(N, N, dtype=torch.bool).triu()  # no token may look back
    panel.layers = [replace(panel.layers[0], allowed=allowed)]
    assert all(each.key >= each.query for each in find_highlights(panel))


def test_only_trivial_heads_give_their_patterns() -> None:
    capture = opened(panel_of([previous(), sink(), uniform()]))
    assert {each.pattern for each in capture.highlights if each.pattern != "uniform"} == {
        "previous token",
        "first-token sink",
    }
    assert capture.initial_view is not None


def test_the_list_is_short() -> None:
    torch.manual_seed(0)
    heads = [torch.randn(N, N).mul(3).softmax(-1) for _ in range(40)]
    assert len(find_highlights(panel_of(heads))) <= MAX_HIGHLIGHTS


def test_two_panels_open_on_the_head_that_differs_most() -> None:
    first = panel_of([uniform(), sink()], [uniform(), previous()])
    second = panel_of([uniform(), sink()], [pronoun(), sink()])
    assert opened(first, second).initial_view == InitialView("compare", 1, 1)
    other = panel_of([uniform()])
    assert opened(first, other).initial_view == InitialView("compare", 0, None)


def test_an_image_opens_with_its_class_token() -> None:
    weights = torch.full((2, 10, 10), 0.1)
    weights[1, 0] = 0.05 / 9
    weights[1, 0, 7] = 0.95
    texts = ["[class]", *(f"{i}" for i in range(9))]
    sequence = make_sequence(" ".join(texts))
    image = PatchedImage(torch.zeros(6, 6, 3, dtype=torch.uint8), 3, 3, 1)
    sequence = replace(sequence, image=image, special=[True] + [False] * 9)
    layer = make_layer(weights)
    panel = replace(
        panel_of([uniform()]), sequences=[sequence], layers=[layer],
        patterns=[head_patterns(layer, sequence, sequence)],
    )  # fmt: skip
    capture = opened(panel)
    assert capture.initial_view == InitialView("image", 0, 1, 0)
    assert capture.highlights[0].key == 7


def test_open_at_checks_head_and_query() -> None:
    seen = LookResult(opened(panel_of([uniform(), sink()])))
    moved = seen.open_at("matrix", "blocks.0", head=1, query=3)
    assert moved.capture.initial_view == InitialView("matrix", 0, 1, 3)
    assert pack(moved.capture)[0]["opening"] == {
        "view": "matrix", "layer": 0, "head": 1, "query": 3,
    }  # fmt: skip
    # another view of the head that the page opens with
    assert moved.open_at("heads").capture.initial_view == InitialView("heads", 0, 1, 3)
    with pytest.raises(ValueError, match=r"no head 2 in blocks\.0; give one of 0, 1"):
        seen.open_at("heads", head=2)
    with pytest.raises(ValueError, match=f"no query {N}; give 0 to {N - 1}"):
        seen.open_at("heads", query=N)
