"""Copying over long distances by attention and by an LSTM, and what attention can express.

Letters: B batch, T tokens, V letters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import Evidence, Lines, Trial, claim, mean_interval, register_unrun_claim
from attnlab.claims.efficient_bigbird import ZAHEER
from attnlab.claims.efficient_versus_recurrent import VASWANI, Points
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Above
from attnlab.models._stack import StackConfig
from attnlab.models.decoder import Decoder
from attnlab.report import Series

LETTERS, FAR, NEAR = 8, 16, 2


class LSTMModel(nn.Module):
    """An LSTM that predicts one letter at each token."""

    def __init__(self, width: int, letters: int = LETTERS) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.memory = nn.LSTM(width, width, batch_first=True)
        self.read = nn.Linear(width, letters)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> logits (B, T, V)."""
        logits: Tensor = self.read(self.memory(self.letters(ids))[0])
        return logits


def _sequence_length(distance: int) -> int:
    return 2 * max(distance, FAR)


def _attention_model(distance: int) -> nn.Module:
    return Decoder(StackConfig(LETTERS, _sequence_length(distance), width=32, layers=1, heads=1))


def _recurrent_model(distance: int) -> nn.Module:
    del distance
    return LSTMModel(40)


@claim(
    "long-range",
    topic="efficient",
    source="paper",
    statement="at equal size attention learns to copy over long distances where an LSTM does not",
    why="""The task is to output, at each token, the letter s tokens before. Attention needs one
    pattern of weights, "s back", whatever s is, and the gradient path has length 1. An LSTM must
    store the last s letters in order, s log2(V) bits, in one vector, and learn this through s
    backward steps, in which its gates shrink the gradient. With s = 2 it learns quickly (the
    control). Both models have about 14,000 weights and equally many training steps. What fails is
    learning: an LSTM that is wide enough can represent the solution.""",
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
        repeated = range(repeats if distance == judged else 1)
        accuracies = [_copy_accuracies(trial, repeat, distance, steps) for repeat in repeated]
        if distance == judged:
            gaps = [
                attention_accuracy - lstm_accuracy
                for attention_accuracy, lstm_accuracy in accuracies
            ]
        attention, lstm = (mean_interval(list(row)).value for row in zip(*accuracies, strict=True))
        for name, value in zip(lines, (attention, lstm, 1 / LETTERS), strict=True):
            lines[name].append((float(distance), value))
    return Evidence(
        mean_interval(gaps),
        Lines("distance", "accuracy", [Series(*each) for each in lines.items()], x_log=True),
        details={
            "steps of training": steps,
            "weights, attention": _parameter_count(_attention_model(judged)),
            "weights, LSTM": _parameter_count(_recurrent_model(judged)),
        },
    )


def _parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _copy_accuracies(trial: Trial, repeat: int, distance: int, steps: int) -> tuple[float, float]:
    """Accuracy of attention, and of the LSTM at the better of two learning rates."""

    def accuracy(make: Callable[[int], nn.Module], learning_rate: float) -> float:
        return _copy_accuracy(
            trial.generator(distance, repeat), make, distance, steps, learning_rate
        )

    lstm = max(accuracy(_recurrent_model, learning_rate) for learning_rate in (0.01, 0.03))
    return accuracy(_attention_model, 0.01), lstm


def _copy_accuracy(
    generator: torch.Generator,
    make: Callable[[int], nn.Module],
    distance: int,
    steps: int,
    learning_rate: float,
) -> float:
    """Accuracy on new sequences after training."""
    with seeded(generator):
        model = make(distance)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    for step in range(steps + 1):
        batch_size = 16 if step < steps else 128
        ids = torch.randint(LETTERS, (batch_size, _sequence_length(distance)), generator=generator)
        logits, target = model(ids)[:, distance:], ids[:, :-distance]
        if step < steps:
            optimizer.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return float((logits.argmax(-1) == target).float().mean())


register_unrun_claim(
    "universality",
    topic="efficient",
    source="paper",
    statement="sparse attention is a universal approximator and Turing complete",
    why="""For every continuous function on sequences of n tokens in a bounded set, and every error
    bound, there is a transformer with sparse attention that stays within the bound, if its graph
    contains a star: one token that attends to all others and to which all attend. With arbitrary
    precision, an encoder and a decoder, it simulates any Turing machine. Both theorems say that
    such weights exist, not that training finds them or how many layers they need. The same paper
    shows a task for which full attention needs a few layers for any n, and sparse attention about
    n layers.""",
    reason="a theorem about all functions: no experiment can decide it",
    reference=f"{ZAHEER}; Yun et al. 2020, O(n) connections are expressive enough, "
    "arXiv 2006.04862",
)
