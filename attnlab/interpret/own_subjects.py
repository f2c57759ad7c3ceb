"""Models of attnlab that can be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnlab.generate import generate
from attnlab.interpret.options import LookInput
from attnlab.interpret.records import ModelKind, Picture, Sequence
from attnlab.interpret.subjects import (
    Prepared,
    Said,
    Subject,
    at_home,
    patches,
    shown_name,
)
from attnlab.interpret.words import encoded, readable, words_of
from attnlab.mask import Mask
from attnlab.models import Decoder, Encoder, Model, Seq2Seq, ViT, create, load
from attnlab.pictures import middle_square, open_picture, to_channels
from attnlab.run_folder.layout import TOKENIZER
from attnlab.tasks.knowledge.answers import reach
from attnlab.tasks.knowledge.reading import prompt
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.task import KnowledgeTask
from attnlab.tasks.knowledge.voting import ANSWER
from attnlab.tasks.summary.task import SummaryTask
from attnlab.tasks.summary.wording import Wording as SummaryWording
from attnlab.tokens import (
    MASK_SYMBOL,
    SPECIAL_TOKENS,
    Characters,
    Tokenizer,
    load_tokenizer,
)
from attnlab.training import Run

SHOWN = 5  # characters that a note names


class OwnSubject(Subject):
    """A model of attnlab, with its tokeniser."""

    source = "attnlab"
    model: Model

    def __init__(
        self,
        model: Model,
        tokens: Tokenizer | None,
        label: str,
        asked: bool,
        classes: Sequenced[str] = (),
    ) -> None:
        self.model, self.tokens, self.label, self.asked = model, tokens, label, asked
        self.classes = classes
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
        ids = self._encode(wish.text or "")
        if isinstance(self.model, Seq2Seq):
            return self._two_texts(self.model, ids, wish)
        prompt = None
        segments = None
        if isinstance(self.model, Decoder) and wish.generate:
            prompt = len(ids)
            count = self.count_to_write(wish, len(ids), self.model.max_length)
            stop = self.tokenizer.mask if self.asked else self.tokenizer.end
            ids = [*ids, *generate(self.model, [ids], new_tokens=count, stop=stop)[0][0].ids]
        if wish.pair is not None:
            second = self._encode(wish.pair)
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
        label = f"{self.label}, untrained"
        return OwnSubject(fresh, self.tokens, label, self.asked, self.classes)

    def _content(self, index: int) -> bytes:
        if index == self.tokenizer.mask:
            return encoded(MASK_SYMBOL)
        if index < len(SPECIAL_TOKENS) and not isinstance(self.tokenizer, Characters):
            return encoded(SPECIAL_TOKENS[index])
        return self.tokenizer.content(index)

    def _encode(self, text: str) -> list[int]:
        """As in training: a run that answers questions reads a question and a mask."""
        if self.asked:
            wording = Wording(self.tokenizer)
            wording.check(text, "the text")
            return wording.question(text)
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
            target = [end, *self._summary(wish.pair)]
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

    def _summary(self, text: str) -> list[int]:
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


class ReaderSubject(OwnSubject):
    """A reader of `learn`: a second text is the question about the first, which is a document."""

    question: str | None = None

    def prepare(self, wish: LookInput) -> Prepared:
        self.question = wish.pair
        return super().prepare(replace(wish, pair=None))

    def _encode(self, text: str) -> list[int]:
        if self.question is None:
            return super()._encode(text)
        assert isinstance(self.model, Decoder)
        wording = Wording(self.tokenizer)
        for each, what in ((text, "the document"), (self.question, "the question")):
            wording.check(each, what)
        return prompt(text, self.question, wording, reach(self.model) - ANSWER)


class SummarySubject(OwnSubject):
    """A summary run: it reads a text as in training, cut where it is too long."""

    def __init__(self, model: Model, wording: SummaryWording, label: str) -> None:
        super().__init__(model, wording.tokenizer, label, asked=False)
        self.wording = wording
        self.written: list[int] | None = None
        """The ids of a summary that was written already; else the second text's."""

    def prepare(self, wish: LookInput) -> Prepared:
        prepared = super().prepare(wish)
        cut = self.wording.source(wish.text or "")[1]
        if cut:
            prepared.notes.append(f"{self.label}: the last {cut} tokens of the text were cut off.")
        return prepared

    def untrained(self, seed: int) -> OwnSubject:
        fresh = super().untrained(seed)
        return SummarySubject(fresh.model, self.wording, fresh.label)

    def _encode(self, text: str) -> list[int]:
        ids = self.wording.source(text)[0]
        self.check_length(ids, None)
        return ids

    def writes(self, wish: LookInput) -> bool:
        return self.written is not None or super().writes(wish)

    def _summary(self, text: str) -> list[int]:
        return self.wording.summary(text)[:-1] if self.written is None else self.written


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


def explained(folder: str | Path, summary: list[int]) -> SummarySubject:
    """A summary run that wrote these ids, to be looked at: where each word came from."""
    subject = open_own(Path(folder))
    if not isinstance(subject, SummarySubject):
        raise ValueError(f"{folder}: not a summary run; look at it with attnlab look")
    subject.written = summary
    return subject


def open_own(folder: Path) -> OwnSubject:
    """A run folder, or one that `save_pretrained` wrote."""
    config_is_run = _is_run(folder)
    model = Run(folder).model() if config_is_run else load(folder)
    tokens = load_tokenizer(folder) if (folder / TOKENIZER).exists() else None
    task = Run(folder).config()["task"] if config_is_run else {}
    asked = task.get("name") == KnowledgeTask.name and task.get("stage") != "pretrain"
    if task.get("name") == SummaryTask.name and tokens is not None:
        wording = SummaryWording(tokens, task["text_tokens"], task["summary_tokens"])
        return SummarySubject(model, wording, shown_name(folder))
    if asked and task.get("stage") == "reader":
        return ReaderSubject(model, tokens, shown_name(folder), asked)
    classes = [str(each) for each in task.get("classes", [])]
    return OwnSubject(model, tokens, shown_name(folder), asked, classes)


def _is_run(folder: Path) -> bool:
    try:
        Run(folder).config()
    except ValueError:
        return False
    return True
