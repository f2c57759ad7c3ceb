"""A model that can be looked at: how it reads a text or an image, and what it then says.

Letters: T tokens, V vocabulary, K classes, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Sequenced
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelFacts, ModelKind, ModelSource, Picture, Sequence

LIKELIEST = 3  # classes of a prediction
WRITTEN = 20  # tokens that an encoder-decoder writes where no second text is given


@dataclass(frozen=True)
class Prepared:
    """An input as a model takes it."""

    inputs: dict[str, Tensor]
    sequences: list[Sequence]
    written: int | None = None
    """The sequence whose next tokens the model foretells."""
    ids: tuple[int, ...] = ()
    """Of that sequence."""
    notes: list[str] = field(default_factory=list)
    """What a person must know of this input."""


@dataclass(frozen=True)
class Said:
    """What a model gave: logits (T, V) of tokens or (K,) of classes, or vectors (T, W)."""

    values: Tensor
    meaning: str
    """next, masked, classes or vectors."""
    place: int = -1
    """Of tokens, where the logits are that gradients are taken of."""


class Subject(ABC):
    label: str
    kind: ModelKind
    source: ModelSource
    model: nn.Module
    notes: Sequenced[str] = ()
    """What a person must know of this model."""
    classes: Sequenced[str] = ()
    """Of a vision model, where their names are known."""

    @abstractmethod
    def prepare(self, given: LookInput) -> Prepared: ...

    @abstractmethod
    def run(self, prepared: Prepared) -> Said: ...

    @abstractmethod
    def token(self, index: int) -> str:
        """The text of a token id."""

    @abstractmethod
    def untrained(self, seed: int) -> Subject:
        """The same model with new weights."""

    def about(self) -> ModelFacts:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return ModelFacts(type(self.model).__name__, self.kind, self.source, count)

    def libraries(self) -> dict[str, str]:
        """Versions of what the model is made with, attnlab and torch aside."""
        return {}

    def refuse(self, given: LookInput) -> None:
        """What this kind of model cannot read."""
        vision = self.kind == "vision"
        if vision and (given.image is None or given.text is not None):
            leave = "" if given.text is None else ", and leave --text and --compare-text"
            raise ValueError(f"{self.label}: this model reads an image: give --image FILE{leave}")
        if not vision and (given.image is not None or given.text is None):
            leave = "" if given.image is None else ", and leave --image"
            raise ValueError(f"{self.label}: this model reads a text: give --text{leave}")
        if given.generate and self.kind in ("encoder", "vision"):
            raise ValueError(
                f"{self.label}: this model writes nothing; leave --generate ({self.kind})"
            )
        if given.generate < 0:
            raise ValueError(f"--generate {given.generate}; give how many tokens to write")
        if given.pair is not None and self.kind in ("decoder", "vision"):
            raise ValueError(
                f"{self.label}: a {self.kind} model takes no second text; leave --pair"
            )

    def check_length(self, ids: Sequenced[int], limit: int | None) -> None:
        """A text must have a token, and no more than the model reads."""
        if not ids:
            raise ValueError("the text has no token; give one with some characters")
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"{self.label}: the text has {len(ids)} tokens; this model reads at most {limit}"
            )

    def count_to_write(self, given: LookInput, tokens: int, limit: int | None) -> int:
        """How many tokens to write after these: never more than the model can read again."""
        wanted = given.generate or WRITTEN
        if limit is None:
            return wanted
        free = max(0, limit - tokens)
        if given.generate > free or not free:
            up_to = f"; give --generate up to {free}" if free else ": there is no room to write"
            raise ValueError(
                f"{self.label}: the text has {tokens} tokens and this model reads at most {limit}"
                f"{up_to}"
            )
        return min(wanted, free)


def at_home(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """On the model's device; numbers that are no ids in its precision."""
    first = next(parameter for parameter in model.parameters() if parameter.is_floating_point())
    return {
        name: x.to(first.device, first.dtype if x.is_floating_point() else x.dtype)
        for name, x in inputs.items()
    }


def shown_name(path: Path) -> str:
    """Of a folder or file; one that says nothing by itself has its parent's name before it."""
    path = path.resolve()
    return f"{path.parent.name}/{path.name}" if path.name in ("model", "run") else path.name


def patches(picture: Picture, before: Sequenced[str]) -> Sequence:
    """The tokens of an image: what stands before the patches, then patches by row and column."""
    places = [
        f"{row + 1},{column + 1}"
        for row in range(picture.rows)
        for column in range(picture.columns)
    ]
    texts = [*(f"[{name}]" for name in before), *places]
    special = [True] * len(before) + [False] * len(places)
    return Sequence("patches", texts, list(range(len(texts))), special, picture=picture)


def prediction(said: Said, subject: Subject) -> list[str]:
    """A note of the likeliest classes, where they have names."""
    classes = subject.classes
    if said.meaning != "classes" or len(classes) != len(said.values):
        return []
    chances = said.values.detach().float().softmax(-1)
    best = chances.argsort(descending=True)[:LIKELIEST].tolist()
    listed = ", ".join(f"{classes[k]} {float(chances[k]):.1%}" for k in best)
    return [f"{subject.label} says: {listed}."]


def target_of(
    said: Said, token: Callable[[int], str], classes: Sequenced[str] = ()
) -> tuple[Tensor, str]:
    """What gradients are taken of, and how to say it."""
    if said.meaning in ("next", "masked"):
        logits = said.values[said.place]
        best = int(logits.argmax())
        where = "after the last token" if said.meaning == "next" else "at the first masked token"
        return logits[best], f"the logit of {token(best)!r} {where}"
    if said.meaning == "classes":
        best = int(said.values.argmax())
        name = f"{classes[best]!r}" if best < len(classes) else str(best)
        return said.values[best], f"the logit of class {name}"
    return said.values.mean(0).norm(), "the length of the mean of all output vectors"
