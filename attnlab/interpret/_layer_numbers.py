"""Numbers of layers: those of the model, where its modules' names have them."""

from __future__ import annotations

from collections.abc import Sequence


def layer_numbers(names: Sequence[str]) -> list[int]:
    """The number of each layer by its module name, or if these do not tell the layers apart, its
    place among them. A hybrid model whose layers 3 and 7 have attention keeps these numbers.

    >>> from attnlab.interpret._layer_numbers import layer_numbers
    >>> layer_numbers(["model.layers.3.self_attn", "model.layers.7.self_attn"])
    [3, 7]
    >>> layer_numbers(["encoder.0.attention", "decoder.0.attention"])
    [0, 1]
    """
    places = list(range(len(names)))
    rows = [[int(p) for p in name.split(".") if p.isascii() and p.isdigit()] for name in names]
    if not rows or len({len(row) for row in rows}) > 1:
        return places
    columns = [list(column) for column in zip(*rows, strict=True)]
    varying = [column for column in columns if len(set(column)) > 1] or columns[:1]
    if len(varying) != 1 or len(set(varying[0])) < len(names) or max(varying[0]) >= 10**6:
        return places
    return varying[0]


def list_numbers(numbers: Sequence[int]) -> str:
    """For a message.

    >>> from attnlab.interpret._layer_numbers import list_numbers
    >>> list_numbers([0, 1, 2]), list_numbers([3, 7])
    ('a number from 0 to 2', 'one of 3, 7')
    """
    if list(numbers) == list(range(len(numbers))):
        return f"a number from 0 to {len(numbers) - 1}"
    return f"one of {', '.join(map(str, numbers))}"


def numbers_among(names: Sequence[str], model_names: Sequence[str]) -> list[int]:
    """The numbers that some layers have among all layers of their model that interventions change,
    so that a result's numbers can be given to `intervene`. Layers that cannot be changed, as those
    of Mamba, are numbered among themselves.

    >>> from attnlab.interpret._layer_numbers import numbers_among
    >>> numbers_among(["decoder.0.attention"], ["encoder.0.attention", "decoder.0.attention"])
    [1]
    """
    known = dict(zip(model_names, layer_numbers(model_names), strict=True))
    if all(name in known for name in names):
        return [known[name] for name in names]
    return layer_numbers(names)
