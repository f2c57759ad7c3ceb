"""Hugging Face models that can be looked at."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import torch

from attnlab.huggingface import load_model
from attnlab.looking.pictures import read_picture
from attnlab.looking.records import Picture, Sequence
from attnlab.looking.subjects import (
    WRITTEN,
    Prepared,
    Said,
    Subject,
    Wish,
    check_room,
    patches,
    shown_name,
    words_of,
)


class HuggingFaceSubject(Subject):
    """Any model of the transformers library, with its tokeniser or image processor."""

    source = "huggingface"
    model: Any  # typed by its library, whose attributes differ from model to model

    def __init__(self, model: Any, reader: Any, label: str) -> None:
        self.model, self.reader, self.label = model, reader, label
        self.kind = kind_of(model)
        if reader is None:
            needed = "image processor" if self.kind == "vision" else "tokenizer"
            raise ValueError(f"{label}: has no {needed}; give one, or save it in the same folder")

    def prepare(self, wish: Wish) -> Prepared:
        self.refuse(wish)
        if self.kind == "vision":
            return self._image(wish)
        read = self._read(wish.text or "", wish.pair if self.kind == "encoder" else None)
        ids = read["input_ids"][0].tolist()
        if not ids:
            raise ValueError("the text has no token; give one with some characters")
        if self.kind == "encoder-decoder":
            return self._two_texts(read, wish)
        prompt = None
        if wish.generate:
            prompt = len(ids)
            ids = self._written(dict(read), wish.generate)
            read = {"input_ids": torch.tensor([ids])}
        self._check_length(ids)
        segments = (
            read["token_type_ids"][0].tolist()
            if wish.pair is not None and "token_type_ids" in read
            else None
        )
        sequence = self._sequence("text", ids, segments, prompt)
        written = 0 if self.kind == "decoder" else None
        return Prepared(dict(read), [sequence], written, tuple(ids))

    def run(self, prepared: Prepared) -> Said:
        changes = {} if self.kind in ("encoder", "vision") else {"use_cache": False}
        out = self.model(**prepared.inputs, return_dict=True, **changes)
        logits = getattr(out, "logits", None)
        if logits is not None and self.kind in ("decoder", "encoder-decoder") and logits.dim() == 3:
            return Said(logits[0], "next")
        if logits is not None and logits.dim() == 2:
            return Said(logits[0], "classes")
        vectors = getattr(out, "last_hidden_state", logits)
        if vectors is None:
            vectors = next(each for each in out.values() if torch.is_tensor(each))
        return Said(vectors[0].reshape(-1, vectors.shape[-1]), "vectors")

    def token(self, index: int) -> str:
        return token_text(self.reader, index)

    def untrained(self, seed: int) -> HuggingFaceSubject:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = type(self.model)(copy.deepcopy(self.model.config)).eval()
        return HuggingFaceSubject(fresh, self.reader, f"{self.label}, untrained")

    def _read(self, text: str, pair: str | None) -> dict[str, torch.Tensor]:
        """What the tokenizer gives and the model takes: some give token types to any model."""
        taken = inspect.signature(self.model.forward).parameters
        read = self.reader(text, pair, return_tensors="pt")
        return {name: value for name, value in read.items() if name in taken}

    def _written(self, inputs: dict[str, Any], count: int) -> list[int]:
        if not self.model.can_generate():
            raise ValueError(
                f"{self.label}: a {type(self.model).__name__} has no head to write with; "
                "leave --generate, and give --pair to an encoder-decoder"
            )
        start = 1 if self.kind == "encoder-decoder" else inputs["input_ids"].shape[1]
        check_room(self.label, start, count, self._limit())
        with torch.no_grad():
            found = self.model.generate(
                **inputs, max_new_tokens=count, do_sample=False, num_beams=1
            )
        return list(found[0].tolist())

    def _two_texts(self, read: dict[str, torch.Tensor], wish: Wish) -> Prepared:
        ids = read["input_ids"][0].tolist()
        start = getattr(self.model.config, "decoder_start_token_id", None)
        start = start if start is not None else self.reader.pad_token_id or 0
        if wish.pair is not None:
            given = self.reader(text_target=wish.pair)["input_ids"]
            target, prompt = [start, *given], None
        else:
            target, prompt = self._written(dict(read), wish.generate or WRITTEN), 1
        self._check_length(ids)
        self._check_length(target)
        sequences = [
            self._sequence("source", ids, None, None),
            self._sequence("target", target, None, prompt),
        ]
        inputs = {**read, "decoder_input_ids": torch.tensor([target])}
        return Prepared(inputs, sequences, 1, tuple(target))

    def _limit(self) -> int | None:
        """The longest text by its table of positions; RoBERTa and its kin count from behind pad."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if not isinstance(limit, int) or limit < 1:
            return None
        tables = [m for n, m in self.model.named_modules() if n.endswith("position_embeddings")]
        offset = max((getattr(m, "padding_idx", None) or -1 for m in tables), default=-1) + 1
        return limit - offset

    def _check_length(self, ids: list[int]) -> None:
        limit = self._limit()
        if limit is not None and limit < len(ids):
            raise ValueError(
                f"{self.label}: the text has {len(ids)} tokens; this model reads at most {limit}"
            )

    def _sequence(
        self, name: str, ids: list[int], segments: list[int] | None, prompt: int | None
    ) -> Sequence:
        texts = [self.token(index) for index in ids]
        # an unknown or masked word is a word: no separator, and nothing to hide
        words = {self.reader.unk_token_id, self.reader.mask_token_id}
        marks = set(self.reader.all_special_ids) - words
        special = [index in marks for index in ids]
        spaced = texts
        if _is_word_piece(self.reader):  # only ## goes on with a word
            spaced = [text[2:] if text.startswith("##") else f" {text}" for text in texts]
        return Sequence(name, texts, words_of(spaced, special), special, segments, prompt)

    def _image(self, wish: Wish) -> Prepared:
        assert wish.image is not None
        config = self.model.config
        vision = getattr(config, "vision_config", config)
        (height, width), (high, wide) = _both(vision.image_size), _both(vision.patch_size)
        if height != width:
            raise ValueError(f"{self.label}: reads images of {height} x {width}, not squares")
        pixels = read_picture(wish.image, height)
        read = self.reader(
            images=pixels.numpy(), return_tensors="pt", do_resize=False, do_center_crop=False
        )
        values = read["pixel_values"]
        with torch.no_grad():  # how many tokens stand before the patches differs between models
            out = self.model(pixel_values=values, output_hidden_states=True, return_dict=True)
        length, rows, columns = out.hidden_states[0].shape[1], height // high, width // wide
        picture = Picture(pixels, rows, columns, length - rows * columns)
        sequence = patches("patches", picture, length)
        return Prepared({"pixel_values": values}, [sequence])


def _both(size: Any) -> tuple[int, int]:
    return (int(size[0]), int(size[1])) if isinstance(size, list | tuple) else (size, size)


def kind_of(model: Any) -> str:
    if model.main_input_name == "pixel_values":
        return "vision"
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    causal = any(getattr(module, "is_causal", False) is True for module in model.modules())
    return "decoder" if causal or model.can_generate() else "encoder"


def token_text(tokenizer: Any, index: int) -> str:
    """As it stands in the text: spaces as spaces, pieces of a word with their ##."""
    token = tokenizer.convert_ids_to_tokens(index)
    if token is None:
        return f"<{index}>"
    if index in tokenizer.all_special_ids:
        return str(token)
    if token.startswith("\u2581"):
        return token.replace("\u2581", " ")
    if token.startswith("##"):
        return str(token)
    said = tokenizer.decode([index], clean_up_tokenization_spaces=False)
    return str(said) if said else str(token)


def _is_word_piece(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and type(backend.model).__name__ == "WordPiece"


def open_huggingface(path: Path) -> HuggingFaceSubject:
    model, reader = load_model(path)
    return HuggingFaceSubject(model, reader, shown_name(path))
