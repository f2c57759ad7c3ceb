"""Training rows of every objective, and objectives by name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.knowledge._answer_shapes import PUNCTUATION
from attnlab.tasks.knowledge._data import body_of, title_of
from attnlab.tasks.knowledge._pretraining_objectives import (
    OBJECTIVES,
    Entities,
    NextToken,
    WholeSpan,
    create_objectives,
)
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from tests.support.examples import examples
from tests.support.knowledge_rows import (
    BOTH,
    CHARACTERS,
    WORLD,
    documents,
    generator,
    parts_of,
    prepared,
)


@given(documents(), BOTH, st.integers(1, 60))
def test_lm_predicts_every_token_once(
    document: str, encoding: KnowledgeTextEncoding, context: int
) -> None:
    rows = NextToken().rows(document, encoding, context, generator())
    ids = [*encoding.encode(document), encoding.tokenizer.end]
    targets = [each for row in rows for each in row.ids[1:]]
    assert [rows[0].ids[0], *targets] == ids
    for row, following in pairwise(rows):
        assert following.ids[0] == row.ids[-1]  # the context goes on where it stopped
    assert all(2 <= len(row) <= context + 1 for row in rows)
    assert all(set(row.weights) == {1.0} for row in rows)


@given(documents(), BOTH, st.integers(2, 60), st.integers(0, 99))
def test_lines_keep_every_token(
    document: str, encoding: KnowledgeTextEncoding, context: int, seed: int
) -> None:
    rows = WholeSpan().rows(document, encoding, context, generator(seed))
    whole: list[int] = []
    for row in rows:
        assert len(row) <= context + 1
        assert set(row.weights) == {1.0}
        before, after, masked = parts_of(row, encoding.mask)
        assert masked
        whole += before + masked + after
    assert whole == encoding.encode(document)
    if len(whole) < context:
        assert len(rows) == 1


def test_lines_mask_differently_each_time() -> None:
    document = WORLD.corpus[0]
    drawn = {
        tuple(WholeSpan().rows(document, CHARACTERS, 256, generator(seed))[0].ids)
        for seed in range(20)
    }
    assert len(drawn) > 15
    # a context of one has no room, but does no harm
    rows = WholeSpan().rows(document, CHARACTERS, 1, generator())
    assert all(len(row) <= 2 for row in rows)


def bare(words: Sequence[str]) -> set[str]:
    return {word.strip(PUNCTUATION) for word in words}


@examples(200)
@given(st.lists(documents(), min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_entities_recall_words_outside_the_title(
    corpus: list[str], numbers: bool, seed: int
) -> None:
    objective = prepared(Entities(numbers=numbers), corpus)
    for document in corpus:
        title, words = title_of(document), body_of(document).split()
        known = bare(title.split())
        runs = objective.runs(document)
        frames = objective.frames(document, generator(seed))
        assert len(frames) == len(runs)
        for (start, end), (frame, run) in zip(runs, frames, strict=True):
            assert 0 <= start < end <= len(words)
            assert not bare(words[start:end]) <= known
            assert run == " ".join(words[start:end]).strip(PUNCTUATION)
            assert run in document
            assert run[0].isupper() or (numbers and run[0].isdigit())
            assert f" {title} " in f" {frame} "
        for (_, end), (start, _) in pairwise(runs):
            assert end <= start


@given(documents(), BOTH, st.integers(4, 50), st.integers(0, 99))
def test_entities_fit_and_only_the_answer_counts(
    document: str, encoding: KnowledgeTextEncoding, context: int, seed: int
) -> None:
    objective = prepared(Entities(foreign=2), [document])
    rows = objective.rows(document, encoding, context, generator(seed))
    frames = objective.frames(document, generator(seed))
    pairs = [encoding.encode_pair(frame, run) for frame, run in frames]
    assert [row.ids for row in rows] == [p.ids for p in pairs if len(p) <= context + 1]
    for row in rows:
        shown, answer, end = parts_of(row, encoding.mask)
        assert end == []
        assert row.weights == [0.0] * len(shown) + [1.0] * (len(answer) + 2)


def test_entities_by_hand() -> None:
    document = (
        "Ada M. Byron. Byron was born in New York, London. The Bank of England (Berlin) knew Ada "
        "Byron's friend. In 1850 she met Emmy Noether."
    )
    other = "Bo. the the in in in in it was cold ."
    objective = prepared(Entities(bare=1.0, foreign=0), [document, other])
    frames = objective.frames(document, generator())
    assert {frame for frame, _ in frames} == {"Ada M. Byron"}
    recalled = [run for _, run in frames]
    assert recalled[:5] == ["New York", "London", "Bank", "England", "Berlin"]
    assert recalled[-1] == "Emmy Noether"
    assert not {"Byron", "Ada", "The", "In"} & set(recalled)
    numbers = prepared(Entities(numbers=True), [document, other])
    assert "1850" in [run for _, run in numbers.frames(document, generator())]
    near = prepared(Entities(bare=0.0, near=2, keep=1.0, foreign=0), [document, other])
    shown = {run: frame for frame, run in near.frames(document, generator())}
    around = set(shown["New York"].split())
    assert around == {"Ada", "M.", "Byron", "born", "in", "London.", "The"}
    assert prepared(Entities(), [other]).frames("only a title", generator()) == []
    for named in ("50 Cent. In 50 ways 50 Cent sang in 51 .", "AC/DC. With AC/DC they won 51 ."):
        objective = prepared(Entities(numbers=True), [named, other])
        runs = [run for _, run in objective.frames(named, generator())]
        assert runs[-1] == "51"
        assert not {"50", "50 Cent", "AC/DC"} & set(runs)


def test_foreign_words_come_from_the_corpus() -> None:
    objective = prepared(Entities(bare=1.0, foreign=3), WORLD.corpus)
    words = {word for document in WORLD.corpus for word in document.split()}
    counts = set()
    for seed in range(30):
        for frame, _ in objective.frames(WORLD.corpus[0], generator(seed)):
            others = frame.replace(title_of(WORLD.corpus[0]), "").split()
            assert set(others) <= words
            counts.add(len(others))
    assert counts == {0, 1, 2, 3}


# By name


def test_objectives_by_name() -> None:
    assert [type(each) for each in create_objectives("lm")] == [NextToken]
    objectives = create_objectives("2*entities:foreign=0,bare=1 + lines")
    assert [each.name for each in objectives] == ["entities", "entities", "lines"]
    assert objectives[0] is not objectives[1]
    first = objectives[0]
    assert isinstance(first, Entities)
    assert (first.foreign, first.bare) == (0, 1.0)
    for text, value in (("true", True), ("Yes", True), ("0", False), ("no", False)):
        (made,) = create_objectives(f"entities:numbers={text}")
        assert isinstance(made, Entities)
        assert made.numbers is value
    for name, kind in OBJECTIVES.items():
        (plain,) = create_objectives(name)
        assert type(plain) is kind
        assert plain.about


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("", "no objective ''; choose from span, lines, lm, entities"),
        ("spam", "no objective 'spam'; choose from span"),
        ("lm+", "no objective ''; choose from"),
        ("lm++lines", "no objective ''; choose from"),
        ("Entities", "no objective 'Entities'; choose from"),
        ("x*lm", "the factor is 'x'; give a whole number from 1 to 100"),
        ("*lm", "the factor is '';"),
        ("0*lm", "the factor is '0';"),
        ("101*lm", "the factor is '101';"),
        ("-1*lm", "the factor is '-1';"),
        ("2*", "no objective ''; choose from"),
        ("lm:size=3", r"objective lm: no option 'size=3' \(options: none\)"),
        (
            "entities:forein=3",
            r"no option 'forein=3' \(options: bare, near, keep, foreign, numbers\)",
        ),
        ("entities:foreign", "no option 'foreign'"),
        ("entities:foreign=x", "foreign is 'x'; give a value like"),
        ("entities:foreign=1.5", r"foreign is '1.5'; give a value like \d+ \(int\)"),
        ("entities:bare=", "bare is ''"),
        ("entities:numbers=maybe", "numbers is 'maybe'"),
        ("entities:bare=2", "objective entities: bare is 2.0; give 0 to 1"),
        ("entities:keep=nan", "keep is nan; give 0 to 1"),
        ("entities:foreign=-1", "foreign is -1; give 0 to 100"),
        ("entities:foreign=1000000", "give 0 to 100"),
        ("lm+entities:near=-2", "near is -2; give 0 to 100"),
        ("span:shortest=0", "shortest is 0; give 1 to"),
    ],
)
def test_invalid_specifications(spec: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        create_objectives(spec)
    assert "\n" not in str(caught.value)
