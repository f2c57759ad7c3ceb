"""Names by their spelling, and answers counted."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.knowledge._name_matching import NameIndex, ngram_groups
from attnlab.tasks.knowledge._scoring import histogram_of_answers, top_fraction

words = st.text("abcdé ñß", max_size=9)


def test_histogram_and_collapse() -> None:
    histogram = histogram_of_answers(
        ["Paris", "London", "Bonn", "London", "Paris", "Rome", "London"]
    )
    assert histogram == [("London", 3), ("Paris", 2), ("Bonn", 1), ("Rome", 1)]
    assert top_fraction(histogram) == 6 / 7
    assert top_fraction(histogram, top=1) == 3 / 7
    assert histogram_of_answers([]) == []
    assert top_fraction([]) == 0


# Names

RUSSIAN = ["Petrov", "Ivanov", "Sidorov", "Smirnov", "Popov", "Volkov", "Pavlov", "Kuznetsov"]
SWEDISH = ["Johansson", "Andersson", "Karlsson", "Nilsson", "Eriksson", "Larsson", "Persson"]
SCOTTISH = ["McDonald", "McKenzie", "McLeod", "McKay", "McLean", "McGregor"]


def cosine(name: str, other: str, known: list[str]) -> float:
    """The definition: tf-idf over the known names, unseen runs of the query included."""

    def runs(text: str) -> Counter[str]:
        marked = [f" {word} " for word in text.casefold().split()]
        return Counter(
            word[i : i + size]
            for word in marked
            for size in (2, 3)
            for i in range(len(word) - size + 1)
        )

    def vector(text: str) -> dict[str, float]:
        holders = {gram: sum(gram in runs(each) for each in known) for gram in runs(text)}
        return {
            gram: times * (math.log((1 + len(known)) / (1 + holders[gram])) + 1)
            for gram, times in runs(text).items()
        }

    a, b = vector(name), vector(other)
    lengths = math.hypot(*a.values()) * math.hypot(*b.values())
    return sum(a[gram] * b.get(gram, 0) for gram in a) / lengths if lengths else 0.0


@given(words, st.lists(words, min_size=1, max_size=7), st.integers(1, 5))
def test_nearest_by_definition(name: str, known: list[str], count: int) -> None:
    nearest = NameIndex(known).nearest(name, count)
    distinct = list(dict.fromkeys(known))
    wanted = sorted((cosine(name, each, distinct) for each in distinct), reverse=True)
    wanted = [each for each in wanted if each > 1e-12][:count]
    assert [similarity for _, similarity in nearest] == pytest.approx(wanted)
    for each, similarity in nearest:
        assert similarity == pytest.approx(cosine(name, each, distinct))
        assert similarity <= 1


def test_nearest_names_by_example() -> None:
    index = NameIndex([*RUSSIAN, *SWEDISH, *SCOTTISH])
    for same in ("Petrov", "PETROV  "):
        assert index.nearest(same)[0][0] == "Petrov"
        assert index.nearest(same)[0][1] == pytest.approx(1)
    assert index.nearest("Gustavsson", 1)[0][0] in SWEDISH
    assert index.nearest("McGraw", 1)[0][0] in SCOTTISH
    assert index.nearest("東京") == []
    assert index.nearest("") == []
    assert len(index.nearest("Petrov", 100)) <= len(index.names)


def test_groups_follow_endings_and_beginnings() -> None:
    names = [name for each in (RUSSIAN, SWEDISH, SCOTTISH) for name in each]
    group, described = ngram_groups(names, groups=3)
    assert group == [0] * 8 + [1] * 7 + [2] * 6  # the largest first
    assert [each.count for each in described] == [8, 7, 6]
    assert "-ov" in described[0].label
    assert "-son-" in described[1].label
    assert "Mc-" in described[2].label
    assert set(described[2].examples) <= set(SCOTTISH)
    assert len(described[2].examples) == 3


def test_common_given_names_do_not_make_the_groups() -> None:
    givens = ["John", "Mary", "Anna"]
    names = [
        f"{givens[i % 3]} {name}" for each in (RUSSIAN, SWEDISH) for i, name in enumerate(each)
    ]
    group, _ = ngram_groups(names, groups=2)
    assert group == [0] * 8 + [1] * 7


@given(st.lists(words, min_size=1, max_size=12), st.integers(1, 6), st.integers(0, 3))
def test_groups_of_arbitrary_names(names: list[str], groups: int, seed: int) -> None:
    group, described = ngram_groups(names, groups, seed)
    assert len(described) == min(groups, len(set(names)))
    assert [group.count(i) for i in range(len(described))] == [each.count for each in described]
    assert all(each.count for each in described)
    assert [each.count for each in described] == sorted(
        (each.count for each in described), reverse=True
    )
    for i, each in enumerate(described):
        assert set(each.examples) <= {
            name for name, its in zip(names, group, strict=True) if its == i
        }
    assert (group, described) == ngram_groups(names, groups, seed)


def test_settings_are_checked() -> None:
    for call, expected in (
        (lambda: top_fraction([("a", 1)], top=0), "top is 0"),
        (lambda: NameIndex([]), "no names to compare with"),
        (lambda: NameIndex(["b"]).nearest("a", count=0), "count is 0"),
        (lambda: ngram_groups([]), "no names"),
        (lambda: ngram_groups(["a"], groups=0), "groups is 0"),
    ):
        with pytest.raises(ValueError, match=expected):
            call()
