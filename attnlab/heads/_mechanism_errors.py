"""Measures how well each mechanism reproduces each head of a model, on the model's own queries,
keys and values.

The error is |output - original| / |original| over all tokens of a window, where `original` is the
output of the head itself. One layer of one window is in memory at a time.

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
    format_spec,
    is_softmax,
    mechanism_options,
    parse_groups,
    what_needs_training,
)
from attnlab.bench._error_bench import UNIFORM, mechanism_name
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.heads._measured_heads import CROSS, Head, MeasuredHeads
from attnlab.heads._model_reader import InputWindow, ModelReader
from attnlab.heads._settings import HeadSettings
from attnlab.interpret import _attnlab_hooks as hooks
from attnlab.interpret._attention_call import AttentionCall, at_least_float32
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

TINY_BETA = 1e-20  # an inverse temperature at which all scores are equal
UNIFORM_SPEC = f"softmax:beta={TINY_BETA:g}"
"""Uniform weights, as a mechanism."""
SEED_STRIDE = 1_000_003  # mechanism seeds between two seeds of the bench


def candidate_specs(specs: Sequence[str], settings: HeadSettings, tokens: int | None) -> list[str]:
    """The named mechanisms, or all without learned parameters; options that they do not set are
    swept. Without those that are softmax on so few tokens."""
    swept = []
    unlearned = [
        name
        for name, kind in MECHANISMS.items()
        if not what_needs_training(name) and not kind.card.needs_length
    ]
    for spec in specs or [name for name in unlearned if name != "softmax"]:
        name = mechanism_name(spec)  # raises an error for groups of heads
        ((_, _, options),) = parse_groups(spec)
        kind = find_mechanism(name)
        if needed := what_needs_training(spec):
            raise ValueError(
                f"{spec}: has {needed}, which a trained model lacks; name a mechanism without"
            )
        if name == "softmax":
            raise ValueError("softmax: the heads already use it; name another mechanism")
        create_mechanism(name, head_dim=8, heads=1, **options)  # a mistake is reported now
        swept += [format_spec(name, values) for values in kind.sweep(options, settings.swept)]
    return [spec for spec in swept if tokens is None or not is_softmax(spec, tokens)]


def measure_heads(
    reader: ModelReader,
    windows: Sequence[InputWindow],
    specs: Sequence[str],
    settings: HeadSettings,
    progress: BenchProgress = NO_PROGRESS,
) -> MeasuredHeads:
    """Every mechanism on every head and window; the low-rank bound on the longest window only."""
    listener = HeadListener(specs, settings.ranks, progress, SEED_STRIDE * reader.seed)
    with ExitStack() as stack:
        names = stack.enter_context(hooks.listen(reader.model, listener))
        if any(huggingface.is_huggingface(module) for module in reader.model.modules()):
            names += stack.enter_context(huggingface.listen(reader.model, listener))
        progress.begin("model", len(windows) * len(names))
        with torch.no_grad():
            for window in windows:
                listener.begin()
                reader.run(window)
                progress.step(by=max(0, len(names) - listener.calls))  # layers without a call
    measured = MeasuredHeads(list(listener.heads.values()), listener.notes)
    for head in measured.heads:
        head.layer = layer_numbers(listener.layers[head.part])[head.name]
    measured.notes += _remove_softmax(measured, specs)
    if not measured.heads:
        reason = f" {measured.notes[0]}" if measured.notes else ""
        raise ValueError(f"{reader.label}: no head could be measured.{reason}")
    return measured


def layer_numbers(names: Sequence[str]) -> dict[str, int]:
    """The numbers of a part's layers. They come from the module names if each has one number of its
    own, since layers without attention may lie between; else they are counted from 0."""
    numbers = [re.findall(r"(?<![^.])\d+(?![^.])", name) for name in names]
    unique = {digits[0] for digits in numbers if len(digits) == 1}
    if len(unique) < len(names):
        return {name: index for index, name in enumerate(names)}
    return {name: int(digits[0]) for name, digits in zip(names, numbers, strict=True)}


def _remove_softmax(measured: MeasuredHeads, specs: Sequence[str]) -> list[str]:
    """Removes mechanisms that see all keys of every window; returns notes that name them."""
    notes = []
    for part, layers in measured.parts.items():
        heads = [head for layer in layers for head in measured.heads_in(layer)]
        longest = max(queries for queries, _ in heads[0].lengths)
        wide = [spec for spec in specs if spec in heads[0].errors and is_softmax(spec, longest)]
        for head in heads:
            head.errors = {spec: e for spec, e in head.errors.items() if spec not in wide}
        if wide:
            notes.append(
                f"Left out because they equal softmax on {longest} tokens of the {part}: "
                f"{', '.join(wide)}."
            )
    return notes


class HeadListener:
    """Receives each layer's queries, keys and values, and measures all mechanisms on them."""

    row, wants_weights, wants_gradients = 0, False, False

    def __init__(
        self, specs: Sequence[str], ranks: Sequence[int], progress: BenchProgress, seed: int = 0
    ) -> None:
        self.specs, self.ranks, self.progress, self.seed = specs, ranks, progress, seed
        self.heads: dict[tuple[str, int], Head] = {}
        self.layers: dict[str, list[str]] = {}
        """The layers of each part of the model, with those that are left out."""
        self.notes: list[str] = []
        self.window, self.calls = -1, 0

    def begin(self) -> None:
        self.window, self.calls = self.window + 1, 0

    def select_heads(
        self,
        name: str,
        *,
        batch: int,
        heads: int,
        queries: int,
        keys: int,
        usual: list[int] | None = None,
    ) -> list[int] | None:
        del name, batch, queries, keys
        return usual or list(range(heads))

    def reserve_memory(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        """Nothing to do: the listener keeps no weights."""

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def on_call(self, call: AttentionCall) -> None:
        name = call.name.partition(" (")[0]  # a module that runs twice has one plan for both
        self.progress.step(name)
        self.calls += 1
        part = CROSS if call.kind == "cross" else call.stack
        layers = self.layers.setdefault(part, [])
        if name not in layers:
            layers.append(name)
        reason = _incomparable_reason(call)
        if reason:
            self.note(f"{name}: left out, because {reason}.")
            return
        assert call.q is not None
        assert call.k is not None
        for head in call.heads:
            new = Head(
                layers.index(name), name, head, call.q.shape[2], part=part, causal=call.causal
            )
            measured = self.heads.setdefault((name, head), new)
            measured.lengths.append((call.q.shape[1], call.k.shape[1]))
        for spec, errors in _mechanism_errors(call, self.specs, self.seed).items():
            for head, error in zip(call.heads, errors, strict=True):
                self.heads[name, head].errors.setdefault(spec, []).append(error)
        tokens = min(call.q.shape[1], call.k.shape[1])
        if self.ranks and tokens > self.heads[name, call.heads[0]].rank_tokens:
            for head, by_rank in zip(call.heads, low_rank_errors(call, self.ranks), strict=True):
                self.heads[name, head].ranks = by_rank
                self.heads[name, head].rank_tokens = tokens


def _incomparable_reason(call: AttentionCall) -> str:
    """Why mechanisms cannot be compared on this layer; empty if they can."""
    if call.mechanism != "softmax":
        return f"its mechanism is {call.mechanism}, not softmax"
    if call.q is None or call.k is None or call.v is None or call.head_outputs is None:
        return "its queries, keys and values cannot be read"
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


def _tensors(call: AttentionCall) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q (1, H, T, D), k and v (1, G, T, D or M), and the heads' output (1, H, T, M)."""
    assert call.q is not None
    assert call.k is not None
    assert call.v is not None
    assert call.head_outputs is not None
    q, k, v, original = (
        at_least_float32(x)[None] for x in (call.q, call.k, call.v, call.head_outputs)
    )
    return q, k, v, original


def _mechanism_errors(
    call: AttentionCall, specs: Sequence[str], seed: int
) -> dict[str, list[float]]:
    """For each mechanism the errors of all heads; the control first."""
    q, k, v, original = _tensors(call)
    mask, H = Mask(causal=call.causal), q.shape[1]
    assert call.scale is not None
    errors = {}
    for spec in (UNIFORM, *(spec for spec in specs if can_replace(spec, call))):
        if is_softmax(spec, q.shape[2]):  # it sees all of so few keys
            errors[spec] = [0.0] * H
            continue
        text = UNIFORM_SPEC if spec == UNIFORM else shift_seed(spec, seed)
        mechanism = create_scaled(text, H, q.shape[3], call.scale)
        mechanism = mechanism.to(q.device)
        if mechanism.prefers_matrix(q.shape[2]):  # the output is the same (law 1)
            out = mechanism.weights(q, k, mask) @ v.repeat_interleave(H // v.shape[1], 1)
        else:
            out = mechanism(q, k, v, mask)
        change = (out - original).flatten(2).norm(dim=2)  # (1, H)
        relative = change / original.flatten(2).norm(dim=2)  # (1, H)
        errors[spec] = relative[0].nan_to_num(torch.inf, torch.inf).tolist()
    return errors


def can_replace(spec: str, call: AttentionCall) -> bool:
    """Whether a mechanism can replace this layer: those defined by distances cannot in
    cross-attention, those that exist only in causal form cannot in an encoder."""
    card = find_mechanism(mechanism_name(spec)).card
    return (call.kind == "self" or card.cross) and (call.causal or card.bidirectional)


def shift_seed(spec: str, by: int) -> str:
    """The same mechanism with its random seed increased, if it has one."""
    ((_, _, options),) = parse_groups(spec)
    return _with_option(spec, "seed", int(options.get("seed", 0)) + by)


def with_scale(spec: str, beta: float | None) -> str:
    """The same mechanism with the model's own inverse temperature, if it has this option and the
    text does not set it."""
    ((_, _, options),) = parse_groups(spec)
    return spec if beta is None or "beta" in options else _with_option(spec, "beta", beta)


def _with_option(spec: str, option: str, value: float) -> str:
    ((_, name, options),) = parse_groups(spec)
    if option not in [known.name for known in mechanism_options(name)]:
        return spec
    return format_spec(name, {**options, option: value})


def create_scaled(spec: str, heads: int, head_dim: int, scale: float) -> Mechanism:
    """The mechanism with the model's own scale, if it has such an option."""
    ((_, name, options),) = parse_groups(spec)
    if "beta" in [option.name for option in mechanism_options(name)]:
        options = {"beta": scale, **options}
    return create_mechanism(name, head_dim=head_dim, heads=heads, **options)


def low_rank_errors(
    call: AttentionCall, ranks: Sequence[int]
) -> list[dict[int, tuple[float, float]]]:
    """For each head and rank the errors of the best low-rank approximation.

    The best approximation of the weights A by any matrix of rank R keeps the R largest singular
    values (Eckart and Young), so |A - A_R| / |A| bounds every low-rank mechanism (Linformer)
    from below. The second number is |A_R v - A v| / |A v|.
    """
    q, k, v, _ = _tensors(call)
    assert call.scale is not None
    H = q.shape[1]
    softmax, errors = create_scaled("softmax", 1, q.shape[3], call.scale), []
    for head in range(H):
        group = head * k.shape[1] // H
        weights = softmax.weights(
            q[:, head : head + 1].double(),
            k[:, group : group + 1].double(),
            Mask(causal=call.causal),
        )[0, 0]  # (T, T)
        values = v[0, group].double()
        # eigenvalues of A A^T: twice as fast as singular values of A, and exact enough in float64
        squares, vectors = torch.linalg.eigh(weights @ weights.mT)  # smallest first
        total, out = squares.clamp(min=0).sum(), weights @ values
        by_rank = {}
        for rank in ranks:
            rest = squares[: max(0, len(squares) - rank)].clamp(min=0).sum()
            lost = vectors[:, : max(0, len(squares) - rank)]  # (T, T-R)
            output_error = (lost.mT @ out).norm() / out.norm()
            by_rank[rank] = float((rest / total).sqrt()), float(output_error)
        errors.append(by_rank)
    return errors
