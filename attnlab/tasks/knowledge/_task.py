"""Train on rows of several sources: documents, questions, documents with questions.

Letters: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.tasks.knowledge._data import Pair
from attnlab.tasks.knowledge._pretraining_objectives import Objective
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, PackedRows, TrainingRow
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.training._batches import Batch, Forward, TrainingTask, mix_seeds

IGNORE = -100


class RowSource(ABC):
    """Makes training rows."""

    @abstractmethod
    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        """The rows of one epoch, made one after the other."""


class DocumentSource(RowSource):
    """Rows from every document, by one objective."""

    def __init__(
        self, documents: Sequence[str], objective: Objective, answers: Sequence[str] = ()
    ) -> None:
        self.documents, self.objective = list(documents), objective
        objective.prepare(self.documents, answers)

    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        for document in self.documents:
            yield from self.objective.rows(document, encoding, context, generator)


class QuestionSource(RowSource):
    """Rows from every pair, closed book: question and answer without a document."""

    def __init__(self, pairs: Sequence[Pair], times: int = 1) -> None:
        self.pairs, self.times = list(pairs), times

    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        del generator
        for _ in range(self.times):
            rows = (encoding.encode_pair(question, answer) for question, answer in self.pairs)
            yield from (row for row in rows if len(row) <= context + 1)


class KnowledgeTask(TrainingTask):
    """Trains on the rows of all sources, mixed in each epoch."""

    name = KNOWLEDGE.name

    def __init__(
        self,
        sources: Sequence[RowSource],
        encoding: KnowledgeTextEncoding,
        *,
        context: int,
        seed: int,
        measure: Callable[[nn.Module], dict[str, float]],
        headline: str,
        about: dict[str, Any],
    ) -> None:
        self.sources, self.encoding, self.context, self.seed = (
            list(sources),
            encoding,
            context,
            seed,
        )
        self.measure, self.headline, self.about = measure, headline, about
        self.better = "lower" if headline == "loss" else "higher"
        self._epoch: int | None = None
        self._rows = PackedRows()

    def describe(self) -> dict[str, Any]:
        return self.about

    def rows(self, epoch: int) -> PackedRows:
        if epoch != self._epoch:
            self._epoch, self._rows = None, PackedRows()  # first free those of the last epoch
            self._rows = PackedRows(self.make_rows(epoch))
            self._epoch = epoch
        return self._rows

    def make_rows(self, epoch: int) -> Iterator[TrainingRow]:
        """The rows of an epoch, one after the other."""
        generator = random.Random(mix_seeds(self.seed, epoch))
        for source in self.sources:
            rows = source.rows(self.encoding, self.context, generator)
            yield from (row for row in rows if len(row) > 1)

    def lengths(self, epoch: int) -> np.ndarray:
        return self.rows(epoch).lengths - 1

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        return collate([self.rows(epoch)[row] for row in rows], self.encoding.tokenizer.pad)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        counted = batch["target"] != IGNORE  # (B, T), n of them
        logits = forward(batch["ids"], None, counted)  # (n, V): most tokens are not targets
        losses = F.cross_entropy(logits.float(), batch["target"][counted], reduction="none")  # (n,)
        return losses @ batch["weight"][counted]

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != IGNORE).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.measure(model)


def collate(rows: Sequence[TrainingRow], pad: int) -> Batch:
    """Pad rows on the right, where a causal model never looks."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    weight = torch.zeros(len(rows), longest)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row.ids)
        weight[i, : len(row)] = torch.tensor(row.weights)
    lengths = torch.tensor([len(row) - 1 for row in rows])
    target = ids[:, 1:].masked_fill(weight[:, 1:] == 0, IGNORE)
    return {
        "ids": ids[:, :-1],
        "keys": torch.arange(longest - 1) < lengths[:, None],
        "target": target,
        "weight": weight[:, 1:],
    }
