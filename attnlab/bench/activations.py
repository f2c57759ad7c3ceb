"""Mechanisms on a real model's queries, keys and values: which of them reproduces each head?

A head's error is |found - given| / |given|, where `given` is what the head itself gave, over all
tokens of a window. One layer of one window is in memory at a time.

Letters: H heads, G key heads, T tokens, D head size, M value size, R rank.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from attnlab import huggingface
from attnlab.bench.contenders import Ours, Sizes
from attnlab.bench.error import UNIFORM, name_of
from attnlab.bench.progress import SILENT, Progress
from attnlab.bench.readers import Reader, Window
from attnlab.bench.settings import ModelSettings
from attnlab.create import create_mechanism, find_mechanism, mechanism_options, parse_groups
from attnlab.huggingface.calls import Call, accurate
from attnlab.looking import hooks
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

ENCODER, CROSS = "encoder", "cross-attention"
NOTHING = 1e-20  # an inverse temperature at which all scores are alike
EVEN = f"softmax:beta={NOTHING:g}"
"""Uniform weights, as a mechanism."""
WITHOUT_CHANCE = ",window_blocks=9,random_blocks=0"
DRAWS = 1_000_003  # seeds of draws that belong to one seed of the bench


@dataclass
class Head:
    """One head of one layer, and each mechanism's error on it, window by window."""

    layer: int
    name: str
    """Of the module."""
    head: int
    size: int
    """Head size."""
    errors: dict[str, list[float]] = field(default_factory=dict)
    """Of those that can take its place."""
    part: str = ENCODER
    """encoder, decoder or cross-attention."""
    causal: bool = False
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """Queries and keys of each window."""
    ranks: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By rank: the least error that any projection of so many directions leaves in the weights,
    and the error of the output with those weights."""

    def error(self, spec: str) -> float:
        """The mean over windows."""
        found = self.errors[spec]
        return sum(found) / len(found)

    def cost(self, spec: str) -> float:
        """The mean over windows."""
        found = [cost(spec, self.size, *each, self.causal) for each in self.lengths]
        return sum(found) / len(found)


@dataclass
class Measured:
    heads: list[Head] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def layers(self) -> list[str]:
        return list(dict.fromkeys(head.name for head in self.heads))

    def of(self, layer: str) -> list[Head]:
        return [head for head in self.heads if head.name == layer]

    @property
    def parts(self) -> dict[str, list[str]]:
        """The layers of each part of the model."""
        found: dict[str, list[str]] = {}
        for layer in self.layers:
            found.setdefault(self.of(layer)[0].part, []).append(layer)
        return found

    @property
    def tokens(self) -> int:
        """The most that a head looks at."""
        return max(keys for head in self.heads for _, keys in head.lengths)

    @property
    def size(self) -> str:
        """512 tokens; of an encoder-decoder 512 and 64 tokens."""
        found = []
        for part, (first, *_) in self.parts.items():
            lengths = [queries for queries, _ in self.of(first)[0].lengths]
            if part != CROSS:
                found.append(f"{round(sum(lengths) / len(lengths)):,}")
        return f"{' and '.join(found or [f'{self.tokens:,}'])} tokens"


def candidates(specs: Sequence[str], settings: ModelSettings, tokens: int | None) -> list[str]:
    """All mechanisms without learned parameters, or those named; what they leave open is swept."""
    found = []
    free = [name for name, kind in MECHANISMS.items() if not kind.card.learned]
    for spec in specs or [name for name in free if name != "softmax"]:
        name = name_of(spec)  # refuses groups of heads
        ((_, _, options),) = parse_groups(spec)
        if find_mechanism(name).card.learned:
            raise ValueError(f"{name}: has learned parameters; a trained model has none for it")
        if name == "softmax":
            raise ValueError("softmax is what the heads have already; name another mechanism")
        create_mechanism(name, head_dim=8, heads=1, **options)  # a mistake is told now
        found += _swept(spec, name, options, settings)
    # a window as wide as the text is softmax
    return [each for each in found if tokens is None or sight(each) < tokens]


def _swept(spec: str, name: str, options: dict[str, object], settings: ModelSettings) -> list[str]:
    """BigBird also with a wider window in the place of its random blocks: as many keys if causal,
    and all that is needed where heads rest on the first token."""
    if name == "bigbird" and not options:
        blocks = [f"bigbird:block={value}" for value in settings.block]
        return [each + more for each in blocks for more in ("", WITHOUT_CHANCE)]
    known = [option.name for option in mechanism_options(name)]
    for option, values in (
        ("features", settings.features),
        ("window", settings.window),
        ("block", settings.block),
    ):
        if option in known and option not in options:
            mark = "," if ":" in spec else ":"
            return [f"{spec}{mark}{option}={value}" for value in values]
    return [spec]


def sight(spec: str) -> float:
    """Keys that a window shows; 0 where nothing is cut off."""
    ((_, _, options),) = parse_groups(spec)
    return float(options.get("window", 0))


@cache
def cost(spec: str, size: int, queries: int, keys: int, causal: bool) -> float:
    """Multiplications and additions of one head on one window: the products that make weights or
    sums and the output. Feature maps and softmax are not counted.

    Where queries and keys are not as many, N^2 is their product and N their mean: sums take each
    key in once, and each query reads them once.
    """
    square = "N^2" in find_mechanism(name_of(spec)).card.time
    tokens = math.sqrt(queries * keys) if square else (queries + keys) / 2
    found = Ours(spec).flops(Sizes(1, size), tokens, causal)
    assert found is not None
    return found


def measure_heads(
    reader: Reader,
    windows: Sequence[Window],
    specs: Sequence[str],
    settings: ModelSettings,
    progress: Progress = SILENT,
) -> Measured:
    """Every mechanism on every head of every window; the low-rank bound on the first alone."""
    ear = Ear(specs, settings.ranks, progress, DRAWS * reader.seed)
    with ExitStack() as stack:
        names = stack.enter_context(hooks.listen(reader.model, ear))
        if any(huggingface.is_huggingface(module) for module in reader.model.modules()):
            names += stack.enter_context(huggingface.listen(reader.model, ear))
        progress.begin("model", len(windows) * len(names))
        with torch.no_grad():
            for window in windows:
                ear.begin()
                reader.run(window)
                progress.step(by=max(0, len(names) - ear.heard))  # what nobody could hear
    for head in ear.heads.values():  # what was softmax in a short window is left out in all
        count = len(head.errors[UNIFORM])
        head.errors = {spec: each for spec, each in head.errors.items() if len(each) == count}
    found = Measured(list(ear.heads.values()), ear.notes)
    if not found.heads:
        why = f" {found.notes[0]}" if found.notes else ""
        raise ValueError(f"{reader.label}: no head could be measured.{why}")
    return found


class Ear:
    """Hears each layer's queries, keys and values, and tries all mechanisms on them at once."""

    row, wants_weights, wants_gradients = 0, False, False

    def __init__(
        self, specs: Sequence[str], ranks: Sequence[int], progress: Progress, draws: int = 0
    ) -> None:
        self.specs, self.ranks, self.progress, self.draws = specs, ranks, progress, draws
        self.heads: dict[tuple[str, int], Head] = {}
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
        reason = _unfit(call)
        if reason:
            self.note(f"{name}: left out, because {reason}.")
            return
        assert call.q is not None
        assert call.k is not None
        layer = len({head.name for head in self.heads.values()})
        part = CROSS if call.kind == "cross" else call.stack
        for head in call.heads:
            made = Head(layer, name, head, call.q.shape[2], part=part, causal=call.causal)
            kept = self.heads.setdefault((name, head), made)
            kept.lengths.append((call.q.shape[1], call.k.shape[1]))
        for spec, errors in _errors(call, self.specs, self.draws).items():
            for head, error in zip(call.heads, errors, strict=True):
                self.heads[name, head].errors.setdefault(spec, []).append(error)
        if self.window == 0 and self.ranks:
            for head, found in zip(call.heads, rank_errors(call, self.ranks), strict=True):
                self.heads[name, head].ranks = found


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
    found = {}
    for spec in (UNIFORM, *(each for each in specs if fits(each, call))):
        text = EVEN if spec == UNIFORM else redrawn(spec, draws)
        mechanism = build(text, H, q.shape[3], call.scale)
        mechanism = mechanism.to(q.device)
        if mechanism.name == "polynomial" and q.shape[3] ** 2 > q.shape[2]:
            # the matrix takes less than all products of features, and is the same (law 1)
            out = mechanism.weights(q, k, mask) @ v.repeat_interleave(H // v.shape[1], 1)
        else:
            out = mechanism(q, k, v, mask)
        apart = (out - given).flatten(2).norm(dim=2) / given.flatten(2).norm(dim=2)  # (1, H)
        found[spec] = apart[0].nan_to_num(torch.inf, torch.inf).tolist()
    return found


def fits(spec: str, call: Call) -> bool:
    """Whether it can take this layer's place and is not softmax there: what is defined by distances
    cannot look at another text, and a window as wide as the text is softmax."""
    assert call.q is not None
    cross = find_mechanism(name_of(spec)).card.cross
    return (cross or call.kind == "self") and not sight(spec) >= call.q.shape[1]


def redrawn(spec: str, by: int) -> str:
    """The same mechanism with other draws, where it draws: its seed and so much more."""
    ((_, name, options),) = parse_groups(spec)
    if "seed" not in [option.name for option in mechanism_options(name)]:
        return spec
    options["seed"] = int(options.get("seed", 0)) + by
    return f"{name}:{','.join(f'{key}={json.dumps(value)}' for key, value in options.items())}"


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
