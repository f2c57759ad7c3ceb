"""Models and training settings that go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnlab.training import Settings


@dataclass(frozen=True)
class Preset:
    """A model, how to pretrain it and how to teach it to answer."""

    about: str
    tokenizer: str
    """characters, or bpe:SIZE."""
    objective: str
    model: dict[str, Any]
    """Of StackConfig."""
    pretraining: Settings
    pretraining_epochs: float
    finetuning: Settings
    finetuning_epochs: float
    scratch_epochs: float
    mixed: bool
    """Whether the documents are learned on while the questions are."""


# What the course's two scripts set. minGPT's decay never goes below a tenth.
COURSE = {
    "optimiser": "adamw",
    "beta_one": 0.9,
    "beta_two": 0.95,
    "weight_decay": 0.1,
    "clip": 1.0,
    "schedule": "cosine",
    "floor": 0.1,
    "warmup": 1,
}
MODERN = {
    "optimiser": "muon",
    "rate": 4e-3,
    "muon_rate": 0.02,
    "weight_decay": 0.0,
    "schedule": "wsd",
    "decay": 0.5,
    "warmup": 50,
}
MODERN_MODEL = {
    "position": "rotary",
    "rotary_base": 1000.0,
    "feed_forward": "relu2",
    "norm": "rms",
    "normalise_queries": True,
    "bias": False,
    "dropout": 0.0,
}

PRESETS = {
    "course": Preset(
        about="the course's GPT: 3.3M parameters, span corruption, AdamW, 650 epochs",
        tokenizer="characters",
        objective="span",
        model={"context": 128, "width": 256, "layers": 4, "heads": 8, "dropout": 0.1},
        pretraining=Settings(rate=6e-3, batch_rows=128, **COURSE),  # type: ignore[arg-type]
        pretraining_epochs=650,
        finetuning=Settings(rate=6e-4, batch_rows=256, **COURSE),  # type: ignore[arg-type]
        finetuning_epochs=10,
        scratch_epochs=75,
        mixed=False,
    ),
    "small": Preset(
        about="4 layers of 128, byte pairs, Muon: learns a fact from far fewer readings",
        tokenizer="bpe:2000",
        objective="entities",
        model={"context": 256, "width": 128, "layers": 4, "heads": 4, **MODERN_MODEL},
        pretraining=Settings(batch_tokens=2048, **MODERN),  # type: ignore[arg-type]
        pretraining_epochs=60,
        finetuning=Settings(batch_tokens=2048, **MODERN),  # type: ignore[arg-type]
        finetuning_epochs=8,
        scratch_epochs=30,
        mixed=True,
    ),
}
