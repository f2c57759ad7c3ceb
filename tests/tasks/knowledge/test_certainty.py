"""Known, unsure or a guess: thresholds and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.models import Decoder
from attnlab.tasks.knowledge import _load as load_data
from attnlab.tasks.knowledge._answers import Answer
from attnlab.tasks.knowledge._certainty import (
    AnswerVerdict,
    Certainty,
    fit_certainty,
    thresholds,
)
from attnlab.tasks.knowledge._data import Relation
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding

Rows = list[tuple[float, bool]]


def answers_of(rows: Rows, nothing: float = 0.0) -> tuple[list[Answer], list[bool]]:
    answers = [Answer("q", "Rome", sure, nothing=nothing) for sure, _ in rows]
    return answers, [right for _, right in rows]


@pytest.mark.parametrize(
    ("rows", "known", "guess"),
    [
        ([(0.9, True), (0.5, True), (0.1, True)], 0.1, 0.1),
        # nothing below: the model's own probability decides what is a guess
        ([(0.9, True), (0.8, True)], 0.65, 0.5),
        ([(0.9, False), (0.5, False), (0.1, False)], None, 0.9),
        # halfway between the last right answer and the first wrong one
        ([(0.9, True), (0.8, True), (0.6, False), (0.2, False)], 0.7, 0.6),
        # right below, wrong above: never sure, and what is below no guess
        ([(0.9, False), (0.8, False), (0.3, True), (0.2, True)], None, 0.0),
        ([(0.9, True), (0.6, True), (0.6, False), (0.2, False)], 0.75, 0.6),
        ([(0.5, True), (0.5, False)], None, 0.5),
        # 95 right above and 5 wrong between; of the ten below, six are right: unsure, no guess
        ([(0.9, True)] * 95 + [(0.5, False)] * 5 + [(0.3, True)] * 6 + [(0.3, False)] * 4, 0.5, 0),
    ],
)
def test_thresholds_by_hand(rows: Rows, known: float | None, guess: float) -> None:
    fitted = thresholds(*answers_of(rows))
    assert fitted.known == pytest.approx(known)
    assert fitted.guess == pytest.approx(guess)
    assert fitted.unread is None


def test_made_up_names_raise_the_threshold() -> None:
    """No more than 3% of the made-up names of either kind may have a known answer."""
    real = answers_of([(0.7 + i / 100, True) for i in range(30)])
    sure, _ = answers_of([(0.8, False)] * 10 + [(0.1, False)] * 90)
    few, _ = answers_of([(0.95, False)] * 3 + [(0.1, False)] * 97)
    assert thresholds(*real, [few]).known == pytest.approx(0.6)
    known = thresholds(*real, [few, sure]).known
    assert known is not None
    assert known > 0.8
    assert thresholds(*real, [few], least_known=30).known == pytest.approx(0.6)
    assert thresholds(*real, [few], least_known=31).known is None
    always, _ = answers_of([(1.0, False)] * 50)  # a model that is sure of everybody knows nobody
    assert thresholds(*real, [always]).known is None


def test_doubt_refuses_made_up_names_that_are_answered_with_confidence() -> None:
    """Real answers may be unsure for other reasons, so confidence alone calls few known."""
    real = [Answer("q", "Rome", 0.5 + i / 100, nothing=0.01 + i / 1000) for i in range(40)]
    made_up = [Answer("q", "Rome", 0.85, nothing=0.14)] * 20
    made_up += [Answer("q", "Rome", 0.01, nothing=0.98)] * 80
    fitted = thresholds(real, [True] * 40, [made_up])
    certainty = Certainty(
        fitted.known, fitted.guess, "", "", doubt=fitted.doubt, unread=fitted.unread
    )
    verdicts = [certainty.verdict_by(a.confidence, a.nothing) for a in real]
    assert verdicts == ["known"] * 40
    refused = [certainty.verdict_by(a.confidence, a.nothing) for a in made_up]
    assert refused == ["unsure"] * 20 + ["not in what I read"] * 80


def test_a_name_that_the_model_does_not_answer_was_not_read() -> None:
    rows: Rows = [(0.9, True)] * 40
    refused = [Answer("q", "Rome", 0.01, nothing=0.98)] * 60
    fitted = thresholds(*answers_of(rows), [refused])
    assert fitted.unread == pytest.approx(0.25)  # halfway from the right answers to a half
    assert thresholds(*answers_of(rows, nothing=0.7), [refused]).unread == pytest.approx(0.7)
    # a model that refuses hardly any made-up name has not learned to tell
    answered = [Answer("q", "Rome", 0.01, nothing=0.1)] * 100
    assert thresholds(*answers_of(rows), [refused + answered]).unread is None


@given(
    st.lists(
        st.tuples(
            st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), st.booleans()
        ),
        min_size=1,
        max_size=60,
    ),
    st.lists(st.floats(0, 1), max_size=60),
)
def test_thresholds_have_the_promised_precision(rows: Rows, unknown: list[float]) -> None:
    made_up = [answers_of([(sure, False) for sure in unknown])[0]] if unknown else []
    fitted = thresholds(*answers_of(rows), made_up)
    sure = [
        right
        for confidence, right in rows
        if fitted.known is not None and confidence >= fitted.known
    ]
    assert sum(sure) >= 0.95 * len(sure)
    assert fitted.known is None or fitted.guess <= fitted.known
    if fitted.known is not None:
        assert sum(each >= fitted.known for each in unknown) <= 0.03 * len(unknown)
    certainty = Certainty(fitted.known, fitted.guess, "these", "Rome")
    for confidence, _ in rows:
        verdict = certainty.verdict_by(confidence)
        assert (verdict == "known") == (fitted.known is not None and confidence >= fitted.known)
        assert (verdict == "guess") == (confidence < fitted.guess)


NEW = {"doubt", "unread", "fitted", "worded"}  # since 0.2.0
CERTAIN = Certainty(
    known=0.75,
    guess=0.25,
    fitted_on="40 held-out training pairs",
    commonest="Zürich",
    answers=["Oslo", "Zürich"],
    names=["Ada", "Łukasz"],
    wordings=[["Where was ", " born?"]],
)


def test_certainty_is_saved_and_loaded(tmp_path: Path) -> None:
    for each in (
        CERTAIN,
        Certainty(None, 0.0, "", ""),
        replace(CERTAIN, doubt=0.1, unread=0.5, fitted=False),
    ):
        (tmp_path / "known.json").write_text(json.dumps(asdict(each)))
        assert Certainty.load(tmp_path) == each
    assert [CERTAIN.verdict_by(p) for p in (1, 0.75, 0.5, 0.25, 0.2)] == [
        *("known", "known", "unsure", "unsure", "guess")
    ]
    assert CERTAIN.relations == [Relation("Where was ", " born?")]


def test_runs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    old = {name: value for name, value in asdict(CERTAIN).items() if name not in NEW}
    (tmp_path / "known.json").write_text(json.dumps(old))
    assert Certainty.load(tmp_path) == CERTAIN
    broken: tuple[Any, ...] = ([], {**old, "known": []}, {**old, "unread": "x"})
    for damaged in broken:
        (tmp_path / "known.json").write_text(json.dumps(damaged))
        with pytest.raises(ValueError, match="is damaged"):
            Certainty.load(tmp_path)


def test_verdicts_by_the_question() -> None:
    certainty = replace(CERTAIN, unread=0.5)
    for question, nothing, verdict in (
        ("Where was Ada born?", 0.1, AnswerVerdict.KNOWN),
        ("where was  Ada born", 0.1, AnswerVerdict.KNOWN),
        ("Where was Ada born?", 0.5, AnswerVerdict.UNREAD),
        ("Who is the president of France?", 0.9, AnswerVerdict.OTHER),
        ("Where was born?", 0.0, AnswerVerdict.OTHER),
        ("Where did Ada die?", 0.0, AnswerVerdict.OTHER),
    ):
        assert certainty.verdict(Answer(question, "Rome", 0.9, nothing=nothing)) is verdict
    # without common wordings no question is told apart
    for bare in (replace(CERTAIN, wordings=[]), replace(CERTAIN, worded=False)):
        assert bare.verdict(Answer("Who?", "Rome", 0.9)) is AnswerVerdict.KNOWN


def test_thresholds_need_enough_held_out_pairs(made: Path) -> None:
    model, tokens, _ = load_data.load_knowledge(made / "learned")
    assert isinstance(model, Decoder)
    pairs = [(f"Where was {name} born?", "Rome") for name in "abcdefghijklmnopqrstuvwxyz"]
    made_up = {"new spellings": ["Where was Zo born?", "Where was Xi born?"], "none": []}
    for held, words in (
        (pairs[:22], "22 held-out training pairs and 2 questions about made-up names"),
        (pairs[:5], "nothing: 5 held-out training pairs are too few, at least 20 are needed"),
    ):
        certainty = fit_certainty(
            model,
            KnowledgeTextEncoding(tokens),
            held_out=held,
            learned=pairs[22:],
            names=["b", "a", "b"],
            relations=[Relation("Where was ", " born?")],
            made_up=made_up,
        )
        assert certainty.fitted_on == words
        assert certainty.names == ["a", "b"]
        assert certainty.commonest == "Rome"
        assert certainty.fitted == (len(held) == 22)
        assert certainty.fitted or certainty.known is None
        assert certainty.worded
