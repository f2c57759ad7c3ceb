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

from attnlab.claims._ability_models import train_model, training_seeds
from attnlab.claims._claim import Bars, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._pretrained_models import SENTENCES, needs_models, trained_reader
from attnlab.claims.judges import Above, Below, Every
from attnlab.huggingface import attend_with
from attnlab.interpret import capture
from attnlab.models import Decoder, StackConfig
from attnlab.report import Series

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


@claim(
    "off-by-one-sink",
    topic="abilities",
    source="paper",
    statement="off-by-one softmax, which may give all keys little weight, removes the attention "
    "sink",
    why="""Softmax weights sum to 1, so a head that has nothing to add must still put its weight
    somewhere: on a token whose value the model makes small, which is the first one. Off-by-one
    softmax, a_i = e^(s_i) / (1 + sum_j e^(s_j)), has a key of score 0 without a value, and the
    weights may sum to nearly 0. Here a head is needed only after trigger tokens. The figure is the
    weight of the other queries on the first token; the sink must be there with softmax, or there
    is nothing to remove; its size differs between trainings, so that five are too few to show it
    with every seed. The models have one layer and one head; large models have more reasons for
    sinks.""",
    judge=Every(
        Below(0.1, "weight on the first token with off-by-one softmax"),
        [Above(0.2, "weight on the first token with softmax")],
    ),
    control="softmax instead of off-by-one softmax",
    reference="Miller 2023, Attention is off by one; Gu et al. 2024, When attention sink emerges "
    f"in language models (arXiv 2410.10781); the task: {GUO}",
)
def off_by_one_sink(trial: Trial) -> Evidence:
    weights = {
        name: mean_interval([
            sink_weight(train_backcopy(attention, seed)) for seed in training_seeds(trial, SEEDS)
        ])
        for name, attention in (("softmax", "softmax"), ("off-by-one softmax", "softmax:sink=0"))
    }  # fmt: skip
    return Evidence(
        weights["softmax" if trial.control else "off-by-one softmax"],
        Bars("weight on the first token", weights),
        parts={"weight on the first token with softmax": weights["softmax"]},
        details={"steps of training": STEPS, "seeds": SEEDS},
    )


@claim(
    "window-needs-sinks",
    topic="abilities",
    source="paper",
    statement="a model trained with full attention fails with a window cache once the first tokens "
    "have left it, and keeps working if four first tokens stay in the cache",
    why="""A trained head parks the weight that it does not need on the first tokens, whose values
    are small. If a window drops them, softmax distributes that weight over the tokens of the
    window, and the output is wrong: far more is lost than the information of the dropped tokens.
    Both caches here hold 32 tokens; one of them keeps the first four, as StreamingLLM does. The
    text is short enough for all positions to be as in training, so that only the sinks differ.
    The loss is that of tokens after the first 32. Before the cache is full nothing has been
    dropped: that is the control.""",
    judge=Every(
        Above(0.5, "loss added by a window without the first tokens, in nats (SmolLM2)"),
        [Below(0.5, "loss added by a window with the first tokens, in nats")],
    ),
    control="tokens before the cache is full",
    reference="Xiao et al. 2023, Efficient streaming language models with attention sinks, table 1 "
    "(arXiv 2309.17453)",
    needs=needs_models("smollm2"),
)
def window_needs_sinks(trial: Trial) -> Evidence:
    judged = slice(0, CACHE - 1) if trial.control else slice(CACHE - 1, None)
    caches = {
        "full attention": "softmax",
        "window": f"window:window={CACHE}",
        "window with 4 first tokens": f"window:window={CACHE - 4},sinks=4",
    }
    losses = [[text_losses(text, spec) for spec in caches.values()] for text in make_texts(trial)]
    without, kept = (
        mean_interval([float((text[cache] - text[0])[judged].mean()) for text in losses])
        for cache in (1, 2)
    )
    shortest = min(len(text[0]) for text in losses)
    curves = torch.stack([
        torch.stack([loss[:shortest] for loss in text]) for text in losses
    ]).mean(0)  # (caches, T)  # fmt: skip
    lines = [
        Series(name, [(float(t), float(curve[t : t + 8].mean())) for t in range(0, shortest, 8)])
        for name, curve in zip(caches, curves, strict=True)
    ]
    return Evidence(
        without,
        Lines("position", "loss in nats, mean of 8 tokens", lines),
        parts={"loss added by a window with the first tokens, in nats": kept},
        details={"tokens in the cache": CACHE, "texts": len(losses), "tokens": shortest + 1},
    )


def make_texts(trial: Trial) -> list[str]:
    """Plain sentences in different orders."""
    rng = random.Random(trial.seed)
    return [" ".join(rng.sample(SENTENCES, 7)) for _ in range(6)]


@lru_cache(maxsize=32)
def text_losses(text: str, attention: str) -> Tensor:
    """The loss of each token but the first (T - 1,). Cached, because the control needs the same."""
    inspected = trained_reader("smollm2").inspected
    ids = inspected.processor(text, return_tensors="pt").input_ids  # (1, T)
    with torch.no_grad(), attend_with(inspected.model, attention):
        logits = inspected.model(ids).logits
    return F.cross_entropy(logits[0, :-1].float(), ids[0, 1:], reduction="none")
