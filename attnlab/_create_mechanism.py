"""Create mechanisms by name, and list the options of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

from attnlab._declared_types import needed_type
from attnlab._notes import warn_caller
from attnlab._register_mechanism import Option, constructor_options
from attnlab._short_repr import short_repr
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._mechanism_per_head_group import HeadGroups

ALIASES = {"performer": "favor", "vanilla": "softmax", "linear": "elu"}
"""Names that other libraries and papers use, and what attnlab calls the mechanism."""


def create_mechanism(
    name: str, *, head_dim: int, heads: int, max_length: int | None = None, **options: Any
) -> Mechanism:
    """Create the mechanism of this name, for queries with `heads` heads of width `head_dim`.

    `name` may contain options, as in models: "favor:features=64". If you give `max_length`, longer
    inputs are errors. Mechanisms with a table over positions need it.

    >>> import torch, attnlab
    >>> window = attnlab.create_mechanism("window", head_dim=8, heads=2, window=3)
    >>> q = k = v = torch.randn(1, 2, 5, 8)
    >>> window(q, k, v, attnlab.Mask(causal=True)).shape
    torch.Size([1, 2, 5, 8])
    """
    if isinstance(name, str) and set(name) & set("*+:"):
        groups = parse_attention(name, heads)
        if len(groups) > 1:
            raise ValueError(f"{name!r} has several mechanisms; give the name of one")
        name, options = groups[0].name, {**groups[0].options, **options}
    mechanism = find_mechanism(name)
    names = [option.name for option in mechanism_options(name)]
    for option in options:
        if option not in names:
            gates = [gate.name for gate in mechanism.gates]
            near = get_close_matches(option, [*names, *gates], n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near and near[0] != option else ""
            listed = ", ".join(names) or "none"
            listed += f"; its gates, given with q, k and v: {', '.join(gates)}" if gates else ""
            raise ValueError(
                f"{name}: no option {short_repr(option)}{hint} (its options: {listed})"
            )
    _check_option_types(mechanism, options)
    return mechanism(head_dim=head_dim, heads=heads, max_length=max_length, **options)


def _check_option_types(mechanism: type[Mechanism], options: Mapping[str, Any]) -> None:
    """Refuse an option that has another type than the constructor declares."""
    hints = get_type_hints(mechanism.__init__) if options else {}
    for name, value in options.items():
        needed = needed_type(value, hints[name])
        if needed:
            raise ValueError(f"{mechanism.name}: {name} is {short_repr(value)}; give {needed}")


def create_attention(
    spec: str, *, head_dim: int, heads: int, max_length: int | None = None, dropout: float = 0.0,
    **options: Any,
) -> Mechanism:  # fmt: skip
    """The attention that `spec` describes, for all heads of a layer.

    Write a name ("favor"), a name with options ("favor:features=64,orthogonal=false"), or one
    mechanism for each group of heads ("6*window:window=32+2*softmax"). `max_length` goes to the
    mechanisms that need it, `dropout` to those that have it, `options` to all; an option in `spec`
    overrides them.
    """
    members = [
        create_mechanism(
            part.name,
            head_dim=head_dim,
            heads=part.heads,
            **{**_layer_options(part.name, max_length, dropout), **options, **part.options},
        )
        for part in parse_attention(spec, heads)
    ]
    return members[0] if len(members) == 1 else HeadGroups(members)


LAYER_OPTIONS: dict[str, Any] = {
    "convolution": 0,
    "output_gate": False,
    "head_norm": False,
    "normalize": False,
    "latent": 0,
}
"""Options of `MultiHead` that a spec may contain, and their values where nothing else is set."""
SIGMOID_GATE = ("output_gate", "sigmoid")  # true means silu
LARGEST = {"convolution": (64, "tokens"), "latent": (65_536, "numbers")}


def split_layer_options(
    spec: str, given: Mapping[str, Any], decoder: bool
) -> tuple[str, dict[str, Any]]:
    """The spec without the options of the layer, and those options.

    What is written in the spec comes first, then what is `given`, then the defaults of the
    mechanism. Defaults apply in a `decoder` only: a convolution over the past has no place
    elsewhere.
    """
    written: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    groups = []
    for count, name, options in parse_groups(spec):
        kind = find_mechanism(name)
        own = dict(options)
        for option in LAYER_OPTIONS:
            if option in own:
                value = own.pop(option)
                if written.setdefault(option, value) != value:
                    raise ValueError(
                        f"attention {spec!r}: {option} is both {written[option]!r} and {value!r}; "
                        "it holds for the whole layer, so give one value"
                    )
            if decoder and kind.layer_defaults.get(option):
                defaults[option] = kind.layer_defaults[option]
        for option, value in kind.layer_defaults.items():
            if option not in LAYER_OPTIONS:
                own.setdefault(option, value)
        groups.append(("" if count is None else f"{count}*") + format_spec(name, own))
    chosen = {name: value for name, value in given.items() if value is not None}
    result = {**LAYER_OPTIONS, **defaults, **chosen, **written}
    for option, usual in LAYER_OPTIONS.items():
        value = result[option]
        most, unit = LARGEST.get(option, (1, ""))
        if (option, value) == SIGMOID_GATE:
            continue
        if type(value) is not type(usual) or not 0 <= value <= most:
            wanted = f"0 to {most} {unit}" if unit else "true or false"
            wanted += " or sigmoid" if option in SIGMOID_GATE else ""
            raise ValueError(f"attention {spec!r}: {option} is {value!r}; give {wanted}")
    if result["convolution"] and not decoder:
        raise ValueError(
            f"attention {spec!r}: a convolution sees only earlier tokens, so it works only in the "
            "self-attention of a decoder"
        )
    if result["latent"]:
        _check_latent(spec, result)
    return "+".join(groups), result


def _check_latent(spec: str, options: Mapping[str, Any]) -> None:
    groups = parse_groups(spec)
    kind = find_mechanism(groups[0][1])
    problem = ""
    if len(groups) > 1:
        problem = "all heads share the latent keys, so give one mechanism for all"
    elif not kind.by_scores:
        names = ", ".join(name for name, other in MECHANISMS.items() if other.by_scores)
        problem = f"{kind.name} cannot read latent keys; choose from {names}"
    elif options["normalize"]:
        problem = (
            "latent keys are normalized already; leave out normalize (--normalize-queries), or "
            "write normalize=false"
        )
    if problem:
        raise ValueError(f"attention {spec!r}: latent={options['latent']}: {problem}")


def create_heads(
    specs: Sequence[str], *, head_dim: int, max_length: int | None = None, dropout: float = 0.0
) -> Mechanism:
    """One spec for each head, as in `create_attention`; heads of equal specs form a group."""
    groups = {spec: [h for h, other in enumerate(specs) if other == spec] for spec in specs}
    if not groups:
        raise ValueError("attention: no heads; give one spec for each head")
    members = [
        create_attention(
            spec, head_dim=head_dim, heads=len(heads), max_length=max_length, dropout=dropout
        )
        for spec, heads in groups.items()
    ]
    return members[0] if len(members) == 1 else HeadGroups(members, list(groups.values()))


def _layer_options(name: str, max_length: int | None, dropout: float) -> dict[str, Any]:
    length = max_length if find_mechanism(name).card.needs_length else None
    if dropout and "dropout" in [option.name for option in mechanism_options(name)]:
        return {"max_length": length, "dropout": dropout}
    return {"max_length": length}


class HeadGroupSpec(NamedTuple):
    """One group of a spec: how many heads, which mechanism, which options."""

    heads: int
    name: str
    options: dict[str, Any]


def parse_attention(spec: str, heads: int) -> list[HeadGroupSpec]:
    """The groups of a spec (see `create_attention`) for a layer of this many heads."""
    parts = parse_groups(spec)
    if len(parts) == 1 and parts[0][0] is None:
        parts = [(heads, *parts[0][1:])]
    if sum(count or 0 for count, _, _ in parts) != heads or not all(c for c, _, _ in parts):
        raise ValueError(
            f"attention {short_repr(spec)}: write how many heads each group has, {heads} in all, "
            'as in "6*window+2*softmax"'
        )
    return [HeadGroupSpec(count or heads, name, options) for count, name, options in parts]


def parse_groups(spec: str) -> list[tuple[int | None, str, dict[str, Any]]]:
    """(heads or None, name, options) of each group of a spec."""
    return [_parse_group(part, spec) for part in spec.split("+")]


@lru_cache(maxsize=1024)
def is_softmax(spec: str, tokens: int, causal: bool | None = None) -> bool:
    """Whether a mechanism that skips far keys skips none in a text of this many tokens.

    `spec` has one group. Without `causal`, it must hold with and without a causal mask.
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
    where = f"attention {short_repr(spec)}"
    for item in filter(None, (item.strip() for item in listed.split(","))):
        option, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{where}: {short_repr(item)} should be option=value")
        if option.strip() in ("head_dim", "heads", "name"):
            raise ValueError(f"{where}: leave out {option.strip()!r}; it is set already")
        options[option.strip()] = _parse_value(value.strip())
    if star and not (count.strip().isdecimal() and len(count) < 10):
        raise ValueError(f"{where}: {short_repr(count)} is not a number of heads")
    return int(count) if star else None, resolve_alias(name.strip()), options


def format_spec(name: str, options: Mapping[str, Any]) -> str:
    """The text of a mechanism with options: favor:features=64."""
    listed = ",".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in options.items()
    )
    return f"{name}:{listed}" if listed else name


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except (ValueError, RecursionError):
        return text


def resolve_alias(name: str) -> str:
    """The mechanism that an alias stands for, with a note; any other name stays as it is."""
    if name in MECHANISMS or name.lower() not in ALIASES:
        return name
    note_alias(name)
    return ALIASES[name.lower()]


def resolve_aliases(spec: str) -> str:
    """A text such as "4*performer:features=64+4*softmax" with each alias replaced."""
    groups = []
    for group in spec.split("+"):
        count, star, rest = group.rpartition("*")
        name, colon, options = rest.partition(":")
        groups.append(f"{count}{star}{resolve_alias(name.strip())}{colon}{options}")
    return "+".join(groups)


def resolve_all(attention: str | Sequence[str]) -> Any:
    """`resolve_aliases` of one text for all layers, or of one for each."""
    if isinstance(attention, str):
        return resolve_aliases(attention)
    return type(attention)(resolve_aliases(spec) for spec in attention)  # type: ignore[call-arg]


@lru_cache
def note_alias(alias: str) -> None:
    """A note, once for each alias."""
    name = ALIASES[alias.lower()]
    warn_caller(f"{alias!r} is called {name!r} in attnlab; using {name!r}")


def find_mechanism(name: str) -> type[Mechanism]:
    """The class registered under this name or alias."""
    if not isinstance(name, str):
        raise TypeError(f"a mechanism's name is text, such as 'softmax', not {name!r}")
    name = resolve_alias(name)
    if name not in MECHANISMS:
        near = get_close_matches(name.lower(), [*MECHANISMS, *ALIASES], n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"no mechanism {short_repr(name)}{hint} (there are: {', '.join(MECHANISMS)}; "
            "load your own with attnlab --extension FILE.py)"
        )
    return MECHANISMS[name]


def what_needs_training(spec: str) -> str:
    """What a mechanism needs besides q, k and v, if a trained layer must make it; else empty.

    `spec` has one group. Some options bring parameters, as in "softmax:sink=learned".
    """
    ((_, name, options),) = parse_groups(spec)
    kind = find_mechanism(name)
    if kind.gates:
        return f"gates ({', '.join(gate.name for gate in kind.gates)})"
    learned = kind.card.learned
    if options and not learned:
        sizes = {"head_dim": 8, "heads": 1, "max_length": 8}
        learned = create_mechanism(name, **{**sizes, **options}).card.learned
    return "learned parameters" if learned else ""


def mechanism_options(name: str) -> list[Option]:
    """The options that `create_mechanism` accepts for this name."""
    return constructor_options(find_mechanism(name))
