"""Presets: models and training settings that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnlab.training import Settings


@dataclass(frozen=True)
class Preset:
    """A model with its settings for pretraining and finetuning."""

    about: str
    tokenizer: str
    """characters, or bpe:SIZE."""
    objective: str
    model: dict[str, Any]
    """Fields of StackConfig."""
    pretraining: Settings
    pretraining_epochs: float
    finetuning: Settings
    """Finetuning after pretraining."""
    finetuning_epochs: float
    scratch: Settings
    """Finetuning without pretraining; also for the readers of `learn`."""
    scratch_epochs: float
    mixed: bool
    """Whether finetuning also continues to train on the documents."""
    holds_out: bool
    """Whether finetuning holds out some pairs to measure on."""
    made_up: float
    """Rows about made-up names, with no answer, for each row about a real one."""


# The settings of the course's two scripts. minGPT's learning rate never falls below a tenth.
COURSE = {
    "optimizer": "adamw",
    "beta1": 0.9,
    "beta2": 0.95,
    "weight_decay": 0.1,
    "max_gradient_norm": 1.0,
    "schedule": "cosine",
    "final_rate_fraction": 0.1,
    "warmup_steps": 1,
}
MODERN = {
    "optimizer": "muon",
    "batch_tokens": 2048,
    "learning_rate": 4e-3,
    "muon_learning_rate": 0.02,
    "weight_decay": 0.0,
    "schedule": "wsd",
    "decay_fraction": 0.5,
    "warmup_steps": 50,
}
LATE = {
    "learning_rate": 1.2e-3,
    "muon_learning_rate": 0.006,
    "decay_fraction": 1.0,
    "warmup_steps": 1,
}
MODERN_MODEL = {
    "position": "rotary",
    "rotary_base": 1000.0,
    "feed_forward": "relu2",
    "norm": "rms",
    "normalize_queries": True,
    "bias": False,
    "dropout": 0.0,
}

PRESETS = {
    "course": Preset(
        about="the course's GPT: 3.3M parameters, span corruption, AdamW, 650 epochs",
        tokenizer="characters",
        objective="span",
        model={"context": 128, "width": 256, "layers": 4, "heads": 8, "dropout": 0.1},
        pretraining=Settings(learning_rate=6e-3, batch_size=128, **COURSE),  # type: ignore[arg-type]
        pretraining_epochs=650,
        finetuning=Settings(learning_rate=6e-4, batch_size=256, **COURSE),  # type: ignore[arg-type]
        finetuning_epochs=10,
        scratch=Settings(learning_rate=6e-4, batch_size=256, **COURSE),  # type: ignore[arg-type]
        scratch_epochs=75,
        mixed=False,
        holds_out=False,
        made_up=0.0,
    ),
    "small": Preset(
        about="4 layers of 128, byte pairs, Muon: learns a fact from far fewer readings",
        tokenizer="bpe:2000",
        objective="entities",
        model={"context": 256, "width": 128, "layers": 4, "heads": 4, **MODERN_MODEL},
        # one schedule over both stages: questions come while the learning rate falls
        pretraining=Settings(final_rate_fraction=0.3, **MODERN),  # type: ignore[arg-type]
        pretraining_epochs=60,
        finetuning=Settings(**{**MODERN, **LATE}),  # type: ignore[arg-type]
        finetuning_epochs=8,
        scratch=Settings(**MODERN),  # type: ignore[arg-type]
        scratch_epochs=30,
        mixed=True,
        holds_out=True,
        made_up=0.25,
    ),
}
