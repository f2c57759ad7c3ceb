"""Language modeling: predict the next token, or the ones that were masked.

Letters: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.tasks.language.kind import LANGUAGE
from attnlab.tokenizer import Tokenizer
from attnlab.training._batches import Batch, Forward, TrainingTask, mix_seeds, pad_rows

IGNORE = -100  # a target that is left out of the loss
OBJECTIVES = ("causal", "masked")


@dataclass(frozen=True)
class Corpus:
    """Documents as ids. Each stands between two end tokens and is cut into rows of the context
    size."""

    rows: list[Tensor]
    characters: int
    unknown: dict[str, int]
    """Characters that the tokenizer had to replace, and how often."""

    def digest(self) -> str:
        """Identifies the text, so that a run is not resumed with another one."""
        sha = hashlib.sha256()
        for row in self.rows:
            sha.update(row.numpy().tobytes() + b"|")
        return sha.hexdigest()[:16]

    @staticmethod
    def of(documents: Sequence[str], tokenizer: Tokenizer, context: int, overlap: int) -> Corpus:
        """With `overlap` 1 the next row repeats a row's last token, which the first row only
        predicts."""
        rows: list[Tensor] = []
        unknown: dict[str, int] = {}
        for document in documents:
            ids, replaced = tokenizer.encode_counting(document)
            for character, count in replaced.items():
                unknown[character] = unknown.get(character, 0) + count
            text = torch.tensor([tokenizer.end, *ids, tokenizer.end])
            size = context + overlap
            starts = range(0, max(1, len(text) - overlap), context)
            rows += [text[start : start + size] for start in starts]
        return Corpus(rows, sum(map(len, documents)), unknown)


class LanguageTask(TrainingTask):
    """Next-token or masked-token prediction. Rows are padded, not packed, so they never mix."""

    name = LANGUAGE.name

    def __init__(
        self,
        train: Sequence[str],
        validation: Sequence[str],
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
        self.train = Corpus.of(train, tokenizer, context, overlap)
        self.validation = Corpus.of(validation, tokenizer, context, overlap)
        self.headline = LANGUAGE.headline if objective == "causal" else "loss"

    def describe(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "masked_share": self.masked_fraction,
            "rows": len(self.train.rows),
            "characters": self.train.characters,
            "tokenizer": type(self.tokenizer).__name__.lower(),
            "text": self.train.digest(),
        }

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        shorter = int(self.objective == "causal")
        return [len(row) - shorter for row in self.train.rows]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        return self._batch([self.train.rows[row] for row in rows], [(epoch, row) for row in rows])

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

    def measure(self, model: nn.Module, corpus: Corpus, tokens: int = 16384) -> dict[str, float]:
        """Loss per target in nats; bits per character (causal) or accuracy (masked)."""
        device = next(model.parameters()).device
        order = sorted(range(len(corpus.rows)), key=lambda row: len(corpus.rows[row]))
        total, count, correct = 0.0, 0, 0
        while order:
            longest = len(corpus.rows[order[-1]])
            rows = [order.pop() for _ in range(min(len(order), max(1, tokens // longest)))]
            batch = self._batch([corpus.rows[r] for r in rows], [(-1, r) for r in rows])
            batch = {name: x.to(device) for name, x in batch.items()}
            logits = self._logits(model, batch).flatten(0, 1).float()
            target = batch["target"].flatten()
            total += float(F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum"))
            count += self.targets(batch)
            correct += int((logits.argmax(-1) == target).sum())
        metrics = {"loss": total / max(1, count), "accuracy": correct / max(1, count)}
        if self.objective == "causal":
            metrics["bits"] = total / math.log(2) / max(1, corpus.characters)
        return metrics
