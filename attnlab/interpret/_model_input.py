"""One input of a model, ready to run: a text, token ids, two texts or an image.

Letters: B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import open_model, predict
from attnlab.interpret._inspected_model import (
    BatchOutput,
    InspectedModel,
    PreparedInput,
    move_to_model,
)
from attnlab.interpret._options import LookInput

Text = str | Sequence[int] | Tensor
"""A text, or its token ids."""


@dataclass(frozen=True)
class ModelInput:
    """One row, or several of the same shape. `inspected` is None for a model without tokenizer."""

    model: nn.Module
    inspected: InspectedModel | None
    inputs: dict[str, Tensor]
    ids: Tensor
    """(B, T) the tokens whose successors the model predicts; (B, 0) for an image."""
    tokens: list[str]
    """Texts of the first row's tokens."""
    label: str

    @torch.no_grad()
    def run(self) -> BatchOutput:
        """Run the model in evaluation mode, which the caller sets."""
        return predict(self.model, move_to_model(self.model, self.inputs))

    def repeated(self, copies: int) -> ModelInput:
        """The same input in several rows."""
        inputs = {name: _repeat(x, copies) for name, x in self.inputs.items()}
        return replace(self, inputs=inputs, ids=_repeat(self.ids, copies))

    def position(self, output: BatchOutput, position: int | None) -> int:
        """Where a prediction is read: given, or the last token, or the masked token."""
        T = output.values.shape[1]
        if position is None and output.kind == "masked":
            return self._masked_position(T)
        position = T - 1 if position is None else position
        if isinstance(position, bool) or not isinstance(position, int):
            raise ValueError(f"position is {position!r}; give a number from 0 to {T - 1}")
        if not -T <= position < T:
            raise ValueError(f"no position {position}; the text has {T} tokens: give 0 to {T - 1}")
        return position % T

    def _masked_position(self, T: int) -> int:
        position = self.first_mask()
        if position is None:
            raise ValueError(
                f"{self.label}: predicts masked tokens, and the text has none; give position=0 to "
                f"{T - 1}, or a text with the mask token"
            )
        return position

    def first_mask(self) -> int | None:
        """The position of the first mask token, the same in all rows."""
        mask = None if self.inspected is None else self.inspected.mask_id
        positions = [] if mask is None else (self.ids[0] == mask).nonzero()[:, 0].tolist()
        return int(positions[0]) if positions else None

    def token(self, index: int) -> str:
        return str(index) if self.inspected is None else self.inspected.token(index)


def read_input(
    model: Any,
    text: Text | None,
    *,
    tokenizer: Any = None,
    pair: str | None = None,
    image: str | Path | None = None,
) -> ModelInput:
    """`model`: a folder, or a model in memory with its tokenizer. With token ids it needs none."""
    if text is not None and not isinstance(text, str):
        return _from_ids(model, text, tokenizer)
    inspected = open_model(model, tokenizer)
    look_input = LookInput(text, pair, None if image is None else Path(image))
    return from_prepared(inspected, inspected.prepare(look_input))


def from_prepared(inspected: InspectedModel, prepared: PreparedInput) -> ModelInput:
    """An input that `look` prepared."""
    tokens = list(prepared.sequences[-1].texts) if prepared.sequences else []
    ids = torch.tensor([prepared.ids], dtype=torch.int64)
    return ModelInput(inspected.model, inspected, prepared.inputs, ids, tokens, inspected.label)


def _from_ids(model: Any, ids: Sequence[int] | Tensor, tokenizer: Any) -> ModelInput:
    rows = torch.as_tensor(ids)
    rows = rows[None] if rows.dim() == 1 else rows
    if rows.dim() != 2 or not rows.numel() or rows.is_floating_point():
        raise ValueError(
            f"token ids have shape {tuple(rows.shape)}; give whole numbers (T,) or (1, T)"
        )
    if len(rows) > 1:
        raise ValueError(f"token ids have {len(rows)} rows; give the ids of one text at a time")
    opened = None
    if tokenizer is not None or not isinstance(model, nn.Module):
        opened = open_model(model, tokenizer)
    module = model if opened is None else opened.model
    vocabulary = vocabulary_of(module)
    if int(rows.min()) < 0 or int(rows.max()) >= vocabulary:
        raise ValueError(f"token ids must be from 0 to {vocabulary - 1}")
    label = type(module).__name__ if opened is None else opened.label
    texts = [str(i) if opened is None else opened.token(i) for i in rows[0].tolist()]
    return ModelInput(module, opened, {"ids": rows.long()}, rows.long(), texts, label)


def vocabulary_of(model: Any) -> int:
    """The number of token ids that a model reads."""
    own = getattr(model, "vocabulary", None)
    config = getattr(model, "config", None)
    text_config = getattr(config, "get_text_config", lambda: config)()
    count = own if isinstance(own, int) else getattr(text_config, "vocab_size", None)
    if not isinstance(count, int):
        raise ValueError(f"a {type(model).__name__} reads no token ids; give a text or an image")
    return count


def read_all(model: Any, texts: Sequence[Text] | Text, **options: Any) -> list[ModelInput]:
    """Several inputs of one model, which is opened once."""
    single = isinstance(texts, str) or (isinstance(texts, Tensor) and texts.dim() == 1)
    listed = [texts] if single else list(texts)
    if listed and isinstance(listed[0], int):
        listed = [listed]
    if not listed:
        raise ValueError("there are no texts; give one or more")
    tokenizer = options.pop("tokenizer", None)
    by_ids = all(not isinstance(text, str) for text in listed)
    opened = model
    if not (by_ids and tokenizer is None and isinstance(model, nn.Module)):
        opened = open_model(model, tokenizer)
    return [_read_one(opened, text, options) for text in listed]


def _read_one(model: Any, text: Any, options: dict[str, Any]) -> ModelInput:
    """A text, token ids, or a pair of texts for an encoder-decoder."""
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(x, str) for x in text):
        return read_input(model, text[0], pair=text[1], **options)
    return read_input(model, text, **options)


def token_id(source: ModelInput, token: str | int, what: str = "token") -> int:
    """The id of one token or class, given as a number or a text."""
    if isinstance(token, bool) or not isinstance(token, int | str):
        raise ValueError(f"{what} is {token!r}; give a text of one token, or its number")
    if isinstance(token, int):
        return token
    inspected = source.inspected
    if inspected is None:
        raise ValueError(f"{what} is {token!r}, and the model has no tokenizer; give its number")
    if inspected.kind == "vision":
        names = list(inspected.classes)
        if token not in names:
            known = f"give one of {', '.join(names)}" if names else "give its number"
            raise ValueError(f"no class {token!r}; {known}")
        return names.index(token)
    ids = inspected.plain_ids(token)
    if len(ids) != 1:
        parts = " ".join(repr(inspected.token(index)) for index in ids[:8])
        raise ValueError(
            f"{what} {token!r} is {len(ids)} tokens ({parts}); give a text of one token (many need "
            "a space before the word), or its number"
        )
    return ids[0]


def check_token(index: int, output: BatchOutput, what: str = "token") -> int:
    """Raise if a model's output has no such token or class."""
    count = output.values.shape[-1]
    if output.kind == "vectors":
        raise ValueError("this model returns vectors and predicts no token; give one with a head")
    if not 0 <= index < count:
        raise ValueError(f"no {what} {index}; the model predicts 0 to {count - 1}")
    return index


def _repeat(x: Tensor, copies: int) -> Tensor:
    return x.repeat(copies, *[1] * (x.dim() - 1))
