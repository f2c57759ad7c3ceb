"""What is learned from, and what learns: files or the embedded world, models by preset, runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Decoder, StackConfig
from attnlab.tasks.knowledge._data import WORLD, Pair, read_corpus, read_pairs
from attnlab.tasks.knowledge._presets import PRESETS, Preset
from attnlab.tasks.knowledge._task import KnowledgeTask
from attnlab.tasks.knowledge._world import World, WorldConfig, make_world
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer, load_tokenizer
from attnlab.training import Run


@dataclass(frozen=True)
class Material:
    """What is learned from."""

    documents: list[str]
    pairs: list[Pair]
    corpus: str
    """Where the documents came from: a path, or the embedded world."""
    world: World | None = None

    @property
    def texts(self) -> list[str]:
        """Everything that a tokenizer must be able to read."""
        return [*self.documents, *(text for pair in self.pairs for text in pair)]


def material(
    corpus: str | Path | None, pairs: str | Path | None, *, needs_pairs: bool = True
) -> Material:
    """The user's files, or the embedded world where there are none."""
    if corpus is None and pairs is None:
        world = make_world(WorldConfig())
        return Material(world.corpus, world.train, WORLD, world)
    if corpus is None:
        if not needs_pairs:
            raise ValueError("--pairs without --corpus; give a file of one document per line too")
        return Material([], read_pairs(_path(pairs)), "")
    if pairs is None and needs_pairs:
        raise ValueError("--corpus without --pairs; give a file of question, tab, answer too")
    known = read_pairs(_path(pairs)) if pairs is not None else []
    return Material(read_corpus(corpus), known, str(corpus))


def _path(path: str | Path | None) -> Path:
    assert path is not None
    return Path(path)


def preset_named(name: str) -> Preset:
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]


def make_tokenizer(kind: str, texts: Sequence[str]) -> Tokenizer:
    """characters, bytes or bpe:SIZE; a newline is one of the characters, as in the course's, and so
    is the question mark, which a corpus need not have."""
    name, _, size = kind.partition(":")
    if name == "characters" and not size:
        return Characters.train([*texts, "\n?"])
    if name == "bytes" and not size:
        return Bytes()
    if name == "bpe" and (size.isdecimal() or not size) and len(size) < 10:
        return BPE.train(texts, int(size or 2000))
    raise ValueError(f"tokenizer {kind!r}; there are characters, bytes and bpe:SIZE")


def make_model(
    preset: str, tokenizer: Tokenizer, attention: str | list[str], changes: dict[str, Any]
) -> Decoder:
    settings = {
        **preset_named(preset).model,
        **changes,
        "vocabulary": tokenizer.vocabulary,
        "attention": attention,
    }
    if preset == "course":
        return Decoder.preset("course", **settings)
    return Decoder(StackConfig(**settings))


def load_knowledge(folder: str | Path) -> tuple[Decoder, Tokenizer, dict[str, Any]]:
    """Model, tokenizer and configuration of a knowledge run."""
    run = Run(folder)
    config = run.config()
    if config["task"].get("name") != KnowledgeTask.name:
        raise ValueError(f"{folder}: a run of task {config['task'].get('name')!r}, not knowledge")
    model = run.model()
    if not isinstance(model, Decoder):
        raise ValueError(f"{folder}: its model is no decoder; train it anew")
    return model, load_tokenizer(Path(folder)), config
