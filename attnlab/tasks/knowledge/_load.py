"""Load data, presets and runs, and make tokenizers and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Decoder, Perceiver, PerceiverConfig, StackConfig
from attnlab.tasks.knowledge._data import WORLD, Pair, read_corpus, read_pairs
from attnlab.tasks.knowledge._presets import PRESETS, Preset
from attnlab.tasks.knowledge._task import KnowledgeTask
from attnlab.tasks.knowledge._world import World, WorldConfig, make_world
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer
from attnlab.training import Run


@dataclass(frozen=True)
class KnowledgeData:
    """The documents and pairs to learn from."""

    documents: list[str]
    pairs: list[Pair]
    corpus: str
    """Where the documents came from: a path, or the embedded world."""
    world: World | None = None

    @property
    def texts(self) -> list[str]:
        """All texts that the tokenizer has to encode."""
        return [*self.documents, *(text for pair in self.pairs for text in pair)]


def load_data(
    corpus: str | Path | None, pairs: str | Path | None, *, needs_pairs: bool = True
) -> KnowledgeData:
    """Read your files, or make the embedded world if you give none."""
    if corpus is None and pairs is None:
        world = make_world(WorldConfig())
        return KnowledgeData(world.corpus, world.train, WORLD, world)
    if corpus is None:
        if not needs_pairs:
            raise ValueError("--pairs needs --corpus, a file with one document per line")
        return KnowledgeData([], read_pairs(_path(pairs)), "")
    if pairs is None and needs_pairs:
        raise ValueError("--corpus needs --pairs, a file with lines of question, tab, answer")
    labeled = read_pairs(_path(pairs)) if pairs is not None else []
    return KnowledgeData(read_corpus(corpus), labeled, str(corpus))


def _path(path: str | Path | None) -> Path:
    assert path is not None
    return Path(path)


def find_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; choose from {', '.join(PRESETS)}")
    return PRESETS[name]


def make_tokenizer(kind: str, texts: Sequence[str]) -> Tokenizer:
    """A tokenizer: characters, bytes or bpe:SIZE. Characters always include the newline, as in the
    course, and the question mark, which a corpus may lack."""
    name, _, size = kind.partition(":")
    if name == "characters" and not size:
        return Characters.train([*texts, "\n?"])
    if name == "bytes" and not size:
        return Bytes()
    if name == "bpe" and (size.isdecimal() or not size) and len(size) < 10:
        return BPE.train(texts, int(size or 2000))
    raise ValueError(f"tokenizer is {kind!r}; choose characters, bytes or bpe:SIZE")


def make_model(
    preset: str, tokenizer: Tokenizer, attention: str | list[str], changes: dict[str, Any]
) -> Decoder:
    settings = {
        **find_preset(preset).model,
        **changes,
        "vocabulary": tokenizer.vocabulary,
        "attention": attention,
    }
    kind, config = Decoder, StackConfig
    if "latents" in settings:
        kind, config = Perceiver, PerceiverConfig
    elif "latent_stride" in settings:
        raise ValueError("latent_stride only works with latents; give the number of latents too")
    return kind.preset("course", **settings) if preset == "course" else kind(config(**settings))


def load_knowledge(folder: str | Path) -> tuple[Decoder, Tokenizer, dict[str, Any]]:
    """Model, tokenizer and configuration of a knowledge run.

    >>> from attnlab.tasks.knowledge import finetune, load_knowledge
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> _ = finetune(out="finetuned", **options)
    >>> model, tokenizer, config = load_knowledge("finetuned")
    >>> config["task"]["name"]
    'knowledge'
    """
    run = Run(folder)
    config = run.config_of(KnowledgeTask.name)
    model = run.model()
    if not isinstance(model, Decoder):
        raise ValueError(f"{folder}: its model is not a decoder; train the run again")
    return model, run.tokenizer(model), config
