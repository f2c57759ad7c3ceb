"""Greedy and sampled generation, many rows at once.

Letters: B prompts, R rows of the batch, N tokens generated so far, V vocabulary, K candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

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

MAX_IDLE_STEPS = 16  # steps that a finished row may stay in the batch


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature first, then `top_k`, then `top_p` of the rest."""

    temperature: float = 0.0
    """0 always chooses the likeliest token, 1 samples from the model's distribution, and a higher
    temperature makes tokens more equally likely."""
    top_k: int | None = None
    """Sample only from the k likeliest tokens; of equals, those of lower id."""
    top_p: float | None = None
    """Sample only from the fewest tokens that together have this probability."""
    seed: int = 0
    """Each sampled token depends only on the seed, prompt index (or key), sample index and step."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"Sampling: temperature is {self.temperature}; give 0 for the likeliest token, "
                "or a positive number"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(
                f"Sampling: top_k is {self.top_k}; give 1 or more, or leave it out for all tokens"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(
                f"Sampling: top_p is {self.top_p}; give a number above 0 and up to 1, "
                "or leave it out for all tokens"
            )

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution that the next token is sampled from, for logits (R, V): (R, V)."""
        logits, V = precise(logits), logits.shape[1]
        if self.temperature == 0:
            return one_hot(logits.argmax(1), V).to(logits.dtype)  # (R, V)
        # Subtract the maximum, because a low temperature would overflow.
        scaled = (logits - logits.amax(1, keepdim=True)) / self.temperature  # (R, V)
        if self.top_k is None and self.top_p is None:
            return scaled.softmax(1)
        values, tokens = best_of(scaled, min(self.top_k or V, V))  # (R, K)
        p = values.softmax(1)  # (R, K)
        # The cumulative sum may round to 1 too early, so do not compare with 1.
        if self.top_p is not None and self.top_p < 1:
            before = pad(p.cumsum(1)[:, :-1], (1, 0))  # (R, K) probability of all likelier tokens
            p = p.masked_fill(before >= self.top_p, 0)
        p = p / p.sum(1, keepdim=True)
        return torch.zeros_like(scaled).scatter(1, tokens, p)  # (R, V)


GREEDY = Sampling()


@dataclass
class _Row:
    """A sample while it is generated."""

    prompt: int
    key: int
    sample: int
    ids: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    finished: bool = False


def generate(
    model: Decodable,
    prompts: Sequence[Sequence[int]],
    *,
    new_tokens: int,
    stop: int | Collection[int] | None = None,
    sampling: Sampling = GREEDY,
    samples: int = 1,
    first_sample: int = 0,
    keys: Sequence[int] | None = None,
    block_repeats: int | None = None,
    on_token: Callable[[int, int, int, float], None] | None = None,
    context: Mapping[str, Any] = {},
    device: torch.device | str | None = None,
) -> list[list[Generated]]:
    """Continue each prompt `samples` times, by `new_tokens` tokens or up to a stop token.

    With `block_repeats=n`, no sequence of n tokens occurs twice in a continuation. `on_token`
    receives the prompt index, sample index, token and log-probability of each token as soon as it
    is chosen, including the stop token. `context` goes to the model's prefill, one row per prompt.
    Random numbers depend on the prompt's index, or on its number in `keys`: then the samples do not
    depend on the other prompts. To add samples for the same prompts, set `first_sample`.

    >>> import torch
    >>> from attnlab.generate import Sampling, generate
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=1, heads=3)).eval()
    >>> sampling = Sampling(temperature=1.0)
    >>> continuations = generate(model, [[5, 6, 7], [8]], new_tokens=4, sampling=sampling)
    >>> [len(samples[0].ids) for samples in continuations]
    [4, 4]
    """
    check_at_least_one("generate", new_tokens=new_tokens, samples=samples)
    task = GenerationTask("generate", model, prompts, new_tokens, stop, block_repeats)
    keys = range(len(task.prompts)) if keys is None else keys
    if len(keys) != len(task.prompts):
        raise ValueError(
            f"generate: {len(keys)} keys for {len(task.prompts)} prompts; give one key for each"
        )
    numbers = range(first_sample, first_sample + samples)
    rows = [_Row(b, key, s) for b, key in enumerate(keys) for s in numbers]

    def generate_group(indices: list[int]) -> None:
        with inference(model):
            logits, state = task.prefill(context, device, indices)  # (B, V)
            if samples > 1:
                repeats = torch.arange(len(logits), device=logits.device)
                repeats = repeats.repeat_interleave(samples)
                logits, state = logits[repeats], state.select(repeats)  # (R, V)
            group = [rows[b * samples + s] for b in indices for s in range(samples)]
            _extend_rows(task, group, logits, state, sampling, on_token)

    groups = task.groups(max(1, BATCH // samples))
    if on_token is None:
        map_in_threads(model, generate_group, groups)
    else:  # one group after the other, so that tokens arrive in order
        for indices in groups:
            generate_group(indices)
    results = [Generated(row.ids, row.log_probabilities, row.finished) for row in rows]
    return [results[b * samples : (b + 1) * samples] for b in range(len(task.prompts))]


def _extend_rows(
    task: GenerationTask,
    rows: list[_Row],
    logits: Tensor,
    state: DecodingState,
    sampling: Sampling,
    on_token: Callable[[int, int, int, float], None] | None,
) -> None:
    """Extend all rows until they are finished or long enough."""
    keys = _keys(sampling.seed, rows)  # (R,)
    ids = torch.zeros(len(rows), 0, dtype=torch.int64, device=logits.device)  # (R, N)
    idle = 0  # steps for which the batch has held a finished row
    state = overwritable(state)
    for step in range(task.new_tokens):
        total = log_total(task.caller, logits)  # (R, 1)
        allowed = block_repeated(logits, ids, task.block_repeats)  # (R, V)
        possible = torch.ones_like(logits[:, :1], dtype=torch.bool)  # (R, 1)
        if allowed is not logits:
            possible = (allowed > -math.inf).any(1, keepdim=True)  # (R, 1)
            # A finished row may have no token left; it must not fail before it is dropped.
            allowed = torch.where(possible, allowed, logits)  # (R, V)
        tokens = _choose(allowed, sampling, _uniforms(keys, step))[:, None]  # (R, 1)
        log_p = precise(logits.gather(1, tokens)) - total  # (R, 1)
        columns = torch.cat([tokens, log_p, possible], dim=1).tolist()
        for row, (token, log_probability, has_choice) in zip(rows, columns, strict=True):
            if not row.finished:
                if not has_choice:
                    task.raise_no_token_left(step)
                _append(row, int(token), log_probability, task.stops, on_token)
        active = [i for i, row in enumerate(rows) if not row.finished]
        if not active or step + 1 == task.new_tokens:
            return
        ids = torch.cat([ids, tokens], dim=1) if task.block_repeats else ids
        idle = idle + 1 if len(active) < len(rows) else 0
        # Selecting copies the state, so wait until a quarter of the rows is finished.
        if 4 * (len(rows) - len(active)) >= len(rows) or idle > MAX_IDLE_STEPS:
            keep = torch.tensor(active, device=logits.device)  # (R,)
            rows, keys, idle = [rows[i] for i in active], keys[active], 0
            tokens, ids, state = tokens[keep], ids[keep], state.select(keep)
        logits, state = task.model.step(tokens[:, 0], state)  # (R, V)


def _append(
    row: _Row,
    token: int,
    log_probability: float,
    stops: frozenset[int],
    on_token: Callable[[int, int, int, float], None] | None,
) -> None:
    row.log_probabilities.append(log_probability)
    row.finished = token in stops
    if not row.finished:
        row.ids.append(token)
    if on_token is not None:
        on_token(row.prompt, row.sample, token, log_probability)


def _choose(logits: Tensor, sampling: Sampling, uniforms: Tensor) -> Tensor:
    """The next token of each row: (R,)."""
    if sampling.temperature == 0:
        return logits.argmax(1)
    cumulative = sampling.probabilities(logits).cumsum(1)  # (R, V)
    total = cumulative[:, -1:]  # (R, 1)
    target = uniforms.to(total.dtype).to(total.device)[:, None] * total  # (R, 1)
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]  # (R,)
    # A uniform just below 1 may round up; use the last token of positive probability.
    return torch.minimum(tokens, (cumulative < total).sum(1))


# Counter-based random numbers (splitmix64): one for each seed, prompt, sample and step. They do not
# depend on the rest of the batch and need no generator state.


def _mix(x: Tensor) -> Tensor:
    """Hash int64 numbers (R,) to all of int64; products wrap around."""
    x = x + (0x9E3779B97F4A7C15 - 2**64)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * (0xBF58476D1CE4E5B9 - 2**64)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * (0x94D049BB133111EB - 2**64)
    return x ^ (x >> 31 & (1 << 33) - 1)


def _keys(seed: int, rows: Sequence[_Row]) -> Tensor:
    """The hash of seed, prompt and sample of each row: (R,)."""
    start = _mix(torch.tensor([_signed(seed)]))  # (1,)
    prompts = _mix(start + torch.tensor([_signed(row.key) for row in rows]))  # (R,)
    return _mix(prompts + torch.tensor([row.sample for row in rows]))  # (R,)


def _signed(number: int) -> int:
    """Any whole number, wrapped to int64."""
    return (number + 2**63) % 2**64 - 2**63


def _uniforms(keys: Tensor, step: int) -> Tensor:
    """One number in [0, 1) for each row: (R,)."""
    return (_mix(keys + step) >> 11 & (1 << 53) - 1).double() * 2.0**-53  # (R,)
