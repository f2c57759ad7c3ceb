"""attnlab's own models as `look` opens them."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Sequenced
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch

from attnlab._image_files import center_crop, open_rgb_image, to_channels
from attnlab.generate import generate
from attnlab.interpret._arrangement import patch_tokens
from attnlab.interpret._inspected_model import (
    InspectedModel,
    ModelOutput,
    PreparedInput,
    display_name,
    move_to_model,
)
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelKind, PatchedImage, Sequence
from attnlab.interpret._token_words import decode_readable, encode_text, word_numbers
from attnlab.mask import Mask
from attnlab.models import Decoder, Encoder, Model, Perceiver, Seq2Seq, ViT, create, load
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.kind import load_reference
from attnlab.tasks.registry import task_of
from attnlab.tokenizer import Tokenizer, load_tokenizer
from attnlab.training import Run
from attnlab.training._trained_run import check_vocabulary

MAX_LISTED = 5  # characters that a note lists


class InspectedAttnlabModel(InspectedModel):
    """An attnlab model with its tokenizer."""

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
            what = "attends to latents" if isinstance(model, Perceiver) else "has no attention"
            raise ValueError(f"{label}: a {model.kind} {what}, so there are no tokens to show")
        self.kind = kinds[type(model)]
        if tokens is None and self.kind != "vision":
            raise ValueError(f"{label}: has no {TOKENIZER}, so it cannot read a text; add the file")
        if tokens is not None:
            check_vocabulary(tokens, model, label)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.tokens is not None
        return self.tokens

    @property
    def mask_id(self) -> int | None:
        return None if self.tokens is None else self.tokens.mask

    def prepare(self, look_input: LookInput) -> PreparedInput:
        self.check_input(look_input)
        if isinstance(self.model, ViT):
            return self._image(self.model, look_input)
        ids = self.encode(look_input.text or "")
        if isinstance(self.model, Seq2Seq):
            return self._two_texts(self.model, ids, look_input)
        prompt = None
        segments = None
        if isinstance(self.model, Decoder) and look_input.generate:
            prompt = len(ids)
            count = self.new_token_count(look_input, len(ids), self.model.max_length)
            ids = [*ids, *generate(self.model, [ids], new_tokens=count, stop=self.stop)[0][0].ids]
        if look_input.pair is not None:
            ids, segments = self.tokenizer.join(ids, self.encode(look_input.pair))
        assert isinstance(self.model, Decoder | Encoder)
        self.check_length(ids, self.model.max_length)
        sequence = self._sequence("text", ids, segments, prompt)
        predicted = 0 if isinstance(self.model, Decoder) else None
        inputs = {"ids": torch.tensor([ids])}
        if segments is not None and self.model.stack.types is not None:
            inputs["types"] = torch.tensor([segments])
        return PreparedInput(
            inputs, [sequence], predicted, tuple(ids), self._unknown_note(look_input)
        )

    def run(self, prepared: PreparedInput) -> ModelOutput:
        model, inputs = self.model, move_to_model(self.model, prepared.inputs)
        if isinstance(model, Encoder):
            vectors = model.encode(inputs["ids"], types=inputs.get("types"))
            return ModelOutput(vectors[0], "vectors")
        if isinstance(model, ViT):
            return ModelOutput(model(inputs["images"])[0], "classes")
        if isinstance(model, Seq2Seq):
            with recorded_copying(model):
                return ModelOutput(model(inputs["source"], inputs["target"])[0], "next")
        return ModelOutput(model(inputs["ids"])[0], "next")

    def token(self, index: int) -> str:
        return decode_readable(self._content(index))

    def plain_ids(self, text: str) -> list[int]:
        ids, unknown = self.tokenizer.encode_counting(text)
        if unknown:
            raise ValueError(
                f"{self.label}: the tokenizer does not know {next(iter(unknown))!r} in {text!r}; "
                "give a token of its vocabulary"
            )
        return ids

    def untrained(self, seed: int) -> InspectedAttnlabModel:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = create(self.model.description()).eval()
        fresh.to(next(self.model.parameters()))  # on its device, in its precision
        other = copy(self)
        other.model, other.label = fresh, f"{self.label}, untrained"
        return other

    def _content(self, index: int) -> bytes:
        name = self.tokenizer.special_name(index)
        return self.tokenizer.content(index) if name is None else encode_text(name)

    @property
    def stop(self) -> int:
        """The token that ends a decoder's generation."""
        return self.tokenizer.end

    def encode(self, text: str) -> list[int]:
        """The ids of a text. A task that encodes texts in its own way overrides this."""
        ids = self.tokenizer.encode_whole(text)
        self.check_length(ids, None)
        return ids

    def _unknown_note(self, look_input: LookInput) -> list[str]:
        """A note if the tokenizer had to replace unknown characters."""
        texts = [text for text in (look_input.text, look_input.pair) if text is not None]
        unknown = self.tokenizer.encode_counting("".join(texts))[1]
        if not unknown:
            return []
        listed = [
            f"{character!r} as {self.tokenizer.decode(self.tokenizer.encode(character))!r}"
            for character in list(unknown)[:MAX_LISTED]
        ]
        more = ", …" if len(unknown) > MAX_LISTED else ""
        total = unknown.total()
        count = f"{total} characters are" if total > 1 else "1 character is"
        return [
            f"{self.label}: {count} unknown to the tokenizer and read as another: "
            f"{', '.join(listed)}{more}."
        ]

    def _two_texts(self, model: Seq2Seq, ids: list[int], look_input: LookInput) -> PreparedInput:
        end = self.tokenizer.end
        self.check_length(ids, model.encoder.max_length)
        if look_input.pair is not None:
            target = [end, *self.encode_target(look_input.pair)]
        else:
            count = self.new_token_count(look_input, 1, model.max_length)
            context = move_to_model(model, {"source": torch.tensor([ids])})
            texts = generate(model, [[end]], new_tokens=count, stop=end, context=context)
            target = [end, *texts[0][0].ids]
        self.check_length(target, model.max_length)
        sequences = [
            self._sequence("source", ids, None, None),
            self._sequence(
                "target", target, None, 1 if self.generates_target(look_input) else None
            ),
        ]
        inputs = {"source": torch.tensor([ids]), "target": torch.tensor([target])}
        return PreparedInput(inputs, sequences, 1, tuple(target), self._unknown_note(look_input))

    def encode_target(self, text: str) -> list[int]:
        """The ids of an encoder-decoder's second text."""
        return self.tokenizer.encode(text)

    def generates_target(self, look_input: LookInput) -> bool:
        """Whether an encoder-decoder generates its second text itself."""
        return look_input.pair is None

    def _sequence(
        self, name: str, ids: list[int], segments: list[int] | None, prompt: int | None
    ) -> Sequence:
        contents = [self._content(index) for index in ids]
        special = self.tokenizer.special_ids
        is_special = [index in special for index in ids]
        alone = [index in special or index == self.tokenizer.mask for index in ids]
        texts = [decode_readable(content) for content in contents]
        words = word_numbers(contents, alone)
        return Sequence(name, texts, words, is_special, segments, prompt, ids=ids)

    def _image(self, model: ViT, look_input: LookInput) -> PreparedInput:
        assert look_input.image is not None
        config = model.config
        pixels = center_crop(
            open_rgb_image(look_input.image), config.image_size
        )  # (height, width, 3)
        patches = config.image_size // config.patch  # per row and per column
        image = PatchedImage(pixels, patches, patches, model.first)
        images = to_channels(pixels, config.channels)[None]
        return PreparedInput({"images": images}, [patch_tokens(image, ["class"] * model.first)])


@contextmanager
def recorded_copying(model: Seq2Seq) -> Iterator[None]:
    """Record a copy head as the cross-attention layer `copy`.

    The copy head calls only `weights` of its mechanism, which hooks do not see. So run the
    mechanism itself too, on the same queries and keys.
    """
    copy = model.copy
    if copy is None:
        yield
        return
    outputs: dict[str, torch.Tensor] = {}

    def keep_output(name: str) -> Any:
        def hook(_: Any, __: Any, out: torch.Tensor) -> None:
            outputs[name] = copy.split(out)

        return hook

    handles = [
        getattr(copy, name).register_forward_hook(keep_output(name)) for name in ("query", "key")
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    copy.mechanism(outputs["query"], outputs["key"], outputs["key"], Mask())


def open_attnlab_model(folder: Path) -> InspectedAttnlabModel:
    """Open a run folder, which reads texts as its task does, or a folder of `save_pretrained`."""
    config = _run_config(folder)
    kind = task_of(config)
    if kind is not None and kind.inspected_model:
        opened: InspectedAttnlabModel = load_reference(kind.inspected_model)(folder)
        return opened
    model = Run(folder).model() if config else load(folder)
    classes = [str(name) for name in config.get("task", {}).get("classes", [])]
    return InspectedAttnlabModel(model, tokenizer_in(folder), display_name(folder), classes)


def tokenizer_in(folder: Path) -> Tokenizer | None:
    return load_tokenizer(folder) if (folder / TOKENIZER).exists() else None


def _run_config(folder: Path) -> dict[str, Any]:
    """The configuration of a run; empty if the folder is not a run."""
    try:
        return Run(folder).config()
    except ValueError:
        return {}
