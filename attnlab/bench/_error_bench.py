"""How far mechanisms are from exact attention, and whether they beat doing nothing.

Queries and keys have random directions and one norm r = |q| = |k|, so that scores lie between
-r^2/sqrt(D) and r^2/sqrt(D); queries and keys from N(0, I) have a norm of about sqrt(D). Values
are N(0, 1), and all is computed in float64: what is seen is the approximation, not rounding.
Letters: N tokens, D head size, C features.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlab._create_mechanism import create_attention, find_mechanism, mechanism_options
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._settings import ErrorSettings
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS

UNIFORM = "uniform weights"
"""The control: every allowed key counts alike. It costs nothing and looks at nothing."""


@dataclass(frozen=True)
class Case:
    """One mechanism with its options; `features` and `orthogonal` where they are swept."""

    spec: str
    features: int | None = None
    orthogonal: bool | None = None

    @property
    def name(self) -> str:
        """What a figure calls it."""
        counted = "" if self.features is None else f", {self.features:,} features"
        return f"{self.spec}{counted}{', independent' if self.orthogonal is False else ''}"

    @property
    def full_spec(self) -> str:
        options = {"features": self.features, "orthogonal": self.orthogonal}
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        return self.spec + (":" if ":" not in self.spec else ",") * bool(given) + ",".join(given)


@dataclass(frozen=True)
class Measured:
    """One case on one input: |found - exact| / |exact|, over all entries."""

    case: Case
    head_dim: int
    norm: float
    seed: int
    output: float
    weights: float


def distance(found: Tensor, exact: Tensor) -> float:
    """Relative, over all entries."""
    return float((found - exact).norm() / exact.norm())


def uniform_weights(mask: Mask, T: int, S: int) -> Tensor:
    """(B or 1, 1, T, S) float64: 1 over the number of keys that a query may look at, or 0."""
    allowed = mask.allowed(T, S, torch.device("cpu"))
    some = torch.ones(1, 1, T, S) if allowed is None else allowed.expand(-1, -1, T, S)
    some = some.double()
    return some / some.sum(-1, keepdim=True).clamp(min=1)


def measurable(specs: Sequence[str], tokens: int) -> list[str]:
    """The mechanisms that have an error before any training; all if none is named, with options
    that see less than all of so many tokens."""
    chosen = list(specs) or [
        spec_of(name, kind.short_options(tokens))
        for name, kind in MECHANISMS.items()
        if not kind.card.learned and name != "softmax"
    ]
    for spec in chosen:
        name = name_of(spec)
        if name == "softmax":
            raise ValueError("softmax is what errors are measured against; name another mechanism")
        if find_mechanism(name).card.learned:
            raise ValueError(
                f"{name}: has learned parameters, so before training its error says nothing; "
                f"without any are: {', '.join(measurable((), tokens))}"
            )
    return chosen


def name_of(spec: str) -> str:
    """The mechanism's name in "favor:features=64". A bench takes one mechanism at a time."""
    if "+" in spec or "*" in spec:
        raise ValueError(f"{spec!r}: groups of heads; a bench takes one mechanism at a time")
    return spec.partition(":")[0].strip()


def spec_of(name: str, options: Mapping[str, Any]) -> str:
    """favor:features=64"""
    listed = ",".join(f"{key}={json.dumps(value)}" for key, value in options.items())
    return f"{name}:{listed}" if listed else name


def sweeps(spec: str, option: str) -> bool:
    """Whether the mechanism has this option and the text leaves it open."""
    given = [item.partition("=")[0].strip() for item in spec.partition(":")[2].split(",")]
    known = [each.name for each in mechanism_options(name_of(spec))]
    return option in known and option not in given


def typical(settings: ErrorSettings) -> int:
    """The number of features that mechanisms are compared at."""
    return min(settings.features, key=lambda each: (abs(each - 256), each))


def cases_of(spec: str, settings: ErrorSettings, swept: bool) -> list[Case]:
    """The case that is compared with others first; with `swept` also all of its features."""
    plain = Case(spec)
    if not sweeps(spec, "features"):
        return [plain]
    draws: list[bool | None] = [True, False] if sweeps(spec, "orthogonal") else [None]
    first = replace(plain, features=typical(settings), orthogonal=draws[0])
    counts = settings.features if swept else (typical(settings),)
    every = [Case(spec, count, each) for each in draws for count in counts]
    return [first, *(case for case in every if case != first)]


def measure_errors(
    specs: Sequence[str], settings: ErrorSettings, seed: int = 0, progress: Progress = SILENT
) -> list[Measured]:
    """Every case at every norm, head size and seed, the control first."""
    specs = measurable(specs, settings.tokens)
    sizes = sorted({settings.head_dim, *settings.head_dims})
    cases = {
        size: [
            case
            for spec in specs
            for case in cases_of(spec, settings, swept=size == settings.head_dim)
        ]
        for size in sizes
    }
    progress.begin("error", settings.seeds * sum(map(len, cases.values())))
    found: list[Measured] = []
    for size in sizes:
        for repeat in range(settings.seeds):
            inputs = Inputs.of(settings, size, seed + repeat)
            found += inputs.control(repeat)
            for case in cases[size]:
                progress.step(f"{case.name}, head size {size}")
                found += inputs.errors(case, repeat)
    return found


@dataclass(frozen=True)
class Inputs:
    """One draw of queries, keys and values, and exact attention on them at every norm."""

    q: Tensor  # (1, 1, N, D), of length 1
    k: Tensor
    v: Tensor  # (1, 1, N, D)
    mask: Mask
    draws: int
    """Seed of the mechanisms: never the one of the inputs, whose numbers they would draw again."""
    exact: dict[float, tuple[Tensor, Tensor]]
    """Of each norm: weights (1, 1, N, N), output (1, 1, N, D)."""

    @staticmethod
    def of(settings: ErrorSettings, head_dim: int, seed: int) -> Inputs:
        random = torch.Generator().manual_seed(seed * 1_000_003 + head_dim)
        shape = (1, 1, settings.tokens, head_dim)
        q, k, v = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in "qkv")
        q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
        mask = Mask(causal=settings.causal)
        softmax = create_attention("softmax", head_dim=head_dim, heads=1)
        exact = {}
        for norm in settings.norms:
            weights = softmax.weights(norm * q, norm * k, mask)
            exact[norm] = weights, weights @ v
        draws = int(torch.randint(2**40, (), generator=random))
        return Inputs(q, k, v, mask, draws, exact)

    def control(self, seed: int) -> Iterator[Measured]:
        N = self.q.shape[2]
        weights = uniform_weights(self.mask, N, N)
        return self._compared(Case(UNIFORM), seed, lambda _: (weights, weights @ self.v))

    @torch.no_grad()
    def errors(self, case: Case, seed: int) -> Iterator[Measured]:
        N, D = self.q.shape[2:]
        kind = find_mechanism(name_of(case.spec))
        if self.mask.causal and not kind.card.causal:
            raise ValueError(f"{kind.name}: has no causal form; leave it out or --causal")
        spec = case.full_spec
        if sweeps(spec, "seed"):
            spec += f"{',' if ':' in spec else ':'}seed={self.draws}"
        mechanism = create_attention(spec, head_dim=D, heads=1, max_length=N).double()

        def attend(norm: float) -> tuple[Tensor, Tensor]:
            q, k = norm * self.q, norm * self.k
            return mechanism.weights(q, k, self.mask), mechanism(q, k, self.v, self.mask)

        return self._compared(case, seed, attend)

    def _compared(self, case: Case, seed: int, attend: Any) -> Iterator[Measured]:
        for norm, (weights, output) in self.exact.items():
            found, out = attend(norm)
            errors = distance(out, output), distance(found, weights)
            yield Measured(case, self.q.shape[3], norm, seed, *errors)
