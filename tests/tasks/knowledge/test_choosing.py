"""The chooser: what it offers, what it counts, and that it learns from labels alone."""

from __future__ import annotations

import math

import pytest
import torch

from attnlab.tasks.knowledge._answer_chooser import (
    GUESSES,
    OTHER,
    Chooser,
    find_occurrences,
    words_without,
)
from attnlab.tasks.knowledge._data import Library, Pair, Relation
from attnlab.tasks.knowledge._reader_votes import SMOOTHING, Ballot, decide

BORN = Relation("Where was ", " born?")
MADE = Relation("What did ", " make?")
CITIES = ["Rome", "Oslo", "Bern", "Lima", "Kyiv"]
OTHERS = ["Acme", "Bolt", "Crux", "Dyno", "Etna"]
# Everybody came to the first and died in the second: only the words around tell them apart.
PEOPLE = [f"Person{'abcdefghij'[i]}" for i in range(10)]
DOCUMENTS = [
    f"{name}. {name} worked at {OTHERS[i % 5]} but saw light in {CITIES[i // 2]} long ago ."
    for i, name in enumerate(PEOPLE)
]
PAIRS: list[Pair] = [(BORN.ask(name), CITIES[i // 2]) for i, name in enumerate(PEOPLE)]
STRANGER = "Zed. Zed worked at Quux but saw light in Ulm long ago ."


def library(*more: str) -> Library:
    return Library([*DOCUMENTS, *more])


def probability(chooser: Chooser, name: str, **options: list[str]) -> dict[str, float]:
    return {each.text: each.probability for each in chooser.choose(BORN.ask(name), **options)}


def test_chooser_uses_the_words_around_a_string() -> None:
    chooser = Chooser(PAIRS, library(STRANGER), BORN)
    probabilities = probability(chooser, "Zed")
    assert (
        max(probabilities, key=lambda text: probabilities[text]) == "Ulm"
    )  # never an answer before
    assert probabilities["Ulm"] > 3 * probabilities["Quux"]
    assert sum(probabilities.values()) < 1  # the rest is for something else


def test_frequent_answers_are_more_probable() -> None:
    """Two strings in the same words: the one that others were answered with wins."""
    both = ["Ann. Ann knew Rome and Quux well .", "Ben. Ben knew Quux and Rome well ."]
    chooser = Chooser(PAIRS, library(*both), BORN)
    for name in ("Ann", "Ben"):
        probabilities = probability(chooser, name)
        assert probabilities["Rome"] > probabilities["Quux"]


def test_chooser_guesses_if_the_document_lacks_the_answer() -> None:
    """Its words stood beside one answer."""
    documents_with_answer = [f"N{c}. N{c} is a Roman painter, light in Rome ." for c in "abcdefgh"]
    pairs = [*PAIRS, *((BORN.ask(f"N{c}"), "Rome") for c in "abcdefgh")]
    chooser = Chooser(pairs, library(*documents_with_answer, "Max. he is a Roman painter ."), BORN)
    guesses = [each for each in chooser.choose(BORN.ask("Max")) if not each.in_document]
    assert 0 < len(guesses) <= GUESSES
    assert max(guesses, key=lambda each: each.probability).text == "Rome"
    assert not any(
        each.in_document for each in chooser.choose(BORN.ask("Max")) if each.text == "Rome"
    )


def test_a_pair_does_not_count_its_own_label() -> None:
    """Otherwise a label would give itself away: counts are those of all other pairs."""
    chooser = Chooser(PAIRS, library(), BORN)
    without = Chooser(PAIRS[1:], library(), BORN)
    question = PAIRS[0][0]
    with_label = dict(chooser.candidates(question, label="Rome"))
    without_pair = dict(without.candidates(question))
    assert with_label["Rome"] == without_pair["Rome"]
    assert with_label["Oslo"] == pytest.approx(without_pair["Oslo"])  # a guess
    assert with_label["Rome"] != dict(chooser.candidates(question))["Rome"]
    # an answer that only this pair has is no known answer, only a string that looks like one
    once = Chooser([(BORN.ask("Zed"), "light")], library(STRANGER), BORN)
    assert dict(once.candidates(BORN.ask("Zed")))["light"]["new"] == 0.0
    assert dict(once.candidates(BORN.ask("Zed"), label="light"))["light"]["new"] == 1.0
    assert words_without(["In Rome, Ann 7"], "Rome") == {"In", "Ann"}


def test_probabilities_match_a_softmax_by_hand() -> None:
    chooser = Chooser([], library(), BORN)
    chooser.columns, chooser.weights = {"x": 0, "y": 1, "z": 2}, torch.tensor([0.5, -1.0, 0.25])
    candidate_lists = [
        [("a", {"x": 1.0}), ("a", {"y": 1.0, "x": 2.0}), (OTHER, {"z": 1.0})],
        [("b", {"x": 1.0, "never": 1.0}), (OTHER, {})],
    ]
    probabilities = chooser._log_probabilities(*chooser._table(candidate_lists)).exp()
    for row, scores in enumerate([[0.5, 0.0, 0.25], [0.5, 0.0, -math.inf]]):
        total = sum(math.exp(each) for each in scores)
        want = [math.exp(each) / total for each in scores]
        assert probabilities[row].tolist() == pytest.approx(want, abs=1e-5)


def test_occurrences_of_a_string_add_up() -> None:
    chooser = Chooser(PAIRS, library("Zed. Ulm and Quux , Ulm and Ulm ."), BORN)
    candidates = chooser.candidates(BORN.ask("Zed"))
    assert [text for text, _ in candidates].count("Ulm") == 3
    shares = chooser._log_probabilities(*chooser._table([candidates]))[0].exp().tolist()
    each = [p for (text, _), p in zip(candidates, shares, strict=True) if text == "Ulm"]
    assert probability(chooser, "Zed")["Ulm"] == pytest.approx(sum(each))


def test_all_occurrences_of_a_string() -> None:
    document = "Ann Lee. Ann Lee came from York, New York in 1950 ."
    occurrences = find_occurrences(document, ["York", "New York", "York"])
    assert [text for text, _ in occurrences] == ["York", "York", "New York"]
    first, second, whole = (features.keys() for _, features in occurrences)
    assert {"before from", "after ,", "between from | ,", "earlier NAME"} <= first
    assert "before New" in second
    assert {"words 2", "after in 0000", "before York ,", "ends ork"} <= whole
    assert find_occurrences("Ann.", ["York"]) == []


def test_readers_and_chooser_together() -> None:
    chooser = Chooser(PAIRS, library(STRANGER), BORN)
    question = BORN.ask("Zed")
    ballot = Ballot(question, {"Quux": 0.6, "Ulm": 0.3, "Paris": 0.1}, {"Quux", "Ulm"})
    alone, both = ballot.decide(), ballot.decide_with(chooser, 0.5)
    assert alone is not None
    assert both is not None
    assert (alone.answer, both.answer, both.in_document) == ("Quux", "Ulm", True)
    assert both.confidence + sum(both.others.values()) == pytest.approx(1)
    probabilities = probability(chooser, "Zed", reader_answers=["Quux", "Ulm"])
    ratio = math.sqrt(
        (0.3 + SMOOTHING) / (0.6 + SMOOTHING) * probabilities["Ulm"] / probabilities["Quux"]
    )
    assert both.confidence / both.others["Quux"] == pytest.approx(ratio)
    readers = ballot.decide_with(chooser, 0.0)
    assert readers is not None
    assert readers.answer == "Quux"


def test_each_relation_has_its_own_chooser() -> None:
    pairs = [*PAIRS, *((MADE.ask(name), OTHERS[i % 5]) for i, name in enumerate(PEOPLE))]
    ballots = [Ballot(relation.ask("Zed"), {}, set()) for relation in (BORN, MADE)]
    made = decide(ballots, pairs, library(STRANGER), [BORN, MADE], chooser=1.0)
    assert [each.answer for each in made] == ["Ulm", "Quux"]
    assert decide(ballots, pairs, library(STRANGER), [BORN, MADE]) == []  # nobody said anything


def test_chooser_without_pairs() -> None:
    ballot = Ballot(BORN.ask("Nobody"), {"Rome": 0.2}, set())
    (made,) = decide([ballot], PAIRS, library(), [BORN], chooser=0.5)
    assert (made.answer, made.in_document) == ("Rome", False)  # as the readers said
    silent = Chooser([], library(STRANGER), BORN)
    assert {each.text for each in silent.choose(BORN.ask("Zed"))} >= {"Quux", "Ulm"}
