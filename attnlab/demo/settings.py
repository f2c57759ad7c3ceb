"""How large the story is: what two cores do in about four minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attnlab.tasks.knowledge.lesson import LearnSettings

LEARN = LearnSettings(
    reader_epochs=16.0, remember_epochs=20.0, reader_tokens=1024, remember_tokens=1024
)
# Short ones that surprise, in the order in which they are told
CLAIMS = (
    "beta-sqrt-d",
    "perturb-key",
    "equal-q-k-identity",
    "heads-identical",
    "permutation-equivariance",
    "shift-matrix",
    "convolution",
    "random-features-beat-uniform",
    "stabiliser-leak",
    "synthesizer-blind",
)


@dataclass(frozen=True)
class DemoSettings:
    """All that decides how long it takes; tests tell a shorter story."""

    none_epochs: float = 30.0
    pretraining_epochs: float = 12.0
    finetuning_epochs: float = 3.0
    learn: LearnSettings = LEARN
    model: dict[str, Any] = field(default_factory=dict)
    """Changes to the preset's model."""
    samples: int = 4
    """Answers drawn for each question of the audit."""
    made_up: int = 100
    """People who do not exist, asked about in the audit."""
    looked_at: int = 12
    """People at whose questions attention is measured."""
    claims: tuple[str, ...] = CLAIMS


@dataclass(frozen=True)
class Part:
    """A chapter that may fail without the others."""

    name: str
    title: str
    seconds: float
    """About how long it takes on two quiet cores: what the bar of the whole goes by."""
    stages: tuple[float, ...] = (1.0,)
    """Shares of it, one for each time that something is counted from the beginning."""
    needs: tuple[str, ...] = ()


PARTS = (
    Part("none", "No reading: questions alone", 8),
    Part("pretrained", "Reading, then questions", 47, (0.75, 0.25)),
    Part("learned", "Read and remember", 89, (0.8, 0.2)),
    Part("audit", "Known, unsure or a guess?", 5, needs=("learned",)),
    Part("attention", "Where it looked", 5, needs=("learned",)),
    Part("claims", "Ten statements about attention", 8),
)
