"""Read and remember: how readers vote, and what is remembered of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.models import Decoder, StackConfig
from attnlab.tasks.knowledge import _reader_votes as voting
from attnlab.tasks.knowledge._data import Library, Relation
from attnlab.tasks.knowledge._reader_votes import SelfMadeAnswer, SelfMadeAnswerSource, poll
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tokenizer import Characters

DOCUMENTS = [
    "Ada Byron. Byron was born in London and died in Rome .",
    "Ada Byron. She wrote of engines .",
    "Ben Ono. Ono (Kyoto, 1950) paints .",
]
CHANCE = random.Random(0)
BORN = Relation("Where was ", " born?")


def reader() -> Decoder:
    return Decoder(StackConfig(vocabulary=80, context=300, width=8, layers=1, heads=1))


def vote(
    monkeypatch: pytest.MonkeyPatch, ballots: Sequence[dict[str, dict[str, float]]], *names: str
) -> list[SelfMadeAnswer]:
    """Each reader's ballot says what it answers where the document holds a word."""
    readers = [reader() for _ in ballots]
    encoding = KnowledgeTextEncoding(Characters.train([*DOCUMENTS, "?⁇"]))

    def answers(
        model: Any, encoding: KnowledgeTextEncoding, prompts: Sequence[Sequence[int]], most: int
    ) -> Any:
        assert most > 0
        ballot = ballots[next(i for i, each in enumerate(readers) if each is model)]
        texts = [encoding.tokenizer.decode(prompt) for prompt in prompts]
        return [next(v for word, v in ballot.items() if word in text) for text in texts]

    monkeypatch.setattr(voting, "candidate_answers", answers)
    questions = [BORN.ask(name) for name in names]
    result = poll(readers, encoding, Library(DOCUMENTS), [BORN], questions)
    return [made for ballot in result if (made := ballot.decide()) is not None]


def test_votes_are_mean_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"Kyoto": {"Kyoto": 0.4, "1950": 0.6}}
    other = {"Kyoto": {"Kyoto": 0.9, "1950": 0.1}}
    (alone,) = vote(monkeypatch, [one], "Ben Ono")
    assert (alone.answer, alone.confidence) == ("1950", 0.6)
    (both,) = vote(monkeypatch, [one, other], "Ben Ono")
    assert both.answer == "Kyoto"
    assert both.confidence == pytest.approx(0.65)
    assert both.others == pytest.approx({"1950": 0.35})


def test_answers_in_the_document_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ballot = {"Kyoto": {"Kyo": 0.7, "Osaka": 0.2, "Kyoto": 0.1}}
    (answer,) = vote(monkeypatch, [ballot], "Ben Ono")
    assert (answer.answer, answer.in_document, answer.others) == ("Kyoto", True, {})
    (lost,) = vote(monkeypatch, [{"Kyoto": {"Osaka": 0.2, "Nara": 0.1}}], "Ben Ono")
    assert (lost.answer, lost.in_document) == ("Osaka", False)


def test_all_documents_of_a_name_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ballot = {"London": {"London": 0.8, "Rome": 0.2}, "engines": {"She": 0.3}}
    (answer,) = vote(monkeypatch, [ballot], "Ada Byron")
    assert answer.answer == "London"
    assert answer.others == pytest.approx({"Rome": 0.2, "She": 0.3})
    assert vote(monkeypatch, [ballot], "Cy Twombly") == []  # in no document


target_probabilities = st.floats(0, 1, allow_nan=False)


@given(
    target_probabilities,
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), target_probabilities, max_size=5),
)
def test_target_probabilities_match_the_votes(confidence: float, others: dict[str, float]) -> None:
    made = SelfMadeAnswer("q", "best", confidence, True, others)
    (first, most), *rest = made.target_probabilities()
    assert first == "best"
    assert most + sum(share for _, share in rest) == pytest.approx(1)
    for text, share in rest:
        assert others[text] >= voting.MIN_RATIO * confidence
        assert share * confidence == pytest.approx(most * others[text])


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.1, 50))
def test_target_probabilities_can_be_sharpened(one: float, other: float, sharpen: float) -> None:
    made = SelfMadeAnswer("q", "best", max(one, other), True, {"other": min(one, other)})
    target_probabilities = dict(made.target_probabilities(sharpen))
    assert sum(target_probabilities.values()) == pytest.approx(1)
    if "other" in target_probabilities:
        ratio = (max(one, other) / min(one, other)) ** sharpen
        assert target_probabilities["best"] == pytest.approx(ratio * target_probabilities["other"])
    rows = SelfMadeAnswerSource([made], sharpen).rows(
        KnowledgeTextEncoding(Characters.train(["qbestohr"])), 99, CHANCE
    )
    assert [row.weights[-1] for row in rows] == pytest.approx(list(target_probabilities.values()))


def test_rows_are_weighted_by_target_probabilities() -> None:
    encoding = KnowledgeTextEncoding(Characters.train(["qabc"]))
    made = [
        SelfMadeAnswer("q", "a", 0.6, True, {"b": 0.2, "c": 1e-4}),
        SelfMadeAnswer("q", "c", 1.0, True),
    ]
    rows = list(SelfMadeAnswerSource(made).rows(encoding, 100, random.Random(0)))
    assert [encoding.tokenizer.decode(row.ids) for row in rows] == ["q⁇a⁇", "q⁇b⁇", "q⁇c⁇"]
    assert [row.weights[-1] for row in rows] == pytest.approx([0.75, 0.25, 1.0])
    assert list(SelfMadeAnswerSource(made).rows(encoding, 2, random.Random(0))) == []


def test_questions_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    ballot = {"London": {"Rome": 0.3, "London": 0.7}, "engines": {"Rome": 1.0}, "Kyoto": {"x": 0.1}}
    names = ["Ada Byron", "Ben Ono", "Ada Byron"]
    together = vote(monkeypatch, [ballot, ballot], *names)
    monkeypatch.setattr(voting, "QUESTIONS_AT_ONCE", 2)
    assert vote(monkeypatch, [ballot, ballot], *names) == together
    assert len(together) == 3
