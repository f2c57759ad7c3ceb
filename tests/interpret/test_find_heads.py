"""Heads of known kinds are found: by weights that follow the pattern, and in trained models.

Letters: B batch, T tokens.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import attnlab
from attnlab.interpret._average_attention import word_class
from attnlab.interpret._find_heads import KINDS, selected_keys
from attnlab.models import Decoder, StackConfig
from attnlab.report import to_markdown
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


def repeated_tokens(random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows of random tokens, each repeated with a period of its own; which ones are repeated."""
    period = torch.randint(5, 15, (32, 1), generator=random)
    position = torch.arange(30)[None]
    base = torch.randint(3, 32, (32, 30), generator=random)
    return base.gather(1, position % period), position >= period


def train_to_repeat(layers: int, steps: int) -> Decoder:
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    sizes: dict[str, Any] = {"width": 32, "heads": 2, "feed_width": 32}
    model = Decoder(StackConfig(32, 64, layers=layers, position="rotary", **sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 50) * (1 - step / steps)
    )
    for _ in range(steps):
        ids, known = repeated_tokens(random)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits[known[:, 1:]], ids[:, 1:][known[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@pytest.mark.slow
def test_two_layers_learn_induction_heads_and_one_layer_cannot() -> None:
    two, one = train_to_repeat(2, 500), train_to_repeat(1, 300)
    result = attnlab.find_heads(two, "induction")
    assert [head.layer for head in result.heads] == [1] * len(result.heads)
    assert result.heads
    previous = attnlab.find_heads(two, "previous")
    assert previous.heads[0].layer == 0
    assert not attnlab.find_heads(one, "induction").heads
    # without its induction heads the model no longer repeats; without as many others it does
    ids, known = repeated_tokens(torch.Generator().manual_seed(9))

    def repeats(model: Any) -> float:
        with torch.no_grad():
            right = model(ids[:, :-1]).argmax(-1) == ids[:, 1:]
        return float(right[known[:, 1:]].float().mean())

    whole = repeats(two)
    change = attnlab.intervene(two)
    for head in result.heads:
        change = change.ablate(head.layer, head.head)
    with change:
        without = repeats(two)
    assert without < 0.5 * whole
