"""Beam search, prompts of similar length together.

Letters: B prompts, R rows of the batch, W beams of one prompt, N tokens generated so far,
V vocabulary, K candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.generate._generation_base import (
    Decodable,
    DecodingState,
    Generated,
    GenerationTask,
    best_of,
    block_repeated,
    check_at_least_one,
    inference,
    log_total,
    overwritable,
    precise,
)
from attnlab.generate._map_in_threads import BATCH, map_in_threads


@dataclass(frozen=True)
class _Beams:
    """The live beams of B prompts, best first. An impossible beam has the score -inf."""

    ids: Tensor  # (B, W, N)
    log_probabilities: Tensor  # (B, W, N)
    scores: Tensor  # (B, W) sums of the log-probabilities

    def pick(self, indices: Tensor) -> _Beams:
        """The beams `indices` (B, K) of each prompt."""
        expanded = indices[..., None].expand(-1, -1, self.ids.shape[2])  # (B, K, N)
        return _Beams(
            self.ids.gather(1, expanded),
            self.log_probabilities.gather(1, expanded),
            self.scores.gather(1, indices),
        )

    def extend(self, parents: Tensor, tokens: Tensor, log_p: Tensor, scores: Tensor) -> _Beams:
        """One more token: `parents`, `tokens`, their log-probabilities and sums, each (B, K)."""
        old = self.pick(parents)
        ids = torch.cat([old.ids, tokens[..., None]], dim=2)  # (B, K, N)
        log_probabilities = torch.cat([old.log_probabilities, log_p[..., None]], dim=2)  # (B, K, N)
        return _Beams(ids, log_probabilities, scores)

    def hypothesis(self, prompt: int, beam: int, finished: bool) -> Generated:
        ids = self.ids[prompt, beam].tolist()
        log_probabilities = self.log_probabilities[prompt, beam].tolist()
        return Generated(ids[:-1] if finished else ids, log_probabilities, finished)


class _Hypotheses:
    """The `best` finished hypotheses of one prompt so far."""

    def __init__(self, best: int, length_penalty: float, longest: int) -> None:
        self.best, self.length_penalty, self.longest = best, length_penalty, longest
        self.entries: list[tuple[float, Generated]] = []

    def add(self, score: float, hypothesis: Generated) -> None:
        length = len(hypothesis.log_probabilities)
        self.entries.append((score / length**self.length_penalty, hypothesis))
        self.entries.sort(key=lambda entry: -entry[0])  # stable: ties keep their order
        del self.entries[self.best :]

    def leading(self, beams: _Beams, prompt: int | None) -> list[list[int]]:
        """The ids of the best sequences so far, including the live beams of this prompt."""
        ranked = [(score, hypothesis.ids) for score, hypothesis in self.entries]
        if prompt is not None:
            length = beams.ids.shape[2] ** self.length_penalty
            scores = beams.scores[prompt].tolist()
            live = zip(scores, beams.ids[prompt].tolist(), strict=True)
            ranked += [(score / length, ids) for score, ids in live if score > -math.inf]
        ranked.sort(key=lambda entry: -entry[0])  # stable: of equals, finished ones come first
        return [ids for _, ids in ranked[: self.best]]

    def closed_to(self, score: float, length: int) -> bool:
        """Whether no beam of this score and length can still be among the best.

        Scores only fall. Divided by length ** penalty they are highest at the longest length if
        the penalty is positive, and at the next one if it is negative.
        """
        lengths = (min(length + 1, self.longest), self.longest)
        bound = max(score / length**self.length_penalty for length in lengths)
        return len(self.entries) == self.best and bound <= self.entries[-1][0]


def beam_search(
    model: Decodable,
    prompts: Sequence[Sequence[int]],
    *,
    new_tokens: int,
    stop: int | Collection[int] | None = None,
    width: int,
    length_penalty: float = 0.0,
    best: int = 1,
    block_repeats: int | None = None,
    on_best: Callable[[int, list[list[int]]], None] | None = None,
    context: Mapping[str, Any] = {},
    device: torch.device | str | None = None,
) -> list[list[Generated]]:
    """The `best` continuations of each prompt that a search with `width` beams finds, best first.

    They are ranked by score / length ** length_penalty, where the length includes the stop token. A
    continuation without a stop token counts once it has `new_tokens` tokens. Width 1 without
    penalty is greedy decoding. After each step, `on_best` receives the index of each prompt still
    searched and its `best` sequences so far, finished or not; later steps may replace them. At the
    end it receives those that are returned.

    >>> from attnlab.generate import beam_search
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3)).eval()
    >>> (best, second), = beam_search(model, [[5, 6, 7]], new_tokens=4, width=3, best=2)
    >>> len(best.ids)
    4
    """
    check_at_least_one("beam_search", new_tokens=new_tokens, width=width, best=best)
    if best > width:
        raise ValueError(
            f"beam_search: best is {best} and width {width}; give a width of at least best"
        )
    if not math.isfinite(length_penalty):
        raise ValueError(f"beam_search: length_penalty is {length_penalty}; give a finite number")
    task = GenerationTask("beam_search", model, prompts, new_tokens, stop, block_repeats)
    pools = [_Hypotheses(best, length_penalty, new_tokens) for _ in task.prompts]

    def search_group(indices: list[int]) -> None:
        with inference(model):
            logits, state = task.prefill(context, device, indices)  # (B, V)
            _search(task, indices, pools, width, logits, state, on_best)

    groups = task.groups(max(1, BATCH // width))
    if on_best is None:
        map_in_threads(model, search_group, groups)
    else:  # one group after the other, so that sequences arrive in order
        for indices in groups:
            search_group(indices)
    return [[hypothesis for _, hypothesis in pool.entries] for pool in pools]


def _search(
    task: GenerationTask,
    prompts: list[int],
    all_pools: Sequence[_Hypotheses],
    width: int,
    logits: Tensor,
    state: DecodingState,
    on_best: Callable[[int, list[list[int]]], None] | None,
) -> None:
    """Add the hypotheses of each of these prompts to its pool."""
    pools = [all_pools[b] for b in prompts]
    (B, V), device = logits.shape, logits.device
    ids = torch.zeros(B, 1, 0, dtype=torch.int64, device=device)  # (B, 1, 0)
    scores = precise(logits).new_zeros(B, 1)  # (B, 1)
    beams = _Beams(ids, scores.new_zeros(B, 1, 0), scores)
    stops = torch.tensor(sorted(task.stops), dtype=torch.int64, device=device)
    state = overwritable(state)
    for length in range(1, task.new_tokens + 1):
        W = beams.scores.shape[1]
        candidates, parents = _expand(task, beams, width, logits)  # K each
        ended = torch.isin(candidates.ids[..., -1], stops)  # (B, K)
        _collect(pools, candidates, ended[:, :width], finished=True)
        # It starts with 1 beam; if every token is a stop, one impossible beam remains.
        live = max(1, min(width, W * (V - len(stops))))
        scores, indices = best_of(
            candidates.scores.masked_fill(ended, -math.inf), live
        )  # (B, live)
        beams, parents = candidates.pick(indices), parents.gather(1, indices)
        beams = _Beams(beams.ids, beams.log_probabilities, scores)
        if length == task.new_tokens:
            _collect(pools, beams, torch.ones_like(indices, dtype=torch.bool), finished=False)
        highest = scores[:, 0].tolist()
        for pool, score in zip(pools, highest, strict=True):
            if score == -math.inf and not pool.entries:
                task.raise_no_token_left(length - 1)
        active = [
            b
            for b, (pool, score) in enumerate(zip(pools, highest, strict=True))
            if score > -math.inf and not pool.closed_to(score, length)
        ]
        done = not active or length == task.new_tokens
        if on_best is not None:
            for b, pool in enumerate(pools):
                on_best(prompts[b], pool.leading(beams, b if b in active and not done else None))
        if done:
            return
        prompts = [prompts[b] for b in active]
        keep = torch.tensor(active, device=device)  # (B,)
        rows = (keep[:, None] * W + parents[keep]).flatten()  # (R,)
        pools = [pools[b] for b in active]
        beams = _Beams(beams.ids[keep], beams.log_probabilities[keep], beams.scores[keep])
        if rows.tolist() != list(range(len(logits))):  # selecting copies the state
            state = state.select(rows)
        logits, state = task.model.step(beams.ids[..., -1].flatten(), state)  # (R, V)


def _expand(
    task: GenerationTask, beams: _Beams, width: int, logits: Tensor
) -> tuple[_Beams, Tensor]:
    """The best K continuations of each prompt by one token, and the beams (B, K) they extend."""
    (B, W), V = beams.scores.shape, logits.shape[1]
    log_p = precise(logits) - log_total(task.caller, logits)  # (R, V)
    allowed = block_repeated(log_p, beams.ids.flatten(0, 1), task.block_repeats)  # (R, V)
    sums = (beams.scores[..., None] + allowed.view(B, W, V)).flatten(1)  # (B, W * V)
    # Each beam can end with each stop token, and `width` others must continue.
    count = min(width * (1 + len(task.stops)), W * V)
    scores, indices = best_of(sums, count)  # (B, K)
    parents = indices // V  # (B, K)
    log_p = log_p.view(B, -1).gather(1, indices)  # (B, K)
    return beams.extend(parents, indices % V, log_p, scores), parents


def _collect(pools: list[_Hypotheses], beams: _Beams, selected: Tensor, finished: bool) -> None:
    """Add the `selected` (B, K or fewer) beams that are possible to their pools."""
    possible = beams.scores[:, : selected.shape[1]] > -math.inf  # (B, K)
    scores = beams.scores.tolist()
    for b, beam in (selected & possible).nonzero().tolist():
        pools[b].add(scores[b][beam], beams.hypothesis(b, beam, finished))
