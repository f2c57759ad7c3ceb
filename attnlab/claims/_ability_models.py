"""Trains small decoders on abilities (attnlab.tasks.abilities), for claims about what they learn.

A plain loop instead of `attnlab.training`: there is no run folder, and thousands of small steps
have little else to do. Every step has new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import Estimate, Trial, mean_interval
from attnlab.interpret import capture
from attnlab.models import Decoder, StackConfig
from attnlab.tasks.abilities._spec import parse_ability
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE

DrawBatch = Callable[[], tuple[Tensor, Tensor]]  # ids and targets, each (rows, tokens)
TEST_ROWS, TEST_SEED = 256, 1_000_003
LONGEST = 8  # times the length of the training rows: what learned positions have room for


@dataclass(frozen=True)
class AbilityTraining:
    """One training: the ability as in `attnlab.tasks.abilities._spec`, the model, and its steps."""

    ability: str
    attention: str = "softmax"
    seed: int = 0
    steps: int = 300
    width: int = 32
    layers: int = 1
    heads: int = 2
    convolution: int = 4
    position: str = "none"
    rotary_base: float = 1e4
    learning_rate: float = 5e-3
    batch_size: int = 32
    stop_at: float = 0.995
    """Training ends when the accuracy of the last 20 batches reaches it."""

    def make_ability(self) -> Ability:
        return parse_ability(self.ability)

    def make_model(self, context: int) -> Decoder:
        names = ("width", "layers", "heads", "convolution", "position", "rotary_base", "attention")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        vocabulary = self.make_ability().vocabulary
        return Decoder(StackConfig(vocabulary, LONGEST * context, **settings))


def make_rows(ability: Ability, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ids and targets, each (count, tokens)."""
    ids, targets = ability.generate(count, np.random.default_rng(seed))
    return torch.from_numpy(ids).long(), torch.from_numpy(targets).long()


@lru_cache(maxsize=256)
def train_ability(training: AbilityTraining) -> Decoder:
    """A trained model. Cached, because controls and claims of one group share models."""
    ability = training.make_ability()
    context = ability.generate(1, np.random.default_rng(0))[0].shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = training.make_model(context)
    draw = draw_rows(ability, training.batch_size, training.seed)
    train_model(model, draw, training.steps, training.learning_rate, training.stop_at)
    return model


def draw_rows(ability: Ability, count: int, seed: int) -> DrawBatch:
    """A function that returns new training rows, `count` each time."""
    random = np.random.default_rng((seed, 1))

    def draw() -> tuple[Tensor, Tensor]:
        ids, targets = ability.generate(count, random)
        return torch.from_numpy(ids).long(), torch.from_numpy(targets).long()

    return draw


def train_model(
    model: nn.Module,
    draw: DrawBatch,
    steps: int,
    learning_rate: float = 5e-3,
    stop_at: float = 2.0,
) -> None:
    """AdamW with warmup and a cosine decay of the learning rate. `draw` returns a new batch."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    recent: list[float] = []
    for _ in range(steps):
        ids, targets = draw()
        at = targets != IGNORE
        logits, answers = model(ids)[at], targets[at]
        optimizer.zero_grad()
        F.cross_entropy(logits, answers).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent = [*recent[-19:], float((logits.argmax(-1) == answers).float().mean())]
        if len(recent) == 20 and sum(recent) / 20 >= stop_at:
            break
    model.eval()


def ability_accuracy(training: AbilityTraining, longer: int = 1) -> float:
    """The accuracy on test rows, which may be longer than the training rows."""
    ability = training.make_ability()
    tested = ability if longer == 1 else ability.longer(longer)
    ids, targets = make_rows(tested, TEST_ROWS, TEST_SEED)
    at, model = targets != IGNORE, train_ability(training)
    with torch.no_grad():
        return float((model(ids)[at].argmax(-1) == targets[at]).float().mean())


def repeated_accuracies(
    trial: Trial, training: AbilityTraining, longer: int = 1, seeds: int = 3
) -> list[float]:
    """One accuracy for each of the trial's seeds: `training` with other weights and rows."""
    return [
        ability_accuracy(replace(training, seed=seed), longer)
        for seed in training_seeds(trial, seeds)
    ]


def training_seeds(trial: Trial, count: int = 3) -> list[int]:
    """The same at both sizes: the trainings take most of the time of a claim."""
    return [97 * trial.seed + number for number in range(count)]


def differences(first: list[float], second: list[float]) -> Estimate:
    """The mean of first - second, pair by pair: both have the same seeds."""
    return mean_interval([a - b for a, b in zip(first, second, strict=True)])


def attention_rows(training: AbilityTraining, rows: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Ids (T,), targets (T,) and the first layer's weights (H, T, T) of some test rows."""
    model = train_ability(training)
    captured_rows = []
    for ids, targets in zip(*make_rows(training.make_ability(), rows, TEST_SEED), strict=True):
        with torch.no_grad(), capture(model) as captured:
            model(ids[None])
        weights = captured.layers[0].weights
        assert weights is not None
        captured_rows.append((ids, targets, weights))
    return captured_rows
