"""Toy models without attention, and naive versions of the generation functions.

Letters: B prompts, T tokens of the longest prompt, R rows of the batch, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pytest
import torch
from torch import Tensor, nn

from attnlab.generate import Generated

CODES = 997
LUCK = 6  # standard deviations; chi-square's tail is long: 1 of 200 seeds is beyond 4
PROMPTS = [[3, 1, 4, 1], [2], [6, 5], [0, 0, 6, 2, 5, 3, 5]]


@dataclass(frozen=True)
class CodeState:
    codes: Tensor  # (R,)
    model: Toy

    def select(self, rows: Tensor) -> Self:
        self.model.selections.append(len(rows))
        return type(self)(self.codes[rows], self.model)


class Toy(nn.Module):
    """Its logits are a random function of all tokens so far, exact in any batch."""

    def __init__(self, V: int = 7, seed: int = 0, max_length: int | None = None) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = (
            torch.randn(CODES, V, generator=generator, dtype=torch.float64) * 2
        )  # (CODES, V)
        self.max_length = max_length
        self.inner = nn.Dropout()
        self.prefilled: list[int] = []
        self.steps: list[int] = []
        self.selections: list[int] = []

    def answer(self, codes: Tensor) -> tuple[Tensor, CodeState]:
        assert not self.training
        assert not self.inner.training
        assert not torch.is_grad_enabled()
        return self.table[codes], CodeState(codes, self)

    def prefill(self, ids: Tensor, lengths: Tensor, shift: int = 0) -> tuple[Tensor, CodeState]:
        self.prefilled.append(len(ids))
        assert bool((ids < self.table.shape[1]).all()) or self.out_of_range()
        codes = torch.full_like(lengths, 1 + shift)  # (B,)
        for t in range(ids.shape[1]):
            codes = torch.where(t < lengths, follow(codes, ids[:, t]), codes)
        return self.answer(codes)

    def out_of_range(self) -> bool:
        raise IndexError("index out of range in self")

    def step(self, ids: Tensor, state: CodeState) -> tuple[Tensor, CodeState]:
        self.steps.append(len(ids))
        return self.answer(follow(state.codes, ids))

    def logits(self, ids: Sequence[int]) -> Tensor:
        """After these tokens, without batch or state: (V,)."""
        code = torch.tensor(1)
        for token in ids:
            code = follow(code, torch.tensor(token))
        return self.table[code]


class Always(Toy):
    """Has the same logits at every step."""

    def __init__(self, logits: Sequence[float]) -> None:
        super().__init__(V=len(logits))
        self.table = torch.tensor(logits, dtype=torch.float64).expand(CODES, -1)


def follow(codes: Tensor, ids: Tensor) -> Tensor:
    return (codes * 31 + ids * 7 + 3) % CODES


def alone(
    model: Toy, prompt: Sequence[int], new_tokens: int, stop: Sequence[int] = (), repeats: int = 0
) -> Generated:
    """The definition of greedy: one prompt, one token after the other, no state."""
    ids: list[int] = []
    log_probabilities: list[float] = []
    for _ in range(new_tokens):
        logits = model.logits([*prompt, *ids])  # (V,)
        order = sorted(range(len(logits)), key=lambda token: (-float(logits[token]), token))
        token = next(t for t in order if not repeats or not repeated([*ids, t], repeats))
        log_probabilities.append(float(logits.log_softmax(0)[token]))
        if token in stop:
            return Generated(ids, log_probabilities, True)
        ids.append(token)
    return Generated(ids, log_probabilities, False)


def repeated(ids: Sequence[int], n: int) -> bool:
    spans = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(spans) > len(set(spans))


def same(actual: Generated, expected: Generated) -> bool:
    return (actual.ids, actual.finished) == (expected.ids, expected.finished) and (
        actual.log_probabilities == pytest.approx(expected.log_probabilities, abs=1e-12)
    )


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    """How many standard deviations the counts are off; impossible cells must be empty."""
    possible = probabilities > 0
    assert int(counts[~possible].sum()) == 0
    expected = probabilities[possible] * counts.sum()
    statistic = float(((counts[possible] - expected) ** 2 / expected).sum())
    freedom = int(possible.sum()) - 1
    return (statistic - freedom) / math.sqrt(2 * max(1, freedom))
