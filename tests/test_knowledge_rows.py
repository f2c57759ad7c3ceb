"""Training rows of every objective, the reader's rows, and the loss that weighs them."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.models import Decoder, StackConfig
from attnlab.tasks.knowledge.answers import answer
from attnlab.tasks.knowledge.data import Library, Relation, body_of, title_of
from attnlab.tasks.knowledge.objectives import (
    AROUND,
    OBJECTIVES,
    Entities,
    NextToken,
    Objective,
    WholeSpan,
    create_objectives,
)
from attnlab.tasks.knowledge.reading import (
    OpenBook,
    Reading,
    find_readings,
    prompt,
    standing,
    unlabelled,
)
from attnlab.tasks.knowledge.recipe import knowledge_task
from attnlab.tasks.knowledge.rows import Row, Wording
from attnlab.tasks.knowledge.task import IGNORE, Documents, KnowledgeTask, Questions, collate
from attnlab.tasks.knowledge.world import WorldConfig, make_world
from attnlab.tokens import BPE, Bytes, Characters
from attnlab.training import Settings

WORLD = make_world(WorldConfig(people=30))
CHARACTERS = Wording(Characters.train([string.printable, *WORLD.corpus]))
BYTE_PAIRS = Wording(BPE.train(WORLD.corpus, 320))
BOTH = st.sampled_from([CHARACTERS, BYTE_PAIRS])

LOWER = st.sampled_from(["he", "was", "born", "in", "the", "old", "town", "1850", "42", "(and)"])
PLAIN = ["Ada", "Byron", "Rome", "York", "London", "Emmy", "O'Neill", "Smith-Jones", "He", "The"]
MARKED = ["Jr.", "M.", "(Rome)", "Oslo,", '"Bern"', "Lima;", "[Kyiv]", "U.S.", "Byron,", "Ada."]
UPPER = st.sampled_from([*PLAIN, *MARKED, "Emmy)", "Cairo:", "1850,"])
TITLES = st.sampled_from(["Ada Byron", "Ada M. Byron", "York", "Emmy O'Neill", "50 Cent", "Oslo 8"])


@st.composite
def documents(draw: Callable[[Any], Any]) -> str:
    words = draw(st.lists(st.one_of(LOWER, UPPER), max_size=40))
    return " ".join([f"{draw(TITLES)}.", *words])


def chance(seed: int = 0) -> random.Random:
    return random.Random(seed)


def parts_of(row: Row, mask: int) -> list[list[int]]:
    """What stands between the masks."""
    parts: list[list[int]] = [[]]
    for each in row.ids:
        if each == mask:
            parts.append([])
        else:
            parts[-1].append(each)
    return parts


# Objectives


@given(documents(), BOTH, st.integers(1, 60))
def test_lm_reads_everything_once(document: str, wording: Wording, context: int) -> None:
    rows = NextToken().rows(document, wording, context, chance())
    ids = [*wording.encode(document), wording.tokenizer.end]
    targets = [each for row in rows for each in row.ids[1:]]
    assert [rows[0].ids[0], *targets] == ids
    for row, following in pairwise(rows):
        assert following.ids[0] == row.ids[-1]  # the context goes on where it stopped
    assert all(2 <= len(row) <= context + 1 for row in rows)
    assert all(set(row.weights) == {1.0} for row in rows)


@given(documents(), BOTH, st.integers(2, 60), st.integers(0, 99))
def test_lines_lose_nothing(document: str, wording: Wording, context: int, seed: int) -> None:
    rows = WholeSpan().rows(document, wording, context, chance(seed))
    whole: list[int] = []
    for row in rows:
        assert len(row) <= context + 1
        assert set(row.weights) == {1.0}
        before, after, masked = parts_of(row, wording.mask)
        assert masked
        whole += before + masked + after
    assert whole == wording.encode(document)
    if len(whole) < context:
        assert len(rows) == 1


def test_lines_mask_differently_each_time() -> None:
    document = WORLD.corpus[0]
    drawn = {
        tuple(WholeSpan().rows(document, CHARACTERS, 256, chance(seed))[0].ids)
        for seed in range(20)
    }
    assert len(drawn) > 15
    # a context of one has no room, but does no harm
    rows = WholeSpan().rows(document, CHARACTERS, 1, chance())
    assert all(len(row) <= 2 for row in rows)


def prepared(objective: Entities, corpus: Sequence[str]) -> Entities:
    objective.prepare(corpus)
    return objective


def bare(words: Sequence[str]) -> set[str]:
    return {word.strip(AROUND) for word in words}


@settings(max_examples=200)
@given(st.lists(documents(), min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_entities_ask_for_what_the_title_does_not_say(
    corpus: list[str], numbers: bool, seed: int
) -> None:
    objective = prepared(Entities(numbers=numbers), corpus)
    for document in corpus:
        title, words = title_of(document), body_of(document).split()
        known = bare(title.split())
        runs = objective.runs(document)
        frames = objective.frames(document, chance(seed))
        assert len(frames) == len(runs)
        for (start, end), (frame, run) in zip(runs, frames, strict=True):
            assert 0 <= start < end <= len(words)
            assert not bare(words[start:end]) <= known
            assert run == " ".join(words[start:end]).strip(AROUND)
            assert run in document
            assert run[0].isupper() or (numbers and run[0].isdigit())
            assert f" {title} " in f" {frame} "
        for (_, end), (start, _) in pairwise(runs):
            assert end <= start


@given(documents(), BOTH, st.integers(4, 50), st.integers(0, 99))
def test_entities_fit_and_only_the_answer_counts(
    document: str, wording: Wording, context: int, seed: int
) -> None:
    objective = prepared(Entities(foreign=2), [document])
    rows = objective.rows(document, wording, context, chance(seed))
    frames = objective.frames(document, chance(seed))
    pairs = [wording.pair(frame, run) for frame, run in frames]
    assert [row.ids for row in rows] == [p.ids for p in pairs if len(p) <= context + 1]
    for row in rows:
        shown, said, end = parts_of(row, wording.mask)
        assert end == []
        assert row.weights == [0.0] * len(shown) + [1.0] * (len(said) + 2)


def test_entities_by_hand() -> None:
    document = (
        "Ada M. Byron. Byron was born in New York, London. The Bank of England (Berlin) knew Ada "
        "Byron's friend. In 1850 she met Emmy Noether."
    )
    other = "Bo. the the in in in in it was cold ."
    objective = prepared(Entities(bare=1.0, foreign=0), [document, other])
    frames = objective.frames(document, chance())
    assert {frame for frame, _ in frames} == {"Ada M. Byron"}
    said = [run for _, run in frames]
    assert said[:5] == ["New York", "London", "Bank", "England", "Berlin"]
    assert said[-1] == "Emmy Noether"
    assert not {"Byron", "Ada", "The", "In"} & set(said)
    numbers = prepared(Entities(numbers=True), [document, other])
    assert "1850" in [run for _, run in numbers.frames(document, chance())]
    near = prepared(Entities(bare=0.0, near=2, keep=1.0, foreign=0), [document, other])
    shown = {run: frame for frame, run in near.frames(document, chance())}
    around = set(shown["New York"].split())
    assert around == {"Ada", "M.", "Byron", "born", "in", "London.", "The"}
    assert prepared(Entities(), [other]).frames("only a title", chance()) == []
    for named in ("50 Cent. In 50 ways 50 Cent sang in 51 .", "AC/DC. With AC/DC they won 51 ."):
        objective = prepared(Entities(numbers=True), [named, other])
        runs = [run for _, run in objective.frames(named, chance())]
        assert runs[-1] == "51"
        assert not {"50", "50 Cent", "AC/DC"} & set(runs)


def test_foreign_words_come_from_the_corpus() -> None:
    objective = prepared(Entities(bare=1.0, foreign=3), WORLD.corpus)
    words = {word for document in WORLD.corpus for word in document.split()}
    counts = set()
    for seed in range(30):
        for frame, _ in objective.frames(WORLD.corpus[0], chance(seed)):
            others = frame.replace(title_of(WORLD.corpus[0]), "").split()
            assert set(others) <= words
            counts.add(len(others))
    assert counts == {0, 1, 2, 3}


# By name


def test_objectives_by_name() -> None:
    assert [type(each) for each in create_objectives("lm")] == [NextToken]
    found = create_objectives("2*entities:foreign=0,bare=1 + lines")
    assert [each.name for each in found] == ["entities", "entities", "lines"]
    assert found[0] is not found[1]
    first = found[0]
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
        ("", "objective ''; there are span, lines, lm, entities"),
        ("spam", "objective 'spam'; there are span"),
        ("lm+", "objective ''; there are"),
        ("lm++lines", "objective ''; there are"),
        ("Entities", "objective 'Entities'; there are"),
        ("x*lm", "'x' is no number of times from 1 to 100"),
        ("*lm", "'' is no number of times"),
        ("0*lm", "'0' is no number of times"),
        ("101*lm", "'101' is no number of times"),
        ("-1*lm", "'-1' is no number of times"),
        ("2*", "objective ''; there are"),
        ("lm:size=3", "objective lm: no option 'size=3'; there are none"),
        ("entities:forein=3", "no option 'forein=3'; there are bare, near, keep, foreign, numbers"),
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
def test_specifications_that_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        create_objectives(spec)
    assert "\n" not in str(caught.value)


# A reader's rows


def test_readings_are_the_pairs_whose_answer_stands_in_a_document() -> None:
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
        Reading("Ada. From Paris .", *pairs[0]),
        Reading("Bo. Born in New York .", *pairs[1]),
    ]
    assert unlabelled(library, pairs[:1], born) == ["Where was Bo born?"]
    both = [*born, Relation("Who was ", "?")]
    assert unlabelled(library, pairs[:1], both) == [
        "Where was Bo born?",
        "Who was Ada?",
        "Who was Bo?",
    ]
    assert standing("Rome", "in Rome.")
    assert not standing("Rome", "in Romeo")
    assert not standing("(", "in Rome")


@st.composite
def books(draw: Callable[[Any], Any]) -> tuple[list[str], list[Reading]]:
    """Documents of any length, and pairs whose answers stand in them."""
    corpus = draw(st.lists(documents(), min_size=1, max_size=4, unique=True))
    readings = []
    for document in corpus:
        words = document.split()
        for number in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(words) - 1))
            end = start + draw(st.integers(1, 3))
            found = " ".join(words[start:end]).strip(AROUND)
            if found and standing(found, document):
                question = f"What {number} of {title_of(document)}?"
                readings.append(Reading(document, question, found))
    return corpus, readings


@settings(max_examples=300)
@given(books(), BOTH, st.integers(1, 300), st.integers(0, 99), st.sampled_from([0.0, 0.5, 1.0]))
def test_what_a_reader_copies_is_shown(
    book: tuple[list[str], list[Reading]],
    wording: Wording,
    context: int,
    seed: int,
    swapped: float,
) -> None:
    corpus, readings = book
    source = OpenBook(
        readings, corpus, swapped=swapped, copies=2, document_weight=0.5, answer_weight=3.0
    )
    rows = source.rows(wording, context, chance(seed))
    assert len(rows) == len(corpus)
    labelled = {reading.question for reading in readings}
    for row, document in zip(rows, corpus, strict=True):
        assert 1 <= len(row) <= context + 1
        assert len(row.ids) == len(row.weights)
        read, *rest = parts_of(row, wording.mask)
        assert rest.pop() == []
        assert len(rest) % 2 == 0
        weights = [0.5] * len(read) + [0.0]
        shown = wording.decode(read)
        if not swapped:
            assert read == wording.encode(document)[: len(read)]
        asked = [wording.decode(ids) for ids in rest[::2]]
        for question, said in zip(rest[::2], rest[1::2], strict=True):
            copied = wording.decode(said)
            assert standing(copied, shown), (copied, shown)
            if not swapped:  # nor half a word, where the document was cut
                assert standing(copied, document), (copied, document)
            weights += [0.0] * (len(question) + 1) + [3.0] * (len(said) + 1)
        assert row.weights == weights
        assert sum(question not in labelled for question in asked) <= 2
        mine = [reading for reading in readings if reading.document == document]
        if len(read) == len(wording.encode(document)) and context > 250 and not swapped:
            wanted = {reading.question: reading.answer for reading in mine}
            told = dict(zip(asked, map(wording.decode, rest[1::2]), strict=True))
            assert {q: told[q] for q in wanted} == {
                q: wording.decode(wording.encode(a)) for q, a in wanted.items()
            }


def test_a_document_that_is_cut_is_not_asked_for_half_words() -> None:
    document = "Ada. She lived in Londonderry and then in Rome ."
    readings = [Reading(document, "Where was Ada?", "Rome")]
    asked = set()
    for room in range(1, 2 * len(document) + 40):
        source = OpenBook(readings, [document], swapped=0.0, copies=2)
        (row,) = source.rows(CHARACTERS, room, chance())
        asked |= {CHARACTERS.decode(ids) for ids in parts_of(row, CHARACTERS.mask)[2::2]}
    assert asked == {"She", "Londonderry", "Rome"}


def test_an_answer_inside_another_one_is_swapped_with_care() -> None:
    document = "Ada. Born in York, she wrote for the New York Times ."
    readings = [
        Reading(document, "Where was Ada born?", "York"),
        Reading(document, "Who employed Ada?", "New York Times"),
        Reading("Bo. Born in Rome .", "Where was Bo born?", "Rome"),
    ]
    seen = set()
    for seed in range(40):
        source = OpenBook(readings, [document], swapped=1.0, copies=0)
        (row,) = source.rows(CHARACTERS, 200, chance(seed))
        read, *rest = parts_of(row, CHARACTERS.mask)
        shown = CHARACTERS.decode(read)
        told = dict(zip(*[map(CHARACTERS.decode, rest[i:-1:2]) for i in (0, 1)], strict=True))
        assert told
        assert all(standing(each, shown) for each in told.values())
        seen |= {(shown, *sorted(told.items()))}
    # no employer is asked for who is no longer there
    assert any("New Rome Times" in each[0] and len(each) == 2 for each in seen)
    assert any("in New York Times, she" in each[0] and len(each) == 3 for each in seen)


def test_swaps_are_as_often_as_asked() -> None:
    readings = find_readings(WORLD.train, Library(WORLD.corpus), [Relation("Where was ", " born?")])
    assert len(readings) == len(WORLD.train)
    gold = {reading.question: reading.answer for reading in readings}
    for share in (0.0, 0.5, 1.0):
        source = OpenBook(readings, WORLD.corpus, swapped=share, copies=0)
        changed = total = 0
        for seed in range(20):
            for row in source.rows(BYTE_PAIRS, 600, chance(seed)):
                _, *rest = parts_of(row, BYTE_PAIRS.mask)
                if len(rest) > 1:
                    total += 1
                    told = BYTE_PAIRS.decode(rest[1])
                    changed += told != gold[BYTE_PAIRS.decode(rest[0])]
        assert total == 20 * len(readings)
        # another answer may be the same place
        assert changed / total == pytest.approx(share, abs=0.2 if share else 0)


@given(documents(), BOTH, st.integers(1, 200))
def test_prompts_fit(document: str, wording: Wording, context: int) -> None:
    asked = wording.question("Where was Ada Byron born?")
    ids = prompt(document, "Where was Ada Byron born?", wording, context)
    assert ids[-len(asked) - 1 :] == [wording.mask, *asked]
    assert len(ids) <= max(context, len(asked) + 1)
    read = ids[: -len(asked) - 1]
    assert read == wording.encode(document)[: len(read)]
    longer = prompt("Ada. " + "so on " * 99, "Where was Ada Byron born?", wording, context)
    assert len(longer) == max(context, len(asked) + 1)


# The task


def make_task(sources: Sequence[Any], wording: Wording = CHARACTERS, **changes: Any) -> Any:
    options: dict[str, Any] = {"context": 64, "seed": 3, "headline": "loss", "about": {"a": 1}}
    return KnowledgeTask(
        sources, wording, measure=lambda _: {"loss": 0.5}, **{**options, **changes}
    )


@st.composite
def row_lists(draw: Callable[[Any], Any]) -> list[Row]:
    lengths = draw(st.lists(st.integers(2, 9), min_size=1, max_size=5))
    weight = st.sampled_from([0.0, 0.0, 1.0, 3.0, 0.25])
    return [
        Row([draw(st.integers(0, 6)) for _ in range(n)], [draw(weight) for _ in range(n)])
        for n in lengths
    ]


@given(row_lists(), st.integers(0, 6))
def test_rows_as_tensors(rows: list[Row], pad: int) -> None:
    batch = collate(rows, pad)
    longest = max(map(len, rows)) - 1
    assert all(tensor.shape == (len(rows), longest) for tensor in batch.values())
    for i, row in enumerate(rows):
        n = len(row) - 1
        assert batch["ids"][i].tolist()[:n] == row.ids[:-1]
        # the id after a row's last input may stay: nothing that counts looks at it
        assert batch["ids"][i].tolist()[n + 1 :] == [pad] * (longest - n - 1)
        assert batch["keys"][i].tolist() == [True] * n + [False] * (longest - n)
        wanted = [
            each if weight else IGNORE
            for each, weight in zip(row.ids[1:], row.weights[1:], strict=True)
        ]
        assert batch["target"][i].tolist() == wanted + [IGNORE] * (longest - n)
        assert batch["weight"][i].tolist() == row.weights[1:] + [0.0] * (longest - n)
    counted = sum(weight != 0 for row in rows for weight in row.weights[1:])
    assert make_task([]).targets(batch) == counted


@given(row_lists(), st.integers(0, 6), st.integers(0, 9))
def test_the_loss_is_the_slow_one(rows: list[Row], pad: int, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    table = torch.randn(7, 7, generator=draws, dtype=torch.float64)
    fast, slow = table.clone().requires_grad_(), table.clone().requires_grad_()
    batch = collate(rows, pad)
    loss = make_task([]).loss(lambda ids, _, at: fast[ids][at], batch)
    expected = (slow * 0).sum()
    for row in rows:
        for before, now, weight in zip(row.ids, row.ids[1:], row.weights[1:], strict=False):
            expected = expected - weight * slow[before].log_softmax(0)[now]
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5, abs=1e-5)
    loss.backward()
    expected.backward()
    assert fast.grad is not None
    assert slow.grad is not None
    assert torch.allclose(fast.grad, slow.grad, atol=1e-5)


def tiny_model(vocabulary: int = 7, context: int = 9, **changes: Any) -> Decoder:
    torch.manual_seed(0)
    return Decoder(StackConfig(vocabulary, context=context, width=8, layers=1, heads=2, **changes))


def test_logits_are_computed_where_they_count() -> None:
    rows = [Row([1, 2, 3, 4], [0, 0, 2, 1]), Row([5, 6], [0, 1]), Row([1, 1, 1], [1, 0, 0])]
    model, batch = tiny_model().eval(), collate(rows, 0)
    shapes = []

    def forward(*given: Any) -> torch.Tensor:
        logits = model(*given)
        shapes.append(tuple(logits.shape))
        return logits

    loss = make_task([]).loss(forward, batch).detach()
    assert shapes == [(3, 7)]
    known = model(batch["ids"]).detach().double().log_softmax(2)
    expected = -(2 * known[0, 1, 3] + known[0, 2, 4] + known[1, 0, 6])
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    nothing = make_task([]).loss(model, collate(rows[2:], 0))
    assert float(nothing.detach()) == 0
    nothing.backward()


@settings(max_examples=20)
@given(row_lists())
def test_padding_is_never_counted(rows: list[Row]) -> None:
    """A batch costs what its rows cost alone, whatever stands in the padding."""
    model, task = tiny_model().eval(), make_task([])
    with torch.no_grad():
        together = float(task.loss(model, collate(rows, 0)))
        other = float(task.loss(model, collate(rows, 5)))
        alone = sum(float(task.loss(model, collate([row], 0))) for row in rows)
    assert together == pytest.approx(alone, rel=1e-5, abs=1e-5)
    assert other == pytest.approx(alone, rel=1e-5, abs=1e-5)


def mixed_sources() -> list[Any]:
    return [
        Questions(WORLD.train),
        *(Documents(WORLD.corpus, each) for each in create_objectives("2*entities+lines+lm")),
    ]


def test_an_epoch_has_the_rows_of_all_sources() -> None:
    task = make_task(mixed_sources(), BYTE_PAIRS)
    rows = task.rows(0)
    pairs = [BYTE_PAIRS.pair(*pair).ids for pair in WORLD.train]
    assert [row.ids for row in rows[: len(pairs)]] == pairs
    runs = prepared(Entities(), WORLD.corpus)
    expected = len(pairs) + 2 * sum(len(runs.runs(document)) for document in WORLD.corpus)
    wording = BYTE_PAIRS
    for document in WORLD.corpus:
        expected += len(WholeSpan().rows(document, wording, 64, chance()))
        expected += len(NextToken().rows(document, wording, 64, chance()))
    assert expected * 0.9 < len(rows) <= expected  # frames that do not fit are left out
    assert task.lengths(0) == [len(row) - 1 for row in rows]
    assert all(2 <= len(row) <= 65 for row in rows)
    assert len(make_task([Questions(WORLD.train, times=3)]).rows(0)) == 3 * len(pairs)
    short = make_task([Questions(WORLD.train)], context=44).rows(0)
    assert 0 < len(short) < len(pairs)
    assert task.describe() == {"a": 1}
    assert task.evaluate(tiny_model()) == {"loss": 0.5}


def test_epochs_are_reproducible_and_differ() -> None:
    def ids(task: Any, epoch: int) -> list[list[int]]:
        return [row.ids for row in task.rows(epoch)]

    task, same = (make_task(mixed_sources(), BYTE_PAIRS) for _ in range(2))
    first, second = ids(task, 0), ids(task, 1)
    assert first != second
    assert ids(task, 0) == first  # after another one, and in another order
    assert ids(same, 1) == second
    assert ids(same, -1) != first
    assert ids(make_task(mixed_sources(), BYTE_PAIRS, seed=4), 0) != first
    batch = task.collate([5, 0, 3], 0)
    again = same.collate([5, 0, 3], 0)
    assert all(torch.equal(batch[name], again[name]) for name in batch)
    readings = find_readings(WORLD.train, Library(WORLD.corpus), [Relation("Where was ", " born?")])
    book = OpenBook(readings, WORLD.corpus)
    reader = make_task([book], context=300)
    assert make_task([book], context=1).rows(0) == []  # a single id predicts nothing
    assert ids(reader, 0) != ids(reader, 1)
    assert ids(reader, 0) == ids(make_task([book], context=300), 0)


def test_the_task_of_a_model_measures_loss_or_answers() -> None:
    wording = Wording(Bytes())
    model = tiny_model(Bytes.vocabulary, 80)
    sources = [Documents(WORLD.corpus, NextToken())]
    task = knowledge_task(sources, wording, model, Settings(), about={})
    assert (task.headline, task.better, task.context) == ("loss", "lower", 80)
    rows = task.rows(-1)
    with torch.no_grad():
        total = sum(float(task.loss(model, collate([row], 0))) for row in rows)
        expected = total / sum(len(row) - 1 for row in rows)
        assert task.evaluate(model)["loss"] == pytest.approx(expected, rel=1e-4)
    asked = knowledge_task(sources, wording, model, Settings(), about={}, measured=WORLD.train)
    assert (asked.headline, asked.better) == ("accuracy", "higher")
    assert asked.evaluate(model)["accuracy"] == 0.0


def test_a_model_that_reads_less_than_its_context_gets_shorter_rows() -> None:
    model = tiny_model(Bytes.vocabulary, 80, attention="synthesizer:max_length=50")
    task = knowledge_task(
        [Documents(WORLD.corpus, NextToken())], Wording(Bytes()), model, Settings(), about={}
    )
    assert max(map(len, task.rows(0))) == 51
    with torch.no_grad():
        assert task.evaluate(model)["loss"] > 0
    question = "Where was " + "x" * 34 + "?"  # 46 tokens with space and mask: 4 are left
    assert len(answer(model, Wording(Bytes()), [question, "Who?"])) == 2
    with pytest.raises(ValueError, match="question 2 has 50 tokens; this model reads at most 48"):
        answer(model, Wording(Bytes()), ["Who?", question + "1234"])


def test_every_objective_can_be_trained_on() -> None:
    for name in OBJECTIVES:
        (objective,) = create_objectives(name)
        assert isinstance(objective, Objective)
        task = make_task([Documents(WORLD.corpus, objective)], BYTE_PAIRS)
        batch = task.collate(range(8), 0)
        assert int(batch["target"].max()) < BYTE_PAIRS.tokenizer.vocabulary
        assert task.targets(batch) > 0
