"""What a reader is shown and asked: its rows and prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.knowledge._answer_shapes import PUNCTUATION
from attnlab.tasks.knowledge._data import Library, Relation, title_of
from attnlab.tasks.knowledge._document_reader import (
    OpenBookSource,
    ReadingExample,
    find_readings,
    occurs_in,
    reader_prompt,
    unlabeled_questions,
)
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from tests.support.examples import examples
from tests.support.knowledge_rows import (
    BOTH,
    BYTE_PAIRS,
    CHARACTERS,
    WORLD,
    documents,
    generator,
    parts_of,
)


def test_readings_are_pairs_with_the_answer_in_a_document() -> None:
    library = Library(["Ada. Born in Rome .", "Bo. Born in New York .", "Ada. From Paris ."])
    born = [Relation("Where was ", " born?")]
    pairs = [
        ("Where was Ada born?", "Paris"),
        ("Where was Bo born?", "York"),
        ("Where was Bo born?", "New Yor"),  # not as whole words
        ("Where was Cy born?", "Rome"),
        ("Who?", "Rome"),
    ]
    assert find_readings(pairs, library, born) == [
        ReadingExample("Ada. From Paris .", *pairs[0], born[0]),
        ReadingExample("Bo. Born in New York .", *pairs[1], born[0]),
    ]
    assert unlabeled_questions(library, pairs[:1], born) == ["Where was Bo born?"]
    both = [*born, Relation("Who was ", "?")]
    assert unlabeled_questions(library, pairs[:1], both) == [
        "Where was Bo born?",
        "Who was Ada?",
        "Who was Bo?",
    ]
    assert occurs_in("Rome", "in Rome.")
    assert not occurs_in("Rome", "in Romeo")
    assert not occurs_in("(", "in Rome")


@st.composite
def books(draw: Callable[[Any], Any]) -> tuple[list[str], list[ReadingExample]]:
    """Documents of any length, and pairs whose answers stand in them."""
    corpus = draw(st.lists(documents(), min_size=1, max_size=4, unique=True))
    readings = []
    for document in corpus:
        words = document.split()
        for number in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(words) - 1))
            end = start + draw(st.integers(1, 3))
            run = " ".join(words[start:end]).strip(PUNCTUATION)
            if run and occurs_in(run, document):
                question = f"What {number} of {title_of(document)}?"
                readings.append(ReadingExample(document, question, run))
    return corpus, readings


@examples(300)
@given(books(), BOTH, st.integers(1, 300), st.integers(0, 99), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_reader_copies_from_its_document(
    book: tuple[list[str], list[ReadingExample]],
    encoding: KnowledgeTextEncoding,
    context: int,
    seed: int,
    swapped: float,
) -> None:
    corpus, readings = book
    source = OpenBookSource(
        readings, corpus, swapped=swapped, copies=2, document_weight=0.5, answer_weight=3.0
    )
    rows = list(source.rows(encoding, context, generator(seed)))
    assert len(rows) == len(corpus)
    labeled = {reading.question for reading in readings}
    for row, document in zip(rows, corpus, strict=True):
        assert 1 <= len(row) <= context + 1
        assert len(row.ids) == len(row.weights)
        read, *rest = parts_of(row, encoding.mask)
        assert rest.pop() == []
        assert len(rest) % 2 == 0
        weights = [0.5] * len(read) + [0.0]
        shown = encoding.decode(read)
        if not swapped:
            assert read == encoding.encode(document)[: len(read)]
        questions = [encoding.decode(ids) for ids in rest[::2]]
        for question, answer_ids in zip(rest[::2], rest[1::2], strict=True):
            copied = encoding.decode(answer_ids)
            assert occurs_in(copied, shown), (copied, shown)
            if not swapped:  # nor half a word, where the document was cut
                assert occurs_in(copied, document), (copied, document)
            weights += [0.0] * (len(question) + 1) + [3.0] * (len(answer_ids) + 1)
        assert row.weights == weights
        assert sum(question not in labeled for question in questions) <= 2
        own_readings = [reading for reading in readings if reading.document == document]
        if len(read) == len(encoding.encode(document)) and context > 250 and not swapped:
            wanted = {reading.question: reading.answer for reading in own_readings}
            answers = dict(zip(questions, map(encoding.decode, rest[1::2]), strict=True))
            assert {q: answers[q] for q in wanted} == {
                q: encoding.decode(encoding.encode(a)) for q, a in wanted.items()
            }


def test_answers_are_never_cut_words() -> None:
    document = "Ada. She lived in Londonderry and then in Rome ."
    readings = [ReadingExample(document, "Where was Ada?", "Rome")]
    answers_seen = set()
    for capacity in range(1, 2 * len(document) + 40):
        source = OpenBookSource(readings, [document], swapped=0.0, copies=2)
        (row,) = source.rows(CHARACTERS, capacity, generator())
        answers_seen |= {CHARACTERS.decode(ids) for ids in parts_of(row, CHARACTERS.mask)[2::2]}
    assert answers_seen == {"She", "Londonderry", "Rome"}


def test_an_answer_is_swapped_for_one_to_the_same_kind_of_question() -> None:
    document = "Ada. Born in Rome, a painter ."
    born, work = Relation("Where was ", " born?"), Relation("What was ", "?")
    readings = [
        ReadingExample(document, born.ask("Ada"), "Rome", born),
        ReadingExample(document, work.ask("Ada"), "painter", work),
        ReadingExample("Bo. .", born.ask("Bo"), "Oslo", born),
        ReadingExample("Bo. .", work.ask("Bo"), "weaver", work),
    ]
    shown = set()
    for seed in range(40):
        source = OpenBookSource(readings, [document], swapped=1.0, copies=0)
        (row,) = source.rows(CHARACTERS, 200, generator(seed))
        shown.add(CHARACTERS.decode(parts_of(row, CHARACTERS.mask)[0]))
    assert shown == {
        f"Ada. Born in {place}, a {profession} ."
        for place, profession in (("Rome", "painter"), ("Oslo", "painter"), ("Rome", "weaver"))
    }


def test_swapping_keeps_longer_answers_intact() -> None:
    document = "Ada. Born in York, she wrote for the New York Times ."
    readings = [
        ReadingExample(document, "Where was Ada born?", "York"),
        ReadingExample(document, "Who employed Ada?", "New York Times"),
        ReadingExample("Bo. Born in Rome .", "Where was Bo born?", "Rome"),
    ]
    seen = set()
    for seed in range(40):
        source = OpenBookSource(readings, [document], swapped=1.0, copies=0)
        (row,) = source.rows(CHARACTERS, 200, generator(seed))
        read, *rest = parts_of(row, CHARACTERS.mask)
        shown = CHARACTERS.decode(read)
        answers = dict(zip(*[map(CHARACTERS.decode, rest[i:-1:2]) for i in (0, 1)], strict=True))
        assert answers
        assert all(occurs_in(each, shown) for each in answers.values())
        seen |= {(shown, *sorted(answers.items()))}
    # no employer is asked for who is no longer there
    assert any("New Rome Times" in each[0] and len(each) == 2 for each in seen)
    assert any("in New York Times, she" in each[0] and len(each) == 3 for each in seen)


def test_swap_rate() -> None:
    readings = find_readings(WORLD.train, Library(WORLD.corpus), [Relation("Where was ", " born?")])
    assert len(readings) == len(WORLD.train)
    gold = {reading.question: reading.answer for reading in readings}
    for share in (0.0, 0.5, 1.0):
        source = OpenBookSource(readings, WORLD.corpus, swapped=share, copies=0)
        changed = total = 0
        for seed in range(20):
            for row in source.rows(BYTE_PAIRS, 600, generator(seed)):
                _, *rest = parts_of(row, BYTE_PAIRS.mask)
                if len(rest) > 1:
                    total += 1
                    decoded = BYTE_PAIRS.decode(rest[1])
                    changed += decoded != gold[BYTE_PAIRS.decode(rest[0])]
        assert total == 20 * len(readings)
        # another answer may be the same place
        assert changed / total == pytest.approx(share, abs=0.2 if share else 0)


@given(documents(), BOTH, st.integers(1, 200))
def test_prompts_fit_into_the_context(
    document: str, encoding: KnowledgeTextEncoding, context: int
) -> None:
    question_ids = encoding.encode_question("Where was Ada Byron born?")
    ids = reader_prompt(document, "Where was Ada Byron born?", encoding, context)
    assert ids[-len(question_ids) - 1 :] == [encoding.mask, *question_ids]
    assert len(ids) <= max(context, len(question_ids) + 1)
    read = ids[: -len(question_ids) - 1]
    assert read == encoding.encode(document)[: len(read)]
    longer = reader_prompt("Ada. " + "so on " * 99, "Where was Ada Byron born?", encoding, context)
    assert len(longer) == max(context, len(question_ids) + 1)
