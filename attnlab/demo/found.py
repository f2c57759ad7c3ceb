"""What the story found, part by part: the terminal and the page tell it from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.claims.running import Result
from attnlab.intervals import wilson
from attnlab.tasks.knowledge.world import World

Report = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to learn, and how many people it could answer about."""

    name: str
    about: str
    right: int
    total: int
    minutes: float | None = None
    """None where nothing was trained."""

    @property
    def share(self) -> float:
        return self.right / max(1, self.total)

    @property
    def between(self) -> tuple[float, float]:
        return wilson(self.right, self.total)


@dataclass(frozen=True)
class Asked:
    """A question and what was said to it."""

    question: str
    answer: str
    verdict: str
    confidence: float
    gold: str | None
    """None: there is no such person."""
    unread: str = ""
    """What the model answers that never read."""


@dataclass(frozen=True)
class Strip:
    """Words, and how much of its weight one head (or the mean of all) gives to each."""

    words: Sequence[tuple[str, float]]
    written: str
    """What came next, while the head looked so."""


@dataclass(frozen=True)
class Seen:
    """Where the reader looks in a text, and where the one looks that has none."""

    question: str
    document: str
    layer: int
    head: int
    """Of the reader: the one that finds cities best, chosen on other people."""
    people: int
    answer: float
    """Its weight on the answer in the text, the mean over people."""
    other: float
    """Its weight on other cities there."""
    untrained: float
    """On all cities, of a reader that has learned nothing."""
    share: float
    """Of the tokens, that are cities'."""
    reading: Strip
    remembering: Strip
    names: Sequence[tuple[float, float]]
    """Of the one that remembers, layer by layer: weight on the name, and the same untrained."""
    chance: float
    """The share of the tokens that are the name's."""


@dataclass
class Found:
    """Grows while the story is told; what is missing was not done, or stands in `problems`."""

    world: World
    seed: int
    ways: list[Way] = field(default_factory=list)
    parameters: int = 0
    audit: Report | None = None
    asked: list[Asked] = field(default_factory=list)
    seen: Seen | None = None
    claims: list[Result] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each part that ended, by its name."""
    problems: dict[str, str] = field(default_factory=dict)
    """Why a part failed, by its name."""
    stopped: str = ""
    """The part in which it was interrupted."""
    finished: bool = False

    @property
    def minutes(self) -> float:
        return sum(self.seconds.values()) / 60
