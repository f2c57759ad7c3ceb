"""The settings of a training run, documented where they are declared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

OPTIMISERS = ("adamw", "muon")
SCHEDULES = ("cosine", "wsd", "constant")
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class Settings:
    """How to train. The command line's help is made from this."""

    steps: Annotated[int, "optimizer steps in all"] = 1000
    minutes: Annotated[
        float | None, "stop after so many minutes instead; the rate follows the clock"
    ] = None
    training_time_only: Annotated[
        bool, "minutes are those of training steps, without validations and saving"
    ] = False
    batch_tokens: Annotated[int, "tokens of a step, over all processes"] = 8192
    batch_size: Annotated[int | None, "rows of a step; given, it replaces batch_tokens"] = None
    accumulation_steps: Annotated[int, "parts that a batch is computed in, to save memory"] = 1
    optimizer: Annotated[str, "adamw, or muon for matrices and adamw for the rest"] = "adamw"
    learning_rate: Annotated[float, "highest learning rate of adamw"] = 3e-3
    muon_learning_rate: Annotated[float, "highest learning rate of muon"] = 0.02
    schedule: Annotated[str, "cosine, wsd (warmup, stable, decay) or constant"] = "cosine"
    warmup_steps: Annotated[int, "steps from rate 0 to the highest"] = 50
    decay_fraction: Annotated[
        float, "wsd: share of the steps at the end in which the rate falls"
    ] = 0.3
    final_rate_fraction: Annotated[float, "lowest rate at the end, as a share of the highest"] = 0.0
    weight_decay: Annotated[float, "of matrices; vectors have none"] = 0.1
    beta1: Annotated[float, "adamw's memory of gradients"] = 0.9
    beta2: Annotated[float, "adamw's memory of squared gradients"] = 0.95
    max_gradient_norm: Annotated[float | None, "longest gradient"] = 1.0
    ema_decay: Annotated[float | None, "keep a moving average of the weights with this memory"] = (
        None
    )
    compile: Annotated[bool, "let torch.compile fuse the model"] = False
    device: Annotated[str, "auto, cpu, cuda or mps"] = "auto"
    shard: Annotated[bool, "split parameters over the processes (FSDP2), not copies of all"] = False
    seed: Annotated[int, "of weights, data order and dropout"] = 0
    evaluate_every: Annotated[int | None, "steps between validations; none: at the end only"] = None
    evaluations: Annotated[int | None, "validations spread evenly over the run"] = None
    keep_best: Annotated[bool, "keep the weights that validated best, not the last ones"] = False
    save_every: Annotated[int, "steps between checkpoints"] = 500
    keep_checkpoints: Annotated[int, "checkpoints to keep"] = 2

    def __post_init__(self) -> None:
        for name, allowed in (
            ("optimizer", OPTIMISERS),
            ("schedule", SCHEDULES),
            ("device", DEVICES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} {getattr(self, name)!r}; there are {', '.join(allowed)}")
        for name in (
            "steps",
            "batch_tokens",
            "accumulation_steps",
            "save_every",
            "keep_checkpoints",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("batch_size", "evaluate_every", "evaluations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; give 1 or more")
        for name, low in (
            ("warmup_steps", 0),
            ("weight_decay", 0),
            ("learning_rate", 0),
            ("muon_learning_rate", 0),
        ):
            if getattr(self, name) < low:
                raise ValueError(f"{name} is {getattr(self, name)}; give {low} or more")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"minutes is {self.minutes}; give a number above 0")
        if self.max_gradient_norm is not None and not self.max_gradient_norm > 0:
            raise ValueError(
                f"max_gradient_norm is {self.max_gradient_norm}; give a number above 0"
            )
        if not 0 <= self.final_rate_fraction <= 1:
            raise ValueError(
                f"final_rate_fraction is {self.final_rate_fraction}; give a share from 0 to 1"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; give a whole number from 0 to 2**63 - 1")
        if not 0 < self.decay_fraction <= 1:
            raise ValueError(
                f"decay_fraction is {self.decay_fraction}; give a share above 0, at most 1"
            )
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay is {self.ema_decay}; give a number between 0 and 1")
