"""The settings of `attnlab convert`. Their sentences are also the help of the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from attnlab._help_groups import COMMON, DATA, HARDWARE, MEASUREMENT, OPTIMIZER, TRAINING
from attnlab.training._settings import DEVICES

PRECISIONS = ("float32", "bfloat16")
TRANSFER, ADAPTERS, CONTROL = "transfer", "adapters", "control"
"""The stages that train."""


@dataclass(frozen=True)
class ConvertSettings:
    """How to convert a model.

    >>> from attnlab.convert import ConvertSettings
    >>> ConvertSettings(steps=100, adapters=0.6).length("adapters")
    {'steps': 60}
    """

    minutes: Annotated[
        float, "Time to train, in both stages together, without measurements.", TRAINING, COMMON
    ] = 30.0
    steps: Annotated[
        int | None,
        "Number of optimizer steps of both stages together, instead of --minutes. The same command "
        "then gives the same weights.",
        TRAINING,
        COMMON,
    ] = None
    adapters: Annotated[
        float,
        "Fraction of the time for the second stage, which trains low-rank adapters by the model's "
        "predictions. 0 leaves it out.",
        TRAINING,
        COMMON,
    ] = 0.75
    control: Annotated[
        bool,
        "Also train adapters around random features, as long as those of the second stage: what "
        "the first stage is worth. It comes on top of --minutes.",
        MEASUREMENT,
    ] = False
    tokens: Annotated[int, "Number of tokens in each text, for training and measuring.", DATA] = (
        1024
    )
    texts: Annotated[int, "Number of held-out texts to measure the loss on.", MEASUREMENT] = 8
    batch_size: Annotated[int, "Number of texts in each optimizer step.", TRAINING] = 1
    kept_texts: Annotated[
        int,
        "Number of texts whose queries, keys, values and outputs the first stage keeps in memory "
        "and uses again.",
        TRAINING,
    ] = 4
    reuse: Annotated[
        int,
        "How often the first stage uses each kept text before the next ones. A pass through the "
        "original costs more than the mechanisms.",
        TRAINING,
    ] = 4
    learning_rate: Annotated[
        float, "Peak learning rate of the first stage, which trains the mechanism.", OPTIMIZER
    ] = 3e-2
    adapter_learning_rate: Annotated[
        float, "Peak learning rate of the second stage.", OPTIMIZER
    ] = 1e-3
    rank: Annotated[int, "Rank of the adapters of queries, keys, values and outputs.", TRAINING] = 8
    distillation: Annotated[
        float,
        "Weight of the original's predictions in the loss of the second stage. The rest is the "
        "weight of the text's next tokens.",
        TRAINING,
    ] = 1.0
    lengths: Annotated[
        tuple[int, ...], "Lengths at which to measure generation, in tokens.", MEASUREMENT
    ] = (2048, 8192, 32768)
    precision: Annotated[
        str,
        "Precision of matrix products in training: float32, or bfloat16, which is faster on "
        "processors that support it.",
        HARDWARE,
    ] = "float32"
    device: Annotated[str, "Device to train on: auto, cpu, cuda or mps.", HARDWARE] = "auto"
    seed: Annotated[int, "Random seed for new weights and the order of texts.", TRAINING] = 0
    save_every: Annotated[int, "Number of steps between checkpoints.", TRAINING] = 20

    def __post_init__(self) -> None:
        for name, least in (
            ("steps", 1), ("tokens", 8), ("texts", 1), ("batch_size", 1), ("rank", 1),
            ("kept_texts", 1), ("reuse", 1), ("save_every", 1),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; give {least} or more")
        for name in ("minutes", "learning_rate", "adapter_learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")
        for name in ("adapters", "distillation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a fraction from 0 to 1")
        for name, choices in (("precision", PRECISIONS), ("device", DEVICES)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; choose from {', '.join(choices)}"
                )
        if min(self.lengths, default=1) < 1:
            raise ValueError(f"lengths has {min(self.lengths)}; give numbers of tokens")

    def fraction(self, stage: str) -> float:
        """The part of the time that a stage has."""
        return 1 - self.adapters if stage == TRANSFER else self.adapters

    def length(self, stage: str) -> dict[str, float]:
        """`steps` or `minutes` of a stage."""
        part = self.fraction(stage)
        if self.steps is not None:
            return {"steps": max(1, round(part * self.steps))}
        return {"minutes": part * self.minutes}
