"""The contenders of the speed, memory and decode benches: attnlab's mechanisms, exact attention by
its whole matrix, and other libraries if they are installed.

Letters: N tokens, D head size, C features, R rank, W keys that a query sees.
"""

from __future__ import annotations

import importlib.util
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._create_mechanism import create_attention, find_mechanism, mechanism_options
from attnlab.bench._error_bench import mechanism_name
from attnlab.gates import sample_gates
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

Attend = Callable[[Tensor, Tensor, Tensor, bool], Tensor]
"""q, k, v (1, H, N, D), causal -> (1, H, N, D)"""


@dataclass(frozen=True)
class Sizes:
    heads: int
    head_dim: int

    def inputs(self, tokens: int, seed: int = 0) -> list[Tensor]:
        """q, k, v ~ N(0, 1), and a gradient of the output: (1, H, N, D) each."""
        random = torch.Generator().manual_seed(seed)
        shape = (1, self.heads, tokens, self.head_dim)
        return [torch.randn(shape, generator=random) for _ in "qkvg"]


class Contender(ABC):
    """An implementation of attention to measure."""

    name: str
    causal: Sequence[bool]
    """Its forms: causal, not causal, or both."""

    @abstractmethod
    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        """The module with its parameters, and the function to call."""

    @abstractmethod
    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        """How many numbers a head keeps beyond q, k, v and the output, up to a factor that does not
        depend on the length."""

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        """Operations of the two matrix products, all heads; None if unknown."""
        del sizes, tokens, causal
        return None


@dataclass(frozen=True)
class AttnlabMechanism(Contender):
    """A mechanism of attnlab, as "favor:features=64" describes it."""

    spec: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.spec

    @property
    def kind(self) -> type[Mechanism]:
        return find_mechanism(mechanism_name(self.spec))

    @property
    def causal(self) -> Sequence[bool]:  # type: ignore[override]
        return [True] * self.kind.card.causal + [False] * self.kind.card.bidirectional

    def mechanism(self, sizes: Sizes, tokens: int) -> Mechanism:
        return create_attention(
            self.spec, head_dim=sizes.head_dim, heads=sizes.heads, max_length=tokens
        )

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        mechanism = self.mechanism(sizes, tokens)
        keys = torch.empty(1, sizes.heads, tokens, sizes.head_dim)
        gates = sample_gates(mechanism.gates, keys, torch.Generator().manual_seed(0))

        def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
            for gate in gates.values():
                gate.requires_grad_(k.requires_grad)
            return mechanism(q, k, v, Mask(causal=causal), **gates)

        return mechanism, attend

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        del backward
        return evaluate_formula(self.kind.card.memory, self.letters(sizes, tokens, causal))

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float:
        """Four for each product in the card's formula: a multiplication and an addition, once for
        the weights or the state and once for the output. Feature maps and softmax do not count."""
        formula = self.kind.card.time
        half = 0.5 if causal and "N^2" in formula else 1.0
        products = evaluate_formula(formula, self.letters(sizes, tokens, causal))
        return 4 * half * sizes.heads * products

    def letters(self, sizes: Sizes, tokens: float, causal: bool) -> dict[str, float]:
        """Values of the letters in a card's formula, for this mechanism with its options."""
        options = read_options(self.spec)
        letters = {"N": float(tokens), "D": float(sizes.head_dim)}
        letters |= {"R": float(options.get("rank", sizes.head_dim))}
        formulas = self.kind.card.time + self.kind.card.memory
        if "W" in formulas or "C" in formulas:
            mechanism = self.mechanism(Sizes(1, sizes.head_dim), 1)
            visible = mechanism.visible_keys(round(tokens), causal) or tokens
            count = mechanism.feature_count() or sizes.head_dim
            letters |= {"W": float(visible), "C": float(count)}
        return letters


@dataclass(frozen=True)
class SoftmaxMatrix(Contender):
    """Exact attention by its definition: the whole matrix of weights, times v."""

    name = "softmax by its matrix"
    causal = (True, False)

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del tokens
        softmax = create_attention("softmax", head_dim=sizes.head_dim, heads=sizes.heads)

        def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
            return softmax.weights(q, k, Mask(causal=causal)) @ v

        return softmax, attend

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        del sizes, causal, backward
        return float(tokens**2)

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        return AttnlabMechanism("softmax").flops(sizes, tokens, causal)


@dataclass(frozen=True)
class PerformerPytorch(Contender):
    """FAVOR+ of the library performer-pytorch, if it is installed."""

    features: int = 256
    causal = (True, False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"performer-pytorch:features={self.features}"

    @staticmethod
    def installed() -> bool:
        return importlib.util.find_spec("performer_pytorch") is not None

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del tokens
        library: Any = importlib.import_module("performer_pytorch")
        with redirect_stdout(StringIO()):  # it prints a line each time if there is no CUDA
            modules = nn.ModuleList(
                library.FastAttention(sizes.head_dim, nb_features=self.features, causal=causal)
                for causal in (False, True)
            )
        return modules, lambda q, k, v, causal: modules[causal](q, k, v)

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        # without CUDA its causal form creates a state for each token; gradients keep all of them
        states = sizes.head_dim if causal and backward else 1
        return float(tokens * self.features * states)

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        return AttnlabMechanism(f"favor:features={self.features}").flops(sizes, tokens, causal)


def evaluate_formula(formula: str, letters: dict[str, float]) -> float:
    """The value of a card's formula, such as "N^2 (D+R)"."""
    product = 1.0
    for factor in formula.split():
        base, _, power = factor.partition("^")
        terms = [letters[letter] for letter in re.findall(r"[A-Z]", base)]
        assert terms, f"a card's formula has only letters, powers and sums, not {formula!r}"
        product *= math.pow(sum(terms), int(power or 1))
    return product


def read_options(spec: str) -> dict[str, Any]:
    """The mechanism's default options, with the whole numbers that the text sets."""
    options = {option.name: option.default for option in mechanism_options(mechanism_name(spec))}
    for item in filter(None, spec.partition(":")[2].split(",")):
        name, _, value = item.partition("=")
        if name.strip() in options and value.strip().isdecimal():
            options[name.strip()] = int(value)
    return options


def create_contenders(specs: Sequence[str]) -> list[Contender]:
    """Exact attention first, then other libraries if they are installed, then the named mechanisms.
    If none is named: all of the registry, and exact attention by its matrix."""
    contenders: list[Contender] = [
        AttnlabMechanism("softmax"),
        *([] if specs else [SoftmaxMatrix()]),
    ]
    contenders += [PerformerPytorch()] if PerformerPytorch.installed() else []
    for spec in specs or MECHANISMS:
        AttnlabMechanism(spec).mechanism(Sizes(1, 16), 16)  # report a mistake before anything runs
        if spec != "softmax":
            contenders.append(AttnlabMechanism(spec))
    return contenders


def causal_mechanisms(contenders: Iterable[Contender]) -> list[AttnlabMechanism]:
    """The contenders that can decode token by token."""
    return [
        contender
        for contender in contenders
        if isinstance(contender, AttnlabMechanism) and True in contender.causal
    ]
