"""What all generation methods share: the model interface, checked prompts, log-probabilities.

Letters: B prompts, T tokens of the longest prompt, R rows of the batch (each a sample or a beam),
N tokens generated so far, V vocabulary, K candidates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import index
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence


class DecodingState(Protocol):
    """The state of a model for the rows that it has read. No method changes it.

    It may also have a method `overwritable()`, which returns a copy that each step may overwrite,
    because generation keeps only the newest state.
    """

    def select(self, rows: Tensor) -> Self:
        """The state of these rows (n,), in this order, repeats allowed."""


class Decodable(Protocol):
    """The interface that a model needs for generation."""

    @property
    def max_length(self) -> int | None:
        """The largest length of prompt and continuation together; None if there is no limit."""

    # *others lets a model name its context: prefill(self, ids, lengths, *, source).
    def prefill(
        self, ids: Tensor, lengths: Tensor, *others: Any, **context: Any
    ) -> tuple[Tensor, DecodingState]:
        """Logits (B, V) after the last real token of each right-padded prompt (B, T)."""

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, DecodingState]:
        """Logits (R, V) after one more token (R,) per row; the old state stays valid."""


@dataclass(frozen=True)
class Generated:
    """One generated sequence."""

    ids: list[int] = field(default_factory=list)
    """The new tokens, without the prompt and without the stop token."""
    log_probabilities: list[float] = field(default_factory=list)
    """Of each new token, and of the stop token if there is one. By the model's own distribution,
    before temperature, filters and `block_repeats`."""
    finished: bool = False
    """Whether it ended with a stop token, not because it reached `new_tokens`."""

    @property
    def score(self) -> float:
        return sum(self.log_probabilities)


class GenerationTask:
    """The checked prompts and options of a call to `generate` or `beam_search`."""

    def __init__(
        self,
        caller: str,
        model: Decodable,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        stop: int | Collection[int] | None,
        block_repeats: int | None,
    ) -> None:
        if block_repeats is not None:
            check_at_least_one(caller, block_repeats=block_repeats)
        self.caller, self.model, self.new_tokens = caller, model, new_tokens
        self.block_repeats = block_repeats
        stops = () if stop is None else stop if isinstance(stop, Collection) else (stop,)
        self.stops = frozenset(index(token) for token in stops)
        self.prompts = [self._checked(number, prompt) for number, prompt in enumerate(prompts)]
        self._check_ids(range(len(self.prompts)), None)

    def _checked(self, number: int, prompt: Sequence[int]) -> list[int]:
        if isinstance(prompt, int):
            raise ValueError(
                f"{self.caller}: prompt {number} is the number {prompt}; "
                "give a list of prompts, each a list of ids: [[1, 2, 3]]"
            )
        ids, limit = [index(token) for token in prompt], self.model.max_length
        if not ids:
            raise ValueError(
                f"{self.caller}: prompt {number} is empty; give at least one token, "
                "such as a start token"
            )
        if limit is not None and len(ids) + self.new_tokens > limit:
            raise ValueError(
                f"{self.caller}: prompt {number} has {len(ids)} tokens and new_tokens is "
                f"{self.new_tokens}, but the model's max_length is {limit}; "
                f"{max(0, limit - len(ids))} new tokens fit after this prompt"
            )
        return ids

    def groups(self, size: int) -> list[list[int]]:
        """Prompt indices in groups of similar length, so that there is little padding."""
        order = sorted(range(len(self.prompts)), key=lambda b: len(self.prompts[b]))
        return [sorted(order[start : start + size]) for start in range(0, len(order), size)]

    def prefill(
        self,
        context: Mapping[str, Any],
        device: torch.device | str | None,
        indices: Sequence[int] | None = None,
    ) -> tuple[Tensor, DecodingState]:
        """Logits (B, V) after the prompts `indices`, or after all, and the state."""
        device = device_of(self.model) if device is None else device
        indices = range(len(self.prompts)) if indices is None else indices
        rows = [torch.tensor(self.prompts[b]) for b in indices]
        lengths = torch.tensor([len(row) for row in rows], device=device)  # (B,)
        ids = pad_sequence(rows, batch_first=True).to(device)  # (B, T)
        selected = torch.tensor(list(indices))
        context = {
            name: value[selected.to(value.device)] if isinstance(value, Tensor) else value
            for name, value in context.items()
        }
        try:
            logits, state = self.model.prefill(ids, lengths, **context)  # (B, V)
        except IndexError:
            # An id may be too large for the embedding; token 0 shows the size of the vocabulary.
            first, one = torch.zeros_like(ids[:, :1]), torch.ones_like(lengths)
            self._check_ids(indices, self.model.prefill(first, one, **context)[0].shape[1])
            raise
        self._check_ids(indices, logits.shape[1])
        return logits, state

    def _check_ids(self, indices: Sequence[int], V: int | None) -> None:
        named = [(f"prompt {number}", self.prompts[number]) for number in indices]
        for name, ids in [*named, ("stop", sorted(self.stops))]:
            for token in ids:
                if token < 0 or (V is not None and token >= V):
                    last = "the vocabulary's last" if V is None else V - 1
                    raise ValueError(
                        f"{self.caller}: {name} has id {token}; give ids from 0 to {last}"
                    )

    def raise_no_token_left(self, count: int) -> None:
        raise ValueError(
            f"{self.caller}: after {count} of {self.new_tokens} new tokens "
            f"block_repeats={self.block_repeats} leaves no token to choose; "
            "give a larger block_repeats, fewer new_tokens or a stop token"
        )


def overwritable(state: DecodingState) -> DecodingState:
    """A copy that steps may overwrite, if the model's states support it."""
    copy = getattr(state, "overwritable", None)
    return state if copy is None else cast(DecodingState, copy())


def check_at_least_one(caller: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{caller}: {name} is {number}; give 1 or more")


def device_of(model: Decodable) -> torch.device:
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if first is None else first.device


@contextmanager
def inference(model: Decodable) -> Iterator[None]:
    """Turn off dropout and gradients; afterwards restore the mode of every module.

    Not `inference_mode`: tables that the model caches here could not be used in training later.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def precise(x: Tensor) -> Tensor:
    """In float64, because sums over a vocabulary need it; Apple's GPU has only float32."""
    return x.to(_wide(x))


def _wide(x: Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "mps" else torch.float64


def log_total(caller: str, logits: Tensor) -> Tensor:
    """The log of the sum over the vocabulary (R, 1): a logit minus it is a log-probability.

    Terms of float32 logits stay float32 and are summed in float64: a table (R, V) in float64 would
    take longer than the rest of a step.
    """
    logits = logits if logits.dtype == torch.float32 else precise(logits)
    largest = logits.amax(1, keepdim=True)  # (R, 1)
    total = (logits - largest).exp_().sum(1, keepdim=True, dtype=_wide(logits))  # (R, 1)
    if bool(total.isnan().any()):  # one NaN or +inf is enough
        raise ValueError(
            f"{caller}: the model's logits are NaN, +inf or all -inf; use a model whose training "
            "did not diverge, or compute in float32"
        )
    return total.log() + largest


def best_of(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest scores of each row (R, V) and their indices, in falling order: (R, K) each.

    Of equal scores the first is kept and comes first, which `topk` does not guarantee.
    """
    least = scores.topk(count, dim=1).values[:, -1:]  # (R, 1)
    above, ties = scores > least, scores == least  # (R, V)
    remaining = count - above.sum(1, keepdim=True)  # (R, 1)
    kept = above | (ties & (ties.cumsum(1) <= remaining))  # (R, V) `count` of each row
    indices = kept.nonzero()[:, 1].view(len(scores), count)  # (R, K)
    values, order = scores.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return values, indices.gather(1, order)


def block_repeated(logits: Tensor, ids: Tensor, block_repeats: int | None) -> Tensor:
    """Logits (R, V) with -inf for tokens that would repeat an n-gram of `ids` (R, N)."""
    N, n = ids.shape[1], block_repeats
    if n is None or n > N:
        return logits
    ngrams = ids.unfold(1, n, 1)  # (R, N - n + 1, n)
    same = (ngrams[..., :-1] == ids[:, None, N - n + 1 :]).all(2)  # (R, N - n + 1)
    row, start = same.nonzero(as_tuple=True)
    logits = logits.clone()
    logits[row, ngrams[row, start, -1]] = -math.inf
    return logits
