"""What the laws are tried on: a mechanism of small, unequal sizes, and inputs that fit it.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.mechanism import Mechanism

HEAD_DIM, HEADS, VALUE_DIM, MAX_LENGTH = 5, 6, 7, 80
PADDINGS = ("none", "right", "left", "random", "all")


def build(
    kind: type[Mechanism], options: Mapping[str, Any], seed: int = 0, length: int = MAX_LENGTH
) -> Mechanism:
    """In float64. The option "torch" is the laws' own: without the C kernels."""
    options = dict(options)
    in_torch = options.pop("torch", False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        limit = length if kind.card.needs_length else None
        made = kind(head_dim=HEAD_DIM, heads=HEADS, max_length=limit, **options).double()
        scatter(made)
    made.use_compiled = not in_torch
    return made


def scatter(mechanism: Mechanism) -> None:
    """Parameters ~ N(0, 1): tables of about zero, as they begin, would hide mistakes."""
    for parameter in mechanism.parameters():
        torch.nn.init.normal_(parameter)


def paths(kind: type[Mechanism]) -> list[dict[str, Any]]:
    """All options that a mechanism wants tried; twice where it has a path through C."""
    found: list[dict[str, Any]] = []
    for options in kind.trials:
        found.append(dict(options))
        if kind.compilable:
            found.append({**options, "torch": True})
    return found


@dataclass(frozen=True)
class Inputs:
    """q, k and v with gradients, and which keys are real."""

    q: Tensor
    k: Tensor
    v: Tensor
    keys: Tensor | None

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v

    def fresh(self, **changes: Tensor) -> Inputs:
        """A copy with gradients of its own, some parts replaced."""
        new = replace(self, **changes)
        q, k, v = (x.detach().clone().requires_grad_() for x in new.leaves())
        return Inputs(q, k, v, new.keys)


def make_inputs(
    mechanism: Mechanism, *, B: int, G: int, T: int, S: int, padding: str = "none", seed: int = 0
) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    card = mechanism.card
    return Inputs(
        normal(B, HEADS, T, HEAD_DIM if card.uses_query else 0),
        normal(B, G, S, HEAD_DIM if card.uses_key else 0),
        normal(B, G, S, VALUE_DIM),
        make_keys(padding, B, S, generator),
    )


def make_keys(padding: str, B: int, S: int, generator: torch.Generator) -> Tensor | None:
    if padding == "none":
        return None
    count = torch.randint(0, S + 1, (B, 1), generator=generator)
    places = torch.arange(S).expand(B, S)
    if padding == "right":
        return places < count
    if padding == "left":
        return places >= count
    if padding == "all":  # one row has nothing but padding
        return (places >= 0) & (torch.arange(B)[:, None] > 0)
    return torch.rand(B, S, generator=generator) < 0.6


def draw_sizes(draw: Random, same_length: bool = True) -> dict[str, Any]:
    """Sizes for `make_inputs`: lengths from 1 to beyond the borders of chunks, blocks and windows
    that a mechanism wants tried. (Those of attnlab's C kernels are fixed: its tests go beyond.)"""
    S = draw.randint(1, 20)
    return {
        "B": draw.randint(1, 3),
        "G": draw.choice([1, 2, 3, 6]),
        "S": S,
        "T": S if same_length else draw.randint(1, 9),
        "padding": draw.choice(PADDINGS),
        "seed": draw.randint(0, 10_000),
    }


def first_keys(mask: Mask, cut: int) -> Tensor | None:
    return None if mask.keys is None else mask.keys[:, :cut]
