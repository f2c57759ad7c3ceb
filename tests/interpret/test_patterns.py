"""Scores and labels of heads: values by hand, heads that were made to be something, and chance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.interpret._head_patterns import PATTERNS, THRESHOLD, head_patterns
from attnlab.interpret._records import Pattern, Sequence
from tests.support.synthetic_captures import make_layer, make_sequence, softmax_weights

TEXT = "[CLS] the cat saw the dog [SEP] the cat saw a bird [SEP]"


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def patterns_of(weights: Tensor, text: str | Sequence = TEXT, **changes: Any) -> list[Pattern]:
    sequence = make_sequence(text) if isinstance(text, str) else text
    return head_patterns(make_layer(weights, **changes), sequence, sequence)


def pointing(targets: list[list[int]], length: int, share: float = 1.0) -> Tensor:
    """(1, T, S): each query gives `share` to its targets, the rest to all; without one, to all."""
    weights = torch.full((1, len(targets), length), 1 / length)
    for query, keys in enumerate(targets):
        if keys:
            weights[0, query] *= 1 - share
            weights[0, query, keys] += share / len(keys)
    return weights


def targets_of(name: str, texts: list[str]) -> list[list[int]]:
    """The definition of each pattern, one query at a time."""
    n = len(texts)
    special = [text.startswith("[") for text in texts]
    found: dict[str, list[list[int]]] = {
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
    return found[name]


# Heads that were made to be something


@pytest.mark.parametrize("name", PATTERNS)
def test_a_head_made_to_be_it_is_called_so(name: str) -> None:
    targets = targets_of(name, TEXT.split())
    found = patterns_of(pointing(targets, len(targets)))[0]
    assert found.label == name
    assert found.scores[name] == pytest.approx(1, abs=1e-6)
    assert set(found.scores) == set(PATTERNS)


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "uniform"])
def test_a_head_that_is_it_by_seven_tenths(name: str) -> None:
    targets = targets_of(name, TEXT.split())
    found = patterns_of(pointing(targets, len(targets), share=0.7))[0]
    assert found.label == name
    assert found.scores[name] == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "next token"])
def test_causal_heads(name: str) -> None:
    texts = TEXT.split()
    n = len(texts)
    kept = [[j for j in keys if j <= i] for i, keys in enumerate(targets_of(name, texts))]
    weights = pointing(kept, n) * causal_mask(n)
    weights = weights / weights.sum(-1, keepdim=True)
    found = patterns_of(weights, allowed=causal_mask(n), causal=True)[0]
    assert found.label == name
    assert found.scores[name] == pytest.approx(1, abs=1e-6)
    assert "next token" not in found.scores  # no query can show it
    unsaid = patterns_of(weights, causal=True)[0]  # the mask follows from the word
    assert unsaid.scores == pytest.approx(found.scores)


def test_causal_uniform_is_not_a_sink() -> None:
    """Each causal query that looks everywhere gives the first token more than 1 / T."""
    mask = causal_mask(13)
    found = patterns_of((mask / mask.sum(-1, keepdim=True))[None], allowed=mask, causal=True)[0]
    assert found.label == "uniform"
    others = [score for name, score in found.scores.items() if name != "uniform"]
    assert max(others) == pytest.approx(0, abs=1e-6)


# By hand


def test_a_score_by_hand() -> None:
    """Three tokens; the first has none before it. Chance is 1/3 for each of the others:
    (0.5 - 1/3 + 0.9 - 1/3) / (2/3 + 2/3) = 0.55."""
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.05, 0.9, 0.05]]])
    found = patterns_of(weights, "a b c")[0]
    assert found.scores["previous token"] == pytest.approx(0.55)
    # on itself are 1 and 0.25 and 0.05, which is 0.3 above chance, of 2
    assert found.scores["itself"] == pytest.approx(0.15)
    # to move: 2/3, 1/6 and 0.9 - 1/3, of 2/3 each: 1 - 2 * 1.4 / 2 is below 0
    assert found.scores["uniform"] == 0
    assert found.label == ""  # there is room for 4/3 of a query: that proves nothing
    assert "separator" not in found.scores
    assert "induction" not in found.scores
    assert "same word" not in found.scores
    assert "local" not in found.scores  # all are near, so nothing can show it


def test_uniform_by_hand() -> None:
    """Two keys, 0.6 and 0.4: 0.1 has to move of at most 0.5, so 1 - 2 * 0.2."""
    weights = torch.tensor([0.6, 0.4]).expand(1, 6, 2)
    layer = make_layer(weights, kind="cross")
    found = head_patterns(layer, make_sequence("a b c d e f"), make_sequence("x y"))[0]
    assert found.scores["uniform"] == pytest.approx(0.6)
    assert found.scores["first-token sink"] == pytest.approx(0.2)
    assert found.label == "uniform"


def test_induction_by_hand() -> None:
    """a b c a b: the second a may look at the first b, the second b at c."""
    weights = torch.full((1, 5, 5), 0.2)
    weights[0, 3] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    found = patterns_of(weights, "a b c a b")[0]
    assert found.scores["induction"] == pytest.approx((1 - 0.2 + 0.2 - 0.2) / 1.6)
    assert "induction" not in patterns_of(weights, "a b c d e")[0].scores
    # the token behind the first a is the query itself, which does not count
    assert "induction" not in patterns_of(weights, "a a b c d")[0].scores


def test_words_are_the_same_by_text_or_by_number() -> None:
    """Whole words: "playing" in two tokens is itself, and is "PLAYING", but not "play"."""
    sequence = make_sequence(
        "Play ##ing [SEP] Ġplay ▁PLAY ĠPLAY ing", words=[0, 0, 1, 2, 3, 4, 4]
    )  # fmt: skip
    look = {0: [1, 5, 6], 1: [0, 5, 6], 3: [4], 4: [3], 5: [0, 1, 6], 6: [0, 1, 5]}
    weights = pointing([look.get(i, []) for i in range(7)], 7)
    found = patterns_of(weights, sequence)[0]
    assert found.scores["same word"] == pytest.approx(1)
    assert found.label == "same word"


def test_bytes_of_a_character_are_told_apart_by_their_ids() -> None:
    """Three bytes each of two characters look alike; the first one stands there twice."""
    texts, ids, words = ["\ufffd"] * 9, [1, 2, 3, 1, 2, 4, 1, 2, 3], [0, 0, 0, 1, 1, 1, 2, 2, 2]
    sequence = make_sequence(texts, words=words, ids=ids)
    assert targets_found("same word", sequence) == [
        [j for j in range(9) if j != i and (i in (3, 4, 5)) == (j in (3, 4, 5))] for i in range(9)
    ]
    assert targets_found("induction", sequence) == [
        [], [], [], [1], [2], [], [1, 4], [2, 5], [3],
    ]  # fmt: skip


def test_a_hash_is_a_word() -> None:
    """## alone is no mark of a piece."""
    assert targets_found("same word", make_sequence("## a ##")) == [[2], [], [0]]


@given(data=st.data())
def test_tokens_against_their_definition(data: st.DataObject) -> None:
    """Induction by ids where they are known, same word by the joined text of a word."""
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
    same = [[j for i, j in pairs if i == at and j != i and whole[i] == whole[j]] for at in range(n)]
    assert targets_found("same word", sequence) == same
    token: list[object] = list(texts if ids is None else ids)
    after = [
        sorted({j + 1 for i, j in pairs if i == at and j + 1 < i and token[i] == token[j]})
        for at in range(n)
    ]
    assert targets_found("induction", sequence) == after


def targets_found(name: str, sequence: Sequence) -> list[list[int]]:
    """The keys that raise a query's score, asked one by one with a head that looks at one key."""
    n = len(sequence.texts)
    found: list[list[int]] = []
    for query in range(n):
        weights = torch.zeros(n, n, n)  # a head for each key; other queries look at nothing
        weights[range(n), query, range(n)] = 1.0
        scores = [each.scores.get(name, 0.0) for each in patterns_of(weights, sequence)]
        found.append([key for key, score in enumerate(scores) if score > 0])
    return found


def test_special_tokens_are_no_words() -> None:
    weights = pointing(targets_of("separator", TEXT.split()), 13)
    assert patterns_of(weights)[0].scores["same word"] == 0
    assert "same word" not in patterns_of(torch.rand(1, 4, 4), "[SEP] a b [SEP]")[0].scores


def test_empty_texts_are_no_words() -> None:
    sequence = make_sequence(["", " ", "\n", "a"])
    assert "same word" not in patterns_of(torch.rand(1, 4, 4), sequence)[0].scores


# Cross-attention, signs, rows that do not count


def test_places_mean_nothing_across_sequences() -> None:
    layer = make_layer(softmax_weights(2, 5, 7), kind="cross")
    found = head_patterns(layer, make_sequence("a b c d e"), make_sequence("x y a b z z [SEP]"))
    for each in found:
        assert set(each.scores) == {"first-token sink", "separator", "same word", "uniform"}


def test_signs_do_not_count() -> None:
    weights = softmax_weights(3, 13, 13, spread=2)
    signs = torch.where(softmax_weights(3, 13, 13, seed=1) > 1 / 13, 1.0, -1.0)
    for one, other in zip(
        patterns_of(weights), patterns_of(weights * signs, signed=True), strict=True
    ):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_rows_without_weight_are_left_out() -> None:
    targets = targets_of("previous token", TEXT.split())
    weights = pointing(targets, 13)
    weights[0, 5:] = 0.0
    weights[0, 4] = torch.nan
    found = patterns_of(weights)[0]
    assert found.label == "previous token"
    assert found.scores["previous token"] == pytest.approx(1, abs=1e-6)


def test_a_head_without_any_weight() -> None:
    assert patterns_of(torch.zeros(2, 13, 13)) == [Pattern("", {})] * 2
    assert patterns_of(softmax_weights(1, 13, 13), allowed=torch.zeros(13, 13)) == [Pattern("", {})]


def test_weights_that_were_not_captured() -> None:
    sequence = make_sequence("a b")
    assert head_patterns(make_layer(None), sequence, sequence) == [Pattern("", {})]


def test_tokens_must_fit() -> None:
    with pytest.raises(ValueError, match="13 queries for 13 keys, but there are 2 and 2"):
        patterns_of(softmax_weights(1, 13, 13), "a b")


def test_queries_from_a_start_on() -> None:
    """The rows that were captured count, as they would among all."""
    weights = pointing(targets_of("previous token", TEXT.split()), 13)
    found = patterns_of(weights[:, 6:], start=6, allowed=causal_mask(13)[6:], causal=True)[0]
    assert found.label == "previous token"
    assert found.scores["previous token"] == pytest.approx(1, abs=1e-6)


# Chance


@pytest.mark.parametrize("spread", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("length", [5, 13, 40])
def test_random_heads_mostly_get_no_label(spread: float, length: int) -> None:
    words = [f"w{i % (length // 2 + 1)}" for i in range(length)]
    sequence = make_sequence(["[CLS]", *words[2:], "[SEP]"])
    found = patterns_of(softmax_weights(200, length, length, seed=3, spread=spread), sequence)
    named = [each.label for each in found if each.label]
    assert len(named) <= 10, named


def test_short_texts_do_not_make_heads_local() -> None:
    for text in ("a b c", "a b c d", "a b c d e"):
        n = len(text.split())
        for each in patterns_of(softmax_weights(50, n, n, spread=2), text):
            assert each.label != "local"


def test_nearly_uniform_heads_are_uniform() -> None:
    """Of an untrained model, whose scores are small."""
    for each in patterns_of(softmax_weights(20, 13, 13, spread=0.1)):
        assert each.label == "uniform"


@given(
    length=st.integers(1, 12),
    heads=st.integers(1, 3),
    seed=st.integers(0, 50),
    spread=st.floats(0, 20),
    causal=st.booleans(),
    data=st.data(),
)
def test_scores_are_shares(
    length: int, heads: int, seed: int, spread: float, causal: bool, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(st.sampled_from("ab["), min_size=length, max_size=length))
    sequence = make_sequence([text.replace("[", "[S]") for text in texts])
    draw = torch.Generator().manual_seed(seed)
    allowed = torch.rand(length, length, generator=draw) > 0.2
    weights = (torch.randn(heads, length, length, generator=draw) * spread).softmax(-1)
    mask = causal_mask(length) & allowed if causal else allowed
    for each in patterns_of(weights * mask, sequence, allowed=mask, causal=causal):
        assert all(0 <= score <= 1 for score in each.scores.values())
        assert each.label == "" or each.scores[each.label] >= THRESHOLD
        assert set(each.scores) <= set(PATTERNS)


@given(seed=st.integers(0, 50), order=st.permutations(range(4)))
def test_heads_do_not_know_each_other(seed: int, order: list[int]) -> None:
    """Shuffled heads have shuffled scores, and the size of a row does not matter."""
    weights = softmax_weights(4, 13, 13, seed=seed, spread=3)
    sizes = 0.1 + torch.rand(4, 13, 1, generator=torch.Generator().manual_seed(seed))
    found = patterns_of(weights)
    for place, other in enumerate(patterns_of((weights * sizes)[order], normalised=False)):
        assert other.label == found[order[place]].label
        assert other.scores == pytest.approx(found[order[place]].scores, abs=1e-5)


@given(seed=st.integers(0, 50), data=st.data())
def test_against_the_definition(seed: int, data: st.DataObject) -> None:
    """One query after the other, in double precision."""
    texts = data.draw(st.lists(st.sampled_from(["a", "b", "c", "[S]"]), min_size=2, max_size=9))
    n = len(texts)
    weights = softmax_weights(1, n, n, seed=seed, spread=4)
    found = patterns_of(weights, make_sequence(texts))[0].scores
    for name in PATTERNS:
        if name == "uniform":
            continue
        gained = room = 0.0
        for query, keys in enumerate(targets_of(name, texts)):
            if keys:
                chance = len(keys) / n
                gained += float(weights[0, query, keys].double().sum()) - chance
                room += 1 - chance
        if room < 1e-9:
            assert name not in found
        else:
            assert found[name] == pytest.approx(max(0.0, gained / room), abs=1e-5)
