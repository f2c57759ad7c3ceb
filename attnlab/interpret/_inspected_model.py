"""The interface of a model that `look` can open: how it reads an input, and what it predicts.

Letters: T tokens, V vocabulary, K classes, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Sequenced
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from attnlab.interpret._arrangement import Medium
from attnlab.interpret._local_models import CACHED
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelInfo, ModelKind, ModelSource, Sequence

OutputKind = Literal["next", "masked", "classes", "vectors"]

TOP_CLASSES = 3
DEFAULT_NEW_TOKENS = 20  # that an encoder-decoder generates without a second text


@dataclass(frozen=True)
class PreparedInput:
    """An input in the form that the model takes."""

    inputs: dict[str, Tensor]
    sequences: list[Sequence]
    predicted: int | None = None
    """Index of the sequence whose next tokens the model predicts."""
    ids: tuple[int, ...] = ()
    """Token ids of that sequence."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user about this input."""
    media: Sequenced[Medium] = ()
    """The image or sound, whose tokens are known when the model has run."""


@dataclass(frozen=True)
class ModelOutput:
    """Logits (T, V) of tokens or (K,) of classes, or vectors (T, W)."""

    values: Tensor
    kind: OutputKind
    position: int = -1
    """For token logits, the position whose logits the gradients are taken of."""


@dataclass(frozen=True)
class BatchOutput:
    """What a model returns for a batch: logits (B, T, V) of the next tokens or of masked tokens,
    logits (B, K) of classes, or vectors (B, T, W)."""

    values: Tensor
    kind: OutputKind


class InspectedModel(ABC):
    """A model with its tokenizer or image processor."""

    label: str
    kind: ModelKind
    source: ModelSource
    model: nn.Module
    notes: Sequenced[str] = ()
    """Messages for the user about this model."""
    classes: Sequenced[str] = ()
    """Class names of a vision model, if known."""

    @property
    def mask_id(self) -> int | None:
        """The token that stands for a hidden one, if the model knows such a token."""
        return None

    @abstractmethod
    def prepare(self, look_input: LookInput) -> PreparedInput: ...

    @abstractmethod
    def run(self, prepared: PreparedInput) -> ModelOutput: ...

    @abstractmethod
    def token(self, index: int) -> str:
        """The text of a token id."""

    @abstractmethod
    def plain_ids(self, text: str) -> list[int]:
        """The ids of a text without special tokens; raises if it has unknown characters."""

    @abstractmethod
    def untrained(self, seed: int) -> InspectedModel:
        """The same model with new random weights."""

    def info(self) -> ModelInfo:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return ModelInfo(type(self.model).__name__, self.kind, self.source, count)

    def libraries(self) -> dict[str, str]:
        """Versions of the model's libraries, besides attnlab and torch."""
        return {}

    def check_input(self, look_input: LookInput) -> None:
        """Raise if this kind of model cannot read the input."""
        vision = self.kind == "vision"
        if vision and (look_input.image is None or look_input.text is not None):
            omit = "" if look_input.text is None else ", and omit --text and --compare-text"
            raise ValueError(f"{self.label}: this model reads an image: give --image FILE{omit}")
        if not vision and (look_input.image is not None or look_input.text is None):
            omit = "" if look_input.image is None else ", and omit --image"
            raise ValueError(f"{self.label}: this model reads a text: give --text{omit}")
        if look_input.generate and self.kind in ("encoder", "vision"):
            raise ValueError(
                f"{self.label}: this {self.kind} model generates no text; omit --generate"
            )
        if look_input.generate < 0:
            raise ValueError(
                f"--generate {look_input.generate}; give a number of tokens, 0 or more"
            )
        if look_input.pair is not None and self.kind in ("decoder", "vision"):
            raise ValueError(f"{self.label}: a {self.kind} model takes no second text; omit --pair")

    def check_length(self, ids: Sequenced[int], limit: int | None) -> None:
        """Raise if the text has no token, or more than `limit`."""
        if not ids:
            raise ValueError("the text has no tokens; give a text that is not empty")
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"{self.label}: the text has {len(ids)} tokens; this model reads at most {limit}"
            )

    def new_token_count(self, look_input: LookInput, tokens: int, limit: int | None) -> int:
        """How many tokens to generate after `tokens`, so that all of them fit into `limit`."""
        requested = look_input.generate or DEFAULT_NEW_TOKENS
        if limit is None:
            return requested
        free = max(0, limit - tokens)
        if look_input.generate > free or not free:
            up_to = f"; give --generate up to {free}" if free else ", so it cannot generate any"
            raise ValueError(
                f"{self.label}: the text has {tokens} tokens and this model reads at most {limit}"
                f"{up_to}"
            )
        return min(requested, free)


def move_to_model(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inputs on the model's device, floating-point ones in its precision."""
    first = next(parameter for parameter in model.parameters() if parameter.is_floating_point())
    return {
        name: x.to(first.device, first.dtype if x.is_floating_point() else x.dtype)
        for name, x in inputs.items()
    }


def display_name(path: Path) -> str:
    """The name of a folder or file, with its parent's name if it is just "model" or "run"; in the
    hub's cache the name of the repository."""
    path = path.resolve()
    cached = path.parent.parent.name
    if path.parent.name == "snapshots" and cached.startswith(CACHED):
        return cached.rpartition("--")[2]
    return f"{path.parent.name}/{path.name}" if path.name in ("model", "run") else path.name


def describe_prediction(output: ModelOutput, model: InspectedModel) -> list[str]:
    """A note with the likeliest classes, if their names are known."""
    classes = model.classes
    if output.kind != "classes" or len(classes) != len(output.values):
        return []
    probabilities = output.values.detach().float().softmax(-1)
    best = probabilities.argsort(descending=True)[:TOP_CLASSES].tolist()
    listed = ", ".join(f"{classes[k]} {float(probabilities[k]):.1%}" for k in best)
    return [f"{model.label} predicts: {listed}."]


def gradient_target(
    output: ModelOutput, token: Callable[[int], str], classes: Sequenced[str] = ()
) -> tuple[Tensor, str]:
    """The number that gradients are taken of, and its description."""
    if output.kind in ("next", "masked"):
        logits = output.values[output.position]
        best = int(logits.argmax())
        where = "after the last token" if output.kind == "next" else "at the first masked token"
        return logits[best], f"the logit of {token(best)!r} {where}"
    if output.kind == "classes":
        best = int(output.values.argmax())
        name = f"{classes[best]!r}" if best < len(classes) else str(best)
        return output.values[best], f"the logit of class {name}"
    return output.values.mean(0).norm(), "the length of the mean of all output vectors"
