"""What is learned over a distance, by attention and by an LSTM; what can be expressed at all.

Letters: B batch, T tokens, V letters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import Evidence, Lines, Trial, claim, mean_interval, unrun
from attnlab.claims.efficient_bigbird import ZAHEER
from attnlab.claims.efficient_recurrent_cost import VASWANI, Points
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Above
from attnlab.models._stack import StackConfig
from attnlab.models.decoder import Decoder
from attnlab.report import Series

LETTERS, FAR, NEAR = 8, 16, 2


class Recurrent(nn.Module):
    """An LSTM that says one letter at each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.memory = nn.LSTM(width, width, batch_first=True)
        self.read = nn.Linear(width, LETTERS)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> logits (B, T, V)."""
        logits: Tensor = self.read(self.memory(self.letters(ids))[0])
        return logits


def _length(distance: int) -> int:
    return 2 * max(distance, FAR)


def _attention_model(distance: int) -> nn.Module:
    return Decoder(StackConfig(LETTERS, _length(distance), width=32, layers=1, heads=1))


def _recurrent_model(distance: int) -> nn.Module:
    del distance
    return Recurrent(40)


@claim(
    "long-range",
    topic="efficient",
    source="paper",
    statement="at equal size attention learns to copy over long distances where an LSTM does not",
    why="""At each token the letter of s tokens before is asked for. Attention needs one set of
    weights, "s back", whatever s is, and the way of the gradient from there has length 1. An LSTM
    must hold the last s letters, s log2(V) bits in order, in one vector, and learn it through
    s steps backwards, where its gates shrink the gradient. With s = 2 it learns it at once (the
    control). Both have about 14,000 weights and as many steps of training; it is learning that
    fails: an LSTM of enough width that does it exists.""",
    judge=Above(0.5, "accuracy of attention less that of an LSTM"),
    control="over a distance of 2",
    reference=VASWANI + "; Hochreiter and Schmidhuber 1997, Long short-term memory",
)
def long_range(trial: Trial) -> Evidence:
    steps, repeats = trial.pick((100, 3), (300, 3))
    judged = NEAR if trial.control else FAR
    distances = [judged] if trial.control else trial.pick([NEAR, FAR], [NEAR, 4, 8, FAR, 32])
    lines: dict[str, Points] = {"attention": [], "LSTM": [], "chance": []}
    gaps: list[float] = []
    for distance in distances:
        times = range(repeats if distance == judged else 1)
        found = [_copy_accuracies(trial, repeat, distance, steps) for repeat in times]
        if distance == judged:
            gaps = [one - other for one, other in found]
        ours, theirs = (mean_interval(list(row)).value for row in zip(*found, strict=True))
        for name, value in zip(lines, (ours, theirs, 1 / LETTERS), strict=True):
            lines[name].append((float(distance), value))
    return Evidence(
        mean_interval(gaps),
        Lines("distance", "accuracy", [Series(*each) for each in lines.items()], x_log=True),
        details={
            "steps of training": steps,
            "weights, attention": _size(_attention_model(judged)),
            "weights, LSTM": _size(_recurrent_model(judged)),
        },
    )


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _copy_accuracies(trial: Trial, repeat: int, distance: int, steps: int) -> tuple[float, float]:
    """Of attention, and of the LSTM at the better of two learning rates."""

    def accuracy(make: Callable[[int], nn.Module], rate: float) -> float:
        return _copy_accuracy(trial.random(distance, repeat), make, distance, steps, rate)

    theirs = max(accuracy(_recurrent_model, rate) for rate in (0.01, 0.03))
    return accuracy(_attention_model, 0.01), theirs


def _copy_accuracy(
    random: torch.Generator,
    make: Callable[[int], nn.Module],
    distance: int,
    steps: int,
    rate: float,
) -> float:
    """After training on fresh sequences; on others."""
    with seeded(random):
        model = make(distance)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    for step in range(steps + 1):
        size = 16 if step < steps else 128
        ids = torch.randint(LETTERS, (size, _length(distance)), generator=random)
        logits, wanted = model(ids)[:, distance:], ids[:, :-distance]
        if step < steps:
            optimizer.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return float((logits.argmax(-1) == wanted).float().mean())


unrun(
    "universality",
    topic="efficient",
    source="paper",
    statement="sparse attention is a universal approximator and Turing complete",
    why="""For every continuous function on sequences of n tokens in a bounded set and every error
    there is a transformer with sparse attention that comes that near, if its graph contains a star:
    one token that sees all and is seen by all. And with arbitrary precision and an encoder and a
    decoder it simulates any Turing machine. Both say that weights exist, not that training finds
    them, nor how many layers it takes; the same paper shows a task that takes full attention
    a few layers, whatever n is, and sparse attention about n layers.""",
    reason="a theorem about all functions: no experiment can decide it",
    reference=f"{ZAHEER}; Yun et al. 2020, O(n) connections are expressive enough, "
    "arXiv 2006.04862",
)
