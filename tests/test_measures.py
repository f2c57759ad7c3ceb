"""Measures of knowledge against their definitions, spelled out pair by pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.knowledge.measures import (
    Bin,
    NameIndex,
    Point,
    accuracy_by,
    expected_calibration_error,
    histogram_of_answers,
    interval,
    lower_bound,
    nearest_names,
    ngram_groups,
    reliability,
    risk_coverage,
    roc_area,
    threshold_for,
    top_share,
)

SURE = [0.9, 0.8, 0.8, 0.6, 0.55, 0.2, 1.0]
RIGHT = [True, True, False, True, False, False, True]

# Eighths and tenths: many ties, and values that lie on the edges of bins.
probabilities = st.sampled_from([i / 8 for i in range(9)] + [i / 10 for i in range(11)])
answers = st.lists(
    st.tuples(probabilities | st.floats(0, 1), st.booleans()), min_size=1, max_size=40
)
words = st.text("abcdé ñß", max_size=9)


def unzip(pairs: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [sure for sure, _ in pairs], [right for _, right in pairs]


# Calibration


def test_reliability_by_hand() -> None:
    found = reliability(SURE, RIGHT, bins=5)
    assert [(each.low, each.high, each.count) for each in found] == [
        (0.2, 0.4, 1),
        (0.4, 0.6, 1),
        (0.6, 0.8, 1),
        (0.8, 1.0, 4),
    ]
    assert [each.accuracy for each in found] == [0, 0, 1, 0.75]
    assert found[-1].confidence == pytest.approx(3.5 / 4)
    gaps = 0.2 + 0.55 + 0.4 + 4 * (0.875 - 0.75)
    assert expected_calibration_error(SURE, RIGHT, bins=5) == pytest.approx(gaps / 7)


@given(answers, st.integers(1, 13))
def test_every_answer_is_in_the_bin_that_says_so(
    pairs: list[tuple[float, bool]], bins: int
) -> None:
    found = reliability(*unzip(pairs), bins)
    assert [each.low for each in found] == sorted({each.low for each in found})
    for each in found:
        last = each.high == 1
        inside = [
            (sure, right)
            for sure, right in pairs
            if each.low <= sure and (sure < each.high or (last and sure == 1))
        ]
        assert each.count == len(inside)
        assert each.accuracy == pytest.approx(sum(right for _, right in inside) / len(inside))
        assert each.confidence == pytest.approx(sum(sure for sure, _ in inside) / len(inside))
        assert each.high - each.low == pytest.approx(1 / bins)
    assert sum(each.count for each in found) == len(pairs)
    parts = [each.count / len(pairs) * abs(each.accuracy - each.confidence) for each in found]
    assert expected_calibration_error(*unzip(pairs), bins) == pytest.approx(sum(parts))


def test_a_calibrated_set_has_no_error_and_a_boastful_one_has() -> None:
    generator = np.random.default_rng(3)
    sure = generator.uniform(size=50_000)
    right = generator.uniform(size=50_000) < sure
    assert expected_calibration_error(sure, right) < 0.01
    assert expected_calibration_error(np.sqrt(sure), right) > 0.15  # E(sqrt u) - E(u) = 1/6
    exact = [0.25] * 4 + [0.75] * 4
    hits = [True, False, False, False, True, True, True, False]
    assert expected_calibration_error(exact, hits) == 0


@given(answers, st.integers(1, 7))
def test_groups_of_equal_count(pairs: list[tuple[float, bool]], groups: int) -> None:
    found = accuracy_by(*unzip(pairs), groups)
    values = sorted(sure for sure, _ in pairs)
    assert sum(each.count for each in found) == len(pairs)
    assert len(found) <= groups
    start = 0
    for each, following in zip(found, [*found[1:], None], strict=True):
        inside = values[start : start + each.count]
        assert inside[0] == each.low
        assert each.high == (following.low if following else values[-1])
        assert following is None or inside[-1] < each.high  # equals stay together
        start += each.count
    if len(set(values)) == len(values):
        assert len(found) == min(groups, len(values))
        assert max(each.count for each in found) - min(each.count for each in found) <= 1


# Ranking


@given(answers)
def test_roc_area_is_the_share_of_pairs_in_order(pairs: list[tuple[float, bool]]) -> None:
    rights = [sure for sure, right in pairs if right]
    wrongs = [sure for sure, right in pairs if not right]
    wanted = None
    if rights and wrongs:
        order = [(a > b) + (a == b) / 2 for a in rights for b in wrongs]
        wanted = sum(order) / len(order)
    assert roc_area(*unzip(pairs)) == pytest.approx(wanted)


def test_roc_area_by_hand() -> None:
    assert roc_area(SURE, RIGHT) == pytest.approx((3 + 3 + 2.5 + 2) / 12)
    assert roc_area([0.1, 0.9], [False, True]) == 1
    assert roc_area([0.1, 0.9], [True, False]) == 0
    assert roc_area([0.5, 0.5], [True, False]) == 0.5
    assert roc_area([0.5, 0.7], [True, True]) is None


@given(answers)
def test_risk_coverage_by_definition(pairs: list[tuple[float, bool]]) -> None:
    found = risk_coverage(*unzip(pairs))
    assert [each.threshold for each in found] == sorted({sure for sure, _ in pairs}, reverse=True)
    for each in found:
        given_ = [right for sure, right in pairs if sure >= each.threshold]
        assert each.coverage == len(given_) / len(pairs)
        assert each.precision == sum(given_) / len(given_)
    assert found[-1].coverage == 1


@given(answers, st.sampled_from([0.5, 0.75, 0.9, 0.95, 1.0]))
def test_threshold_by_trying_each(pairs: list[tuple[float, bool]], precision: float) -> None:
    wanted = None
    for threshold in sorted({sure for sure, _ in pairs}, reverse=True):
        given_ = [right for sure, right in pairs if sure >= threshold]
        if sum(given_) / len(given_) >= precision:
            wanted = Point(threshold, len(given_) / len(pairs), sum(given_) / len(given_))
    assert threshold_for(precision, *unzip(pairs)) == wanted


def test_thresholds_by_hand() -> None:
    assert threshold_for(1, SURE, RIGHT) == Point(0.9, 2 / 7, 1)
    assert threshold_for(0.8, SURE, RIGHT) == Point(0.6, 5 / 7, 0.8)  # 0.8 itself: 3 of 4 only
    assert threshold_for(0.5, SURE, RIGHT) == Point(0.2, 1, 4 / 7)
    assert threshold_for(0.5, [0.5, 0.9], [False, False]) is None
    tied = threshold_for(0.95, [0.7] * 20, [True] * 19 + [False])
    assert tied == Point(0.7, 1, 0.95)  # exactly reached, and all twenty or none


# Intervals


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_interval_as_published(right: int, total: int, low: float, high: float) -> None:
    assert interval(right, total) == pytest.approx((low, high), abs=6e-5)
    assert lower_bound(right, total) == interval(right, total)[0]


@given(st.integers(0, 300), st.integers(0, 300), st.floats(0.5, 0.999))
def test_interval_solves_its_equation(a: int, b: int, level: float) -> None:
    right, total = min(a, b), max(a, b, 1)
    low, high = interval(right, total, level)
    share = right / total
    assert 0 <= low <= share <= high <= 1
    z = NormalDist().inv_cdf((1 + level) / 2)
    for end in (low, high):
        assert abs(share - end) == pytest.approx(z * math.sqrt(end * (1 - end) / total), abs=1e-9)
    wrong = interval(total - right, total, level)
    assert (1 - wrong[1], 1 - wrong[0]) == pytest.approx((low, high))


def test_nothing_is_known_of_no_answers() -> None:
    assert interval(0, 0) == (0, 1)
    assert interval(20, 20)[1] == 1


# What is refused


@pytest.mark.parametrize(
    "measure", [reliability, expected_calibration_error, accuracy_by, roc_area, risk_coverage]
)
@pytest.mark.parametrize(
    ("confidence", "correct", "words"),
    [
        ([0.5, 0.5], [True], r"shape \(2,\) and correct \(1,\)"),
        ([], [], "no answers"),
        ([0.5, math.nan], [True, False], "confidence 1 is not a finite number"),
        ([0.5, math.inf], [True, False], "confidence 1 is not a finite number"),
        ([0.5, None], [True, False], "confidence 1 is not a finite number"),
        ([0.5, 0.5], [True, None], "other than True and False"),
        ([0.5, 0.5], [True, 0.5], "other than True and False"),
        ([[0.5]], [[True]], "two equal lists"),
    ],
)
def test_refused(measure: Callable[..., object], confidence: Any, correct: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        measure(confidence, correct)


def test_settings_are_checked() -> None:
    for call, expected in (
        (lambda: reliability([1.5], [True]), "1.5"),
        (lambda: reliability([0.5], [True], bins=0), "bins is 0"),
        (lambda: accuracy_by([0.5], [True], groups=0), "groups is 0"),
        (lambda: threshold_for(0, [0.5], [True]), "precision of 0"),
        (lambda: threshold_for(95, [0.5], [True]), "precision of 95"),
        (lambda: interval(4, 3), "4 right of 3"),
        (lambda: interval(-1, 3), "-1 right of 3"),
        (lambda: interval(1, 3, level=95), "level of 95"),
        (lambda: top_share([("a", 1)], top=0), "top is 0"),
        (lambda: NameIndex([]), "no known names"),
        (lambda: nearest_names("a", ["b"], count=0), "count is 0"),
        (lambda: ngram_groups([]), "no names"),
        (lambda: ngram_groups(["a"], groups=0), "groups is 0"),
    ):
        with pytest.raises(ValueError, match=expected):
            call()


# Answers


def test_histogram_and_collapse() -> None:
    found = histogram_of_answers(["Paris", "London", "Bonn", "London", "Paris", "Rome", "London"])
    assert found == [("London", 3), ("Paris", 2), ("Bonn", 1), ("Rome", 1)]
    assert top_share(found) == 6 / 7
    assert top_share(found, top=1) == 3 / 7
    assert histogram_of_answers([]) == []
    assert top_share([]) == 0


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
    found = nearest_names(name, known, count)
    distinct = list(dict.fromkeys(known))
    wanted = sorted((cosine(name, each, distinct) for each in distinct), reverse=True)
    wanted = [each for each in wanted if each > 1e-12][:count]
    assert [similarity for _, similarity in found] == pytest.approx(wanted)
    for each, similarity in found:
        assert similarity == pytest.approx(cosine(name, each, distinct))
        assert similarity <= 1


def test_nearest_by_eye() -> None:
    index = NameIndex([*RUSSIAN, *SWEDISH, *SCOTTISH])
    for same in ("Petrov", "PETROV  "):
        assert index.nearest(same)[0][0] == "Petrov"
        assert index.nearest(same)[0][1] == pytest.approx(1)
    assert index.nearest("Gustavsson", 1)[0][0] in SWEDISH
    assert index.nearest("McGraw", 1)[0][0] in SCOTTISH
    assert index.nearest("東京") == []
    assert index.nearest("") == []
    assert len(index.nearest("Petrov", 100)) <= len(index.names)


def test_groups_find_what_endings_and_beginnings_tell() -> None:
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
def test_groups_of_anything(names: list[str], groups: int, seed: int) -> None:
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


def test_a_bin_is_what_the_report_holds() -> None:
    assert reliability([0.25], [True], bins=2) == [Bin(0, 0.5, 1, 0.25, 1)]
