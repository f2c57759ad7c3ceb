"""Language modeling: predict the next token, or the ones that were masked.

Letters: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.tasks.language._corpus import Corpus, Rows
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.tokenizer import Tokenizer
from attnlab.training._batches import Batch, Forward, TrainingTask, mix_seeds, pad_rows

IGNORE = -100  # a target that is left out of the loss
VALIDATION_TOKENS = 2**20  # of more, a random part is measured: all would take minutes
OBJECTIVES = ("causal", "masked")
LARGEST_LOGITS = 2**28  # numbers at once, 1 GB


class LanguageTask(TrainingTask):
    """Next-token or masked-token prediction. Rows are padded, not packed, so they never mix."""

    name = LANGUAGE.name

    def __init__(
        self,
        train: Corpus,
        validation: Corpus,
        tokenizer: Tokenizer,
        *,
        objective: str,
        context: int,
        seed: int = 0,
        masked_fraction: float = 0.15,
    ) -> None:
        if objective not in OBJECTIVES:
            raise ValueError(f"objective is {objective!r}; choose {' or '.join(OBJECTIVES)}")
        self.objective, self.tokenizer, self.seed = objective, tokenizer, seed
        self.masked_fraction = masked_fraction
        overlap = int(objective == "causal")
        self.train = train.rows(context, overlap)
        validation_rows = validation.rows(context, overlap)
        self.validation = validation_rows.sample(VALIDATION_TOKENS, seed, tokenizer)
        self.headline = LANGUAGE.headline if objective == "causal" else "loss"

    def describe(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "masked_share": self.masked_fraction,
            "rows": len(self.train),
            "characters": self.train.characters,
            "tokenizer": type(self.tokenizer).__name__.lower(),
            "text": self.train.digest,
        }

    def lengths(self, epoch: int) -> np.ndarray:
        del epoch
        return self.train.lengths - int(self.objective == "causal")

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        return self._batch([self.train[row] for row in rows], [(epoch, row) for row in rows])

    def _batch(self, texts: Sequence[Tensor], seeds: Sequence[tuple[int, int]]) -> Batch:
        ids, keys = pad_rows(texts, self.tokenizer.pad)
        if self.objective == "causal":
            target = ids[:, 1:].masked_fill(~keys[:, 1:], IGNORE)
            return {"ids": ids[:, :-1], "keys": keys[:, 1:], "target": target}
        target = torch.full_like(ids, IGNORE)
        for i, (epoch, row) in enumerate(seeds):
            generator = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, row))
            length = int(keys[i].sum())
            selected = torch.rand(length, generator=generator) < self.masked_fraction
            selected[int(torch.randint(length, (), generator=generator))] = True  # at least one
            positions = selected.nonzero()[:, 0]
            target[i, positions] = ids[i, positions]
            # as in BERT: 80% are masked, 10% replaced and 10% left, so every token has to be
            # understood
            roll = torch.rand(len(positions), generator=generator)
            other = torch.randint(self.tokenizer.vocabulary, roll.shape, generator=generator)
            unmasked = torch.where(roll < 0.9, other, ids[i, positions])
            ids[i, positions] = torch.where(roll < 0.8, self.tokenizer.mask, unmasked)
        return {"ids": ids, "keys": keys, "target": target}

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        logits = self._logits(forward, batch)
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            batch["target"].flatten(),
            ignore_index=IGNORE,
            reduction="sum",
        )

    def _logits(self, forward: Forward, batch: Batch) -> Tensor:
        """(B, T, V). Rows are padded on the right, where a causal model never looks."""
        keys = batch["keys"]
        if self.objective == "causal" or bool(keys.all()):
            return forward(batch["ids"])
        return forward(batch["ids"], keys)

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != IGNORE).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.measure(model, self.validation)

    def measure(self, model: nn.Module, rows: Rows, tokens: int = 16384) -> dict[str, float]:
        """Loss per target in nats; bits per character (causal) or accuracy (masked)."""
        device = next(model.parameters()).device
        order = np.argsort(rows.lengths, kind="stable")[::-1]  # the longest first
        tokens = min(tokens, LARGEST_LOGITS // self.tokenizer.vocabulary)
        total, count, correct, done = 0.0, 0, 0, 0
        while done < len(order):
            size = max(1, tokens // int(rows.lengths[order[done]]))
            part = order[done : done + size].tolist()
            done += len(part)
            batch = self._batch([rows[row] for row in part], [(-1, row) for row in part])
            batch = {name: x.to(device) for name, x in batch.items()}
            logits = self._logits(model, batch).flatten(0, 1).float()
            target = batch["target"].flatten()
            total += float(F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum"))
            count += self.targets(batch)
            correct += int((logits.argmax(-1) == target).sum())
        metrics = {"loss": total / max(1, count), "accuracy": correct / max(1, count)}
        if self.objective == "causal":
            metrics["bits"] = total / math.log(2) / max(1, rows.characters)
        return metrics
