"""Readers for encoder-decoders, with the heads of encoder, decoder and cross-attention.

With a file of pairs the decoder reads the summaries. With a plain text it reads what the model
itself generates after each window.

Letters: S source tokens, T target tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnlab.generate import generate
from attnlab.heads._inputs import HeadInputs, spread_indices
from attnlab.heads._model_reader import (
    InputWindow,
    ModelReader,
    WindowSplit,
    cut_pieces,
    split_in_half,
)
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import WINDOWS, encode_plain, find_special_tokens, select_output
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._inspected_model import InspectedSummaryModel
from attnlab.tasks.summary._token_ids import normalize_spaces

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel

MAX_NEW_TOKENS = 64  # that a model generates after a window
FEW_TOKENS = 8


class PairReader(ModelReader):
    has_head = True
    """Whether it can generate tokens."""

    @property
    @abstractmethod
    def limits(self) -> tuple[int | None, int | None]:
        """The most tokens of the encoder and of the decoder; None without a limit."""

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """Token ids to put before and after each source text."""
        return [], []

    @abstractmethod
    def encode_target(self, summary: str) -> tuple[list[int], list[int]]:
        """The decoder's input ids for a summary, and its labels with the end token."""

    @abstractmethod
    def generate_ids(self, source: list[int], count: int) -> list[int]:
        """The start token and up to `count` generated tokens."""

    def _create_windows(self, inputs: HeadInputs, settings: HeadSettings) -> WindowSplit:
        encoder_limit, decoder_limit = self.limits
        before, after = self.special_tokens()
        size = min(settings.tokens, encoder_limit or settings.tokens) - len(before) - len(after)
        target_size = min(settings.tokens, decoder_limit or settings.tokens)
        count = 2 * settings.count(WINDOWS)
        if inputs.pairs:
            windows = self._pair_windows(inputs, size, target_size, count)
        else:
            sources = cut_pieces(inputs.full_text, self.encode, size, count, self.label)
            windows = [
                self._generated_window([*before, *source, *after], target_size)
                for source in sources
            ]
        longest = max(max(x.shape[1] for x in window.inputs.values()) for window in windows)
        return split_in_half(windows, longest)

    def _pair_windows(
        self, inputs: HeadInputs, size: int, target_size: int, count: int
    ) -> list[InputWindow]:
        """Windows of pairs evenly spread over the file, cut at the end if they are too long."""
        self.measure = "loss of the summaries" if self.has_head else "distance"
        before, after = self.special_tokens()
        windows = []
        for index in spread_indices(len(inputs.pairs), count):
            pair = inputs.pairs[index]
            source = self.encode(pair.text)[:size]
            target, labels = self.encode_target(pair.summary)
            if source and target:
                ids = [*before, *source, *after]
                windows.append(self._window(ids, target[:target_size], labels[:target_size]))
        if len(windows) < 2:
            raise ValueError(
                f"{self.label}: {len(windows) or 'no'} pair has both a text and a summary; give "
                "2 or more: half to choose mechanisms on, half to check them on"
            )
        return windows[: len(windows) // 2 * 2]

    def _generated_window(self, ids: list[int], target_size: int) -> InputWindow:
        """A window whose target is what the model itself generates."""
        if not self.has_head:  # the same text again, as transformers does by default
            return self._window(ids, ids[:target_size], [])
        self.measure = "loss of its own words"
        generated = self.generate_ids(ids, min(MAX_NEW_TOKENS, target_size - 1))
        if len(generated) < 2:
            raise ValueError(
                f"{self.label}: generates nothing after a window of this text; give texts with "
                "summaries, --text FILE.jsonl"
            )
        if len(generated) <= FEW_TOKENS:
            self.note(
                f"{self.label} generates fewer than {FEW_TOKENS} tokens after a window, so its "
                "decoder is measured on few; give texts with summaries (--text FILE.jsonl)."
            )
        return self._window(ids, generated[:-1], generated[1:])

    def _window(self, source: list[int], target: list[int], labels: list[int]) -> InputWindow:
        batch = {"source": self.batch(source), "target": self.batch(target)}
        return InputWindow(batch, self.batch(labels)[0] if self.has_head else None)


class AttnlabPairReader(PairReader):
    """An encoder-decoder of attnlab."""

    inspected: InspectedAttnlabModel

    def __init__(self, inspected: InspectedAttnlabModel) -> None:
        super().__init__(inspected)
        if self.seq2seq.copy is not None:
            self.notes.append(
                f"{self.label}: its copy head is left out: it needs probabilities as weights."
            )

    @property
    def seq2seq(self) -> Seq2Seq:
        assert isinstance(self.inspected.model, Seq2Seq)
        return self.inspected.model

    @property
    def limits(self) -> tuple[int | None, int | None]:
        encoder_limit, decoder_limit = self.seq2seq.encoder.max_length, self.seq2seq.max_length
        if isinstance(self.inspected, InspectedSummaryModel):
            longest = self.inspected.encoding.longest_text
            encoder_limit = longest if encoder_limit is None else min(encoder_limit, longest)
        return encoder_limit, decoder_limit

    def encode(self, text: str) -> list[int]:
        words = (
            normalize_spaces(text) if isinstance(self.inspected, InspectedSummaryModel) else text
        )
        return self.inspected.tokenizer.encode(words)

    def encode_target(self, summary: str) -> tuple[list[int], list[int]]:
        end, ids = self.inspected.tokenizer.end, self.encode(summary)
        return [end, *ids], [*ids, end]

    def generate_ids(self, source: list[int], count: int) -> list[int]:
        end = self.inspected.tokenizer.end
        samples = generate(
            self.seq2seq, [[end]], new_tokens=count, stop=end,
            context={"source": self.batch(source)},
        )  # fmt: skip
        return [end, *samples[0][0].ids]

    def run(self, window: InputWindow) -> Tensor:
        out: Tensor = self.seq2seq(**window.inputs)
        return out


class HuggingFacePairReader(PairReader):
    """An encoder-decoder of the transformers library."""

    inspected: InspectedHuggingFaceModel

    def __init__(self, inspected: InspectedHuggingFaceModel) -> None:
        super().__init__(inspected)
        self.tokenizer = inspected.processor
        self.has_head = bool(inspected.model.can_generate())
        self.measure = "distance"
        if not self.has_head:
            self.notes.append(
                f"{self.label} has no head for tokens, so with a plain text its decoder reads the "
                "same window as its encoder."
            )

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return self.inspected.limit("encoder"), self.inspected.limit("decoder")

    def encode(self, text: str) -> list[int]:
        return encode_plain(self.tokenizer, text)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        return find_special_tokens(self.tokenizer)

    def encode_target(self, summary: str) -> tuple[list[int], list[int]]:
        labels = list(self.tokenizer(text_target=summary)["input_ids"])
        shift = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if shift is None or not labels:
            return [self.inspected.decoder_start_id, *labels[:-1]], labels
        return shift(labels=torch.tensor([labels]))[0].tolist(), labels  # start tokens differ

    def generate_ids(self, source: list[int], count: int) -> list[int]:
        return self.inspected.generate_ids({"input_ids": torch.tensor([source])}, count)

    def run(self, window: InputWindow) -> Tensor:
        source, target = window.inputs["source"], window.inputs["target"]
        with self.inspected.one_line_errors():
            out = self.model(input_ids=source, decoder_input_ids=target, use_cache=False)
        return select_output(out, not self.has_head)
