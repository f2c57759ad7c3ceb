"""Attention sinks: a small model that makes one, and a real model that loses its own.

The small model's task is bigram-backcopy (Guo et al. 2024): after the first token `<s>`, tokens
follow a fixed random bigram table; but after a trigger, the token before it comes again. A head is
needed only at triggers. At all other tokens softmax must put its weight somewhere.

Letters: T tokens, V token ids.
"""

from __future__ import annotations

import random
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._ability_models import train_model
from attnlab.claims._claim import Trial
from attnlab.claims._pretrained_models import SENTENCES, trained_reader
from attnlab.huggingface import attend_with
from attnlab.interpret import capture
from attnlab.models import Decoder, StackConfig

TOKENS, TRIGGERS, LENGTH = 16, 3, 32  # the first ids are triggers, the last one is <s>
STEPS, CAPTURED_ROWS, SEEDS = 400, 16, 5
CACHE = 32  # tokens that a window holds
GUO = "Guo et al. 2024, Active-Dormant Attention Heads, section 2 (arXiv 2410.13835)"


class Backcopy:
    """Rows of the task bigram-backcopy."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        table_generator = torch.Generator().manual_seed(17)
        scores = 2 * torch.randn(TOKENS, TOKENS, generator=table_generator)
        self.table = scores.softmax(-1)  # (V, V) row: the token before

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Ids and next tokens, each (count, LENGTH)."""
        rows = [torch.full((count,), TOKENS), self._sample(torch.ones(count, TOKENS))]
        while len(rows) <= LENGTH:
            before, newest = rows[-2], rows[-1]
            following = self._sample(self.table[newest])
            copies = (newest < TRIGGERS) & (before >= TRIGGERS) & (before < TOKENS)
            rows.append(torch.where(copies, before, following))
        ids = torch.stack(rows, dim=1)  # (count, LENGTH + 1)
        return ids[:, :-1], ids[:, 1:]

    def _sample(self, probabilities: Tensor) -> Tensor:
        return torch.multinomial(probabilities, 1, generator=self.generator)[:, 0]


def make_model(attention: str) -> Decoder:
    """One layer and one head, with rotary positions to find the token before a trigger."""
    return Decoder(StackConfig(
        TOKENS + 1, LENGTH, width=32, layers=1, heads=1, attention=attention, position="rotary",
    ))  # fmt: skip


@lru_cache(maxsize=32)
def train_backcopy(attention: str, seed: int) -> Decoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make_model(attention)
    rows = Backcopy(seed)
    train_model(model, lambda: rows.draw(32), STEPS)
    return model


def test_rows() -> tuple[Tensor, Tensor]:
    return Backcopy(1_000_003).draw(128)


def sink_weight(model: Decoder) -> float:
    """The mean weight on the first token, of queries in the second half that are no trigger."""
    weights = []
    for row in test_rows()[0][:CAPTURED_ROWS]:
        with torch.no_grad(), capture(model) as captured:
            model(row[None])
        matrix = captured.layers[0].weights
        assert matrix is not None
        dormant = torch.arange(LENGTH) >= LENGTH // 2
        dormant &= row >= TRIGGERS
        weights.append(float(matrix[0, dormant, 0].mean()))
    return sum(weights) / len(weights)


def make_texts(trial: Trial) -> list[str]:
    """Plain sentences in different orders."""
    rng = random.Random(trial.seed)
    return [" ".join(rng.sample(SENTENCES, 5)) for _ in range(trial.pick(3, 6))]


@lru_cache(maxsize=32)
def text_losses(text: str, attention: str) -> Tensor:
    """The loss of each token but the first (T - 1,). Cached, because the control needs the same."""
    inspected = trained_reader("smollm2").inspected
    ids = inspected.processor(text, return_tensors="pt").input_ids  # (1, T)
    with torch.no_grad(), attend_with(inspected.model, attention):
        logits = inspected.model(ids).logits
    return F.cross_entropy(logits[0, :-1].float(), ids[0, 1:], reduction="none")
