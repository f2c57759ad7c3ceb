"""Hugging Face models that can be looked at."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_interface import listen
from attnlab.huggingface._attention_modules import is_huggingface
from attnlab.huggingface._image_inputs import read_image
from attnlab.huggingface._load_model import load_with_notes
from attnlab.huggingface._token_words import HuggingFaceTokens
from attnlab.interpret._adapters import ModelAdapter
from attnlab.interpret._attention_call import Listener
from attnlab.interpret._inspected_model import Prepared, Said, Subject, at_home, shown_name
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelKind, Sequence

OTHER_INPUTS = {
    "input_features": "sound",
    "input_values": "sound",
    "pixel_values_videos": "videos",
    "past_values": "series of numbers",
}


class HuggingFaceSubject(Subject):
    """Any model of the transformers library, with its tokenizer or image processor."""

    source = "huggingface"
    model: Any  # typed by its library, whose attributes differ from model to model

    def __init__(self, model: Any, reader: Any, label: str, notes: list[str] | None = None) -> None:
        self.model, self.reader, self.label = model, reader, label
        self.notes = notes or []
        reason = why_not(model)
        if reason:
            raise ValueError(f"{label}: a {type(model).__name__} {reason}")
        self.kind = kind_of(model)
        if reader is None:
            needed = "image processor" if self.kind == "vision" else "tokenizer"
            raise ValueError(f"{label}: has no {needed}; give one, or save it in the same folder")
        self.tokens = None if self.kind == "vision" else HuggingFaceTokens(reader)

    @property
    def words(self) -> HuggingFaceTokens:
        assert self.tokens is not None
        return self.tokens

    def prepare(self, given: LookInput) -> Prepared:
        self.refuse(given)
        if self.kind == "vision":
            assert given.image is not None
            with self.told():
                return read_image(self.model, self.reader, given.image)
        read, hints = self._read(given.text or "", given.pair if self.kind == "encoder" else None)
        ids = read["input_ids"][0].tolist()
        self.check_length(ids, self.limit())
        notes = self._unknown(ids)
        if self.kind == "encoder-decoder":
            return self._two_texts(read, hints, given, notes)
        prompt = None
        if given.generate:
            prompt = len(ids)
            ids = self.written(read, self.count_to_write(given, len(ids), self.limit()))
            read = {"input_ids": torch.tensor([ids])}
            hints = [*hints, *[None] * (len(ids) - prompt)]
        segments = (
            read["token_type_ids"][0].tolist()
            if given.pair is not None and "token_type_ids" in read
            else None
        )
        sequence = self._sequence("text", ids, hints, segments, prompt)
        written = 0 if self.kind == "decoder" else None
        return Prepared(read, [sequence], written, tuple(ids), notes)

    def run(self, prepared: Prepared) -> Said:
        changes = {} if self.kind in ("encoder", "vision") else {"use_cache": False}
        with self.told():
            inputs = at_home(self.model, prepared.inputs)
            out = self.model(**inputs, return_dict=True, **changes)
        logits = getattr(out, "logits", None)
        if logits is not None and logits.dim() == 3:
            if self.kind in ("decoder", "encoder-decoder"):
                return Said(logits[0], "next")
            masked = getattr(self.reader, "mask_token_id", None)
            if masked in prepared.ids and logits.shape[2] == self.model.config.vocab_size:
                return Said(logits[0], "masked", prepared.ids.index(masked))
        if logits is not None and logits.dim() == 2:
            return Said(logits[0], "classes")
        vectors = getattr(out, "last_hidden_state", logits)
        if vectors is None:
            vectors = next(each for each in out.values() if torch.is_tensor(each))
        return Said(vectors[0].reshape(-1, vectors.shape[-1]), "vectors")

    def token(self, index: int) -> str:
        return self.words.text(index)

    def untrained(self, seed: int) -> HuggingFaceSubject:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = type(self.model)(copy.deepcopy(self.model.config)).eval()
        fresh.to(self.model.device, self.model.dtype)
        return HuggingFaceSubject(fresh, self.reader, f"{self.label}, untrained")

    def libraries(self) -> dict[str, str]:
        return {"transformers": str(import_module("transformers").__version__)}

    def _read(self, text: str, pair: str | None) -> tuple[dict[str, Tensor], list[object]]:
        """What the tokenizer gives and the model takes, for some give token types to any model;
        and of each token what is known of its word."""
        taken = inspect.signature(self.model.forward).parameters
        _check_text(text + (pair or ""))
        with self.told():
            read = self.reader(text, pair, return_tensors="pt")
        inputs = {name: value for name, value in read.items() if name in taken}
        return inputs, self.words.word_hints(read)

    def _unknown(self, ids: list[int]) -> list[str]:
        """A note where words were unknown. Some have one token for that and for an end."""
        unknown = self.reader.unk_token_id
        others = (self.reader.bos_token_id, self.reader.eos_token_id, self.reader.pad_token_id)
        count = 0 if unknown in others else ids.count(unknown)
        if not count:
            return []
        said = f"{count} tokens are" if count > 1 else "1 token is"
        return [f"{self.label}: {said} unknown to the tokenizer and read as {self.token(unknown)}."]

    def written(self, inputs: dict[str, Tensor], count: int) -> list[int]:
        """What the model itself writes, without drawing: a prompt and so many tokens, or what its
        decoder gave from its start on."""
        if not self.model.can_generate():
            raise ValueError(
                f"{self.label}: a {type(self.model).__name__} has no head to write with; "
                "leave --generate, and give --pair to an encoder-decoder"
            )
        with torch.no_grad(), self.told():
            found = self.model.generate(
                **at_home(self.model, inputs), max_new_tokens=count, do_sample=False, num_beams=1
            )
        return list(found[0].tolist())

    def _two_texts(
        self, read: dict[str, Tensor], hints: list[object], given: LookInput, notes: list[str]
    ) -> Prepared:
        ids = read["input_ids"][0].tolist()
        if given.pair is not None:
            _check_text(given.pair)
            second = self.reader(text_target=given.pair, return_tensors="pt")
            target, prompt = [self.start, *second["input_ids"][0].tolist()], None
            known = [None, *self.words.word_hints(second)]
            notes = [*notes, *self._unknown(target[1:])]
        else:
            target = self.written(read, self.count_to_write(given, 1, self.limit("decoder")))
            prompt, known = 1, [None] * len(target)
        self.check_length(target, self.limit("decoder"))
        sequences = [
            self._sequence("source", ids, hints, None, None),
            self._sequence("target", target, known, None, prompt),
        ]
        inputs = {**read, "decoder_input_ids": torch.tensor([target])}
        return Prepared(inputs, sequences, 1, tuple(target), notes)

    @property
    def start(self) -> int:
        """What stands before all that a decoder writes."""
        found = getattr(self.model.config, "decoder_start_token_id", None)
        return int(self.reader.pad_token_id or 0) if found is None else int(found)

    def limit(self, part: str = "encoder") -> int | None:
        """The longest text by its table of positions, of an encoder-decoder that this part reads;
        RoBERTa and its kin count from behind pad."""
        config, name = self.model.config, "max_position_embeddings"
        places = [(config, f"max_{part}_position_embeddings"), (config, name)]
        places.insert(1, (getattr(config, part, None), name))  # two models in one
        found = (getattr(owner, each, None) for owner, each in places)
        limit = next((each for each in found if isinstance(each, int) and each > 0), None)
        if limit is None:
            return None
        tables = [m for n, m in self.model.named_modules() if n.endswith("position_embeddings")]
        offset = max((getattr(m, "padding_idx", None) or -1 for m in tables), default=-1) + 1
        return limit - offset

    def _sequence(
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
    def told(self) -> Iterator[None]:
        """The library has models with needs of their own: what goes wrong in it is one sentence."""
        try:
            yield
        except (TypeError, AttributeError, RuntimeError, LookupError, ValueError) as error:
            if isinstance(error, ValueError) and "\n" not in str(error):
                raise
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            name = type(self.model).__name__
            raise ValueError(
                f"{self.label}: a {name} cannot be run on this alone ({reason})"
            ) from error


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise ValueError(f"the text has {half!r}, half a character; leave it out") from None


def why_not(model: Any) -> str:
    """What such a model does that cannot be shown, or ""."""
    name = model.main_input_name
    if name not in ("input_ids", "pixel_values"):
        what = OTHER_INPUTS.get(str(name), "neither text nor image")
        return f"reads {what} ({name}); attnlab looks at models of texts and of images"
    if name == "pixel_values" and (model.config.is_encoder_decoder or model.can_generate()):
        return "reads an image and goes on with a decoder; give its image encoder alone"
    towers = [getattr(model, each, None) for each in ("text_model", "vision_model")]
    if all(towers) and not model.can_generate():
        names = " or ".join(type(each).__name__ for each in towers)
        return f"is two models, of texts and of images; open one of them, {names}, and look at it"
    return ""


def kind_of(model: Any) -> ModelKind:
    if model.main_input_name == "pixel_values":
        return "vision"
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    causal = any(getattr(module, "is_causal", False) is True for module in model.modules())
    return "decoder" if causal or model.can_generate() else "encoder"


def open_huggingface(path: Path) -> HuggingFaceSubject:
    model, reader, notes = load_with_notes(path)
    label = shown_name(path)
    return HuggingFaceSubject(model, reader, label, [f"{label} {note}." for note in notes])


class HuggingFaceModels(ModelAdapter):
    def open_folder(self, path: Path) -> HuggingFaceSubject:
        """Any folder: an error says why no model is there."""
        return open_huggingface(path)

    def subject_of(self, model: Any, reader: Any) -> HuggingFaceSubject | None:
        if not isinstance(model, nn.Module) or not hasattr(model, "main_input_name"):
            return None
        name = str(getattr(model.config, "name_or_path", "")) or type(model).__name__
        return HuggingFaceSubject(model, reader, Path(name).name)

    def listen(self, model: nn.Module, listener: Listener) -> AbstractContextManager[list[str]]:
        ours = any(is_huggingface(module) for module in model.modules())
        return listen(model, listener) if ours else nullcontext([])
