"""The mechanism of each attention layer of a Hugging Face model, made when it first runs.

It is no part of the model: nothing of it is saved, and what is drawn comes from a seed, so that it
is the same the next time. It lives as long as its layer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakKeyDictionary, finalize

import torch
from torch import nn

from attnlab._create_mechanism import (
    create_mechanism,
    find_mechanism,
    mechanism_options,
    parse_attention,
    parse_groups,
)
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._head_groups import HeadGroups

Spec = str | tuple[str, ...]
"""A line of text for all heads, as `create_attention` takes it, or one for each."""

_made: WeakKeyDictionary[nn.Module, dict[tuple[Any, ...], Mechanism]] = WeakKeyDictionary()
_numbers: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
_asked: dict[int, int] = {}
"""Layers without a number, by the id of their configuration, which cannot be a key itself."""


def without_parameters() -> list[str]:
    """Mechanisms that need no training: they can take softmax's place as they are."""
    return [name for name, kind in MECHANISMS.items() if not kind.card.learned]


def check_spec(spec: str) -> None:
    """Whether this can be an attention of any model: said now, not when a model runs."""
    for count, name, options in parse_groups(spec):
        if find_mechanism(name).card.learned:
            raise ValueError(
                f"{name}: has learned parameters, which a Hugging Face model would neither train "
                f"nor save; without any are {', '.join(without_parameters())}"
            )
        if "dropout" in options:
            raise ValueError(f"{spec!r}: dropout is the model's own setting; leave it out here")
        create_mechanism(name, head_dim=8, heads=count or 1, **options)


def mechanism_for(
    module: nn.Module, spec: Spec, *, heads: int, head_dim: int, beta: float, device: torch.device
) -> Mechanism:
    """Made once for a layer and its sizes."""
    made = _made.setdefault(module, {})
    key = (spec, heads, head_dim, beta)
    if key not in made:
        with torch.inference_mode(False):  # a later call may want gradients
            made[key] = _build(module, spec, heads, head_dim, beta)
    # to() alone would visit all buffers at every call
    mechanism = made[key]
    if any(buffer.device != device for buffer in mechanism.buffers()):
        made[key] = mechanism = mechanism.to(device)
    return mechanism


def _build(module: nn.Module, spec: Spec, heads: int, head_dim: int, beta: float) -> Mechanism:
    members, places = [], []
    for heads_of, name, options in _parts(spec, heads):
        known = [option.name for option in mechanism_options(name)]
        given = {"beta": beta, **options} if "beta" in known else dict(options)
        if "seed" in known:  # layers draw differently, so that their errors do not add up
            given["seed"] = int(options.get("seed", 0)) + number_of(module)
        members.append(create_mechanism(name, head_dim=head_dim, heads=len(heads_of), **given))
        places.append(heads_of)
    return members[0] if len(members) == 1 else HeadGroups(members, places)


def number_of(module: nn.Module) -> int:
    """Of a layer: its own, or, where it has none, how many of its model were asked before."""
    given = getattr(module, "layer_idx", None)
    if isinstance(given, int):
        return given
    if module not in _numbers:
        config = getattr(module, "config", None)  # one for all layers of a model
        known = _asked.get(id(config), 0)
        if config is not None:
            if not known:
                finalize(config, _asked.pop, id(config), None)
            _asked[id(config)] = known + 1
        _numbers[module] = known
    return _numbers[module]


def _parts(spec: Spec, heads: int) -> list[tuple[list[int], str, dict[str, Any]]]:
    """Each mechanism with its heads."""
    if isinstance(spec, str):
        parts = parse_attention(spec, heads)
        ends = accumulate((part.heads for part in parts), initial=0)
        places: Sequence[list[int]] = [list(range(*pair)) for pair in pairwise(ends)]
        return [(at, part.name, part.options) for at, part in zip(places, parts, strict=True)]
    if len(spec) != heads:
        raise ValueError(f"attention for {len(spec)} heads, but the layer has {heads}")
    found = []
    for each in dict.fromkeys(spec):
        at = [head for head, other in enumerate(spec) if other == each]
        parts = parse_attention(each, len(at))
        if len(parts) > 1:
            raise ValueError(f"{each!r}: several mechanisms for one head; give one")
        found.append((at, parts[0].name, parts[0].options))
    return found
