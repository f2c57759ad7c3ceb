"""Made-up names: never real, each with one use, and rows that have no answer."""

from __future__ import annotations

import random

from attnlab.tasks.knowledge._data import Relation, title_of
from attnlab.tasks.knowledge._made_up_names import (
    MadeUpNames,
    Use,
    frames_about_unknown_names,
    made_up_questions,
    new_spellings,
    questions_about_unknown_names,
    use_of,
)
from attnlab.tasks.knowledge._pretraining_objectives import Entities, NextToken
from tests.support.knowledge_rows import BYTE_PAIRS, WORLD, parts_of

TITLES = [title_of(document) for document in WORLD.corpus]
BORN = Relation("Where was ", " born?")


def test_names_are_not_real_and_have_one_use() -> None:
    made: dict[Use, set[str]] = {}
    for use in Use:
        names = MadeUpNames(TITLES, use, ["the", "Rome"])
        chance = random.Random(0)
        made[use] = {
            name
            for make in (names.recombined, names.respelled, names.of_words, names.any_kind)
            for _ in range(40)
            if (name := make(chance)) is not None
        }
        assert len(made[use]) > 50
        assert not made[use] & {*TITLES}
        assert {use_of(name) for name in made[use]} == {use}
    assert not made[Use.TRAINING] & (made[Use.THRESHOLDS] | made[Use.AUDIT])


def test_recombined_names_have_real_parts_and_new_spellings_do_not() -> None:
    parts = {part for title in TITLES for part in title.split()}
    names = MadeUpNames(TITLES, Use.TRAINING)
    recombined = names.several(names.recombined, 30, seed=1)
    assert len(recombined) == 30
    assert all({*name.split()} <= parts for name in recombined)
    for name in [*names.several(names.respelled, 30, seed=1), *new_spellings(TITLES, 30, seed=1)]:
        assert not {part for part in name.split() if len(part) > 2} & parts, name
    assert names.several(names.recombined, 5, 2) == names.several(names.recombined, 5, 2)


def test_names_of_one_part_and_too_few_names() -> None:
    packages = MadeUpNames(["zlib1g", "openssl", "libc6", "gettext"], Use.TRAINING)
    made = packages.several(packages.recombined, 10, seed=0)
    assert made
    assert not {*made} & packages.taken
    alone = MadeUpNames(["a"], Use.TRAINING)
    assert alone.several(alone.recombined, 3, seed=0) == []
    nobody = MadeUpNames([], Use.TRAINING)
    assert nobody.any_kind(random.Random(0)) is None
    assert new_spellings([], 3, seed=0) == []
    assert questions_about_unknown_names([], [], [BORN], 9) == []
    assert made_up_questions(TITLES, [], Use.AUDIT) == {"parts recombined": [], "new spellings": []}


def test_rows_about_unknown_names_have_no_answer() -> None:
    (questions,) = questions_about_unknown_names(WORLD.corpus, TITLES, [BORN], 20)
    objective = Entities(bare=1.0, foreign=0)
    objective.prepare(WORLD.corpus)
    (frames,) = frames_about_unknown_names(WORLD.corpus, [objective, NextToken()], 0.1)
    for source, before in ((questions, "Where was"), (frames, "")):
        rows = list(source.rows(BYTE_PAIRS, 60, random.Random(0)))
        assert len(rows) > 10
        for row in rows:
            shown, answer, end = parts_of(row, BYTE_PAIRS.mask)
            assert (answer, end) == ([], [])
            assert row.weights == [0.0] * len(shown) + [1.0, 1.0]
            text = BYTE_PAIRS.decode(shown)
            assert text.startswith(before)
            assert text.removeprefix("Where was ").removesuffix(" born?") not in TITLES
        assert [row.ids for row in source.rows(BYTE_PAIRS, 60, random.Random(1))] != [
            row.ids for row in rows
        ]


def test_questions_for_thresholds_and_audits() -> None:
    for use in (Use.THRESHOLDS, Use.AUDIT):
        made = made_up_questions(TITLES, [BORN], use, count=12)
        assert {kind: len(each) for kind, each in made.items()} == {
            "parts recombined": 12,
            "new spellings": 12,
        }
        names = {BORN.name_in(question) for each in made.values() for question in each}
        assert len(names) == 24
        assert not names & {*TITLES}
