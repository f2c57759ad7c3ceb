"""Writes on from prompts with any model: greedy, sampled or by beam search, many rows at once.

Letters: B prompts, T tokens of the longest prompt, R rows of the batch (each a sample or a beam),
W beams of one prompt, N tokens written so far, V vocabulary, K kept candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import index
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad
from torch.nn.utils.rnn import pad_sequence

PATIENCE = 16  # steps that a finished row may stay in the batch


class DecodingState(Protocol):
    """What a model remembers of the rows that it reads: a value, no method changes it."""

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
class Sampling:
    """How the next token is chosen. Temperature first, then `top_k`, then `top_p` of the rest."""

    temperature: float = 0.0
    """0: the likeliest token. 1: as likely as the model says. Higher: more even."""
    top_k: int | None = None
    """Only the k likeliest tokens may be drawn; of equals, those of lower id."""
    top_p: float | None = None
    """Only the fewest tokens that together have this probability may be drawn."""
    seed: int = 0
    """Each draw depends on seed, prompt index, sample index and step, and on nothing else."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"Sampling: temperature is {self.temperature}; give 0 for the likeliest token, "
                "or a positive number"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"Sampling: top_k is {self.top_k}; give 1 or more, or None for all")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(
                f"Sampling: top_p is {self.top_p}; give a number above 0 and up to 1, "
                "or None for all"
            )

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution that the next token is drawn from, for logits (R, V): (R, V)."""
        logits, V = _precise(logits), logits.shape[1]
        if self.temperature == 0:
            return one_hot(logits.argmax(1), V).to(logits.dtype)  # (R, V)
        # Without the maximum a low temperature would overflow.
        scaled = (logits - logits.amax(1, keepdim=True)) / self.temperature  # (R, V)
        if self.top_k is None and self.top_p is None:
            return scaled.softmax(1)
        values, tokens = _best(scaled, min(self.top_k or V, V))  # (R, K)
        kept = values.softmax(1)  # (R, K)
        # The sum may round to 1 before its last term, so 1 is no limit to compare with.
        if self.top_p is not None and self.top_p < 1:
            before = pad(kept.cumsum(1)[:, :-1], (1, 0))  # (R, K) mass of all likelier tokens
            kept = kept.masked_fill(before >= self.top_p, 0)
        kept = kept / kept.sum(1, keepdim=True)
        return torch.zeros_like(scaled).scatter(1, tokens, kept)  # (R, V)


GREEDY = Sampling()


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


@dataclass
class _Row:
    """A sample while it is written."""

    prompt: int
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
    block_repeats: int | None = None,
    on_token: Callable[[int, int, int, float], None] | None = None,
    context: Mapping[str, Any] = {},
    device: torch.device | str | None = None,
) -> list[list[Generated]]:
    """For each prompt `samples` continuations of `new_tokens` tokens, or up to a stop token.

    `block_repeats=n`: no n tokens in a row are written twice in one sequence. `on_token` gets
    prompt index, sample index, token and log-probability of each token as soon as it is chosen,
    the stop token too. `context` goes to the model's prefill, one row per prompt.
    """
    _check_at_least_one("generate", new_tokens=new_tokens, samples=samples)
    task = _Task("generate", model, prompts, new_tokens, stop, block_repeats)
    rows = [_Row(b, s) for b in range(len(task.prompts)) for s in range(samples)]
    if rows:
        with _inference(model):
            logits, state = task.prefill(context, device)  # (B, V)
            repeats = torch.arange(len(logits), device=logits.device).repeat_interleave(samples)
            if samples > 1:
                logits, state = logits[repeats], state.select(repeats)  # (R, V)
            _write(task, rows, logits, state, sampling, on_token)
    written = [Generated(row.ids, row.log_probabilities, row.finished) for row in rows]
    return [written[b * samples : (b + 1) * samples] for b in range(len(task.prompts))]


def _write(
    task: _Task,
    rows: list[_Row],
    logits: Tensor,
    state: DecodingState,
    sampling: Sampling,
    on_token: Callable[[int, int, int, float], None] | None,
) -> None:
    """Extend all rows until they are finished or long enough."""
    keys = _keys(sampling.seed, rows)  # (R,)
    written = torch.zeros(len(rows), 0, dtype=torch.int64, device=logits.device)  # (R, N)
    idle = 0  # steps for which the batch has held a finished row
    for step in range(task.new_tokens):
        known = _log_probabilities(task.who, logits)  # (R, V)
        allowed = _blocked(logits, written, task.block_repeats)  # (R, V)
        possible = (allowed > -math.inf).any(1, keepdim=True)  # (R, 1)
        # A finished row that waits to be dropped may have nothing left; it must not disturb.
        allowed = torch.where(possible, allowed, logits)  # (R, V)
        tokens = _choose(allowed, sampling, _uniforms(keys, step))[:, None]  # (R, 1)
        likely = known.gather(1, tokens)  # (R, 1)
        columns = torch.cat([tokens, likely, possible], dim=1).tolist()
        for row, (token, log_probability, choice) in zip(rows, columns, strict=True):
            if not row.finished:
                if not choice:
                    task.refuse_to_repeat(step)
                _append(row, int(token), log_probability, task.stops, on_token)
        going = [i for i, row in enumerate(rows) if not row.finished]
        if not going or step + 1 == task.new_tokens:
            return
        written = torch.cat([written, tokens], dim=1) if task.block_repeats else written
        idle = idle + 1 if len(going) < len(rows) else 0
        # Selecting copies the state: worth it for a quarter of the rows, or now and then.
        if 4 * (len(rows) - len(going)) >= len(rows) or idle > PATIENCE:
            kept = torch.tensor(going, device=logits.device)  # (R,)
            rows, keys, idle = [rows[i] for i in going], keys[going], 0
            tokens, written, state = tokens[kept], written[kept], state.select(kept)
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
    context: Mapping[str, Any] = {},
    device: torch.device | str | None = None,
) -> list[list[Generated]]:
    """For each prompt the `best` continuations that a search with `width` beams finds, best first.

    They are compared by score / length ** length_penalty, where the stop token counts for the
    length too. One without a stop token counts if it has `new_tokens` tokens. There are fewer than
    `best` only if the search met no more. Width 1 without penalty is greedy.
    """
    _check_at_least_one("beam_search", new_tokens=new_tokens, width=width, best=best)
    if best > width:
        raise ValueError(
            f"beam_search: best is {best} and width {width}; "
            "give at least as many beams as sequences that you want"
        )
    if not math.isfinite(length_penalty):
        raise ValueError(f"beam_search: length_penalty is {length_penalty}; give a finite number")
    task = _Task("beam_search", model, prompts, new_tokens, stop, block_repeats)
    pools = [_Pool(best, length_penalty, new_tokens) for _ in task.prompts]
    if pools:
        with _inference(model):
            logits, state = task.prefill(context, device)  # (B, V)
            _search(task, pools, width, logits, state)
    return [[hypothesis for _, hypothesis in pool.entries] for pool in pools]


def _search(
    task: _Task, pools: list[_Pool], width: int, logits: Tensor, state: DecodingState
) -> None:
    """Fill the pools."""
    (B, V), device = logits.shape, logits.device
    ids = torch.zeros(B, 1, 0, dtype=torch.int64, device=device)  # (B, 1, 0)
    scores = _precise(logits).new_zeros(B, 1)  # (B, 1)
    beams = _Beams(ids, scores.new_zeros(B, 1, 0), scores)
    stops = torch.tensor(sorted(task.stops), dtype=torch.int64, device=device)
    for length in range(1, task.new_tokens + 1):
        W = beams.scores.shape[1]
        candidates, parents = _expand(task, beams, width, logits)  # K each
        ended = torch.isin(candidates.ids[..., -1], stops)  # (B, K)
        _collect(pools, candidates, ended[:, :width], finished=True)
        # Growing from 1 beam; a vocabulary of stops alone leaves one hopeless beam.
        live = max(1, min(width, W * (V - len(stops))))
        scores, at = _best(candidates.scores.masked_fill(ended, -math.inf), live)  # (B, live)
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
        if not going or length == task.new_tokens:
            return
        kept = torch.tensor(going, device=device)  # (B,)
        rows = (kept[:, None] * W + parents[kept]).flatten()  # (R,)
        pools = [pools[b] for b in going]
        beams = _Beams(beams.ids[kept], beams.log_probabilities[kept], beams.scores[kept])
        if rows.tolist() != list(range(len(logits))):  # selecting copies the state
            state = state.select(rows)
        logits, state = task.model.step(beams.ids[..., -1].flatten(), state)  # (R, V)


def _expand(task: _Task, beams: _Beams, width: int, logits: Tensor) -> tuple[_Beams, Tensor]:
    """The best continuations by one token (K of each prompt), and the beams (B, K) they extend."""
    (B, W), V = beams.scores.shape, logits.shape[1]
    likely = _log_probabilities(task.who, logits)  # (R, V)
    allowed = _blocked(likely, beams.ids.flatten(0, 1), task.block_repeats)  # (R, V)
    sums = (beams.scores[..., None] + allowed.view(B, W, V)).flatten(1)  # (B, W * V)
    # Each beam can end in as many ways as there are stops, and as many again must go on.
    count = min(width * (1 + len(task.stops)), W * V)
    scores, at = _best(sums, count)  # (B, K)
    parents = at // V  # (B, K)
    return beams.extend(parents, at % V, likely.view(B, -1).gather(1, at), scores), parents


def _collect(pools: list[_Pool], beams: _Beams, chosen: Tensor, finished: bool) -> None:
    """Put the beams that are `chosen` (B, K or fewer) and possible into their pools."""
    possible = beams.scores[:, : chosen.shape[1]] > -math.inf  # (B, K)
    scores = beams.scores.tolist()
    for b, beam in (chosen & possible).nonzero().tolist():
        pools[b].add(scores[b][beam], beams.written(b, beam, finished))


class _Task:
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
            _check_at_least_one(who, block_repeats=block_repeats)
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

    def prefill(
        self, context: Mapping[str, Any], device: torch.device | str | None
    ) -> tuple[Tensor, DecodingState]:
        """Logits (B, V) after the prompts, and the state."""
        device = _device(self.model) if device is None else device
        self._check_ids(None)
        lengths = torch.tensor([len(prompt) for prompt in self.prompts], device=device)  # (B,)
        rows = [torch.tensor(prompt) for prompt in self.prompts]
        ids = pad_sequence(rows, batch_first=True).to(device)  # (B, T)
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


def _check_at_least_one(who: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{who}: {name} is {number}; give 1 or more")


def _device(model: Decodable) -> torch.device:
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if first is None else first.device


@contextmanager
def _inference(model: Decodable) -> Iterator[None]:
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


def _precise(x: Tensor) -> Tensor:
    """In float64: sums over a vocabulary round visibly in less. Apple's GPU has no float64."""
    return x.to(torch.float32 if x.device.type == "mps" else torch.float64)


def _log_probabilities(who: str, logits: Tensor) -> Tensor:
    """(R, V), of the model's own distribution."""
    known = _precise(logits).log_softmax(1)  # (R, V)
    if bool(known[:, 0].isnan().any()):  # one NaN or +inf makes its whole row NaN
        raise ValueError(
            f"{who}: the model's logits hold NaN, +inf or -inf alone; give a model whose training "
            "did not diverge, or compute in float32"
        )
    return known


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
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


def _blocked(logits: Tensor, written: Tensor, block_repeats: int | None) -> Tensor:
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


def _choose(logits: Tensor, sampling: Sampling, uniforms: Tensor) -> Tensor:
    """The next token of each row: (R,)."""
    if sampling.temperature == 0:
        return logits.argmax(1)
    cumulative = sampling.probabilities(logits).cumsum(1)  # (R, V)
    total = cumulative[:, -1:]  # (R, 1)
    target = uniforms.to(total.dtype).to(total.device)[:, None] * total  # (R, 1)
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]  # (R,)
    # If a uniform just below 1 rounds up, it means the last token that has any probability.
    return torch.minimum(tokens, (cumulative < total).sum(1))


# Random numbers by counting (splitmix64): one for each seed, prompt, sample and step, so that no
# draw depends on the rest of the batch, and none needs a generator that must be kept.


def _mix(x: Tensor) -> Tensor:
    """Scatters int64 numbers (R,) over all of int64; products wrap around."""
    x = x + (0x9E3779B97F4A7C15 - 2**64)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * (0xBF58476D1CE4E5B9 - 2**64)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * (0x94D049BB133111EB - 2**64)
    return x ^ (x >> 31 & (1 << 33) - 1)


def _keys(seed: int, rows: Sequence[_Row]) -> Tensor:
    """(R,)"""
    start = _mix(torch.tensor([(seed + 2**63) % 2**64 - 2**63]))  # (1,)
    prompts = _mix(start + torch.tensor([row.prompt for row in rows]))  # (R,)
    return _mix(prompts + torch.tensor([row.sample for row in rows]))  # (R,)


def _uniforms(keys: Tensor, step: int) -> Tensor:
    """One number in [0, 1) for each row: (R,)."""
    return (_mix(keys + step) >> 11 & (1 << 53) - 1).double() * 2.0**-53  # (R,)
