"""Create mechanisms by name, and list the options of each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from attnlab._register_mechanism import Option, options_of
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._head_groups import HeadGroups

ALIASES = {"performer": "favor", "vanilla": "softmax", "linear": "elu"}
"""Names that other libraries and papers use, and what attnlab calls the mechanism."""


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


def create_attention(
    spec: str, *, head_dim: int, heads: int, max_length: int | None = None, dropout: float = 0.0
) -> Mechanism:
    """The attention that a line of text describes, for all heads of a layer.

    "favor", with options "favor:features=64,orthogonal=false", or a mechanism for each group of
    heads "6*window:window=32+2*softmax". `max_length` goes to those that need it, `dropout` to
    those that have it; an option in the text wins over both.
    """
    members = [
        create_mechanism(
            part.name,
            head_dim=head_dim,
            heads=part.heads,
            **{**_given(part.name, max_length, dropout), **part.options},
        )
        for part in parse_attention(spec, heads)
    ]
    return members[0] if len(members) == 1 else HeadGroups(members)


def create_heads(
    specs: Sequence[str], *, head_dim: int, max_length: int | None = None, dropout: float = 0.0
) -> Mechanism:
    """One line of text for each head, as `create_attention` takes it; equal ones share a group."""
    places = {spec: [h for h, each in enumerate(specs) if each == spec] for spec in specs}
    if not places:
        raise ValueError("attention: no heads; give a line of text for each")
    members = [
        create_attention(
            spec, head_dim=head_dim, heads=len(heads), max_length=max_length, dropout=dropout
        )
        for spec, heads in places.items()
    ]
    return members[0] if len(members) == 1 else HeadGroups(members, list(places.values()))


def _given(name: str, max_length: int | None, dropout: float) -> dict[str, Any]:
    length = max_length if find_mechanism(name).card.needs_length else None
    if dropout and "dropout" in [option.name for option in mechanism_options(name)]:
        return {"max_length": length, "dropout": dropout}
    return {"max_length": length}


class Part(NamedTuple):
    """A mechanism for some heads, as a line of text describes it."""

    heads: int
    name: str
    options: dict[str, Any]


def parse_attention(spec: str, heads: int) -> list[Part]:
    """The groups of a line of text (see `create_attention`) for a layer of so many heads."""
    parts = parse_groups(spec)
    if len(parts) == 1 and parts[0][0] is None:
        parts = [(heads, *parts[0][1:])]
    if sum(count or 0 for count, _, _ in parts) != heads or not all(c for c, _, _ in parts):
        raise ValueError(
            f"attention {spec!r}: its groups must say how many heads each takes, {heads} in all, "
            'as in "6*window+2*softmax"'
        )
    return [Part(count or heads, name, options) for count, name, options in parts]


def parse_groups(spec: str) -> list[tuple[int | None, str, dict[str, Any]]]:
    """(heads or None, name, options) of each group of a line of text."""
    return [_parse_group(part, spec) for part in spec.split("+")]


@lru_cache(maxsize=1024)
def is_softmax(spec: str, tokens: int, causal: bool | None = None) -> bool:
    """Whether a mechanism that leaves out far keys leaves out none on so short a text.

    `spec` has one group; without `causal` it must be so with and without a causal mask.
    """
    ((_, name, options),) = parse_groups(spec)
    kind = MECHANISMS.get(name)
    if kind is None or kind.covers_all is Mechanism.covers_all:
        return False
    mechanism = create_mechanism(name, head_dim=8, heads=1, **options)
    return all(
        mechanism.covers_all(tokens, c) for c in ((False, True) if causal is None else (causal,))
    )


def _parse_group(part: str, spec: str) -> tuple[int | None, str, dict[str, Any]]:
    count, star, rest = part.strip().rpartition("*")
    name, _, listed = rest.partition(":")
    options: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in listed.split(","))):
        option, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"attention {spec!r}: {item!r} should be option=value")
        options[option.strip()] = _parse_value(value.strip())
    if star and not count.strip().isdecimal():
        raise ValueError(f"attention {spec!r}: {count!r} is not a number of heads")
    return int(count) if star else None, resolve_alias(name.strip()), options


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except json.JSONDecodeError:
        return text


def resolve_alias(name: str) -> str:
    """The mechanism that an alias stands for, with a note; any other name stays as it is."""
    if name in MECHANISMS or name not in ALIASES:
        return name
    warnings.warn(
        f"{name!r} is called {ALIASES[name]!r} in attnlab; using {ALIASES[name]!r}", stacklevel=3
    )
    return ALIASES[name]


def find_mechanism(name: str) -> type[Mechanism]:
    """The class registered under this name or alias."""
    name = resolve_alias(name)
    if name not in MECHANISMS:
        near = get_close_matches(str(name).lower(), MECHANISMS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"no mechanism {name!r}{hint} (there are: {', '.join(MECHANISMS)}; "
            "one of your own: attnlab --extension FILE.py)"
        )
    return MECHANISMS[name]


def mechanism_options(name: str) -> list[Option]:
    """The options that `create_mechanism` takes for this name, documented where declared."""
    return options_of(find_mechanism(name))
