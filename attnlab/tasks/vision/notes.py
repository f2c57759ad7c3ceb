"""What one should know about a model before it is trained."""

from __future__ import annotations

from attnlab.create import is_softmax, mechanism_options, parse_groups
from attnlab.layers import every_layer
from attnlab.models import Model, ViT

# which option says how far each sees, and what share of all tokens is worth a try
SIZES = {"window": ("window", 4), "bigbird": ("block", 8)}


def softmax_notes(model: Model) -> list[str]:
    """Images are few tokens: what is made to leave out far ones may leave out none of them, and
    then a comparison with softmax compares nothing."""
    if not isinstance(model, ViT):
        return []
    layers = every_layer(model.config.attention, model.config.layers)
    groups = dict.fromkeys(group.strip() for spec in layers for group in spec.split("+"))
    return [_note(each, model.length) for each in groups if is_softmax(each, model.length, False)]


def _note(group: str, tokens: int) -> str:
    ((_, name, options),) = parse_groups(group)
    option, share = SIZES[name]
    usual = {each.name: each.default for each in mechanism_options(name)}
    value = {**usual, **options}[option]
    smaller = f"{name}:{option}={max(1, tokens // share)}"
    hint = "" if is_softmax(smaller, tokens, False) else f"; try {smaller}"
    return f"{name}: its {option} of {value} covers all {tokens} tokens: this is softmax{hint}"
