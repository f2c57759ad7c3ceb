"""Notes, printed before training, about mechanisms that equal softmax on a model."""

from __future__ import annotations

from attnlab._create_mechanism import find_mechanism, is_softmax, mechanism_options, parse_groups
from attnlab.layers import attention_per_layer
from attnlab.models import Model, ViT


def softmax_notes(model: Model) -> list[str]:
    """Warn about mechanisms that equal softmax on this model. An image has few tokens, so a window
    may cover all of them, and then a comparison with softmax compares nothing."""
    if not isinstance(model, ViT):
        return []
    layers = attention_per_layer(model.config.attention, model.config.layers)
    groups = dict.fromkeys(group.strip() for spec in layers for group in spec.split("+"))
    return [
        _note(group, model.length) for group in groups if is_softmax(group, model.length, False)
    ]


def _note(group: str, tokens: int) -> str:
    ((_, name, options),) = parse_groups(group)
    kind = find_mechanism(name)
    smaller = (
        f"{name}:{','.join(f'{key}={value}' for key, value in kind.short_options(tokens).items())}"
    )
    hint = "" if is_softmax(smaller, tokens, False) else f"; try {smaller}"
    defaults = {option.name: option.default for option in mechanism_options(name)}
    size = (
        kind.size_option and f"its {kind.size_option} of {(defaults | options)[kind.size_option]}"
    )
    return f"{name}: {size or 'it'} covers all {tokens} tokens, so it equals softmax{hint}"
