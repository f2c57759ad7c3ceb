"""Known, unsure or a guess: thresholds and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.models import Decoder
from attnlab.tasks.knowledge import _load as load_data
from attnlab.tasks.knowledge._answers import Answer
from attnlab.tasks.knowledge._certainty import Certainty, fit_certainty, thresholds
from attnlab.tasks.knowledge._data import Relation
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding


def answers_of(rows: list[tuple[float, bool]]) -> tuple[list[Answer], list[str]]:
    answers = [Answer("q", "Rome" if right else "Oslo", sure) for sure, right in rows]
    return answers, ["Rome"] * len(rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0.9, True), (0.5, True), (0.1, True)], (0.1, 0.0)),
        ([(0.9, False), (0.5, False), (0.1, False)], (None, 0.9)),
        ([(0.9, True), (0.8, True), (0.3, False), (0.2, False)], (0.8, 0.8)),
        # right below, wrong above: never sure, and what is below no guess
        ([(0.9, False), (0.8, False), (0.3, True), (0.2, True)], (None, 0.0)),
        ([(0.9, True), (0.6, True), (0.6, False), (0.2, False)], (0.9, 0.9)),
        ([(0.5, True), (0.5, False)], (None, 0.0)),  # all alike: no threshold tells them apart
        # 95 right above and 5 wrong between; of the ten below, six are right: unsure, no guess
        (
            [(0.9, True)] * 95 + [(0.5, False)] * 5 + [(0.3, True)] * 6 + [(0.3, False)] * 4,
            (0.5, 0),
        ),
    ],
)
def test_thresholds_by_hand(
    rows: list[tuple[float, bool]], expected: tuple[float | None, float]
) -> None:
    assert thresholds(*answers_of(rows)) == expected


@given(
    st.lists(
        st.tuples(
            st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), st.booleans()
        ),
        min_size=1,
        max_size=60,
    )
)
def test_thresholds_have_the_promised_precision(rows: list[tuple[float, bool]]) -> None:
    known, guess = thresholds(*answers_of(rows))
    sure = [right for confidence, right in rows if known is not None and confidence >= known]
    assert sum(sure) >= 0.95 * len(sure)
    assert (known is None) == (not sure)
    below = [right for confidence, right in rows if confidence < guess]
    assert sum(below) <= len(below) / 2
    assert known is None or guess <= known
    certainty = Certainty(known, guess, "these", "Rome")
    for confidence, _ in rows:
        verdict = certainty.verdict(confidence)
        assert (verdict == "known") == (known is not None and confidence >= known)
        assert (verdict == "guess") == (confidence < guess)


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
    for each in (CERTAIN, Certainty(None, 0.0, "", "")):
        (tmp_path / "known.json").write_text(json.dumps(asdict(each)))
        assert Certainty.load(tmp_path) == each
    assert [CERTAIN.verdict(p) for p in (1, 0.75, 0.5, 0.25, 0.2)] == [
        *("known", "known", "unsure", "unsure", "guess")
    ]
    assert CERTAIN.relations == [Relation("Where was ", " born?")]


def test_thresholds_use_held_out_pairs_if_there_are_enough(made: Path) -> None:
    model, tokens, _ = load_data.load_knowledge(made / "learned")
    assert isinstance(model, Decoder)
    pairs = [(f"Where was {name} born?", "Rome") for name in "abcdefghijklmnopqrstuvwxyz"]
    for held, words in ((pairs[:22], "22 held-out"), (pairs[:5], "4 training pairs that it has")):
        certainty = fit_certainty(
            model,
            KnowledgeTextEncoding(tokens),
            held_out=held,
            learned=pairs[22:],
            names=["b", "a", "b"],
            relations=[Relation("Where was ", " born?")],
        )
        assert certainty.fitted_on.startswith(words)
        assert certainty.names == ["a", "b"]
        assert certainty.commonest == "Rome"
