"""What every way of writing has in common: the model's side, checked prompts, log-probabilities.

Letters: B prompts, T tokens of the longest prompt, R rows of the batch (each a sample or a beam),
N tokens written so far, V vocabulary, K kept candidates.
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
    """What a model remembers of the rows that it reads: a value, no method changes it.

    It may have a method `overwritable()` too, which returns a state of the same content whose
    memory each step may write over, since the generator keeps only the newest state.
    """

    def select(self, rows: Tensor) -> Self:
        """The state of these rows (n,), in this order, repeats allowed."""


class Decodable(Protocol):
    """What a model must be able to do so that it can write."""

    @property
    def max_length(self) -> int | None:
        """The longest prompt and answer together that it can read; None: any length."""

    # With *others too, a model may name its context: prefill(self, ids, lengths, *, source).
    def prefill(
        self, ids: Tensor, lengths: Tensor, *others: Any, **context: Any
    ) -> tuple[Tensor, DecodingState]:
        """Logits (B, V) after the last real token of each right-padded prompt (B, T)."""

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, DecodingState]:
        """Logits (R, V) after one more token (R,) of each row; the old state stays valid."""


@dataclass(frozen=True)
class Generated:
    """One written sequence."""

    ids: list[int] = field(default_factory=list)
    """The new tokens, without the prompt and without the stop token."""
    log_probabilities: list[float] = field(default_factory=list)
    """Of each new token, and of the stop token if one was written; by the model's own
    distribution, whatever temperature, filter or `block_repeats` chose the token."""
    finished: bool = False
    """It ended with a stop token, not for want of `new_tokens`."""

    @property
    def score(self) -> float:
        return sum(self.log_probabilities)


class Task:
    """What greedy, sampling and beams have in common: checked prompts, stops, the first logits."""

    def __init__(
        self,
        who: str,
        model: Decodable,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        stop: int | Collection[int] | None,
        block_repeats: int | None,
    ) -> None:
        if block_repeats is not None:
            check_at_least_one(who, block_repeats=block_repeats)
        self.who, self.model, self.new_tokens = who, model, new_tokens
        self.block_repeats = block_repeats
        stops = () if stop is None else stop if isinstance(stop, Collection) else (stop,)
        self.stops = frozenset(index(token) for token in stops)
        self.prompts = [self._checked(number, prompt) for number, prompt in enumerate(prompts)]

    def _checked(self, number: int, prompt: Sequence[int]) -> list[int]:
        if isinstance(prompt, int):
            raise ValueError(
                f"{self.who}: prompt {number} is the number {prompt}; "
                "give a list of prompts, each a list of ids: [[1, 2, 3]]"
            )
        ids, most = [index(token) for token in prompt], self.model.max_length
        if not ids:
            raise ValueError(
                f"{self.who}: prompt {number} is empty; give at least one token, "
                "such as the one that begins a text"
            )
        if most is not None and len(ids) + self.new_tokens > most:
            raise ValueError(
                f"{self.who}: prompt {number} has {len(ids)} tokens and new_tokens is "
                f"{self.new_tokens}, but the model's max_length is {most}; "
                f"{max(0, most - len(ids))} new tokens fit after this prompt"
            )
        return ids

    def groups(self, most: int) -> list[list[int]]:
        """All prompts in groups of about equal length, so that little padding is read."""
        order = sorted(range(len(self.prompts)), key=lambda b: len(self.prompts[b]))
        return [sorted(order[start : start + most]) for start in range(0, len(order), most)]

    def prefill(
        self,
        context: Mapping[str, Any],
        device: torch.device | str | None,
        chosen: Sequence[int] | None = None,
    ) -> tuple[Tensor, DecodingState]:
        """Logits (B, V) after these prompts, or all, and the state."""
        device = device_of(self.model) if device is None else device
        self._check_ids(None)
        picked = range(len(self.prompts)) if chosen is None else chosen
        rows = [torch.tensor(self.prompts[b]) for b in picked]
        lengths = torch.tensor([len(row) for row in rows], device=device)  # (B,)
        ids = pad_sequence(rows, batch_first=True).to(device)  # (B, T)
        places = torch.tensor(list(picked))
        context = {
            name: value[places.to(value.device)] if isinstance(value, Tensor) else value
            for name, value in context.items()
        }
        try:
            logits, state = self.model.prefill(ids, lengths, **context)  # (B, V)
        except IndexError:
            # Was an embedding asked for a row that it lacks? A harmless token tells its size.
            first, one = torch.zeros_like(ids[:, :1]), torch.ones_like(lengths)
            self._check_ids(self.model.prefill(first, one, **context)[0].shape[1])
            raise
        self._check_ids(logits.shape[1])
        return logits, state

    def _check_ids(self, V: int | None) -> None:
        named = [(f"prompt {number}", ids) for number, ids in enumerate(self.prompts)]
        for name, ids in [*named, ("stop", sorted(self.stops))]:
            for token in ids:
                if token < 0 or (V is not None and token >= V):
                    most = "the vocabulary's last" if V is None else V - 1
                    raise ValueError(
                        f"{self.who}: {name} has id {token}; give ids from 0 to {most}"
                    )

    def refuse_to_repeat(self, written: int) -> None:
        raise ValueError(
            f"{self.who}: after {written} of {self.new_tokens} new tokens "
            f"block_repeats={self.block_repeats} leaves no token to write; "
            "give a larger block_repeats, fewer new_tokens or a stop token"
        )


def overwritable(state: DecodingState) -> DecodingState:
    """The same content, to be written over step by step, where the model's states can be."""
    copy = getattr(state, "overwritable", None)
    return state if copy is None else cast(DecodingState, copy())


def check_at_least_one(who: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{who}: {name} is {number}; give 1 or more")


def device_of(model: Decodable) -> torch.device:
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if first is None else first.device


@contextmanager
def inference(model: Decodable) -> Iterator[None]:
    """No dropout and no gradients; afterwards every module is in the mode it was in.

    Not `inference_mode`: a table that the model caches here could then never be trained with.
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
    """In float64: sums over a vocabulary round visibly in less. Apple's GPU has no float64."""
    return x.to(_wide(x))


def _wide(x: Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "mps" else torch.float64


def log_total(who: str, logits: Tensor) -> Tensor:
    """The logarithm of the sum over the vocabulary (R, 1): a logit less it is a log-probability.

    Terms of float32 are made in float32 and summed in float64: a table (R, V) in float64 would
    take longer than all else of a step.
    """
    logits = logits if logits.dtype == torch.float32 else precise(logits)
    most = logits.amax(1, keepdim=True)  # (R, 1)
    total = (logits - most).exp_().sum(1, keepdim=True, dtype=_wide(logits))  # (R, 1)
    if bool(total.isnan().any()):  # one NaN or +inf is enough
        raise ValueError(
            f"{who}: the model's logits hold NaN, +inf or -inf alone; give a model whose training "
            "did not diverge, or compute in float32"
        )
    return total.log() + most


def best_of(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest of each row of scores (R, V) and where they are, falling: (R, K) each.

    Of equals the first is kept and comes first, which `topk` does not promise.
    """
    least = scores.topk(count, dim=1).values[:, -1:]  # (R, 1)
    above, level = scores > least, scores == least  # (R, V)
    room = count - above.sum(1, keepdim=True)  # (R, 1)
    kept = above | (level & (level.cumsum(1) <= room))  # (R, V) `count` of each row
    at = kept.nonzero()[:, 1].view(len(scores), count)  # (R, K)
    values, order = scores.gather(1, at).sort(dim=1, descending=True, stable=True)
    return values, at.gather(1, order)


def blocked(logits: Tensor, written: Tensor, block_repeats: int | None) -> Tensor:
    """Logits (R, V) with -inf for what would repeat n tokens of `written` (R, N)."""
    N, n = written.shape[1], block_repeats
    if n is None or n > N:
        return logits
    spans = written.unfold(1, n, 1)  # (R, N - n + 1, n)
    same = (spans[..., :-1] == written[:, None, N - n + 1 :]).all(2)  # (R, N - n + 1)
    row, at = same.nonzero(as_tuple=True)
    logits = logits.clone()
    logits[row, spans[row, at, -1]] = -math.inf
    return logits
