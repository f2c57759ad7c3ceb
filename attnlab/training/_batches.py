"""Batches of rows of similar length, in an order that (seed, epoch, position) reproduces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.models import Model
from attnlab.training._settings import Settings

Batch = dict[str, Tensor]
"""Tensors whose first axis is the row."""
Forward = Callable[..., Tensor]


class TrainingTask(ABC):
    """What to train on: rows, how they become a batch, the loss and the validation metrics."""

    name: str
    better: str = "lower"
    """Whether a lower or a higher `headline` is better."""
    headline: str = "loss"
    """The metric of `evaluate` that decides which weights are best."""
    unit: str = "tok"
    """What the progress line calls the positions of "keys"."""

    @abstractmethod
    def lengths(self, epoch: int) -> Sequence[int] | np.ndarray:
        """The length of every row of this epoch."""

    @abstractmethod
    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        """These rows of this epoch as tensors, equal at every call. It must contain "keys"."""

    @abstractmethod
    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """The sum of the loss over all targets of the batch."""

    @abstractmethod
    def targets(self, batch: Batch) -> int:
        """How many targets the batch has."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Metrics on the validation data."""

    def flops(self, model: Model, batch: Batch) -> float:
        """Approximate operations of a step, forward and backward."""
        return int(batch["keys"].sum()) * model.flops_per_token(batch["keys"].shape[1])

    def describe(self) -> dict[str, Any]:
        """The settings of the task, for config.json."""
        return {}


def mix_seeds(*numbers: int) -> int:
    """One seed from several numbers; different numbers give different seeds.

    >>> from attnlab.training import mix_seeds
    >>> mix_seeds(1, 2) == mix_seeds(1, 2), mix_seeds(1, 2) == mix_seeds(2, 1)
    (True, False)
    """
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6364136223846793005 + number + 1442695040888963407) % 2**64
        mixed ^= mixed >> 29
    return mixed % 2**63


def bucket_by_length(
    lengths: Sequence[int] | np.ndarray,
    *,
    tokens: int,
    rows: int | None,
    generator: torch.Generator,
) -> Sequence[list[int]]:
    """Row indices in batches: shuffled, sorted by length within large windows, split, shuffled.

    A batch has `rows` rows, or as many as fit into `tokens` tokens after padding. Every row is in
    exactly one batch; a row longer than `tokens` forms its own batch.

    >>> import torch
    >>> from attnlab.training import bucket_by_length
    >>> generator = torch.Generator().manual_seed(0)
    >>> batches = bucket_by_length([3, 9, 2, 8], tokens=18, rows=None, generator=generator)
    >>> sorted(map(sorted, batches))  # rows of similar length are together
    [[0, 2], [1, 3]]
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = torch.randperm(len(sizes), generator=generator).numpy()
    mean = max(1, int(sizes.sum()) // max(1, len(sizes)))
    window = 64 * (rows or max(1, tokens // mean))
    starts = array("q")
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part[:] = part[np.argsort(sizes[part], kind="stable")]
        count = 0  # rows of the batch so far
        for position, length in enumerate(sizes[part].tolist(), start):
            full = count >= rows if rows else (count + 1) * length > tokens
            if full or not count:
                starts.append(position)
                count = 0
            count += 1
    shuffled = torch.randperm(len(starts), generator=generator).numpy()
    return _Batches(order, np.array([*starts, len(order)]), shuffled)


@dataclass(frozen=True)
class _Batches(Sequence[list[int]]):
    """Batches as parts of one array of rows: lists of all of them would need much more memory."""

    rows: np.ndarray
    starts: np.ndarray
    order: np.ndarray

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> list[int]:  # type: ignore[override]
        batch = self.order[index]
        rows: list[int] = self.rows[self.starts[batch] : self.starts[batch + 1]].tolist()
        return rows


@dataclass
class BatchLoader:
    """Yields batches, epoch after epoch. Its state is (epoch, position)."""

    task: TrainingTask
    settings: Settings
    epoch: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        self._batches: Sequence[list[int]] = []
        self._batches_epoch = -1

    def next(self) -> tuple[Batch, int]:
        """The next batch and its epoch."""
        if self._batches_epoch != self.epoch:
            self._make_batches()
        if self.position >= len(self._batches):
            self.epoch, self.position = self.epoch + 1, 0
            self._make_batches()
        rows = self._batches[self.position]
        self.position += 1
        return self.task.collate(rows, self.epoch), self.epoch

    def _make_batches(self) -> None:
        settings = self.settings
        generator = torch.Generator().manual_seed(mix_seeds(settings.seed, self.epoch))
        lengths = self.task.lengths(self.epoch)
        if not len(lengths):
            raise ValueError(f"{self.task.name}: no rows to train on; give at least one")
        self._batches = bucket_by_length(
            lengths, tokens=settings.batch_tokens, rows=settings.batch_size, generator=generator
        )
        self._batches_epoch = self.epoch


def pad_rows(rows: Sequence[Tensor], fill: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor (rows, longest), and a mask that is True for real tokens.

    >>> import torch
    >>> from attnlab.training import pad_rows
    >>> ids, real = pad_rows([torch.tensor([5, 6, 7]), torch.tensor([8])], fill=0)
    >>> ids.tolist(), real.tolist()
    ([[5, 6, 7], [8, 0, 0]], [[True, True, True], [True, False, False]])
    """
    lengths = torch.tensor([len(row) for row in rows])
    ids = nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=fill)
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]
