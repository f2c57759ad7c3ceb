"""The settings of a training run, documented where they are declared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from attnlab._help_groups import COMMON, HARDWARE, OPTIMIZER, TRAINING, VALIDATION

OPTIMIZERS = ("adamw", "muon")
SCHEDULES = ("cosine", "wsd", "constant")
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class Settings:
    """How to train. The sentences are also the help of the command line."""

    steps: Annotated[int, "Number of optimizer steps.", TRAINING, COMMON] = 1000
    minutes: Annotated[
        float | None,
        "Train for this many minutes instead of a number of steps. The learning rate schedule then "
        "follows the clock.",
        TRAINING,
        COMMON,
    ] = None
    training_time_only: Annotated[
        bool, "Count only training steps toward --minutes, not validation and saving.", TRAINING
    ] = False
    batch_tokens: Annotated[
        int,
        "Number of tokens in each optimizer step, over all processes. --batch-size replaces it.",
        TRAINING,
    ] = 8192
    batch_size: Annotated[
        int | None,
        "Number of examples in each optimizer step.",
        TRAINING,
        COMMON,
    ] = None
    accumulation_steps: Annotated[
        int, "Compute each batch in this many parts, one after the other, to save memory.", TRAINING
    ] = 1
    optimizer: Annotated[
        str, "Optimizer: adamw, or muon (Muon for matrices and AdamW for the rest).", OPTIMIZER
    ] = "adamw"
    learning_rate: Annotated[float, "Peak learning rate of AdamW.", OPTIMIZER, COMMON] = 3e-3
    muon_learning_rate: Annotated[float, "Peak learning rate of Muon.", OPTIMIZER] = 0.02
    schedule: Annotated[
        str,
        "Learning rate schedule: cosine, wsd (warmup, stable, decay) or constant.",
        OPTIMIZER,
    ] = "cosine"
    warmup_steps: Annotated[
        int, "Number of steps in which the learning rate rises from 0 to its peak.", OPTIMIZER
    ] = 50
    decay_fraction: Annotated[
        float,
        "Fraction of the steps, at the end, in which the wsd schedule lowers the learning rate.",
        OPTIMIZER,
    ] = 0.3
    final_rate_fraction: Annotated[
        float, "Learning rate at the end, as a fraction of the peak.", OPTIMIZER
    ] = 0.0
    weight_decay: Annotated[
        float, "Weight decay of matrices. Biases and other vectors have none.", OPTIMIZER
    ] = 0.1
    beta1: Annotated[float, "Decay of AdamW's running average of gradients.", OPTIMIZER] = 0.9
    beta2: Annotated[float, "Decay of AdamW's running average of squared gradients.", OPTIMIZER] = (
        0.95
    )
    max_gradient_norm: Annotated[
        float | None, "Clip gradients whose norm is larger than this.", OPTIMIZER
    ] = 1.0
    ema_decay: Annotated[
        float | None,
        "Decay of an exponential moving average of the weights, such as 0.999. Without it, no "
        "average is kept.",
        OPTIMIZER,
    ] = None
    compile: Annotated[bool, "Compile the model with torch.compile.", HARDWARE] = False
    device: Annotated[str, "Device to train on: auto, cpu, cuda or mps.", HARDWARE] = "auto"
    shard: Annotated[
        bool,
        "Split the parameters over the processes (FSDP2) instead of copying them to each (DDP).",
        HARDWARE,
    ] = False
    seed: Annotated[int, "Random seed for weights, data order and dropout.", TRAINING, COMMON] = 0
    evaluate_every: Annotated[
        int | None,
        "Number of steps between validations. Without it, validate only at the end.",
        VALIDATION,
    ] = None
    evaluations: Annotated[
        int | None, "Number of validations, spread evenly over the training.", VALIDATION
    ] = None
    stop_at: Annotated[
        float | None,
        "End the training when the main metric of a validation reaches this value, such as an "
        "accuracy of 0.99.",
        VALIDATION,
    ] = None
    keep_best: Annotated[
        bool, "Keep the weights of the best validation instead of the last ones.", VALIDATION
    ] = False
    save_every: Annotated[int, "Number of steps between checkpoints.", VALIDATION] = 500
    keep_checkpoints: Annotated[int, "Number of checkpoints to keep.", VALIDATION] = 2

    def __post_init__(self) -> None:
        for name, allowed in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("device", DEVICES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; choose from {', '.join(allowed)}"
                )
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
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise ValueError(f"stop_at is {self.stop_at}; give a finite number")
        if self.max_gradient_norm is not None and not self.max_gradient_norm > 0:
            raise ValueError(
                f"max_gradient_norm is {self.max_gradient_norm}; give a number above 0"
            )
        if not 0 <= self.final_rate_fraction <= 1:
            raise ValueError(
                f"final_rate_fraction is {self.final_rate_fraction}; give a fraction from 0 to 1"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; give a whole number from 0 to 2**63 - 1")
        if not 0 < self.decay_fraction <= 1:
            raise ValueError(
                f"decay_fraction is {self.decay_fraction}; give a fraction above 0, at most 1"
            )
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay is {self.ema_decay}; give a number between 0 and 1")
