"""A small model that has read of attnlab's embedded world, for the claims that ask what it knows.

A world is learned once in a process; claims that are entered with `together=LEARNERS` share one.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnlab._safe_files import write_text
from attnlab.claims._claim import Size
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge._data import title_of
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import World, WorldConfig, made_up_names, make_world

LEARNERS = "learners"
OFTEN = ("english", "nordic", "latin")
TIMES = 4


@dataclass(frozen=True)
class Scale:
    """How large a world, how large a model, how long it learns."""

    world: dict[str, Any]
    model: dict[str, Any]
    reading: float
    asking: float
    scratch: float
    made_up: int


SCALES: dict[Size, Scale] = {
    "small": Scale(
        {"people": 240, "repetitions": 1, "phrasings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        reading=16, asking=5, scratch=15, made_up=300,
    ),
    "full": Scale(
        {"people": 600, "repetitions": 1, "phrasings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        reading=24, asking=7, scratch=15, made_up=1000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """A model's answers about people that no training question asked about, and about nobody."""

    world: World
    said: list[Answer]
    about_nobody: dict[str, Answer]
    """By made-up name."""

    @property
    def right(self) -> list[bool]:
        golds = [gold for _, gold in self.world.held_out]
        return [each.text == gold for each, gold in zip(self.said, golds, strict=True)]


@lru_cache(maxsize=4)
def learned(seed: int, size: Size, corpus: str = "even") -> Learned:
    """`corpus`: "even" tells of each person once, "uneven" of some origins several times, and
    "none" is not read: questions are all there is."""
    scale = SCALES[size]
    world = make_world(WorldConfig(seed=seed, **scale.world))
    names = made_up_names(scale.made_up, seed, {person.name for person in world.people})
    with tempfile.TemporaryDirectory() as folder:
        model, encoding = _train(Path(folder), world, scale, seed, corpus)
        asked = [question for question, _ in world.held_out]
        said = answer_with_confidence(model, encoding, asked)
        nobody = answer_with_confidence(model, encoding, [f"Where was {n} born?" for n in names])
    return Learned(world, said, dict(zip(names, nobody, strict=True)))


def _train(
    folder: Path, world: World, scale: Scale, seed: int, corpus: str
) -> tuple[Any, KnowledgeTextEncoding]:
    world.write(folder / "world")
    lines, pairs = folder / "world" / "corpus.txt", folder / "world" / "train.tsv"
    passes = 1.0
    if corpus == "uneven":
        often = {person.name for person in world.people if person.origin in OFTEN}
        repeated = [
            line for line in world.corpus for _ in range(TIMES if title_of(line) in often else 1)
        ]
        write_text(lines, "".join(f"{line}\n" for line in repeated))
        passes = len(world.corpus) / len(repeated)  # so that it learns as long
    shared: dict[str, Any] = {
        "corpus": lines, "pairs": pairs, "training": {"seed": seed}, "quiet": True,
    }  # fmt: skip
    made: dict[str, Any] = {"model": scale.model, "tokenizer": "bpe:600"}
    if corpus == "none":
        recipe.finetune(out=folder / "asked", epochs=scale.scratch, **shared, **made)
    else:
        recipe.pretrain(out=folder / "read", epochs=passes * scale.reading, **shared, **made)
        recipe.finetune(folder / "read", out=folder / "asked", epochs=scale.asking, **shared)
    model, tokens, _ = load_knowledge(folder / "asked")
    return model, KnowledgeTextEncoding(tokens)
