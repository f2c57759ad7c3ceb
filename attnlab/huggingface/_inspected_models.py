"""Hugging Face models as `look` opens them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._short_repr import one_line
from attnlab.huggingface._attention_modules import is_huggingface
from attnlab.huggingface._attention_sites import huggingface_sites, predict, run_options
from attnlab.huggingface._input_roles import check_roles, model_kind, roles_of
from attnlab.huggingface._load_model import is_panic, load_with_notes
from attnlab.huggingface._media_inputs import MediaReader
from attnlab.huggingface._observe_attention import listen
from attnlab.huggingface._processors import NEEDED, Processors
from attnlab.huggingface._tensor_inputs import (
    floating_tensors,
    media_of,
    read_tensors,
    sequences_of,
)
from attnlab.huggingface._token_words import HuggingFaceTokens
from attnlab.interpret._adapters import ModelAdapter
from attnlab.interpret._arrangement import Role
from attnlab.interpret._attention_call import CallListener
from attnlab.interpret._attention_sites import AttentionSite
from attnlab.interpret._inspected_model import (
    BatchOutput,
    InspectedModel,
    ModelOutput,
    PreparedInput,
    display_name,
    move_to_model,
)
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import Sequence


class InspectedHuggingFaceModel(InspectedModel):
    """A transformers model with its tokenizer, image processor or feature extractor."""

    source = "huggingface"
    model: Any  # typed by its library, whose attributes differ from model to model

    def __init__(
        self, model: Any, processor: Any, label: str, notes: list[str] | None = None
    ) -> None:
        self.model, self.label = model, label
        self.notes = notes or []
        self.kind = model_kind(model)
        self.processors = Processors.of(processor)
        self.roles = roles_of(model)
        self.accepted = set(inspect.signature(model.forward).parameters)
        tokenizer = None if self.kind == "vision" else self.processors.text
        self.tokens = None if tokenizer is None else HuggingFaceTokens(tokenizer)

    def processor_of(self, role: Role) -> Any:
        """The part of the processor that reads a text, an image or a sound."""
        processor = getattr(self.processors, role)
        if processor is None:
            raise ValueError(
                f"{self.label}: has no {NEEDED[role]}; give one as tokenizer=, or save it in the "
                "folder"
            )
        return processor

    @property
    def processor(self) -> Any:
        """The tokenizer, or the image processor of a vision model."""
        return self.processor_of("image" if self.kind == "vision" else "text")

    @property
    def words(self) -> HuggingFaceTokens:
        assert self.tokens is not None
        return self.tokens

    @property
    def mask_id(self) -> int | None:
        mask = getattr(self.processors.text, "mask_token_id", None)
        return mask if isinstance(mask, int) else None

    def check_input(self, look_input: LookInput) -> None:
        check_roles(self, look_input)
        if look_input.inputs is not None:
            return
        if look_input.image is not None and self.kind != "vision":
            look_input = replace(look_input, image=None, text=look_input.text or "")
        if look_input.sound is not None:
            look_input = replace(look_input, sound=None, text=look_input.text or "")
        super().check_input(look_input)

    def prepare(self, look_input: LookInput) -> PreparedInput:
        self.check_input(look_input)
        if look_input.inputs is not None:
            return self._tensors(look_input.inputs)
        if look_input.image is not None or look_input.sound is not None:
            with self.one_line_errors():
                return MediaReader(self).read(look_input)
        self.processor_of("text")
        encoding, hints = self._read(
            look_input.text or "", look_input.pair if self.kind == "encoder" else None
        )
        ids = encoding["input_ids"][0].tolist()
        self.check_length(ids, self.limit())
        notes = self._unknown_note(ids)
        if self.kind == "encoder-decoder":
            return self._two_texts(encoding, hints, look_input, notes)
        prompt = None
        if look_input.generate:
            prompt = len(ids)
            ids = self.generate_ids(
                encoding, self.new_token_count(look_input, len(ids), self.limit())
            )
            encoding = {"input_ids": torch.tensor([ids])}
            hints = [*hints, *[None] * (len(ids) - prompt)]
        segments = (
            encoding["token_type_ids"][0].tolist()
            if look_input.pair is not None and "token_type_ids" in encoding
            else None
        )
        sequence = self.sequence_of("text", ids, hints, segments, prompt)
        predicted = 0 if self.kind == "decoder" else None
        return PreparedInput(encoding, [sequence], predicted, tuple(ids), notes)

    def run(self, prepared: PreparedInput) -> ModelOutput:
        with self.one_line_errors():
            inputs = move_to_model(self.model, prepared.inputs)
            out = self.model(**inputs, **run_options(self.model, self.kind))
        logits = next(floating_tensors(getattr(out, "logits", None)), None)
        if logits is not None and logits.dim() == 3:
            if prepared.predicted is not None and logits.shape[1] == len(prepared.ids):
                return ModelOutput(logits[0], "next")
            masked, vocabulary = self.mask_id, getattr(self.model.config, "vocab_size", None)
            if masked in prepared.ids and logits.shape[2] == vocabulary:
                return ModelOutput(logits[0], "masked", prepared.ids.index(masked))
        if logits is not None and logits.dim() == 2:
            return ModelOutput(logits[0], "classes")
        vectors = getattr(out, "last_hidden_state", logits)
        if vectors is None:
            vectors = next(floating_tensors(out), None)
        if vectors is None:
            raise ValueError(f"{self.label}: a {type(self.model).__name__} returns no vectors")
        return ModelOutput(vectors[0].reshape(-1, vectors.shape[-1]), "vectors")

    def token(self, index: int) -> str:
        return str(index) if self.tokens is None else self.words.text(index)

    def plain_ids(self, text: str) -> list[int]:
        _check_text(text)
        with self.one_line_errors():
            ids = list(self.processor(text, add_special_tokens=False)["input_ids"])
        unknown = self.processor.unk_token_id
        if unknown in ids and unknown != self.processor.eos_token_id:
            raise ValueError(
                f"{self.label}: the tokenizer does not know {text!r}; give one of its tokens"
            )
        return ids

    def untrained(self, seed: int) -> InspectedHuggingFaceModel:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = type(self.model)(copy.deepcopy(self.model.config)).eval()
        fresh.to(self.model.device, self.model.dtype)
        return InspectedHuggingFaceModel(fresh, self.processors.whole, f"{self.label}, untrained")

    def libraries(self) -> dict[str, str]:
        return {"transformers": str(import_module("transformers").__version__)}

    def _tensors(self, given: Any) -> PreparedInput:
        inputs = read_tensors(self.model, given)
        sequences = sequences_of(inputs, self.tokens)
        ids = sequences[-1].ids if sequences else None
        predicts = self.kind in ("decoder", "encoder-decoder") and ids is not None
        return PreparedInput(
            inputs,
            sequences,
            len(sequences) - 1 if predicts else None,
            tuple(ids or ()),
            media=media_of(self.model, inputs),
        )

    def _read(self, text: str, pair: str | None) -> tuple[dict[str, Tensor], list[object]]:
        """The tokenizer's outputs that the model accepts (some tokenizers return token types for
        any model), and for each token a hint about its word."""
        accepted = inspect.signature(self.model.forward).parameters
        _check_text(text + (pair or ""))
        with self.one_line_errors():
            encoding = self.processor(text, pair, return_tensors="pt")
        inputs = {name: value for name, value in encoding.items() if name in accepted}
        return inputs, self.words.word_hints(encoding)

    def _unknown_note(self, ids: list[int]) -> list[str]:
        """A note if words were unknown. Some tokenizers use the end token for unknown words."""
        unknown = self.processor.unk_token_id
        others = (
            self.processor.bos_token_id,
            self.processor.eos_token_id,
            self.processor.pad_token_id,
        )
        count = 0 if unknown in others else ids.count(unknown)
        if not count:
            return []
        described = f"{count} tokens are" if count > 1 else "1 token is"
        return [
            f"{self.label}: {described} unknown to the tokenizer, read as {self.token(unknown)}."
        ]

    def generate_ids(self, inputs: dict[str, Tensor], count: int) -> list[int]:
        """Generate `count` tokens greedily: the prompt with them, or the whole decoder output."""
        if not self.model.can_generate():
            raise ValueError(
                f"{self.label}: a {type(self.model).__name__} has no head to generate text; "
                "omit --generate, and give --pair to an encoder-decoder"
            )
        with torch.no_grad(), self.one_line_errors():
            generated = self.model.generate(
                **move_to_model(self.model, inputs),
                max_new_tokens=count,
                do_sample=False,
                num_beams=1,
            )
        return list(generated[0].tolist())

    def _two_texts(
        self,
        encoding: dict[str, Tensor],
        hints: list[object],
        look_input: LookInput,
        notes: list[str],
    ) -> PreparedInput:
        ids = encoding["input_ids"][0].tolist()
        source = self.sequence_of("source", ids, hints, None, None)
        target, more = self.read_target(encoding, look_input)
        inputs = {**encoding, "decoder_input_ids": torch.tensor([target.ids])}
        return PreparedInput(inputs, [source, target], 1, tuple(target.ids or ()), [*notes, *more])

    def read_target(
        self, encoding: dict[str, Tensor], look_input: LookInput
    ) -> tuple[Sequence, list[str]]:
        """The decoder's tokens, given or generated, and notes."""
        start, notes = self.decoder_start_id, list[str]()
        hints: list[object]
        if look_input.pair is not None:
            _check_text(look_input.pair)
            second = self.processor(text_target=look_input.pair, return_tensors="pt")
            target, hints = second["input_ids"][0].tolist(), self.words.word_hints(second)
            notes = self._unknown_note(target)
            prompt = None
        else:
            count = self.new_token_count(look_input, 1, self.limit("decoder"))
            target = self.generate_ids(encoding, count)
            prompt, hints = 1, [None] * len(target)
        if target[:1] != [start] or (look_input.pair is not None and look_input.text is not None):
            target, hints = [start, *target], [None, *hints]  # Whisper's tokenizer begins with it
        self.check_length(target, self.limit("decoder"))
        return self.sequence_of("target", target, hints, None, prompt), notes

    @property
    def decoder_start_id(self) -> int:
        """The first token of every decoder input."""
        index = getattr(self.model.config, "decoder_start_token_id", None)
        return int(self.processor.pad_token_id or 0) if index is None else int(index)

    def limit(self, part: str = "encoder") -> int | None:
        """The longest text by the position table (of an encoder-decoder, that of this part).
        RoBERTa and similar models start counting after the padding index."""
        config, name = self.model.config, "max_position_embeddings"
        settings = [
            (config, f"max_{part}_position_embeddings"),
            (getattr(config, part, None), name),  # two models in one
            (config, name),
        ]
        values = (getattr(owner, setting, None) for owner, setting in settings)
        limit = next((value for value in values if isinstance(value, int) and value > 0), None)
        if limit is None:
            return None
        tables = [m for n, m in self.model.named_modules() if n.endswith("position_embeddings")]
        offset = max((getattr(m, "padding_idx", None) or -1 for m in tables), default=-1) + 1
        return limit - offset

    def sequence_of(
        self,
        name: str,
        ids: list[int],
        hints: list[object],
        segments: list[int] | None,
        prompt: int | None,
    ) -> Sequence:
        texts = [self.token(index) for index in ids]
        special = [index in self.words.special for index in ids]
        words = self.words.words(ids, hints)
        return Sequence(name, texts, words, special, segments, prompt, ids=ids)

    @contextmanager
    def one_line_errors(self) -> Iterator[None]:
        """Turn errors of transformers into a ValueError of one line."""
        try:
            yield
        except BaseException as error:
            short = isinstance(error, ValueError) and "\n" not in str(error)
            if short or not (isinstance(error, Exception) or is_panic(error)):
                raise
            reason, name = one_line(error, 300), type(self.model).__name__
            raise ValueError(
                f"{self.label}: a {name} needs more than this input ({reason})"
            ) from error


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = text[error.start]
        raise ValueError(f"the text has {surrogate!r}, half a character; remove it") from None


def open_huggingface(path: Path) -> InspectedHuggingFaceModel:
    model, processor, notes = load_with_notes(path)
    label = display_name(path)
    return InspectedHuggingFaceModel(
        model, processor, label, [f"{label} {note}." for note in notes]
    )


class HuggingFaceAdapter(ModelAdapter):
    """The adapter for Hugging Face models."""

    def open_folder(self, path: Path) -> InspectedHuggingFaceModel:
        """Accepts any folder; the error says why it has no model."""
        return open_huggingface(path)

    def wrap_model(self, model: Any, processor: Any) -> InspectedHuggingFaceModel | None:
        if not isinstance(model, nn.Module) or not hasattr(model, "main_input_name"):
            return None
        name = str(getattr(model.config, "name_or_path", "")) or type(model).__name__
        return InspectedHuggingFaceModel(model, processor, Path(name).name)

    def listen(self, model: nn.Module, listener: CallListener) -> AbstractContextManager[list[str]]:
        has_layers = any(is_huggingface(module) for module in model.modules())
        return listen(model, listener) if has_layers else nullcontext([])

    def sites(self, model: nn.Module) -> list[AttentionSite]:
        return huggingface_sites(model)

    def predict(self, model: nn.Module, inputs: dict[str, Tensor]) -> BatchOutput | None:
        if not is_huggingface(model):
            return None
        return predict(model, inputs, model_kind(model))
