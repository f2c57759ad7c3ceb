"""ROUGE as Google counts it, and the two lines that need no training."""

from __future__ import annotations

import importlib
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.summary._baselines import best_word_count, best_words, first_words
from attnlab.tasks.summary._pairs import Pair
from attnlab.tasks.summary._rouge import (
    KINDS,
    bootstrap,
    common_subsequence,
    common_subsequence_length,
    rouge,
    score,
    words_of,
)
from tests.support.examples import examples

WORDS = st.lists(
    st.sampled_from(["a", "b", "c", "dd", "GNU", "C++", "Python3", "über", "x-y"]), max_size=9
)
TEXTS = WORDS.map(" ".join) | st.text(max_size=20)


def google() -> Any:
    try:
        module = importlib.import_module("rouge_score.rouge_scorer")
    except ImportError:
        pytest.skip("rouge-score is not installed; make test installs it")
    return module.RougeScorer(list(KINDS), use_stemmer=False)


@examples(300)
@given(written=TEXTS, right=TEXTS)
def test_agrees_with_google(written: str, right: str) -> None:
    expected, scores = google().score(right, written), rouge(written, right)
    for kind in KINDS:
        assert scores[kind].precision == pytest.approx(expected[kind].precision)
        assert scores[kind].recall == pytest.approx(expected[kind].recall)
        assert scores[kind].f == pytest.approx(expected[kind].fmeasure)


def test_by_hand() -> None:
    scores = rouge("the cat sat on the mat", "the cat is on a mat")
    assert (scores["rouge1"].precision, scores["rouge1"].recall) == (4 / 6, 4 / 6)
    assert scores["rouge2"].f == pytest.approx(1 / 5)  # "the cat" of five pairs each
    assert scores["rougeL"].f == pytest.approx(4 / 6)  # the cat on mat
    assert rouge("", "a")["rougeL"].f == 0
    assert rouge("...", "a")["rouge1"].f == 0


def slow_length(one: list[str], other: list[str]) -> int:
    for size in range(min(len(one), len(other)), 0, -1):
        these = set(combinations(one, size))
        if these & set(combinations(other, size)):
            return size
    return 0


@given(
    one=st.lists(st.sampled_from("abc"), max_size=7),
    other=st.lists(st.sampled_from("abc"), max_size=7),
)
def test_common_subsequences(one: list[str], other: list[str]) -> None:
    assert common_subsequence_length(one, other) == slow_length(one, other)
    places = common_subsequence(one, other)
    assert places == sorted(set(places))
    assert len(places) == common_subsequence_length(one, other)
    assert common_subsequence_length([one[i] for i in places], other) == len(places)


@examples(60)
@given(
    text=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=7),
    right=st.lists(st.sampled_from(["a", "b", "c", "e"]), min_size=1, max_size=5),
)
def test_best_words_cannot_be_beaten_in_order(text: list[str], right: list[str]) -> None:
    best = rouge(best_words(" ".join(text), " ".join(right)), " ".join(right))["rougeL"].f
    for size in range(len(text) + 1):
        for chosen in combinations(text, size):
            assert rouge(" ".join(chosen), " ".join(right))["rougeL"].f <= best + 1e-12


def test_best_words_keep_their_case() -> None:
    assert best_words("The GNU C++ Library, for you", "gnu library") == "GNU Library"
    assert best_words("İstanbul is a city", "city is istanbul") != ""


def test_the_best_number_of_first_words() -> None:
    pairs = [Pair("a b c d e f", "a b c"), Pair("g h i j k l", "g h i")]
    assert first_words("a  b\nc d", 3) == "a b c"
    assert best_word_count(pairs) == 3


def test_scores_of_many() -> None:
    scores = score(["a b", "c"], ["a b", "d"])
    assert scores.mean["rougeL"] == 50
    assert scores.each["rouge1"] == [100, 0]
    low, high = scores.interval["rougeL"]
    assert 0 <= low < 50 < high <= 100
    with pytest.raises(ValueError, match="2 summaries for 1"):
        score(["a", "b"], ["a"])


def test_bootstrap_coverage() -> None:
    import random

    draw, inside = random.Random(0), 0
    for seed in range(60):
        low, high = bootstrap([draw.gauss(5, 2) for _ in range(40)], seed, resamples=300)
        inside += low <= 5 <= high
    assert inside >= 50
    assert words_of("A-b c9!") == ["a", "b", "c9"]
