"""Trains small models on attnlab's built-in world, for the claims about what a model knows.

Each process trains a model once; claims with `group=WORLD_MODELS` share it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnlab._safe_files import write_text
from attnlab.claims._claim import Size
from attnlab.models import Decoder
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge._data import title_of
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import World, WorldConfig, made_up_names, make_world

WORLD_MODELS = "world models"
FREQUENT_ORIGINS = ("english", "nordic", "latin")
FREQUENT_REPEATS = 4


@dataclass(frozen=True)
class WorldScale:
    """Size of the world and of the model, and how long it is trained."""

    world: dict[str, Any]
    model: dict[str, Any]
    pretraining_epochs: float
    finetuning_epochs: float
    scratch_epochs: float
    made_up_people: int


SCALES: dict[Size, WorldScale] = {
    "small": WorldScale(
        {"people": 240, "repetitions": 1, "phrasings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        pretraining_epochs=16, finetuning_epochs=5, scratch_epochs=15, made_up_people=300,
    ),
    "full": WorldScale(
        {"people": 600, "repetitions": 1, "phrasings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        pretraining_epochs=24, finetuning_epochs=7, scratch_epochs=15, made_up_people=1000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class WorldAnswers:
    """A model's answers about people without a training question, and about made-up people."""

    world: World
    answers: list[Answer]
    made_up_answers: dict[str, Answer]
    """The answers about made-up people, by name."""

    @property
    def correct(self) -> list[bool]:
        expected = [gold for _, gold in self.world.held_out]
        return [answer.text == gold for answer, gold in zip(self.answers, expected, strict=True)]


@lru_cache(maxsize=4)
def learn_world(seed: int, size: Size, corpus: str = "even") -> WorldAnswers:
    """Train a model on a world and return its answers.

    With `corpus` "even" each person occurs once, with "uneven" people of some origins occur several
    times, and with "none" the model sees only questions.
    """
    scale = SCALES[size]
    world = make_world(WorldConfig(seed=seed, **scale.world))
    names = made_up_names(scale.made_up_people, seed, {person.name for person in world.people})
    with tempfile.TemporaryDirectory() as folder:
        model, encoding = train_on_world(Path(folder), world, scale, seed, corpus)
        questions = [question for question, _ in world.held_out]
        answers = answer_with_confidence(model, encoding, questions)
        made_up = answer_with_confidence(model, encoding, [f"Where was {n} born?" for n in names])
    return WorldAnswers(world, answers, dict(zip(names, made_up, strict=True)))


def train_on_world(
    folder: Path, world: World, scale: WorldScale, seed: int, corpus: str = "even"
) -> tuple[Decoder, KnowledgeTextEncoding]:
    """Train in an empty folder. `corpus` as in `learn_world`."""
    world.write(folder / "world")
    lines, pairs = folder / "world" / "corpus.txt", folder / "world" / "train.tsv"
    passes = 1.0
    if corpus == "uneven":
        frequent = {person.name for person in world.people if person.origin in FREQUENT_ORIGINS}
        repeated = [
            line
            for line in world.corpus
            for _ in range(FREQUENT_REPEATS if title_of(line) in frequent else 1)
        ]
        write_text(lines, "".join(f"{line}\n" for line in repeated))
        passes = len(world.corpus) / len(repeated)  # so that it trains equally long
    shared: dict[str, Any] = {
        "corpus": lines, "pairs": pairs, "training": {"seed": seed}, "made_up": 0.0, "quiet": True,
    }  # fmt: skip
    model_options: dict[str, Any] = {"model": scale.model, "tokenizer": "bpe:600"}
    if corpus == "none":
        recipe.finetune(
            out=folder / "asked", epochs=scale.scratch_epochs, **shared, **model_options
        )
    else:
        recipe.pretrain(
            out=folder / "read", epochs=passes * scale.pretraining_epochs, **shared, **model_options
        )
        recipe.finetune(
            folder / "read", out=folder / "asked", epochs=scale.finetuning_epochs, **shared
        )
    model, tokens, _ = load_knowledge(folder / "asked")
    assert isinstance(model, Decoder)
    return model, KnowledgeTextEncoding(tokens)
