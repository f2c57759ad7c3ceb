"""Learn to summarize: from the text and a part of the summary, predict the next token.

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
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.training._batches import Batch, Forward, TrainingTask, pad_rows

IGNORE = -100
Row = tuple[Tensor, Tensor]
"""Source ids, and target ids with the end token."""


def make_rows(pairs: Sequence[Pair], encoding: SummaryTextEncoding) -> tuple[list[Row], int]:
    """Rows of all pairs whose summary fits into the model, and the number of other pairs."""
    rows = []
    for pair in pairs:
        target = encoding.encode_summary(pair.summary)
        if len(target) <= encoding.longest_summary:
            rows.append((torch.tensor(encoding.encode_source(pair.text)[0]), torch.tensor(target)))
    return rows, len(pairs) - len(rows)


def collate(rows: Sequence[Row], pad: int, begin: int) -> Batch:
    """A batch padded on the right, where a causal model never looks and no label stands."""
    source, keys = pad_rows([row[0] for row in rows], pad)
    labels, _ = pad_rows([row[1] for row in rows], IGNORE)
    first = torch.full_like(labels[:, :1], begin)
    target = torch.cat([first, labels[:, :-1].clamp(min=0)], dim=1)
    return {"source": source, "keys": keys, "target": target, "labels": labels}


class SummaryTask(TrainingTask):
    """Trains on pairs, in batches of texts of about equal length."""

    name = SUMMARY.name

    def __init__(
        self,
        train: Sequence[Pair],
        validation: Sequence[Pair],
        encoding: SummaryTextEncoding,
        *,
        smoothing: float,
        about: dict[str, Any],
        extra_metrics: Callable[[nn.Module], dict[str, float]] | None = None,
    ) -> None:
        self.encoding, self.smoothing, self.about = encoding, smoothing, about
        self.rows, self.too_long = make_rows(train, encoding)
        self.validation, self.unmeasured = make_rows(validation, encoding)
        if extra_metrics is None and not self.validation:
            raise ValueError(
                "all validation summaries are too long for the model; give a larger "
                "--summary-tokens"
            )
        self.extra_metrics = extra_metrics
        self.headline = "loss" if extra_metrics is None else SUMMARY.headline
        self.better = "lower" if extra_metrics is None else "higher"

    def describe(self) -> dict[str, Any]:
        return {**self.about, "smoothing": self.smoothing, "rows": len(self.rows)}

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [len(source) for source, _ in self.rows]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        del epoch
        tokens = self.encoding.tokenizer
        return collate([self.rows[row] for row in rows], tokens.pad, tokens.end)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        log_probabilities = forward(*_inputs(batch), labels=batch["labels"]).float()  # (n, 2)
        smoothing = self.smoothing
        return -(
            (1 - smoothing) * log_probabilities[:, 0] + smoothing * log_probabilities[:, 1]
        ).sum()

    def targets(self, batch: Batch) -> int:
        return int((batch["labels"] >= 0).sum())

    def flops(self, model: Model, batch: Batch) -> float:
        """The encoder only processes the text, the decoder only the summary."""
        assert isinstance(model, Seq2Seq)
        lengths = (batch["source"].shape[1], batch["target"].shape[1])
        return model.flops(int(batch["keys"].sum()), self.targets(batch), *lengths)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        metrics = measure(model, self.validation, self.encoding)
        return metrics if self.extra_metrics is None else {**metrics, **self.extra_metrics(model)}


def measure(
    model: nn.Module, rows: Sequence[Row], encoding: SummaryTextEncoding, tokens: int = 8192
) -> dict[str, float]:
    """The mean loss per reference token in nats, and how often that token is the most probable.

    Empty if there are no rows.
    """
    if not rows:
        return {}
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))
    total, count, correct = 0.0, 0, 0
    with torch.no_grad():
        while order:
            longest = len(rows[order[-1]][0])
            part = [order.pop() for _ in range(min(len(order), max(1, tokens // longest)))]
            padded = collate(
                [rows[i] for i in part], encoding.tokenizer.pad, encoding.tokenizer.end
            )
            batch = {name: x.to(device) for name, x in padded.items()}
            counted = batch["labels"] >= 0
            logits = model(*_inputs(batch))[counted].float()  # (n, V)
            labels = batch["labels"][counted]  # (n,)
            total -= float(logits.log_softmax(1).gather(1, labels[:, None]).sum())
            correct += int((logits.argmax(1) == labels).sum())
            count += len(labels)
    return {"loss": total / count, "accuracy": correct / count}


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Without a mask if nothing is padded, which is faster."""
    keys = batch["keys"]
    return batch["source"], batch["target"], None if bool(keys.all()) else keys
