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

IGNORE = -100  # a target that does not count
OBJECTIVES = ("causal", "masked")


@dataclass(frozen=True)
class Corpus:
    """Documents as ids, each between two end tokens, cut into rows of the model's length."""

    rows: list[Tensor]
    characters: int
    unknown: dict[str, int]
    """Characters that the tokenizer had to replace, and how often."""

    def digest(self) -> str:
        """Tells one text from another: a run must not go on with the wrong one."""
        found = hashlib.sha256()
        for row in self.rows:
            found.update(row.numpy().tobytes() + b"|")
        return found.hexdigest()[:16]

    @staticmethod
    def of(documents: Sequence[str], tokenizer: Tokenizer, context: int, overlap: int) -> Corpus:
        """`overlap` 1 repeats a row's last token in the next: it is a target there only."""
        rows: list[Tensor] = []
        unknown: dict[str, int] = {}
        for document in documents:
            ids, replaced = tokenizer.encode_counting(document)
            for character, count in replaced.items():
                unknown[character] = unknown.get(character, 0) + count
            text = torch.tensor([tokenizer.end, *ids, tokenizer.end])
            step = context + overlap
            starts = range(0, max(1, len(text) - overlap), context)
            rows += [text[start : start + step] for start in starts]
        return Corpus(rows, sum(map(len, documents)), unknown)


class LanguageTask(TrainingTask):
    """Rows never see each other: each has its own line of the batch."""

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
        masked_share: float = 0.15,
    ) -> None:
        if objective not in OBJECTIVES:
            raise ValueError(f"objective {objective!r}; there are {', '.join(OBJECTIVES)}")
        self.objective, self.tokenizer, self.seed = objective, tokenizer, seed
        self.masked_share = masked_share
        overlap = int(objective == "causal")
        self.train = Corpus.of(train, tokenizer, context, overlap)
        self.validation = Corpus.of(validation, tokenizer, context, overlap)
        self.headline = LANGUAGE.headline if objective == "causal" else "loss"

    def describe(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "masked_share": self.masked_share,
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

    def _batch(self, texts: Sequence[Tensor], places: Sequence[tuple[int, int]]) -> Batch:
        ids, keys = pad_rows(texts, self.tokenizer.pad)
        if self.objective == "causal":
            target = ids[:, 1:].masked_fill(~keys[:, 1:], IGNORE)
            return {"ids": ids[:, :-1], "keys": keys[:, 1:], "target": target}
        target = torch.full_like(ids, IGNORE)
        for i, (epoch, row) in enumerate(places):
            generator = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, row))
            length = int(keys[i].sum())
            chosen = torch.rand(length, generator=generator) < self.masked_share
            chosen[int(torch.randint(length, (), generator=generator))] = True  # at least one
            places_chosen = chosen.nonzero()[:, 0]
            target[i, places_chosen] = ids[i, places_chosen]
            # as BERT: most are masked, some changed, some left, so that all must be understood
            how = torch.rand(len(places_chosen), generator=generator)
            other = torch.randint(self.tokenizer.vocabulary, how.shape, generator=generator)
            kept = torch.where(how < 0.9, other, ids[i, places_chosen])
            ids[i, places_chosen] = torch.where(how < 0.8, self.tokenizer.mask, kept)
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
        """(B, T, V). Rows are padded on the right, where no causal token looks."""
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
        total, count, right = 0.0, 0, 0
        while order:
            longest = len(corpus.rows[order[-1]])
            rows = [order.pop() for _ in range(min(len(order), max(1, tokens // longest)))]
            batch = self._batch([corpus.rows[r] for r in rows], [(-1, r) for r in rows])
            batch = {name: x.to(device) for name, x in batch.items()}
            logits = self._logits(model, batch).flatten(0, 1).float()
            target = batch["target"].flatten()
            total += float(F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum"))
            count += self.targets(batch)
            right += int((logits.argmax(-1) == target).sum())
        found = {"loss": total / max(1, count), "accuracy": right / max(1, count)}
        if self.objective == "causal":
            found["bits"] = total / math.log(2) / max(1, corpus.characters)
        return found
