"""The settings of the demo, and its state: what its parts have produced so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.report import Section
from attnlab.tasks.knowledge._learn_stages import LearnSettings
from attnlab.tasks.knowledge._world import World

NONE, PRETRAINED, FINETUNED, LEARNED = "no-pretraining", "pretrained", "finetuned", "learned"
LEARNED_TITLE = "Read and remember"
INDEX, MEMORY_PAGE, READING_PAGE = "index.html", "attention.html", "reading.html"
CLAIMS_PAGE, CLAIMS_DATA = "claims.html", "claims.json"
PAGES = (INDEX, MEMORY_PAGE, READING_PAGE, CLAIMS_PAGE, CLAIMS_DATA)
LEARN = LearnSettings(
    reader_epochs=16.0, remember_epochs=20.0, reader_tokens=1024, remember_tokens=1024
)
# Short and surprising claims, in the order in which the page shows them
CLAIMS = (
    "beta-sqrt-d",
    "perturb-key",
    "equal-q-k-identity",
    "heads-identical",
    "permutation-equivariance",
    "shift-matrix",
    "convolution",
    "random-features-beat-uniform",
    "stabilizer-leak",
    "synthesizer-blind",
)


@dataclass(frozen=True)
class DemoSettings:
    """Everything that determines how long the demo takes; with the defaults about four minutes."""

    none_epochs: float = 30.0
    pretraining_epochs: float = 12.0
    finetuning_epochs: float = 3.0
    learn: LearnSettings = LEARN
    model: dict[str, Any] = field(default_factory=dict)
    """Options that override the preset's model."""
    samples: int = 4
    """Number of answers sampled for each question of the audit."""
    made_up: int = 100
    """Number of made-up people in the audit."""
    attention_people: int = 12
    """Number of people for whose questions attention is measured."""
    claims: tuple[str, ...] = CLAIMS


@dataclass(frozen=True)
class MethodScore:
    """A method to learn, and how many held-out questions it answers correctly."""

    name: str
    about: str
    right: int
    total: int
    minutes: float | None = None
    """Training time; None if nothing was trained."""
    decoys: int = 0
    """Number of mistakes that name another city of the person's line, the distractor."""

    @property
    def mistakes(self) -> int:
        return self.total - self.right


@dataclass
class Demo:
    """The state of a demo: parts read it and add to it."""

    out: Path
    settings: DemoSettings
    world: World
    seed: int = 0
    scores: list[MethodScore] = field(default_factory=list)
    sections: dict[str, Section] = field(default_factory=dict)
    """The sections of the report by name, in the order of the page."""
    parameters: int = 0
    reading: tuple[str, str] | None = None
    """A document and a question for a suggested command."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each finished part, by its name."""
    problems: dict[str, str] = field(default_factory=dict)
    """The error message of each failed part, by its name."""
    stopped: str = ""
    """Name of the part in which the demo was interrupted."""
    finished: bool = False
