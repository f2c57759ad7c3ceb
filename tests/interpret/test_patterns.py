"""Scores and labels of heads: by hand, for constructed heads, and for random ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.interpret._head_patterns import PATTERNS, THRESHOLD, head_patterns
from attnlab.interpret._records import HeadPattern, Sequence
from tests.support.synthetic_captures import make_layer, make_sequence, softmax_weights

TEXT = "[CLS] the cat saw the dog [SEP] the cat saw a bird [SEP]"


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def patterns_of(weights: Tensor, text: str | Sequence = TEXT, **changes: Any) -> list[HeadPattern]:
    sequence = make_sequence(text) if isinstance(text, str) else text
    return head_patterns(make_layer(weights, **changes), sequence, sequence)


def pointing(targets: list[list[int]], length: int, fraction: float = 1.0) -> Tensor:
    """(1, T, S): each query gives `fraction` to its targets, and the rest to all keys."""
    weights = torch.full((1, len(targets), length), 1 / length)
    for query, keys in enumerate(targets):
        if keys:
            weights[0, query] *= 1 - fraction
            weights[0, query, keys] += fraction / len(keys)
    return weights


def targets_of(name: str, texts: list[str]) -> list[list[int]]:
    """The definition of each pattern, one query at a time."""
    n = len(texts)
    special = [text.startswith("[") for text in texts]
    targets: dict[str, list[list[int]]] = {
        "previous token": [[i - 1] if i else [] for i in range(n)],
        "next token": [[i + 1] if i + 1 < n else [] for i in range(n)],
        "first-token sink": [[0] if i else [] for i in range(n)],
        "separator": [[j for j in range(1, n) if special[j] and j != i] for i in range(n)],
        "same word": [
            [j for j in range(n) if texts[j] == texts[i] and j != i and not special[i]]
            for i in range(n)
        ],
        "itself": [[i] for i in range(n)],
        "uniform": [list(range(n)) for _ in range(n)],
        "local": [[j for j in range(n) if abs(i - j) <= 3] for i in range(n)],
        "induction": [
            [
                j + 1
                for j in range(i)
                if texts[j] == texts[i] and j + 1 < i and not special[i] and not special[j]
            ]
            for i in range(n)
        ],
    }
    return targets[name]


# Constructed heads


@pytest.mark.parametrize("name", PATTERNS)
def test_label_of_a_perfect_head(name: str) -> None:
    targets = targets_of(name, TEXT.split())
    result = patterns_of(pointing(targets, len(targets)))[0]
    assert result.label == name
    assert result.scores[name] == pytest.approx(1, abs=1e-6)
    assert set(result.scores) == set(PATTERNS)


def test_a_head_with_one_peaked_query_is_not_uniform() -> None:
    """As the class token of a vision model that looks at one patch: 0.95 on one key."""
    length = len(TEXT.split())
    uniform = torch.full((1, length, length), 1 / length)
    peaked = uniform.clone()
    peaked[0, 0] = 0.05 / (length - 1)
    peaked[0, 0, 5] = 0.95
    assert patterns_of(uniform)[0].label == "uniform"
    assert patterns_of(peaked)[0].label != "uniform"
    assert patterns_of(peaked)[0].scores["uniform"] < 0.1


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "uniform"])
def test_label_of_a_head_with_seventy_percent(name: str) -> None:
    targets = targets_of(name, TEXT.split())
    result = patterns_of(pointing(targets, len(targets), fraction=0.7))[0]
    assert result.label == name
    assert result.scores[name] == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "next token"])
def test_causal_heads(name: str) -> None:
    texts = TEXT.split()
    n = len(texts)
    targets = [[j for j in keys if j <= i] for i, keys in enumerate(targets_of(name, texts))]
    weights = pointing(targets, n) * causal_mask(n)
    weights = weights / weights.sum(-1, keepdim=True)
    result = patterns_of(weights, allowed=causal_mask(n), causal=True)[0]
    assert result.label == name
    assert result.scores[name] == pytest.approx(1, abs=1e-6)
    assert "next token" not in result.scores  # it has no keys
    unmasked = patterns_of(weights, causal=True)[0]  # `causal` implies the mask
    assert unmasked.scores == pytest.approx(result.scores)


def test_causal_uniform_is_not_a_sink() -> None:
    """A causal query with uniform weights gives the first token more than 1 / T."""
    mask = causal_mask(13)
    result = patterns_of((mask / mask.sum(-1, keepdim=True))[None], allowed=mask, causal=True)[0]
    assert result.label == "uniform"
    others = [score for name, score in result.scores.items() if name != "uniform"]
    assert max(others) == pytest.approx(0, abs=1e-6)


# By hand


def test_score_by_hand() -> None:
    """Three tokens; the first has no previous token. Chance is 1/3 for each of the others:
    (0.5 - 1/3 + 0.9 - 1/3) / (2/3 + 2/3) = 0.55."""
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.05, 0.9, 0.05]]])
    result = patterns_of(weights, "a b c")[0]
    assert result.scores["previous token"] == pytest.approx(0.55)
    # on itself are 1 and 0.25 and 0.05, which is 0.3 above chance, of 2
    assert result.scores["itself"] == pytest.approx(0.15)
    # to move: 2/3, 1/6 and 0.9 - 1/3, of 2/3 each: 1 - 2 * 1.4 / 2 is below 0
    assert result.scores["uniform"] == 0
    assert result.label == ""  # the margin is 4/3, below 2
    assert "separator" not in result.scores
    assert "induction" not in result.scores
    assert "same word" not in result.scores
    assert "local" not in result.scores  # all keys are near, so there is no margin


def test_uniform_by_hand() -> None:
    """Two keys, 0.6 and 0.4: 0.1 of at most 0.5 has to move, so 1 - 2 * 0.2."""
    weights = torch.tensor([0.6, 0.4]).expand(1, 6, 2)
    layer = make_layer(weights, kind="cross")
    result = head_patterns(layer, make_sequence("a b c d e f"), make_sequence("x y"))[0]
    assert result.scores["uniform"] == pytest.approx(0.6)
    assert result.scores["first-token sink"] == pytest.approx(0.2)
    assert result.label == "uniform"


def test_induction_by_hand() -> None:
    """a b c a b: the second a attends to the first b, the second b to c."""
    weights = torch.full((1, 5, 5), 0.2)
    weights[0, 3] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    result = patterns_of(weights, "a b c a b")[0]
    assert result.scores["induction"] == pytest.approx((1 - 0.2 + 0.2 - 0.2) / 1.6)
    assert "induction" not in patterns_of(weights, "a b c d e")[0].scores
    # the token after the first a is the query itself, which does not count
    assert "induction" not in patterns_of(weights, "a a b c d")[0].scores


def test_same_word_by_text_or_by_number() -> None:
    """Whole words: "playing" in two tokens is itself, and is "PLAYING", but not "play"."""
    sequence = make_sequence(
        "Play ##ing [SEP] Ġplay ▁PLAY ĠPLAY ing", words=[0, 0, 1, 2, 3, 4, 4]
    )  # fmt: skip
    look = {0: [1, 5, 6], 1: [0, 5, 6], 3: [4], 4: [3], 5: [0, 1, 6], 6: [0, 1, 5]}
    weights = pointing([look.get(i, []) for i in range(7)], 7)
    result = patterns_of(weights, sequence)[0]
    assert result.scores["same word"] == pytest.approx(1)
    assert result.label == "same word"


def test_ids_distinguish_bytes_of_characters() -> None:
    """Two characters of three bytes, whose texts look the same; the first one occurs twice."""
    texts, ids, words = ["\ufffd"] * 9, [1, 2, 3, 1, 2, 4, 1, 2, 3], [0, 0, 0, 1, 1, 1, 2, 2, 2]
    sequence = make_sequence(texts, words=words, ids=ids)
    assert measured_targets("same word", sequence) == [
        [j for j in range(9) if j != i and (i in (3, 4, 5)) == (j in (3, 4, 5))] for i in range(9)
    ]
    assert measured_targets("induction", sequence) == [
        [], [], [], [1], [2], [], [1, 4], [2, 5], [3],
    ]  # fmt: skip


def test_hash_signs_alone_are_a_word() -> None:
    assert measured_targets("same word", make_sequence("## a ##")) == [[2], [], [0]]


@given(data=st.data())
def test_targets_match_the_definition(data: st.DataObject) -> None:
    """Induction compares ids if they are known; same word compares the joined text of words."""
    n = data.draw(st.integers(2, 9))
    texts = data.draw(
        st.lists(st.sampled_from(["a", "B", "##b", " a", "Ġab"]), min_size=n, max_size=n)
    )
    ids = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    begins = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    words = [sum(begins[: i + 1]) for i in range(n)]
    special = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    sequence = make_sequence(texts, words=words, special=special, ids=ids)
    plain = {"a": "a", "B": "b", "##b": "b", " a": "a", "Ġab": "ab"}
    whole = [
        "".join(plain[texts[j]] for j in range(n) if words[j] == words[i] and not special[j])
        for i in range(n)
    ]
    pairs = [(i, j) for i in range(n) for j in range(n) if not special[i] and not special[j]]
    same = [
        [j for i, j in pairs if i == query and j != i and whole[i] == whole[j]]
        for query in range(n)
    ]
    assert measured_targets("same word", sequence) == same
    token: list[object] = list(texts if ids is None else ids)
    after = [
        sorted({j + 1 for i, j in pairs if i == query and j + 1 < i and token[i] == token[j]})
        for query in range(n)
    ]
    assert measured_targets("induction", sequence) == after


def measured_targets(name: str, sequence: Sequence) -> list[list[int]]:
    """The keys that raise a query's score, each tested with a head that attends only to it."""
    n = len(sequence.texts)
    targets: list[list[int]] = []
    for query in range(n):
        weights = torch.zeros(n, n, n)  # a head for each key; other queries have no weight
        weights[range(n), query, range(n)] = 1.0
        scores = [pattern.scores.get(name, 0.0) for pattern in patterns_of(weights, sequence)]
        targets.append([key for key, score in enumerate(scores) if score > 0])
    return targets


def test_special_tokens_are_not_words() -> None:
    weights = pointing(targets_of("separator", TEXT.split()), 13)
    assert patterns_of(weights)[0].scores["same word"] == 0
    assert "same word" not in patterns_of(torch.rand(1, 4, 4), "[SEP] a b [SEP]")[0].scores


def test_empty_texts_are_not_words() -> None:
    sequence = make_sequence(["", " ", "\n", "a"])
    assert "same word" not in patterns_of(torch.rand(1, 4, 4), sequence)[0].scores


# Cross-attention, signs, invalid rows


def test_cross_attention_has_no_position_patterns() -> None:
    layer = make_layer(softmax_weights(2, 5, 7), kind="cross")
    result = head_patterns(layer, make_sequence("a b c d e"), make_sequence("x y a b z z [SEP]"))
    for pattern in result:
        assert set(pattern.scores) == {"first-token sink", "separator", "same word", "uniform"}


def test_signs_do_not_matter() -> None:
    weights = softmax_weights(3, 13, 13, spread=2)
    signs = torch.where(softmax_weights(3, 13, 13, seed=1) > 1 / 13, 1.0, -1.0)
    for one, other in zip(
        patterns_of(weights), patterns_of(weights * signs, signed=True), strict=True
    ):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_rows_without_weight_are_ignored() -> None:
    targets = targets_of("previous token", TEXT.split())
    weights = pointing(targets, 13)
    weights[0, 5:] = 0.0
    weights[0, 4] = torch.nan
    result = patterns_of(weights)[0]
    assert result.label == "previous token"
    assert result.scores["previous token"] == pytest.approx(1, abs=1e-6)


def test_head_without_any_weight() -> None:
    assert patterns_of(torch.zeros(2, 13, 13)) == [HeadPattern("", {})] * 2
    assert patterns_of(softmax_weights(1, 13, 13), allowed=torch.zeros(13, 13)) == [
        HeadPattern("", {})
    ]


def test_layer_without_weights() -> None:
    sequence = make_sequence("a b")
    assert head_patterns(make_layer(None), sequence, sequence) == [HeadPattern("", {})]


def test_tokens_must_fit() -> None:
    with pytest.raises(
        ValueError, match="has 13 queries and 13 keys, but the sequences have 2 and 2"
    ):
        patterns_of(softmax_weights(1, 13, 13), "a b")


def test_queries_after_the_start() -> None:
    """The captured rows count as they would among all rows."""
    weights = pointing(targets_of("previous token", TEXT.split()), 13)
    result = patterns_of(weights[:, 6:], start=6, allowed=causal_mask(13)[6:], causal=True)[0]
    assert result.label == "previous token"
    assert result.scores["previous token"] == pytest.approx(1, abs=1e-6)


# Chance


@pytest.mark.parametrize("spread", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("length", [5, 13, 40])
def test_random_heads_mostly_get_no_label(spread: float, length: int) -> None:
    words = [f"w{i % (length // 2 + 1)}" for i in range(length)]
    sequence = make_sequence(["[CLS]", *words[2:], "[SEP]"])
    result = patterns_of(softmax_weights(200, length, length, seed=3, spread=spread), sequence)
    labels = [pattern.label for pattern in result if pattern.label]
    assert len(labels) <= 10, labels


def test_short_texts_do_not_make_heads_local() -> None:
    for text in ("a b c", "a b c d", "a b c d e"):
        n = len(text.split())
        for pattern in patterns_of(softmax_weights(50, n, n, spread=2), text):
            assert pattern.label != "local"


def test_nearly_uniform_heads_are_uniform() -> None:
    """As in an untrained model, whose scores are small."""
    for pattern in patterns_of(softmax_weights(20, 13, 13, spread=0.1)):
        assert pattern.label == "uniform"


@given(
    length=st.integers(1, 12),
    heads=st.integers(1, 3),
    seed=st.integers(0, 50),
    spread=st.floats(0, 20),
    causal=st.booleans(),
    data=st.data(),
)
def test_scores_are_between_0_and_1(
    length: int, heads: int, seed: int, spread: float, causal: bool, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(st.sampled_from("ab["), min_size=length, max_size=length))
    sequence = make_sequence([text.replace("[", "[S]") for text in texts])
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(length, length, generator=generator) > 0.2
    weights = (torch.randn(heads, length, length, generator=generator) * spread).softmax(-1)
    mask = causal_mask(length) & allowed if causal else allowed
    for pattern in patterns_of(weights * mask, sequence, allowed=mask, causal=causal):
        assert all(0 <= score <= 1 for score in pattern.scores.values())
        assert pattern.label == "" or pattern.scores[pattern.label] >= THRESHOLD
        assert set(pattern.scores) <= set(PATTERNS)


@given(seed=st.integers(0, 50), order=st.permutations(range(4)))
def test_heads_are_independent(seed: int, order: list[int]) -> None:
    """Shuffled heads have shuffled scores, and the size of a row does not matter."""
    weights = softmax_weights(4, 13, 13, seed=seed, spread=3)
    sizes = 0.1 + torch.rand(4, 13, 1, generator=torch.Generator().manual_seed(seed))
    result = patterns_of(weights)
    for index, other in enumerate(patterns_of((weights * sizes)[order], normalised=False)):
        assert other.label == result[order[index]].label
        assert other.scores == pytest.approx(result[order[index]].scores, abs=1e-5)


@given(seed=st.integers(0, 50), data=st.data())
def test_scores_match_the_definition(seed: int, data: st.DataObject) -> None:
    """Query by query, in double precision."""
    texts = data.draw(st.lists(st.sampled_from(["a", "b", "c", "[S]"]), min_size=2, max_size=9))
    n = len(texts)
    weights = softmax_weights(1, n, n, seed=seed, spread=4)
    result = patterns_of(weights, make_sequence(texts))[0].scores
    for name in PATTERNS:
        if name == "uniform":
            continue
        gain = margin = 0.0
        for query, keys in enumerate(targets_of(name, texts)):
            if keys:
                chance = len(keys) / n
                gain += float(weights[0, query, keys].double().sum()) - chance
                margin += 1 - chance
        if margin < 1e-9:
            assert name not in result
        else:
            assert result[name] == pytest.approx(max(0.0, gain / margin), abs=1e-5)
