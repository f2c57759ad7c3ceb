"""Models of attnlab that can be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch

from attnlab._image_files import middle_square, open_picture, to_channels
from attnlab.generate import generate
from attnlab.interpret._inspected_model import (
    Prepared,
    Said,
    Subject,
    at_home,
    patches,
    shown_name,
)
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelKind, Picture, Sequence
from attnlab.interpret._token_words import encoded, readable, words_of
from attnlab.mask import Mask
from attnlab.models import Decoder, Encoder, Model, Seq2Seq, ViT, create, load
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.kind import load as open_task_subject
from attnlab.tasks.registry import task_of
from attnlab.tokenizer import (
    MASK_SYMBOL,
    SPECIAL_TOKENS,
    Characters,
    Tokenizer,
    load_tokenizer,
)
from attnlab.training import Run

SHOWN = 5  # characters that a note names


class OwnSubject(Subject):
    """A model of attnlab, with its tokenizer."""

    source = "attnlab"
    model: Model

    def __init__(
        self,
        model: Model,
        tokens: Tokenizer | None,
        label: str,
        classes: Sequenced[str] = (),
    ) -> None:
        self.model, self.tokens, self.label, self.classes = model, tokens, label, classes
        kinds: dict[type, ModelKind] = {
            Decoder: "decoder",
            Encoder: "encoder",
            Seq2Seq: "encoder-decoder",
            ViT: "vision",
        }
        if type(model) not in kinds:
            raise ValueError(f"{label}: a {model.kind} model has no attention to look at")
        self.kind = kinds[type(model)]
        if tokens is None and self.kind != "vision":
            raise ValueError(f"{label}: has no {TOKENIZER}, so no text can be read")

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.tokens is not None
        return self.tokens

    def prepare(self, wish: LookInput) -> Prepared:
        self.refuse(wish)
        if isinstance(self.model, ViT):
            return self._image(self.model, wish)
        ids = self.encode(wish.text or "")
        if isinstance(self.model, Seq2Seq):
            return self._two_texts(self.model, ids, wish)
        prompt = None
        segments = None
        if isinstance(self.model, Decoder) and wish.generate:
            prompt = len(ids)
            count = self.count_to_write(wish, len(ids), self.model.max_length)
            ids = [*ids, *generate(self.model, [ids], new_tokens=count, stop=self.stop)[0][0].ids]
        if wish.pair is not None:
            second = self.encode(wish.pair)
            segments = [0] * (len(ids) + 1) + [1] * len(second)
            ids = [*ids, self.tokenizer.end, *second]
        assert isinstance(self.model, Decoder | Encoder)
        self.check_length(ids, self.model.max_length)
        sequence = self._sequence("text", ids, segments, prompt)
        written = 0 if isinstance(self.model, Decoder) else None
        inputs = {"ids": torch.tensor([ids])}
        return Prepared(inputs, [sequence], written, tuple(ids), self._unknown(wish))

    def run(self, prepared: Prepared) -> Said:
        model, inputs = self.model, at_home(self.model, prepared.inputs)
        if isinstance(model, Encoder):
            return Said(model.encode(inputs["ids"])[0], "vectors")
        if isinstance(model, ViT):
            return Said(model(inputs["images"])[0], "classes")
        if isinstance(model, Seq2Seq):
            with shown_copying(model):
                return Said(model(inputs["source"], inputs["target"])[0], "next")
        return Said(model(inputs["ids"])[0], "next")

    def token(self, index: int) -> str:
        return readable(self._content(index))

    def untrained(self, seed: int) -> OwnSubject:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = create(self.model.description()).eval()
        fresh.to(next(self.model.parameters()))  # its device and precision
        other = copy(self)
        other.model, other.label = fresh, f"{self.label}, untrained"
        return other

    def _content(self, index: int) -> bytes:
        if index == self.tokenizer.mask:
            return encoded(MASK_SYMBOL)
        if index < len(SPECIAL_TOKENS) and not isinstance(self.tokenizer, Characters):
            return encoded(SPECIAL_TOKENS[index])
        return self.tokenizer.content(index)

    @property
    def stop(self) -> int:
        """The token that ends what a decoder writes."""
        return self.tokenizer.end

    def encode(self, text: str) -> list[int]:
        """A text as the model reads it; a task whose training reads it otherwise overrides this."""
        ids = self.tokenizer.encode(text)
        self.check_length(ids, None)
        return ids

    def _unknown(self, wish: LookInput) -> list[str]:
        """A note where characters had to be replaced."""
        texts = [text for text in (wish.text, wish.pair) if text is not None]
        found = self.tokenizer.encode_counting("".join(texts))[1]
        if not found:
            return []
        read = [f"{each!r} as {self.tokenizer.decode(self.tokenizer.encode(each))!r}"
                for each in list(found)[:SHOWN]]  # fmt: skip
        more = ", …" if len(found) > SHOWN else ""
        count = f"{found.total()} characters were" if found.total() > 1 else "1 character was"
        return [
            f"{self.label}: {count} never seen in training and read as another: "
            f"{', '.join(read)}{more}."
        ]

    def _two_texts(self, model: Seq2Seq, ids: list[int], wish: LookInput) -> Prepared:
        end = self.tokenizer.end
        self.check_length(ids, model.encoder.max_length)
        if wish.pair is not None:
            target = [end, *self.encode_target(wish.pair)]
        else:
            count = self.count_to_write(wish, 1, model.max_length)
            context = at_home(model, {"source": torch.tensor([ids])})
            found = generate(model, [[end]], new_tokens=count, stop=end, context=context)
            target = [end, *found[0][0].ids]
        self.check_length(target, model.max_length)
        sequences = [
            self._sequence("source", ids, None, None),
            self._sequence("target", target, None, 1 if self.writes(wish) else None),
        ]
        inputs = {"source": torch.tensor([ids]), "target": torch.tensor([target])}
        return Prepared(inputs, sequences, 1, tuple(target), self._unknown(wish))

    def encode_target(self, text: str) -> list[int]:
        """What an encoder-decoder is to have written."""
        return self.tokenizer.encode(text)

    def writes(self, wish: LookInput) -> bool:
        """Whether an encoder-decoder wrote its second text itself."""
        return wish.pair is None

    def _sequence(
        self, name: str, ids: list[int], segments: list[int] | None, prompt: int | None
    ) -> Sequence:
        contents = [self._content(index) for index in ids]
        special = {self.tokenizer.pad, self.tokenizer.end} - {self.tokenizer.mask}
        marks = [index in special for index in ids]
        alone = [index in special or index == self.tokenizer.mask for index in ids]
        texts, words = [readable(each) for each in contents], words_of(contents, alone)
        return Sequence(name, texts, words, marks, segments, prompt, ids=ids)

    def _image(self, model: ViT, wish: LookInput) -> Prepared:
        assert wish.image is not None
        config = model.config
        pixels = middle_square(open_picture(wish.image), config.image_size)  # (height, width, 3)
        side = config.image_size // config.patch
        picture = Picture(pixels, side, side, model.first)
        images = to_channels(pixels, config.channels)[None]
        return Prepared({"images": images}, [patches(picture, ["class"] * model.first)])


@contextmanager
def shown_copying(model: Seq2Seq) -> Iterator[None]:
    """Where a model copies from is heard like any cross-attention, as the layer `copy`.

    The copy head asks its mechanism for weights alone, which nobody hears; here it is run too.
    """
    copy = model.copy
    if copy is None:
        yield
        return
    found: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: Any, __: Any, out: torch.Tensor) -> None:
            found[name] = copy.split(out)

        return hook

    handles = [getattr(copy, name).register_forward_hook(keep(name)) for name in ("query", "key")]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    copy.mechanism(found["query"], found["key"], found["key"], Mask())


def open_own(folder: Path) -> OwnSubject:
    """A run folder, as its task reads texts; or one that `save_pretrained` wrote."""
    config = _config_of(folder)
    kind = task_of(config)
    if kind is not None and kind.subject:
        subject: OwnSubject = open_task_subject(kind.subject)(folder)
        return subject
    model = Run(folder).model() if config else load(folder)
    classes = [str(each) for each in config.get("task", {}).get("classes", [])]
    return OwnSubject(model, tokenizer_in(folder), shown_name(folder), classes)


def tokenizer_in(folder: Path) -> Tokenizer | None:
    return load_tokenizer(folder) if (folder / TOKENIZER).exists() else None


def _config_of(folder: Path) -> dict[str, Any]:
    """Of a run; empty for a folder that is none."""
    try:
        return Run(folder).config()
    except ValueError:
        return {}
