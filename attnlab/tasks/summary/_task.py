"""Learning to summarize: the right summary is read as far as it goes, and its next token is told.

Letters: B batch, S source tokens, T target tokens, V vocabulary, n targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.models import Seq2Seq
from attnlab.models._model import Model
from attnlab.tasks.summary._pairs import Pair
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.training._batches import Batch, Forward, TrainingTask, pad_rows

IGNORE = -100
Row = tuple[Tensor, Tensor]
"""Source ids, and target ids with the end token."""


def rows_of(pairs: Sequence[Pair], wording: Wording) -> tuple[list[Row], int]:
    """Rows of all pairs whose summary can be learned whole, and how many were left out."""
    rows = []
    for pair in pairs:
        target = wording.summary(pair.summary)
        if len(target) <= wording.longest_summary:
            rows.append((torch.tensor(wording.source(pair.text)[0]), torch.tensor(target)))
    return rows, len(pairs) - len(rows)


def collate(rows: Sequence[Row], pad: int, begin: int) -> Batch:
    """Padded on the right: no causal token looks at padding, and no label stands there."""
    source, keys = pad_rows([row[0] for row in rows], pad)
    labels, _ = pad_rows([row[1] for row in rows], IGNORE)
    first = torch.full_like(labels[:, :1], begin)
    target = torch.cat([first, labels[:, :-1].clamp(min=0)], dim=1)
    return {"source": source, "keys": keys, "target": target, "labels": labels}


class SummaryTask(TrainingTask):
    """Pairs in batches of texts of about equal length."""

    name = SUMMARY.name

    def __init__(
        self,
        train: Sequence[Pair],
        validation: Sequence[Pair],
        wording: Wording,
        *,
        smoothing: float,
        about: dict[str, Any],
        besides: Callable[[nn.Module], dict[str, float]] | None = None,
    ) -> None:
        self.wording, self.smoothing, self.about = wording, smoothing, about
        self.rows, self.too_long = rows_of(train, wording)
        self.validation, self.unmeasured = rows_of(validation, wording)
        if besides is None and not self.validation:
            raise ValueError("no validation summary is short enough to be measured")
        self.besides = besides
        self.headline = "loss" if besides is None else SUMMARY.headline
        self.better = "lower" if besides is None else "higher"

    def describe(self) -> dict[str, Any]:
        return {**self.about, "smoothing": self.smoothing, "rows": len(self.rows)}

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [len(source) for source, _ in self.rows]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        del epoch
        tokens = self.wording.tokenizer
        return collate([self.rows[row] for row in rows], tokens.pad, tokens.end)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        found = forward(*_inputs(batch), labels=batch["labels"]).float()  # (n, 2)
        smoothing = self.smoothing
        return -((1 - smoothing) * found[:, 0] + smoothing * found[:, 1]).sum()

    def targets(self, batch: Batch) -> int:
        return int((batch["labels"] >= 0).sum())

    def flops(self, model: Model, batch: Batch) -> float:
        """The encoder works on the text alone, the decoder on the summary."""
        assert isinstance(model, Seq2Seq)
        lengths = (batch["source"].shape[1], batch["target"].shape[1])
        return model.flops(int(batch["keys"].sum()), self.targets(batch), *lengths)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        found = measure(model, self.validation, self.wording)
        return found if self.besides is None else {**found, **self.besides(model)}


def measure(
    model: nn.Module, rows: Sequence[Row], wording: Wording, tokens: int = 8192
) -> dict[str, float]:
    """Of each right token: its loss in nats, and how often it is the likeliest.

    Empty where there are no rows: nothing is known then.
    """
    if not rows:
        return {}
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))
    total, count, right = 0.0, 0, 0
    with torch.no_grad():
        while order:
            longest = len(rows[order[-1]][0])
            part = [order.pop() for _ in range(min(len(order), max(1, tokens // longest)))]
            made = collate([rows[i] for i in part], wording.tokenizer.pad, wording.tokenizer.end)
            batch = {name: x.to(device) for name, x in made.items()}
            counted = batch["labels"] >= 0
            logits = model(*_inputs(batch))[counted].float()  # (n, V)
            labels = batch["labels"][counted]  # (n,)
            total -= float(logits.log_softmax(1).gather(1, labels[:, None]).sum())
            right += int((logits.argmax(1) == labels).sum())
            count += len(labels)
    return {"loss": total / count, "accuracy": right / count}


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Without a mask where nothing is padded, which is faster."""
    keys = batch["keys"]
    return batch["source"], batch["target"], None if bool(keys.all()) else keys
