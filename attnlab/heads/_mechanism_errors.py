"""Mechanisms on a real model's queries, keys and values: which of them reproduces each head?

A head's error is |found - given| / |given|, where `given` is what the head itself gave, over all
tokens of a window. One layer of one window is in memory at a time.

Letters: H heads, G key heads, T tokens, D head size, M value size, R rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from attnlab import huggingface
from attnlab._create_mechanism import (
    create_mechanism,
    find_mechanism,
    is_softmax,
    mechanism_options,
    parse_groups,
)
from attnlab.bench._error_bench import UNIFORM, name_of, spec_of
from attnlab.bench._progress import SILENT, Progress
from attnlab.heads._measured_heads import CROSS, Head, Measured
from attnlab.heads._model_reader import Reader, Window
from attnlab.heads._settings import HeadSettings
from attnlab.interpret import _attnlab_hooks as hooks
from attnlab.interpret._attention_call import Call, accurate
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

NOTHING = 1e-20  # an inverse temperature at which all scores are alike
EVEN = f"softmax:beta={NOTHING:g}"
"""Uniform weights, as a mechanism."""
DRAWS = 1_000_003  # seeds of draws that belong to one seed of the bench


def candidates(specs: Sequence[str], settings: HeadSettings, tokens: int | None) -> list[str]:
    """All mechanisms without learned parameters, or those named; what they leave open is swept."""
    swept = []
    free = [name for name, kind in MECHANISMS.items() if not kind.card.learned]
    for spec in specs or [name for name in free if name != "softmax"]:
        name = name_of(spec)  # refuses groups of heads
        ((_, _, options),) = parse_groups(spec)
        kind = find_mechanism(name)
        if kind.card.learned:
            raise ValueError(f"{name}: has learned parameters; a trained model has none for it")
        if name == "softmax":
            raise ValueError("softmax is what the heads have already; name another mechanism")
        create_mechanism(name, head_dim=8, heads=1, **options)  # a mistake is reported now
        swept += [spec_of(name, each) for each in kind.sweep(options, settings.swept)]
    # what sees all of a text so short is softmax
    return [each for each in swept if tokens is None or not is_softmax(each, tokens)]


def measure_heads(
    reader: Reader,
    windows: Sequence[Window],
    specs: Sequence[str],
    settings: HeadSettings,
    progress: Progress = SILENT,
) -> Measured:
    """Every mechanism on every head of every window; the low-rank bound on the longest alone."""
    listener = HeadListener(specs, settings.ranks, progress, DRAWS * reader.seed)
    with ExitStack() as stack:
        names = stack.enter_context(hooks.listen(reader.model, listener))
        if any(huggingface.is_huggingface(module) for module in reader.model.modules()):
            names += stack.enter_context(huggingface.listen(reader.model, listener))
        progress.begin("model", len(windows) * len(names))
        with torch.no_grad():
            for window in windows:
                listener.begin()
                reader.run(window)
                progress.step(by=max(0, len(names) - listener.heard))  # what nobody could hear
    found = Measured(list(listener.heads.values()), listener.notes)
    for head in found.heads:
        head.layer = numbers_of(listener.places[head.part])[head.name]
    found.notes += _without_softmax(found, specs)
    if not found.heads:
        why = f" {found.notes[0]}" if found.notes else ""
        raise ValueError(f"{reader.label}: no head could be measured.{why}")
    return found


def numbers_of(names: Sequence[str]) -> dict[str, int]:
    """Of a part's layers: those in their names where each has one of its own, for others than
    attention may lie between (convolutions, state spaces), else their places."""
    told = [re.findall(r"(?<![^.])\d+(?![^.])", name) for name in names]
    alone = {each[0] for each in told if len(each) == 1}
    if len(alone) < len(names):
        return {name: place for place, name in enumerate(names)}
    return {name: int(each[0]) for name, each in zip(names, told, strict=True)}


def _without_softmax(found: Measured, specs: Sequence[str]) -> list[str]:
    """Leave out what sees all of every text, and say so."""
    told = []
    for part, layers in found.parts.items():
        heads = [head for layer in layers for head in found.of(layer)]
        longest = max(queries for queries, _ in heads[0].lengths)
        wide = [spec for spec in specs if spec in heads[0].errors and is_softmax(spec, longest)]
        for head in heads:
            head.errors = {spec: each for spec, each in head.errors.items() if spec not in wide}
        if wide:
            told.append(
                f"Left out as being softmax on {longest} tokens of the {part}: {', '.join(wide)}."
            )
    return told


class HeadListener:
    """Hears each layer's queries, keys and values, and tries all mechanisms on them at once."""

    row, wants_weights, wants_gradients = 0, False, False

    def __init__(
        self, specs: Sequence[str], ranks: Sequence[int], progress: Progress, draws: int = 0
    ) -> None:
        self.specs, self.ranks, self.progress, self.draws = specs, ranks, progress, draws
        self.heads: dict[tuple[str, int], Head] = {}
        self.places: dict[str, list[str]] = {}
        """The layers of each part of the model, also those that are left out."""
        self.notes: list[str] = []
        self.window, self.heard = -1, 0

    def begin(self) -> None:
        self.window, self.heard = self.window + 1, 0

    def admit(
        self, name: str, *, batch: int, heads: int, queries: int, keys: int
    ) -> list[int] | None:
        del name, batch, queries, keys
        return list(range(heads))

    def afford(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        """Nothing is kept."""

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def hear(self, call: Call) -> None:
        name = call.name.partition(" (")[0]  # a module that runs twice has one plan for both
        self.progress.step(name)
        self.heard += 1
        part = CROSS if call.kind == "cross" else call.stack
        places = self.places.setdefault(part, [])
        if name not in places:
            places.append(name)
        reason = _unfit(call)
        if reason:
            self.note(f"{name}: left out, because {reason}.")
            return
        assert call.q is not None
        assert call.k is not None
        for head in call.heads:
            made = Head(
                places.index(name), name, head, call.q.shape[2], part=part, causal=call.causal
            )
            kept = self.heads.setdefault((name, head), made)
            kept.lengths.append((call.q.shape[1], call.k.shape[1]))
        for spec, errors in _errors(call, self.specs, self.draws).items():
            for head, error in zip(call.heads, errors, strict=True):
                self.heads[name, head].errors.setdefault(spec, []).append(error)
        tokens = min(call.q.shape[1], call.k.shape[1])
        if self.ranks and tokens > self.heads[name, call.heads[0]].rank_tokens:
            for head, found in zip(call.heads, rank_errors(call, self.ranks), strict=True):
                self.heads[name, head].ranks = found
                self.heads[name, head].rank_tokens = tokens


def _unfit(call: Call) -> str:
    """Why other mechanisms cannot be compared on this layer."""
    if call.mechanism != "softmax":
        return f"its mechanism is {call.mechanism}, not softmax"
    if call.q is None or call.k is None or call.v is None or call.given is None:
        return "its queries, keys and values cannot be heard"
    if call.scale is None:
        return "each head has a scale of its own"
    if call.bias is not None:
        return "it adds a bias to its scores"
    T, S = call.q.shape[1], call.k.shape[1]
    allowed = Mask(causal=call.causal).allowed(T, S, call.q.device)
    if call.allowed is not None and (
        allowed is None or not bool((call.allowed == allowed[0, 0]).all())
    ):
        return "its mask is more than causal (a sliding window, or chunks)"
    return ""


def _tensors(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q (1, H, T, D), k and v (1, G, T, D or M), and what the heads gave (1, H, T, M)."""
    assert call.q is not None
    assert call.k is not None
    assert call.v is not None
    assert call.given is not None
    q, k, v, given = (accurate(x)[None] for x in (call.q, call.k, call.v, call.given))
    return q, k, v, given


def _errors(call: Call, specs: Sequence[str], draws: int) -> dict[str, list[float]]:
    """Of each mechanism, one number for each head; the control first."""
    q, k, v, given = _tensors(call)
    mask, H = Mask(causal=call.causal), q.shape[1]
    assert call.scale is not None
    errors = {}
    for spec in (UNIFORM, *(each for each in specs if fits(each, call))):
        if is_softmax(spec, q.shape[2]):  # softmax, on a text so short
            errors[spec] = [0.0] * H
            continue
        text = EVEN if spec == UNIFORM else redrawn(spec, draws)
        mechanism = build(text, H, q.shape[3], call.scale)
        mechanism = mechanism.to(q.device)
        if mechanism.prefers_matrix(q.shape[2]):  # it is the same (law 1)
            out = mechanism.weights(q, k, mask) @ v.repeat_interleave(H // v.shape[1], 1)
        else:
            out = mechanism(q, k, v, mask)
        apart = (out - given).flatten(2).norm(dim=2) / given.flatten(2).norm(dim=2)  # (1, H)
        errors[spec] = apart[0].nan_to_num(torch.inf, torch.inf).tolist()
    return errors


def fits(spec: str, call: Call) -> bool:
    """Whether it can take this layer's place: what is defined by distances cannot look at another
    text."""
    return call.kind == "self" or find_mechanism(name_of(spec)).card.cross


def redrawn(spec: str, by: int) -> str:
    """The same mechanism with other draws, where it draws: its seed and so much more."""
    ((_, _, options),) = parse_groups(spec)
    return _with(spec, "seed", int(options.get("seed", 0)) + by)


def scaled(spec: str, beta: float | None) -> str:
    """The same mechanism at a model's own inverse temperature, where it has one and leaves it
    open."""
    ((_, _, options),) = parse_groups(spec)
    return spec if beta is None or "beta" in options else _with(spec, "beta", beta)


def _with(spec: str, option: str, value: float) -> str:
    ((_, name, options),) = parse_groups(spec)
    if option not in [each.name for each in mechanism_options(name)]:
        return spec
    return spec_of(name, {**options, option: value})


def build(spec: str, heads: int, head_dim: int, scale: float) -> Mechanism:
    """The mechanism of this text at the model's own scale, where it has one."""
    ((_, name, options),) = parse_groups(spec)
    if "beta" in [option.name for option in mechanism_options(name)]:
        options = {"beta": scale, **options}
    return create_mechanism(name, head_dim=head_dim, heads=heads, **options)


def rank_errors(call: Call, ranks: Sequence[int]) -> list[dict[int, tuple[float, float]]]:
    """For each head and rank, what the best projection leaves.

    The best approximation of the weights A by any matrix of rank R keeps the R largest singular
    values (Eckart and Young), so |A - A_R| / |A| bounds every low-rank mechanism (Linformer)
    from below; the second number is |A_R v - A v| / |A v|.
    """
    q, k, v, _ = _tensors(call)
    assert call.scale is not None
    H = q.shape[1]
    softmax, found = build("softmax", 1, q.shape[3], call.scale), []
    for head in range(H):
        group = head * k.shape[1] // H
        one = softmax.weights(
            q[:, head : head + 1].double(),
            k[:, group : group + 1].double(),
            Mask(causal=call.causal),
        )[0, 0]  # (T, T)
        values = v[0, group].double()
        # of A A^T: half the time of the singular values of A, and exact enough in float64
        squares, vectors = torch.linalg.eigh(one @ one.mT)  # smallest first
        total, out = squares.clamp(min=0).sum(), one @ values
        each = {}
        for rank in ranks:
            rest = squares[: max(0, len(squares) - rank)].clamp(min=0).sum()
            lost = vectors[:, : max(0, len(squares) - rank)]  # (T, T-R)
            apart = (lost.mT @ out).norm() / out.norm()
            each[rank] = float((rest / total).sqrt()), float(apart)
        found.append(each)
    return found
