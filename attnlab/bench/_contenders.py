"""Who takes part in a bench of costs: attnlab's mechanisms, exact attention by its whole matrix,
and other people's libraries where they are installed.

Letters: N tokens, D head size, C features, R rank, W keys in sight.
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
from attnlab.bench._error_bench import name_of
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
    """Something that attends."""

    name: str
    causal: Sequence[bool]
    """Which of its forms there are."""

    @abstractmethod
    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        """What holds its parameters, and the call."""

    @abstractmethod
    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        """How many numbers a head keeps beyond q, k, v and the output, but for a factor that is
        the same at every length."""

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        """Of the two products that it cannot do without, all heads; None where nobody knows."""
        del sizes, tokens, causal
        return None


@dataclass(frozen=True)
class Ours(Contender):
    """A mechanism of attnlab, as "favor:features=64" describes it."""

    spec: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.spec

    @property
    def kind(self) -> type[Mechanism]:
        return find_mechanism(name_of(self.spec))

    @property
    def causal(self) -> Sequence[bool]:  # type: ignore[override]
        return (True, False) if self.kind.card.causal else (False,)

    def mechanism(self, sizes: Sizes, tokens: int) -> Mechanism:
        return create_attention(
            self.spec, head_dim=sizes.head_dim, heads=sizes.heads, max_length=tokens
        )

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        made = self.mechanism(sizes, tokens)
        return made, lambda q, k, v, causal: made(q, k, v, Mask(causal=causal))

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        del backward
        return counted(self.kind.card.memory, self.letters(sizes, tokens, causal))

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float:
        """Four for each product that the card names: multiplied and added, for the weights or the
        state, and for the output. Feature maps and softmax are not counted."""
        text = self.kind.card.time
        half = 0.5 if causal and "N^2" in text else 1.0
        return 4 * half * sizes.heads * counted(text, self.letters(sizes, tokens, causal))

    def letters(self, sizes: Sizes, tokens: float, causal: bool) -> dict[str, float]:
        """What a card's formula counts, in this mechanism with these options."""
        options = options_of(self.spec)
        letters = {"N": float(tokens), "D": float(sizes.head_dim)}
        letters |= {"C": float(options.get("features", sizes.head_dim))}
        letters |= {"R": float(options.get("rank", sizes.head_dim))}
        if "W" in self.kind.card.time + self.kind.card.memory:
            mechanism = self.mechanism(Sizes(1, sizes.head_dim), 1)
            letters["W"] = float(mechanism.visible_keys(round(tokens), causal) or tokens)
        return letters


@dataclass(frozen=True)
class Matrix(Contender):
    """Exact attention as it is written down: the whole matrix of weights, then times v."""

    name = "softmax by its matrix"
    causal = (True, False)

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del tokens
        made = create_attention("softmax", head_dim=sizes.head_dim, heads=sizes.heads)

        def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
            return made.weights(q, k, Mask(causal=causal)) @ v

        return made, attend

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        del sizes, causal, backward
        return float(tokens**2)

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        return Ours("softmax").flops(sizes, tokens, causal)


@dataclass(frozen=True)
class Performer(Contender):
    """performer-pytorch's FAVOR+, where it is installed."""

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
        with redirect_stdout(StringIO()):  # where there is no CUDA it prints so, each time
            made = nn.ModuleList(
                library.FastAttention(sizes.head_dim, nb_features=self.features, causal=causal)
                for causal in (False, True)
            )
        return made, lambda q, k, v, causal: made[causal](q, k, v)

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        # its causal form without CUDA makes a state for each token, and gradients keep them all
        states = sizes.head_dim if causal and backward else 1
        return float(tokens * self.features * states)

    def flops(self, sizes: Sizes, tokens: float, causal: bool) -> float | None:
        return Ours(f"favor:features={self.features}").flops(sizes, tokens, causal)


def counted(text: str, letters: dict[str, float]) -> float:
    """The product that a card names: "N^2 (D+R)"."""
    found = 1.0
    for factor in text.split():
        base, _, power = factor.partition("^")
        terms = [letters[each] for each in re.findall(r"[A-Z]", base)]
        assert terms, f"a card should hold letters, powers and sums alone, not {text!r}"
        found *= math.pow(sum(terms), int(power or 1))
    return found


def options_of(spec: str) -> dict[str, Any]:
    """The mechanism's options as this text leaves them; whole numbers where they are given."""
    options = {each.name: each.default for each in mechanism_options(name_of(spec))}
    for item in filter(None, spec.partition(":")[2].split(",")):
        name, _, value = item.partition("=")
        if name.strip() in options and value.strip().isdecimal():
            options[name.strip()] = int(value)
    return options


def contenders(specs: Sequence[str]) -> list[Contender]:
    """Exact attention first, then other people's libraries where they are installed, then the
    mechanisms that are named, else all of the registry and exact attention by its matrix."""
    found: list[Contender] = [Ours("softmax"), *([] if specs else [Matrix()])]
    found += [Performer()] if Performer.installed() else []
    for spec in specs or MECHANISMS:
        Ours(spec).mechanism(Sizes(1, 16), 16)  # a mistake in it is told before anything runs
        if spec != "softmax":
            found.append(Ours(spec))
    return found


def only_causal(all_of: Iterable[Contender]) -> list[Ours]:
    """Those that can decode token by token."""
    return [each for each in all_of if isinstance(each, Ours) and True in each.causal]
