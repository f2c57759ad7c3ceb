"""Inputs for the laws: a mechanism of small sizes that all differ, and tensors that fit it.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from attnlab.gates import Gates, sample_gates
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism

HEAD_DIM, HEADS, VALUE_DIM, MAX_LENGTH = 4, 6, 7, 80
PADDINGS = ("none", "right", "left", "random", "all")


def build_mechanism(
    kind: type[Mechanism], options: Mapping[str, Any], seed: int = 0, length: int = MAX_LENGTH
) -> Mechanism:
    """The mechanism in float64. The extra option "torch" turns off the C kernels."""
    options = dict(options)
    in_torch = options.pop("torch", False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        limit = length if kind.card.needs_length else None
        mechanism = kind(head_dim=HEAD_DIM, heads=HEADS, max_length=limit, **options).double()
        randomize_parameters(mechanism)
    mechanism.use_compiled = not in_torch
    return mechanism


def randomize_parameters(mechanism: Mechanism) -> None:
    """Parameters ~ N(0, 1): tables near zero, as they are initialized, would hide mistakes."""
    for parameter in mechanism.parameters():
        torch.nn.init.normal_(parameter)


def option_sets(kind: type[Mechanism]) -> list[dict[str, Any]]:
    """All options of `trials`; each also with "torch" if C kernels can compute the mechanism."""
    sets: list[dict[str, Any]] = []
    for options in kind.trials:
        sets.append(dict(options))
        if kind.compilable:
            sets.append({**options, "torch": True})
    return sets


@dataclass(frozen=True)
class LawInputs:
    """q, k, v and gates with gradients, and which keys are real."""

    q: Tensor
    k: Tensor
    v: Tensor
    keys: Tensor | None
    gates: Gates = field(default_factory=dict)

    def leaves(self) -> tuple[Tensor, ...]:
        return self.q, self.k, self.v, *self.gates.values()

    def written(self, tokens: slice) -> tuple[Tensor, Tensor, Gates]:
        """k, v and gates of these tokens."""
        gates = {name: gate[:, :, tokens] for name, gate in self.gates.items()}
        return self.k[:, :, tokens], self.v[:, :, tokens], gates

    def part(self, rows: Any, queries: Any, tokens: Any) -> LawInputs:
        """Some rows, queries and keys, without the mask."""
        gates = {name: gate[rows][:, :, tokens] for name, gate in self.gates.items()}
        k, v = self.k[rows][:, :, tokens], self.v[rows][:, :, tokens]
        return LawInputs(self.q[rows][:, :, queries], k, v, None, gates)

    def output(self, mechanism: Mechanism, mask: Mask) -> Tensor:
        return mechanism(self.q, self.k, self.v, mask, **self.gates)

    def weights(self, mechanism: Any, mask: Mask) -> Tensor:
        return mechanism.weights(self.q, self.k, mask, **self.gates)

    def to(self, dtype: torch.dtype) -> LawInputs:
        """A copy in another precision, without gradients."""
        q, k, v, *gates = (x.detach().to(dtype, copy=True) for x in self.leaves())
        return LawInputs(q, k, v, self.keys, dict(zip(self.gates, gates, strict=True)))

    def fresh(self, **changes: Any) -> LawInputs:
        """A copy with separate gradients, with some tensors replaced."""
        new = replace(self, **changes)
        q, k, v, *gates = (x.detach().clone().requires_grad_() for x in new.leaves())
        return LawInputs(q, k, v, new.keys, dict(zip(new.gates, gates, strict=True)))


def make_inputs(
    mechanism: Mechanism, *, B: int, G: int, T: int, S: int, padding: str = "none", seed: int = 0,
    full_width: bool = False,
) -> LawInputs:  # fmt: skip
    """Inputs with gradients. What the mechanism does not use has width 0, unless `full_width`."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    card, D = mechanism.card, mechanism.head_dim
    q = normal(B, mechanism.heads, T, D if card.uses_query or full_width else 0)
    k = normal(B, G, S, D if card.uses_key or full_width else 0)
    v = normal(B, G, S, VALUE_DIM)
    keys = make_keys(padding, B, S, generator)
    gates = sample_gates(mechanism.gates, k.detach(), generator)
    return LawInputs(q, k, v, keys, {name: x.requires_grad_() for name, x in gates.items()})


def possible_masks(mechanism: Mechanism, keys: Tensor | None = None) -> list[Mask]:
    """Without and with a causal mask, as far as the mechanism has these forms."""
    card = mechanism.card
    forms = [False] * card.bidirectional + [True] * card.causal
    return [Mask(causal, keys) for causal in forms]


def make_keys(padding: str, B: int, S: int, generator: torch.Generator) -> Tensor | None:
    if padding == "none":
        return None
    count = torch.randint(0, S + 1, (B, 1), generator=generator)
    positions = torch.arange(S).expand(B, S)
    if padding == "right":
        return positions < count
    if padding == "left":
        return positions >= count
    if padding == "all":  # one row is all padding
        return (positions >= 0) & (torch.arange(B)[:, None] > 0)
    return torch.rand(B, S, generator=generator) < 0.6


def sample_sizes(random: Random, same_length: bool = True) -> dict[str, Any]:
    """Random sizes for `make_inputs`: lengths up to several chunks, blocks and windows of `trials`.
    (The C kernels have fixed, longer chunks, which attnlab's own tests cover.)"""
    S = random.randint(1, 20)
    return {
        "B": random.randint(1, 3),
        "G": random.choice([1, 2, 3, 6]),
        "S": S,
        "T": S if same_length else random.randint(1, 9),
        "padding": random.choice(PADDINGS),
        "seed": random.randint(0, 10_000),
    }


def first_keys(mask: Mask, cut: int) -> Tensor | None:
    return None if mask.keys is None else mask.keys[:, :cut]
