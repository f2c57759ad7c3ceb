"""Readers for models of one text: decoders and encoders.

Letters: T tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.heads._inputs import HeadInputs
from attnlab.heads._model_reader import (
    MASKED_FRACTION,
    InputWindow,
    ModelReader,
    WindowSplit,
    cut_pieces,
    split_in_half,
)
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.interpret._inspected_model import InspectedModel

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel

WINDOWS = 4


class TextModelReader(ModelReader):
    """Scored by the loss of next or masked tokens; without a head for tokens by its vectors."""

    limit: int | None
    """The most tokens of a window; None without a limit."""
    mask_id: int | None

    def __init__(self, inspected: InspectedModel) -> None:
        super().__init__(inspected)
        self.causal = inspected.kind == "decoder"

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """Token ids to put before and after each text."""
        return [], []

    def _create_windows(self, inputs: HeadInputs, settings: HeadSettings) -> WindowSplit:
        """Windows to choose on from the first half of the text, to check on from the second."""
        before, after = self.special_tokens()
        size = min(settings.tokens, self.limit or settings.tokens) - len(before) - len(after)
        if inputs.pairs:
            self.notes.append("Only the texts of the pairs were read, one after the other.")
        count = 2 * settings.count(WINDOWS)
        batches = [
            self.batch([*before, *piece, *after])
            for piece in cut_pieces(inputs.full_text, self.encode, size, count, self.label)
        ]
        return split_in_half([InputWindow({"ids": ids}) for ids in batches], batches[0].shape[1])

    @torch.no_grad()
    def evaluate(self, window: InputWindow, number: int) -> Tensor:
        ids = window.ids
        if self.measure == "distance":
            return super().evaluate(window, number)
        if self.causal:
            return F.cross_entropy(self.run(window)[0, :-1].float(), ids[0, 1:])
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        hidden = (torch.rand(ids.shape, generator=random) < MASKED_FRACTION).to(ids.device)
        before, after = map(len, self.special_tokens())
        hidden[:, :before], hidden[:, ids.shape[1] - after :] = False, False
        hidden[0, before] |= ~hidden.any()  # at least one
        assert self.mask_id is not None
        masked = InputWindow({"ids": ids.masked_fill(hidden, self.mask_id)})
        return F.cross_entropy(self.run(masked)[hidden], ids[hidden])


class AttnlabTextReader(TextModelReader):
    """A decoder or encoder of attnlab."""

    inspected: InspectedAttnlabModel

    def __init__(self, inspected: InspectedAttnlabModel) -> None:
        super().__init__(inspected)
        self.measure = "next-token loss" if self.causal else "masked-token loss"
        limit = self.model.max_length
        self.limit = limit if isinstance(limit, int) else None
        self.mask_id = inspected.tokenizer.mask

    def encode(self, text: str) -> list[int]:
        return self.inspected.tokenizer.encode(text)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        return self.inspected.tokenizer.added_ids

    def run(self, window: InputWindow) -> Tensor:
        out: Tensor = self.model(window.ids)
        return out


class HuggingFaceTextReader(TextModelReader):
    """A decoder or encoder of the transformers library."""

    inspected: InspectedHuggingFaceModel

    def __init__(self, inspected: InspectedHuggingFaceModel) -> None:
        super().__init__(inspected)
        self.tokenizer = inspected.processor
        self.limit = inspected.limit()
        mask = getattr(self.tokenizer, "mask_token_id", None)
        self.mask_id = mask if isinstance(mask, int) else None
        before, after = self.special_tokens()
        sample = self.batch([*before, *sample_token_ids(self.tokenizer), *after])
        with torch.no_grad(), inspected.one_line_errors():
            out = self.model(input_ids=sample)
        logits = getattr(out, "logits", None)
        vocabulary = self.model.config.get_text_config().vocab_size  # type: ignore[union-attr,operator]
        has_head = logits is not None and logits.dim() == 3 and logits.shape[2] == vocabulary
        self.measure = "distance"
        if has_head and (self.causal or self.mask_id is not None):
            self.measure = "next-token loss" if self.causal else "masked-token loss"

    def encode(self, text: str) -> list[int]:
        return encode_plain(self.tokenizer, text)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        return find_special_tokens(self.tokenizer)

    def run(self, window: InputWindow) -> Tensor:
        changes = {"use_cache": False} if self.causal else {}
        with self.inspected.one_line_errors():
            out = self.model(input_ids=window.ids, **changes)
        return select_output(out, self.measure == "distance")


def encode_plain(tokenizer: Any, text: str) -> list[int]:
    """Token ids from a tokenizer of transformers, without special tokens."""
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def sample_token_ids(tokenizer: Any) -> list[int]:
    """Ids of a short text that the tokenizer can encode: not every tokenizer knows letters."""
    sample = (encode_plain(tokenizer, text) for text in _sample_texts(tokenizer))
    return next(filter(None, sample), [0])


def find_special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer of transformers puts before and after a text."""
    for text in _sample_texts(tokenizer):
        plain, full = encode_plain(tokenizer, text), list(tokenizer(text)["input_ids"])
        for start in range(len(full) - len(plain) + 1):
            if plain and full[start : start + len(plain)] == plain:
                return full[:start], full[start + len(plain) :]
    raise ValueError(
        "the tokenizer encodes none of its own words; check that its files are complete"
    )


def _sample_texts(tokenizer: Any) -> Iterator[str]:
    """Short texts, then the tokenizer's own words."""
    yield from ("a b c", "a", "A", "0")
    for index in range(min(200, len(tokenizer))):
        word = tokenizer.decode([index], skip_special_tokens=True).strip()
        if word:
            yield word


def select_output(out: Any, vectors: bool) -> Tensor:
    """The logits of a model of transformers, or its last hidden states."""
    if not vectors:
        logits: Tensor = out.logits
        return logits
    last = getattr(out, "last_hidden_state", None)
    hidden: Tensor = out[0] if last is None else last
    return hidden
