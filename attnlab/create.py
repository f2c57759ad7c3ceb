"""Mechanisms by name: to create one, to ask for its options, or to attend in one call."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_args, get_type_hints

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

COMMON = ("head_dim", "heads", "max_length")


@dataclass(frozen=True)
class Option:
    """One setting of a mechanism, read off its constructor."""

    name: str
    default: Any
    type: str
    help: str


def create_mechanism(
    name: str, *, head_dim: int, heads: int, max_length: int | None = None, **options: Any
) -> Mechanism:
    """The mechanism of this name for queries of `heads` heads and width `head_dim`.

    `max_length`, where given, is enforced; mechanisms with a table over positions need it.
    """
    mechanism = find_mechanism(name)
    known = [option.name for option in mechanism_options(name)]
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            offers = ", ".join(known) or "none"
            raise ValueError(f"{name}: no option {option!r}{hint} (its options: {offers})")
    return mechanism(head_dim=head_dim, heads=heads, max_length=max_length, **options)


def find_mechanism(name: str) -> type[Mechanism]:
    if name not in MECHANISMS:
        near = get_close_matches(str(name).lower(), MECHANISMS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"no mechanism {name!r}{hint} (there are: {', '.join(MECHANISMS)})")
    return MECHANISMS[name]


def mechanism_options(name: str) -> list[Option]:
    """The options that `create_mechanism` takes for this name, documented where declared."""
    constructor = find_mechanism(name).__init__
    hints = get_type_hints(constructor, include_extras=True)
    options = []
    for parameter in inspect.signature(constructor).parameters.values():
        if parameter.name in ("self", *COMMON):
            continue
        kind, help_text = get_args(hints[parameter.name])  # Annotated[type, "help"]
        shown = kind.__name__ if isinstance(kind, type) else str(kind)
        options.append(Option(parameter.name, parameter.default, shown, help_text))
    return options


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mechanism: str = "softmax",
    causal: bool = False,
    key_mask: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Attend once: q (B, H, T, D), k (B, H, S, D), v (B, H, S, M) -> (B, H, T, M).

    `key_mask` (B, S) is True for real tokens. k and v may have fewer, grouped heads.
    """
    if find_mechanism(mechanism).card.learned:
        raise ValueError(
            f"{mechanism}: has learned parameters, which one call cannot train; "
            f"use attnlab.create_mechanism({mechanism!r}, head_dim=..., heads=..., max_length=...)"
        )
    if q.dim() != 4:
        raise ValueError(
            f"attention: q {tuple(q.shape)} has {q.dim()} axes; "
            "give four: batch, heads, length, width"
        )
    made = _made(mechanism, q.shape[3], q.shape[1], q.device, tuple(sorted(options.items())))
    return made(q, k, v, Mask(causal=causal, keys=key_mask))


@lru_cache(maxsize=64)
def _made(
    name: str, head_dim: int, heads: int, device: torch.device, options: tuple[tuple[str, Any], ...]
) -> Mechanism:
    """Kept between calls, since random directions take longer to draw than to use."""
    return create_mechanism(name, head_dim=head_dim, heads=heads, **dict(options)).to(device)
