"""Measures how far mechanisms are from exact attention, and from uniform weights as the control.

Queries and keys have random directions and one norm r = |q| = |k|, so that scores lie between
-r^2/sqrt(D) and r^2/sqrt(D). Queries and keys from N(0, I) have a norm of about sqrt(D). Values
are N(0, 1). Everything is computed in float64, so that rounding adds nothing to the error.
Letters: N tokens, D head size, C features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlab._create_mechanism import (
    create_attention,
    find_mechanism,
    format_spec,
    mechanism_options,
    what_needs_training,
)
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._settings import ErrorSettings
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS

UNIFORM = "uniform weights"
"""The control: every allowed key has the same weight, whatever the query."""


@dataclass(frozen=True)
class Case:
    """One mechanism with its options; `features` and `orthogonal` where they are swept."""

    spec: str
    features: int | None = None
    orthogonal: bool | None = None

    @property
    def name(self) -> str:
        """The label in figures."""
        features = "" if self.features is None else f", {self.features:,} features"
        return f"{self.spec}{features}{', independent' if self.orthogonal is False else ''}"

    @property
    def full_spec(self) -> str:
        options = {"features": self.features, "orthogonal": self.orthogonal}
        added = [f"{name}={value}" for name, value in options.items() if value is not None]
        return self.spec + (":" if ":" not in self.spec else ",") * bool(added) + ",".join(added)


@dataclass(frozen=True)
class ErrorMeasurement:
    """Relative errors of one case on one input, over all entries."""

    case: Case
    head_dim: int
    norm: float | None
    """None for queries and keys from N(0, I), whose norms differ."""
    seed: int
    output: float
    weights: float


def relative_error(approximation: Tensor, exact: Tensor) -> float:
    """The relative error over all entries: |approximation - exact| / |exact|."""
    return float((approximation - exact).norm() / exact.norm())


def uniform_weights(mask: Mask, T: int, S: int) -> Tensor:
    """(B or 1, 1, T, S) float64: 1 over the number of keys that a query may see, or 0."""
    allowed = mask.allowed(T, S, torch.device("cpu"))
    ones = torch.ones(1, 1, T, S) if allowed is None else allowed.expand(-1, -1, T, S)
    ones = ones.double()
    return ones / ones.sum(-1, keepdim=True).clamp(min=1)


def measurable_specs(specs: Sequence[str], tokens: int) -> list[str]:
    """The mechanisms to measure, all without learned parameters if none is named. Their options are
    then such that they see fewer than `tokens` keys."""
    measured = list(specs) or [
        format_spec(name, kind.short_options(tokens))
        for name, kind in MECHANISMS.items()
        if not what_needs_training(name) and kind.card.bidirectional and name != "softmax"
    ]
    for spec in measured:
        name = mechanism_name(spec)
        if name == "softmax":
            raise ValueError("softmax: errors are measured against it; name another mechanism")
        if needed := what_needs_training(spec):
            raise ValueError(
                f"{spec}: has {needed}, so its error before training means nothing; "
                f"name a mechanism without parameters: {', '.join(measurable_specs((), tokens))}"
            )
    return measured


def mechanism_name(spec: str) -> str:
    """The mechanism's name in "favor:features=64". Groups of heads are an error."""
    if "+" in spec or "*" in spec:
        raise ValueError(
            f"{spec!r}: has several groups of heads; name one mechanism, such as favor"
        )
    return spec.partition(":")[0].strip()


def is_swept(spec: str, option: str) -> bool:
    """Whether the mechanism has this option and the text does not set it."""
    in_text = [item.partition("=")[0].strip() for item in spec.partition(":")[2].split(",")]
    names = [each.name for each in mechanism_options(mechanism_name(spec))]
    return option in names and option not in in_text


def typical_features(settings: ErrorSettings) -> int:
    """The number of features at which mechanisms are compared: the nearest to 256."""
    return min(settings.features, key=lambda count: (abs(count - 256), count))


def create_cases(spec: str, settings: ErrorSettings, swept: bool) -> list[Case]:
    """First the case that is compared with others; with `swept` then all numbers of features."""
    plain = Case(spec)
    if not is_swept(spec, "features"):
        return [plain]
    orthogonals: list[bool | None] = [True, False] if is_swept(spec, "orthogonal") else [None]
    first = replace(plain, features=typical_features(settings), orthogonal=orthogonals[0])
    counts = settings.features if swept else (typical_features(settings),)
    cases = [Case(spec, count, orthogonal) for orthogonal in orthogonals for count in counts]
    return [first, *(case for case in cases if case != first)]


def create_grid_cases(spec: str, settings: ErrorSettings) -> list[Case]:
    """The cases that are measured at every head size, at one norm and with N(0, I)."""
    if not settings.has_grid or not is_swept(spec, "features"):
        return []
    orthogonal = True if is_swept(spec, "orthogonal") else None
    return [Case(spec, count, orthogonal) for count in settings.features]


def plan_norms(
    specs: Sequence[str], settings: ErrorSettings, head_dim: int
) -> dict[Case, list[float | None]]:
    """Every case of a head size, with the norms of its inputs; None stands for N(0, I)."""
    plan: dict[Case, list[float | None]] = {}
    for spec in specs:
        for case in create_cases(spec, settings, swept=head_dim == settings.head_dim):
            plan[case] = [*settings.norms]
        if head_dim in settings.head_dims:
            for case in create_grid_cases(spec, settings):
                plan[case] = [*plan.get(case, [settings.grid_norm]), None]
    return plan


def measure_errors(
    specs: Sequence[str],
    settings: ErrorSettings,
    seed: int = 0,
    progress: BenchProgress = NO_PROGRESS,
) -> list[ErrorMeasurement]:
    """Every case at every norm, head size and seed, the control first."""
    specs = measurable_specs(specs, settings.tokens)
    sizes = sorted({settings.head_dim, *settings.head_dims})
    plans = {size: plan_norms(specs, settings, size) for size in sizes}
    progress.begin("error", settings.seeds * sum(map(len, plans.values())))
    rows: list[ErrorMeasurement] = []
    for size in sizes:
        for repeat in range(settings.seeds):
            inputs = SampledInputs.sample(settings, size, seed + repeat)
            rows += inputs.control_errors(repeat)
            for case, norms in plans[size].items():
                progress.step(f"{case.name}, head size {size}")
                rows += inputs.errors(case, repeat, norms)
    return rows


@dataclass(frozen=True)
class SampledInputs:
    """A random sample of queries, keys and values, and exact attention on them at every norm."""

    q: Tensor  # (1, 1, N, D), of length 1
    k: Tensor
    v: Tensor  # (1, 1, N, D)
    lengths: tuple[Tensor, Tensor]
    """The norms of q and k before they were divided by them, (1, 1, N, 1) each."""
    mask: Mask
    mechanism_seed: int
    """Never the seed of the inputs: mechanisms would sample the same numbers again."""
    exact: dict[float | None, tuple[Tensor, Tensor]]
    """For each norm, and for N(0, I) (None): weights (1, 1, N, N), output (1, 1, N, D)."""

    @staticmethod
    def sample(settings: ErrorSettings, head_dim: int, seed: int) -> SampledInputs:
        random = torch.Generator().manual_seed(seed * 1_000_003 + head_dim)
        shape = (1, 1, settings.tokens, head_dim)
        q, k, v = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in "qkv")
        lengths = q.norm(dim=-1, keepdim=True), k.norm(dim=-1, keepdim=True)
        mechanism_seed = int(torch.randint(2**40, (), generator=random))
        inputs = SampledInputs(
            q / lengths[0], k / lengths[1], v, lengths, Mask(causal=settings.causal),
            mechanism_seed, {},
        )  # fmt: skip
        softmax = create_attention("softmax", head_dim=head_dim, heads=1)
        in_grid = settings.has_grid and head_dim in settings.head_dims
        for norm in (*settings.norms, *([None] if in_grid else [])):
            weights = softmax.weights(*inputs.at_norm(norm), inputs.mask)
            inputs.exact[norm] = weights, weights @ v
        return inputs

    def at_norm(self, norm: float | None) -> tuple[Tensor, Tensor]:
        """Queries and keys of this norm, or from N(0, I)."""
        if norm is None:
            return self.lengths[0] * self.q, self.lengths[1] * self.k
        return norm * self.q, norm * self.k

    def control_errors(self, seed: int) -> Iterator[ErrorMeasurement]:
        N = self.q.shape[2]
        weights = uniform_weights(self.mask, N, N)
        return self._measure(Case(UNIFORM), seed, lambda _: (weights, weights @ self.v), self.exact)

    @torch.no_grad()
    def errors(
        self, case: Case, seed: int, norms: Iterable[float | None] | None = None
    ) -> Iterator[ErrorMeasurement]:
        """The errors at these norms; at all if none are given."""
        N, D = self.q.shape[2:]
        kind = find_mechanism(mechanism_name(case.spec))
        if self.mask.causal and not kind.card.causal:
            raise ValueError(
                f"{kind.name}: has no causal form; leave out the mechanism or --causal"
            )
        if not self.mask.causal and not kind.card.bidirectional:
            raise ValueError(f"{kind.name}: exists only in causal form; give --causal")
        spec = case.full_spec
        if is_swept(spec, "seed"):
            spec += f"{',' if ':' in spec else ':'}seed={self.mechanism_seed}"
        mechanism = create_attention(spec, head_dim=D, heads=1, max_length=N).double()

        def attend(norm: float | None) -> tuple[Tensor, Tensor]:
            q, k = self.at_norm(norm)
            return mechanism.weights(q, k, self.mask), mechanism(q, k, self.v, self.mask)

        return self._measure(case, seed, attend, self.exact if norms is None else norms)

    def _measure(
        self, case: Case, seed: int, attend: Any, norms: Iterable[float | None]
    ) -> Iterator[ErrorMeasurement]:
        for norm in norms:
            weights, output = self.exact[norm]
            approximate_weights, approximate_output = attend(norm)
            errors = (
                relative_error(approximate_output, output),
                relative_error(approximate_weights, weights),
            )
            yield ErrorMeasurement(case, self.q.shape[3], norm, seed, *errors)
