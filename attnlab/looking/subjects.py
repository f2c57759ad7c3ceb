"""A model that can be looked at: how it reads a text or an image, and what it then says.

Letters: T tokens, V vocabulary, K classes, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from attnlab.generate import generate
from attnlab.looking.pictures import read_picture, to_channels
from attnlab.looking.records import Picture, Sequence
from attnlab.models import Decoder, Encoder, Model, Seq2Seq, ViT, create, load
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.task import KnowledgeTask
from attnlab.tokens import FILE_NAME, Characters, Tokenizer, load_tokenizer
from attnlab.training import Run

WRITTEN = 20  # tokens that an encoder-decoder writes where no second text is given


@dataclass(frozen=True)
class Wish:
    """What to read."""

    text: str | None = None
    pair: str | None = None
    """A second text; of an encoder-decoder what the decoder reads."""
    image: Path | None = None
    generate: int = 0


@dataclass(frozen=True)
class Prepared:
    """An input as a model takes it."""

    inputs: dict[str, Tensor]
    sequences: list[Sequence]
    written: int | None = None
    """The sequence whose next tokens the model foretells."""
    ids: tuple[int, ...] = ()
    """Of that sequence."""


@dataclass(frozen=True)
class Said:
    """What a model gave: logits (T, V) of next tokens or (K,) of classes, or vectors (T, W)."""

    values: Tensor
    meaning: str
    """next, classes or vectors."""


class Subject(ABC):
    label: str
    kind: str
    """encoder, decoder, encoder-decoder or vision."""
    source: str
    model: nn.Module

    @abstractmethod
    def prepare(self, wish: Wish) -> Prepared: ...

    @abstractmethod
    def run(self, prepared: Prepared) -> Said: ...

    @abstractmethod
    def token(self, index: int) -> str:
        """The text of a token id."""

    @abstractmethod
    def untrained(self, seed: int) -> Subject:
        """The same model with new weights."""

    def about(self) -> dict[str, str | int]:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return {
            "name": type(self.model).__name__,
            "kind": self.kind,
            "source": self.source,
            "parameters": count,
        }

    def refuse(self, wish: Wish) -> None:
        """What this kind of model cannot read."""
        wanted = "an image: give --image FILE" if self.kind == "vision" else "a text: give --text"
        if (wish.image is None) == (self.kind == "vision") or (
            self.kind != "vision" and wish.text is None
        ):
            raise ValueError(f"{self.label}: this model reads {wanted}")
        if wish.generate and self.kind in ("encoder", "vision"):
            raise ValueError(
                f"{self.label}: this model writes nothing; leave --generate ({self.kind})"
            )
        if wish.generate < 0:
            raise ValueError(f"--generate {wish.generate}; give how many tokens to write")
        if wish.pair is not None and self.kind in ("decoder", "vision"):
            raise ValueError(
                f"{self.label}: a {self.kind} model takes no second text; leave --pair"
            )


class OwnSubject(Subject):
    """A model of attnlab, with its tokeniser."""

    source = "attnlab"

    def __init__(self, model: Model, tokens: Tokenizer | None, label: str, asked: bool) -> None:
        self.model, self.tokens, self.label, self.asked = model, tokens, label, asked
        kinds = {Decoder: "decoder", Encoder: "encoder", Seq2Seq: "encoder-decoder", ViT: "vision"}
        if type(model) not in kinds:
            raise ValueError(f"{label}: a {model.kind} model has no attention to look at")
        self.kind = kinds[type(model)]
        if tokens is None and self.kind != "vision":
            raise ValueError(f"{label}: has no {FILE_NAME}, so no text can be read")

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.tokens is not None
        return self.tokens

    def prepare(self, wish: Wish) -> Prepared:
        self.refuse(wish)
        if isinstance(self.model, ViT):
            return self._image(self.model, wish)
        ids = self._encode(wish.text or "")
        if isinstance(self.model, Seq2Seq):
            return self._two_texts(self.model, ids, wish)
        prompt = None
        segments = None
        if isinstance(self.model, Decoder) and wish.generate:
            prompt = len(ids)
            ids = [*ids, *self._written(self.model, ids, wish.generate)]
        if wish.pair is not None:
            second = self._encode(wish.pair)
            segments = [0] * (len(ids) + 1) + [1] * len(second)
            ids = [*ids, self.tokenizer.end, *second]
        assert isinstance(self.model, Decoder | Encoder)
        self._check_length(ids, self.model.max_length)
        sequence = self._sequence("text", ids, segments, prompt)
        written = 0 if isinstance(self.model, Decoder) else None
        return Prepared({"ids": torch.tensor([ids])}, [sequence], written, tuple(ids))

    def run(self, prepared: Prepared) -> Said:
        model, inputs = self.model, prepared.inputs
        if isinstance(model, Encoder):
            return Said(model.encode(inputs["ids"])[0], "vectors")
        if isinstance(model, ViT):
            return Said(model(inputs["images"])[0], "classes")
        if isinstance(model, Seq2Seq):
            return Said(model(inputs["source"], inputs["target"])[0], "next")
        return Said(model(inputs["ids"])[0], "next")

    def token(self, index: int) -> str:
        if index == self.tokenizer.mask:
            return "⁇"
        if index == self.tokenizer.end and not isinstance(self.tokenizer, Characters):
            return "<|end|>"
        return self.tokenizer.decode([index])

    def untrained(self, seed: int) -> OwnSubject:
        assert isinstance(self.model, Model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = create(self.model.description()).eval()
        return OwnSubject(fresh, self.tokens, f"{self.label}, untrained", self.asked)

    def _encode(self, text: str) -> list[int]:
        """As in training: a run that answers questions reads a question and a mask."""
        if self.asked:
            return Wording(self.tokenizer).question(text)
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ValueError("the text has no token; give one with some characters")
        return ids

    def _written(self, model: Decoder | Seq2Seq, ids: list[int], count: int) -> list[int]:
        stop = self.tokenizer.mask if self.asked else self.tokenizer.end
        check_room(self.label, len(ids), count, model.max_length)
        return generate(model, [ids], new_tokens=count, stop=stop)[0][0].ids

    def _two_texts(self, model: Seq2Seq, ids: list[int], wish: Wish) -> Prepared:
        end = self.tokenizer.end
        self._check_length(ids, model.encoder.max_length)
        if wish.pair is not None:
            target = [end, *self.tokenizer.encode(wish.pair)]
        else:
            source = torch.tensor([ids])
            found = generate(
                model, [[end]], new_tokens=wish.generate or WRITTEN, stop=end,
                context={"source": source},
            )  # fmt: skip
            target = [end, *found[0][0].ids]
        self._check_length(target, model.max_length)
        sequences = [
            self._sequence("source", ids, None, None),
            self._sequence("target", target, None, None if wish.pair is not None else 1),
        ]
        inputs = {"source": torch.tensor([ids]), "target": torch.tensor([target])}
        return Prepared(inputs, sequences, 1, tuple(target))

    def _check_length(self, ids: list[int], limit: int | None) -> None:
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"{self.label}: the text has {len(ids)} tokens; this model reads at most {limit}"
            )

    def _sequence(
        self, name: str, ids: list[int], segments: list[int] | None, prompt: int | None
    ) -> Sequence:
        texts = [self.token(index) for index in ids]
        special = {self.tokenizer.pad, self.tokenizer.end} - {self.tokenizer.mask}
        marks = [index in special for index in ids]
        return Sequence(name, texts, words_of(texts, marks), marks, segments, prompt)

    def _image(self, model: ViT, wish: Wish) -> Prepared:
        assert wish.image is not None
        config = model.config
        pixels = read_picture(wish.image, config.image_size)  # (height, width, 3)
        side = config.image_size // config.patch
        picture = Picture(pixels, side, side, model.first)
        images = to_channels(pixels, config.channels)[None]
        return Prepared({"images": images}, [patches("patches", picture, model.length)])


def open_own(folder: Path) -> OwnSubject:
    """A run folder, or one that `save_pretrained` wrote."""
    config_is_run = _is_run(folder)
    model = Run(folder).model() if config_is_run else load(folder)
    tokens = load_tokenizer(folder) if (folder / FILE_NAME).exists() else None
    task = Run(folder).config()["task"] if config_is_run else {}
    asked = task.get("name") == KnowledgeTask.name and task.get("stage") != "pretrain"
    return OwnSubject(model, tokens, shown_name(folder), asked)


def shown_name(path: Path) -> str:
    """Of a folder or file; one that says nothing by itself has its parent's name before it."""
    path = path.resolve()
    return f"{path.parent.name}/{path.name}" if path.name in ("model", "run") else path.name


def _is_run(folder: Path) -> bool:
    try:
        Run(folder).config()
    except ValueError:
        return False
    return True


def check_room(label: str, tokens: int, count: int, limit: int | None) -> None:
    """Refuse to write more than a model can read again."""
    if limit is not None and tokens + count > limit:
        room = max(0, limit - tokens)
        raise ValueError(
            f"{label}: the text has {tokens} tokens and this model reads at most {limit}; "
            f"give --generate up to {room}"
            if room
            else f"{label}: the text has {tokens} tokens; this model reads at most {limit}"
        )


def words_of(texts: list[str], special: list[bool]) -> list[int]:
    """The number of the word that each token belongs to: words are parted by white space."""
    words: list[int] = []
    word, open_ = -1, False
    for text, alone in zip(texts, special, strict=True):
        begins = alone or not open_ or text[:1].isspace() or not text.strip()
        word += begins
        words.append(word)
        open_ = not alone and bool(text.strip()) and not text[-1:].isspace()
    return words


def patches(name: str, picture: Picture, length: int) -> Sequence:
    """The tokens of an image: what stands before the patches, then patches by row and column."""
    first = [f"[{'class' if i == 0 else f'register {i}'}]" for i in range(picture.first)]
    places = [
        f"{row + 1},{column + 1}"
        for row in range(picture.rows)
        for column in range(picture.columns)
    ]
    texts = [*first, *places]
    if len(texts) != length:
        raise ValueError(
            f"an image of {picture.rows} x {picture.columns} patches has {len(texts)} tokens, "
            f"but the model reads {length}"
        )
    special = [True] * len(first) + [False] * len(places)
    return Sequence(name, texts, list(range(length)), special, picture=picture)


def target_of(said: Said, token: Callable[[int], str]) -> tuple[Tensor, str]:
    """What gradients are taken of, and how to say it."""
    if said.meaning == "next":
        best = int(said.values[-1].argmax())
        return said.values[-1, best], f"the logit of {token(best)!r} after the last token"
    if said.meaning == "classes":
        best = int(said.values.argmax())
        return said.values[best], f"the logit of class {best}"
    return said.values.mean(0).norm(), "the length of the mean of all output vectors"
