"""Beam search, all prompts at once.

Letters: B prompts, R rows of the batch, W beams of one prompt, N tokens written so far,
V vocabulary, K kept candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.generate._decoding import (
    Decodable,
    DecodingState,
    Generated,
    Task,
    best_of,
    blocked,
    check_at_least_one,
    inference,
    log_total,
    overwritable,
    precise,
)


@dataclass(frozen=True)
class _Beams:
    """The live beams of B prompts, best first. One without hope has the score -inf."""

    ids: Tensor  # (B, W, N)
    log_probabilities: Tensor  # (B, W, N)
    scores: Tensor  # (B, W) sums of the log-probabilities

    def pick(self, at: Tensor) -> _Beams:
        """Of each prompt the beams `at` (B, K)."""
        every = at[..., None].expand(-1, -1, self.ids.shape[2])  # (B, K, N)
        return _Beams(
            self.ids.gather(1, every),
            self.log_probabilities.gather(1, every),
            self.scores.gather(1, at),
        )

    def extend(self, parents: Tensor, tokens: Tensor, likely: Tensor, scores: Tensor) -> _Beams:
        """One token more: `parents`, `tokens`, their log-probabilities and sums, each (B, K)."""
        old = self.pick(parents)
        ids = torch.cat([old.ids, tokens[..., None]], dim=2)  # (B, K, N)
        known = torch.cat([old.log_probabilities, likely[..., None]], dim=2)  # (B, K, N)
        return _Beams(ids, known, scores)

    def written(self, prompt: int, beam: int, finished: bool) -> Generated:
        ids = self.ids[prompt, beam].tolist()
        known = self.log_probabilities[prompt, beam].tolist()
        return Generated(ids[:-1] if finished else ids, known, finished)


class _Pool:
    """The `best` hypotheses of one prompt so far."""

    def __init__(self, best: int, length_penalty: float, longest: int) -> None:
        self.best, self.length_penalty, self.longest = best, length_penalty, longest
        self.entries: list[tuple[float, Generated]] = []

    def add(self, score: float, hypothesis: Generated) -> None:
        length = len(hypothesis.log_probabilities)
        self.entries.append((score / length**self.length_penalty, hypothesis))
        self.entries.sort(key=lambda entry: -entry[0])  # stable: of equals the first stays
        del self.entries[self.best :]

    def leading(self, beams: _Beams, prompt: int | None) -> list[list[int]]:
        """The ids of the best so far, the live beams of this prompt among them."""
        found = [(score, hypothesis.ids) for score, hypothesis in self.entries]
        if prompt is not None:
            length = beams.ids.shape[2] ** self.length_penalty
            scores = beams.scores[prompt].tolist()
            live = zip(scores, beams.ids[prompt].tolist(), strict=True)
            found += [(score / length, ids) for score, ids in live if score > -math.inf]
        found.sort(key=lambda each: -each[0])  # stable: of equals those that ended come first
        return [ids for _, ids in found[: self.best]]

    def closed_to(self, score: float, length: int) -> bool:
        """No beam of this score and length can still come in.

        Scores only fall. Divided by length ** penalty they are highest at the longest length if
        the penalty is positive, and at the next one if it is negative.
        """
        lengths = (min(length + 1, self.longest), self.longest)
        bound = max(score / each**self.length_penalty for each in lengths)
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
    """For each prompt the `best` continuations that a search with `width` beams finds, best first.

    They are compared by score / length ** length_penalty, where the stop token counts for the
    length too. One without a stop token counts if it has `new_tokens` tokens. There are fewer than
    `best` only if the search met no more. Width 1 without penalty is greedy. `on_best` gets, after
    each step, the index of each prompt that was still searched and its `best` sequences so far,
    ended or not, which a later step may take back; at last those that are returned.
    """
    check_at_least_one("beam_search", new_tokens=new_tokens, width=width, best=best)
    if best > width:
        raise ValueError(
            f"beam_search: best is {best} and width {width}; "
            "give at least as many beams as sequences that you want"
        )
    if not math.isfinite(length_penalty):
        raise ValueError(f"beam_search: length_penalty is {length_penalty}; give a finite number")
    task = Task("beam_search", model, prompts, new_tokens, stop, block_repeats)
    pools = [_Pool(best, length_penalty, new_tokens) for _ in task.prompts]
    if pools:
        with inference(model):
            logits, state = task.prefill(context, device)  # (B, V)
            _search(task, pools, width, logits, state, on_best)
    return [[hypothesis for _, hypothesis in pool.entries] for pool in pools]


def _search(
    task: Task,
    pools: list[_Pool],
    width: int,
    logits: Tensor,
    state: DecodingState,
    on_best: Callable[[int, list[list[int]]], None] | None,
) -> None:
    """Fill the pools."""
    prompts = list(range(len(pools)))
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
        # Growing from 1 beam; a vocabulary of stops alone leaves one hopeless beam.
        live = max(1, min(width, W * (V - len(stops))))
        scores, at = best_of(candidates.scores.masked_fill(ended, -math.inf), live)  # (B, live)
        beams, parents = candidates.pick(at), parents.gather(1, at)
        beams = _Beams(beams.ids, beams.log_probabilities, scores)
        if length == task.new_tokens:
            _collect(pools, beams, torch.ones_like(at, dtype=torch.bool), finished=False)
        highest = scores[:, 0].tolist()
        for pool, score in zip(pools, highest, strict=True):
            if score == -math.inf and not pool.entries:
                task.refuse_to_repeat(length - 1)
        going = [
            b
            for b, (pool, score) in enumerate(zip(pools, highest, strict=True))
            if score > -math.inf and not pool.closed_to(score, length)
        ]
        over = not going or length == task.new_tokens
        if on_best is not None:
            for b, pool in enumerate(pools):
                on_best(prompts[b], pool.leading(beams, b if b in going and not over else None))
        if over:
            return
        prompts = [prompts[b] for b in going]
        kept = torch.tensor(going, device=device)  # (B,)
        rows = (kept[:, None] * W + parents[kept]).flatten()  # (R,)
        pools = [pools[b] for b in going]
        beams = _Beams(beams.ids[kept], beams.log_probabilities[kept], beams.scores[kept])
        if rows.tolist() != list(range(len(logits))):  # selecting copies the state
            state = state.select(rows)
        logits, state = task.model.step(beams.ids[..., -1].flatten(), state)  # (R, V)


def _expand(task: Task, beams: _Beams, width: int, logits: Tensor) -> tuple[_Beams, Tensor]:
    """The best continuations by one token (K of each prompt), and the beams (B, K) they extend."""
    (B, W), V = beams.scores.shape, logits.shape[1]
    likely = precise(logits) - log_total(task.who, logits)  # (R, V)
    allowed = blocked(likely, beams.ids.flatten(0, 1), task.block_repeats)  # (R, V)
    sums = (beams.scores[..., None] + allowed.view(B, W, V)).flatten(1)  # (B, W * V)
    # Each beam can end in as many ways as there are stops, and as many again must go on.
    count = min(width * (1 + len(task.stops)), W * V)
    scores, at = best_of(sums, count)  # (B, K)
    parents = at // V  # (B, K)
    return beams.extend(parents, at % V, likely.view(B, -1).gather(1, at), scores), parents


def _collect(pools: list[_Pool], beams: _Beams, chosen: Tensor, finished: bool) -> None:
    """Put the beams that are `chosen` (B, K or fewer) and possible into their pools."""
    possible = beams.scores[:, : chosen.shape[1]] > -math.inf  # (B, K)
    scores = beams.scores.tolist()
    for b, beam in (chosen & possible).nonzero().tolist():
        pools[b].add(scores[b][beam], beams.written(b, beam, finished))
