"""Heads of known kinds are found: by weights that follow the pattern, and in trained models.

Letters: B batch, T tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import attnlab
from attnlab.interpret._average_attention import word_class
from attnlab.interpret._find_heads import KINDS, selected_keys
from attnlab.models import Decoder, StackConfig
from attnlab.report import to_markdown
from attnlab.tasks.abilities.induction import Induction
from attnlab.tasks.simple import IGNORE
from attnlab.training import Run
from tests.support.command_line import call
from tests.support.small_models import model_of


def follow(kind: str) -> Any:
    """An edit that puts all weight on the keys of a kind, for a text that is repeated once."""

    def edit(A: Tensor) -> Tensor:
        T = A.shape[-1]
        n, query = T // 2, torch.arange(T)
        key = {
            "induction": query - n + 1,
            "duplicate": query - n,
            "previous": query - 1,
            "first": 0 * query,
            "itself": query,
        }[kind]
        return F.one_hot(key.clamp(min=0), T).to(A).expand_as(A)

    return edit


@pytest.mark.parametrize("source", ["attnlab", "huggingface"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_head_that_follows_the_pattern_scores_highest(kind: str, source: str) -> None:
    if source == "huggingface":
        from tests.support.small_transformers import small

        model = small("llama")
    else:
        model = Decoder(StackConfig(60, 64, width=24, layers=2, heads=3)).eval()
    before = attnlab.find_heads(model, kind)
    with attnlab.intervene(model).weights(1, 1, follow(kind)):
        result = attnlab.find_heads(model, kind)
    best = result.heads[0]
    assert (best.layer, best.head) == (1, 1)
    assert best.score > 0.99
    assert result.scores[0] == pytest.approx(before.scores[0])
    assert "1.1 (1.00)" in to_markdown(result.report())
    assert attnlab.find_heads(model, kind).scores == before.scores


def test_the_keys_of_every_kind() -> None:
    ids = torch.tensor([7, 5, 7, 5, 5])
    keys = {kind: selected_keys(kind, ids).nonzero().tolist() for kind in KINDS}
    assert keys["induction"] == [[2, 1], [3, 2], [4, 2]]  # 4 is also after 3, but is the query
    assert keys["duplicate"] == [[2, 0], [3, 1], [4, 1], [4, 3]]
    assert keys["previous"] == [[1, 0], [2, 1], [3, 2], [4, 3]]
    assert keys["first"] == [[1, 0], [2, 0], [3, 0], [4, 0]]
    assert keys["itself"] == [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]]


def test_texts_instead_of_random_tokens() -> None:
    model = model_of("decoder", "softmax")
    result = attnlab.find_heads(model, "previous", [[3, 4, 5, 6], [5, 4, 3]], threshold=0.01)
    assert result.scored_on == "2 texts"
    assert len(result.scores) == 2


def test_models_that_read_no_single_text_are_refused() -> None:
    for kind in ("seq2seq", "vit"):
        with pytest.raises(ValueError, match="cannot read random tokens alone; give a decoder"):
            attnlab.find_heads(model_of(kind))


@pytest.mark.parametrize(
    ("text", "continued", "expected"),
    [
        (" the", False, "function word"),
        ("Ġdog", False, "other word"),
        ("##ning", True, "part of a word"),
        (" 42", False, "number"),
        (",", False, "punctuation"),
    ],
)
def test_word_classes(text: str, continued: bool, expected: str) -> None:
    assert word_class(text, continued) == expected


def train_on_induction(folder: Path, layers: int) -> Any:
    """Without convolutions: with one, a single layer sees the token before and can do the task."""
    code = call(
        f"induction train --tokens 10 --length 32 --vocabulary 32 --layers {layers} --steps 300"
        f" --convolution 0 --position rotary --out {folder}"
    )
    assert code == 0
    return Run(folder).model()


@pytest.mark.slow
def test_two_layers_learn_induction_heads_and_one_layer_cannot(tmp_path: Path) -> None:
    two, one = (train_on_induction(tmp_path / str(layers), layers) for layers in (2, 1))
    result = attnlab.find_heads(two, "induction")
    assert result.heads
    assert {head.layer for head in result.heads} == {1}
    assert attnlab.find_heads(two, "previous").heads[0].layer == 0
    assert not attnlab.find_heads(one, "induction").heads
    # without its induction heads the model no longer continues the copy
    ids, targets = map(
        torch.from_numpy, Induction(10, 32, 32).generate(200, np.random.default_rng(9))
    )

    def accuracy() -> float:
        with torch.no_grad():
            right = two(ids).argmax(-1) == targets
        return float(right[targets != IGNORE].float().mean())

    whole, change = accuracy(), attnlab.intervene(two)
    for head in result.heads:
        change = change.ablate(head.layer, head.head)
    with change:
        without = accuracy()
    assert whole > 0.95
    assert without < 0.2
    assert accuracy() == whole
