"""Creates the mechanism of each attention layer of a Hugging Face model when it first runs.

The mechanism is not part of the model: it is not saved with it. Its random numbers come from a
seed, so it is the same the next time. It lives as long as its layer.
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
    format_spec,
    mechanism_options,
    parse_attention,
    parse_groups,
    what_needs_training,
)
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._mechanism_per_head_group import HeadGroups

Spec = str | tuple[str, ...]
"""One specification for all heads, as `create_attention` takes it, or one for each head."""

_mechanisms: WeakKeyDictionary[nn.Module, dict[tuple[Any, ...], Mechanism]] = WeakKeyDictionary()
_numbers: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
_layer_counts: dict[int, int] = {}
"""Number of layers without `layer_idx`, by the id of their configuration (which has no hash)."""


def parameter_free_mechanisms() -> list[str]:
    """Mechanisms that can replace softmax without training, for texts of any length."""
    return [
        name
        for name, kind in MECHANISMS.items()
        if not what_needs_training(name) and not kind.card.needs_length
    ]


def check_spec(spec: str) -> None:
    """Raise now, not when a model runs, if no model can use this specification."""
    for count, name, options in parse_groups(spec):
        part = format_spec(name, options)
        if needed := what_needs_training(part):
            reason = "would neither train nor save them"
            if find_mechanism(name).gates:
                reason = "passes only queries, keys and values"
            raise ValueError(
                f"{part}: has {needed}, but a Hugging Face model {reason}; "
                f"use one of {', '.join(parameter_free_mechanisms())}"
            )
        if "dropout" in options:
            raise ValueError(f"{spec!r}: dropout is a setting of the model; omit it here")
        create_mechanism(name, head_dim=8, heads=count or 1, **options)


def mechanism_for(
    module: nn.Module, spec: Spec, *, heads: int, head_dim: int, beta: float, device: torch.device
) -> Mechanism:
    """The mechanism of a layer, created once for its sizes."""
    created = _mechanisms.setdefault(module, {})
    key = (spec, heads, head_dim, beta)
    if key not in created:
        with torch.inference_mode(False):  # a later call may need gradients
            created[key] = _build(module, spec, heads, head_dim, beta)
    mechanism = created[key]  # calling to() every time would be slow
    if any(buffer.device != device for buffer in mechanism.buffers()):
        created[key] = mechanism = mechanism.to(device)
    return mechanism


def _build(module: nn.Module, spec: Spec, heads: int, head_dim: int, beta: float) -> Mechanism:
    members, member_heads = [], []
    for indices, name, options in _mechanism_groups(spec, heads):
        valid = [option.name for option in mechanism_options(name)]
        settings = {"beta": beta, **options} if "beta" in valid else dict(options)
        if "seed" in valid:  # a seed per layer, so that the layers' errors do not add up
            settings["seed"] = int(options.get("seed", 0)) + layer_number(module)
        members.append(create_mechanism(name, head_dim=head_dim, heads=len(indices), **settings))
        member_heads.append(indices)
    return members[0] if len(members) == 1 else HeadGroups(members, member_heads)


def layer_number(module: nn.Module) -> int:
    """The layer's `layer_idx`; without one, a count of the model's layers in order of first use."""
    layer_idx = getattr(module, "layer_idx", None)
    if isinstance(layer_idx, int) and layer_idx >= 0:  # Zamba 2's shared layer has -1
        return layer_idx
    if module not in _numbers:
        config = getattr(module, "config", None)  # one for all layers of a model
        count = _layer_counts.get(id(config), 0)
        if config is not None:
            if not count:
                finalize(config, _layer_counts.pop, id(config), None)
            _layer_counts[id(config)] = count + 1
        _numbers[module] = count
    return _numbers[module]


def _mechanism_groups(spec: Spec, heads: int) -> list[tuple[list[int], str, dict[str, Any]]]:
    """Each mechanism: its heads, its name and its options."""
    if isinstance(spec, str):
        parts = parse_attention(spec, heads)
        ends = accumulate((part.heads for part in parts), initial=0)
        groups: Sequence[list[int]] = [list(range(*pair)) for pair in pairwise(ends)]
        return [(group, part.name, part.options) for group, part in zip(groups, parts, strict=True)]
    if len(spec) != heads:
        raise ValueError(
            f"the list names {len(spec)} mechanisms, but the layer has {heads} heads; name one "
            "for each"
        )
    result = []
    for head_spec in dict.fromkeys(spec):
        group = [head for head, other in enumerate(spec) if other == head_spec]
        parts = parse_attention(head_spec, len(group))
        if len(parts) > 1:
            raise ValueError(f"{head_spec!r}: names several mechanisms for one head; name one")
        result.append((group, parts[0].name, parts[0].options))
    return result
