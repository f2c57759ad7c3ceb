"""Rows of all sources as batches, and the loss that weighs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.models import Decoder, StackConfig
from attnlab.tasks.knowledge._answers import answer_greedily
from attnlab.tasks.knowledge._data import Library, Relation
from attnlab.tasks.knowledge._document_reader import OpenBookSource, find_readings
from attnlab.tasks.knowledge._pretraining_objectives import (
    OBJECTIVES,
    Entities,
    NextToken,
    Objective,
    WholeSpan,
    create_objectives,
)
from attnlab.tasks.knowledge._task import (
    IGNORE,
    DocumentSource,
    KnowledgeTask,
    QuestionSource,
    collate,
)
from attnlab.tasks.knowledge._training import make_knowledge_task
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, PackedRows, TrainingRow
from attnlab.tokenizer import Bytes
from attnlab.training import Settings
from tests.support.examples import examples
from tests.support.knowledge_rows import BYTE_PAIRS, CHARACTERS, WORLD, generator, prepared


def make_task(
    sources: Sequence[Any], encoding: KnowledgeTextEncoding = CHARACTERS, **changes: Any
) -> Any:
    options: dict[str, Any] = {"context": 64, "seed": 3, "headline": "loss", "about": {"a": 1}}
    return KnowledgeTask(
        sources, encoding, measure=lambda _: {"loss": 0.5}, **{**options, **changes}
    )


@st.composite
def row_lists(draw: Callable[[Any], Any]) -> list[TrainingRow]:
    lengths = draw(st.lists(st.integers(2, 9), min_size=1, max_size=5))
    weight = st.sampled_from([0.0, 0.0, 1.0, 3.0, 0.25])
    return [
        TrainingRow([draw(st.integers(0, 6)) for _ in range(n)], [draw(weight) for _ in range(n)])
        for n in lengths
    ]


@given(row_lists(), st.integers(0, 6))
def test_rows_as_tensors(rows: list[TrainingRow], pad: int) -> None:
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
def test_loss_matches_a_slow_implementation(rows: list[TrainingRow], pad: int, seed: int) -> None:
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


def test_logits_are_computed_only_at_targets() -> None:
    rows = [
        TrainingRow([1, 2, 3, 4], [0, 0, 2, 1]),
        TrainingRow([5, 6], [0, 1]),
        TrainingRow([1, 1, 1], [1, 0, 0]),
    ]
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


@examples(20)
@given(row_lists())
def test_padding_is_never_counted(rows: list[TrainingRow]) -> None:
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
        QuestionSource(WORLD.train),
        *(DocumentSource(WORLD.corpus, each) for each in create_objectives("2*entities+lines+lm")),
    ]


def test_an_epoch_has_the_rows_of_all_sources() -> None:
    task = make_task(mixed_sources(), BYTE_PAIRS)
    rows = list(task.rows(0))
    pairs = [BYTE_PAIRS.encode_pair(*pair).ids for pair in WORLD.train]
    assert [row.ids for row in rows[: len(pairs)]] == pairs
    runs = prepared(Entities(), WORLD.corpus)
    expected = len(pairs) + 2 * sum(len(runs.runs(document)) for document in WORLD.corpus)
    encoding = BYTE_PAIRS
    for document in WORLD.corpus:
        expected += len(WholeSpan().rows(document, encoding, 64, generator()))
        expected += len(NextToken().rows(document, encoding, 64, generator()))
    assert expected * 0.9 < len(rows) <= expected  # frames that do not fit are left out
    assert task.lengths(0).tolist() == [len(row) - 1 for row in rows]
    assert all(2 <= len(row) <= 65 for row in rows)
    assert len(make_task([QuestionSource(WORLD.train, times=3)]).rows(0)) == 3 * len(pairs)
    short = make_task([QuestionSource(WORLD.train)], context=44).rows(0)
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
    book = OpenBookSource(readings, WORLD.corpus)
    reader = make_task([book], context=300)
    assert list(make_task([book], context=1).rows(0)) == []  # a single id predicts nothing
    assert ids(reader, 0) != ids(reader, 1)
    assert ids(reader, 0) == ids(make_task([book], context=300), 0)


def test_task_measures_loss_or_accuracy() -> None:
    encoding = KnowledgeTextEncoding(Bytes())
    model = tiny_model(Bytes.vocabulary, 80)
    sources = [DocumentSource(WORLD.corpus, NextToken())]
    task = make_knowledge_task(sources, encoding, model, Settings(), about={})
    assert (task.headline, task.better, task.context) == ("loss", "lower", 80)
    rows = list(task.rows(-1))
    with torch.no_grad():
        total = sum(float(task.loss(model, collate([row], 0))) for row in rows)
        expected = total / sum(len(row) - 1 for row in rows)
        assert task.evaluate(model)["loss"] == pytest.approx(expected, rel=1e-4)
    question_task = make_knowledge_task(
        sources, encoding, model, Settings(), about={}, measured=WORLD.train
    )
    assert (question_task.headline, question_task.better) == ("accuracy", "higher")
    assert question_task.evaluate(model)["accuracy"] == 0.0


def test_a_model_that_reads_less_than_its_context_gets_shorter_rows() -> None:
    model = tiny_model(Bytes.vocabulary, 80, attention="synthesizer:max_length=50")
    task = make_knowledge_task(
        [DocumentSource(WORLD.corpus, NextToken())],
        KnowledgeTextEncoding(Bytes()),
        model,
        Settings(),
        about={},
    )
    assert max(map(len, task.rows(0))) == 51
    with torch.no_grad():
        assert task.evaluate(model)["loss"] > 0
    question = "Where was " + "x" * 34 + "?"  # 46 tokens with space and mask: 4 are left
    assert len(answer_greedily(model, KnowledgeTextEncoding(Bytes()), [question, "Who?"])) == 2
    with pytest.raises(ValueError, match="question 2 has 50 tokens; this model reads at most 48"):
        answer_greedily(model, KnowledgeTextEncoding(Bytes()), ["Who?", question + "1234"])


def test_every_objective_can_be_trained_on() -> None:
    for name in OBJECTIVES:
        (objective,) = create_objectives(name)
        assert isinstance(objective, Objective)
        task = make_task([DocumentSource(WORLD.corpus, objective)], BYTE_PAIRS)
        batch = task.collate(range(8), 0)
        assert int(batch["target"].max()) < BYTE_PAIRS.tokenizer.vocabulary
        assert task.targets(batch) > 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9, width=32)))))
def test_packed_rows_are_the_rows(content: list[list[tuple[int, float]]]) -> None:
    rows = [TrainingRow([i for i, _ in row], [weight for _, weight in row]) for row in content]
    packed = PackedRows(iter(rows))
    assert list(packed) == rows
    assert packed.lengths.tolist() == list(map(len, rows))
    if rows:
        assert packed[-1] == rows[-1]
    with pytest.raises(IndexError):
        packed[len(rows)]


def test_measuring_keeps_the_rows_of_the_epoch() -> None:
    made: list[str] = []

    class Counted(NextToken):
        def rows(self, document: str, *others: Any) -> list[TrainingRow]:
            made.append(document)
            return super().rows(document, *others)

    documents = ["a document"] * 2500
    source, model = DocumentSource(documents, Counted()), tiny_model(Bytes.vocabulary, 80)
    task = make_knowledge_task(
        [source], KnowledgeTextEncoding(Bytes()), model, Settings(), about={}
    )
    rows = task.rows(0)
    assert len(made) == 2500
    with torch.no_grad():
        task.evaluate(model)
    assert len(made) == 3500  # as many as are measured
    assert task.rows(0) is rows
