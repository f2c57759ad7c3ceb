"""Answers of each ability by brute force: a function from an ability and the ids of a row to its
targets, or None for the rare row that it cannot decide. They share no code with the generators."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from attnlab.tasks.simple import IGNORE

Solver = Callable[[Any, list[int]], Sequence[int] | None]


def recall(ability: Any, ids: list[int]) -> list[int]:
    start, table, targets = 2 * ability.pairs, {}, []
    for i, token in enumerate(ids):
        if i < start and i % 2 == 0:
            table[token] = ids[i + 1]
        targets.append(table.get(token, IGNORE) if i >= start else IGNORE)
    return targets


def noisy_recall(ability: Any, ids: list[int]) -> list[int]:
    quarter, targets = ability.vocabulary // 4, []
    table: dict[int, int] = {}
    for i, token in enumerate(ids):
        targets.append(table.get(token, IGNORE) if token < quarter else IGNORE)
        if token < quarter and i + 1 < len(ids):
            assert table.setdefault(token, ids[i + 1]) == ids[i + 1]
    return targets


def fuzzy_recall(ability: Any, ids: list[int]) -> list[int]:
    symbols = (ability.vocabulary - 1) // 2
    table: dict[tuple[int, ...], list[int]] = {}
    key: tuple[int, ...] = ()
    value: list[int] = []
    targets = []
    for token in ids:
        if token < symbols:  # of a key
            if value:
                table.setdefault(key, value)
                key, value = (), []
            key = (*key, token)
        elif token < 2 * symbols:
            value = [*value, token]
        known = table.get(key, []) if len(key) == ability.key_size else []
        targets.append(known[len(value)] if len(value) < len(known) else IGNORE)
    return targets


def selective_copy(ability: Any, ids: list[int]) -> list[int]:
    blank, copy = ability.vocabulary - 2, ability.vocabulary - 1
    end = ids.index(copy)
    return [IGNORE] * (end + 1) + [token for token in ids[:end] if token != blank]


def compress(_: Any, ids: list[int]) -> list[int]:
    return [*ids[:-1], IGNORE]


def memorize(ability: Any, ids: list[int]) -> list[int]:
    """The table is what another seed's training rows show."""
    from attnlab.tasks._simple_training import make_rows

    table: dict[int, int] = {}
    rows = make_rows(ability, "train", seed=5)
    for row in (rows[i] for i in range(len(rows))):
        for key, value in zip(row.ids[0::2], row.targets[1::2], strict=True):
            assert table.setdefault(key, value) == value
    pairs = [(IGNORE, table[key]) for key in ids[0::2]]
    return [target for pair in pairs for target in pair]


def induction(ability: Any, ids: list[int]) -> list[int] | None:
    """None if the tokens beside the two copies are equal too, so that a longer one comes twice."""
    size, places = ability.tokens, []
    for i in range(len(ids)):
        for j in range(i + size, len(ids) - size + 1):
            part = ids[i : i + size]
            if part == ids[j : j + size] and len(set(part)) == size:
                places.append(j)
    if len(places) > 1:
        return None
    (second,) = places
    targets = [IGNORE] * len(ids)
    targets[second : second + size - 1] = ids[second + 1 : second + size]
    return targets


def written(answer: Callable[[list[int]], Sequence[int]]) -> Solver:
    """Abilities that write an answer after the token `:`."""

    def solve(ability: Any, ids: list[int]) -> list[int]:
        end = ids.index(ability.symbols)
        return [IGNORE] * end + list(answer(ids[:end]))

    return solve


def parity(ability: Any, ids: list[int]) -> list[int]:
    answers = [ids[: i + 1].count(1) % 2 for i in range(len(ids))]
    return [IGNORE] * (len(ids) - 1) + answers[-1:] if ability.last_only else answers


def majority(_: Any, ids: list[int]) -> list[int]:
    return [IGNORE] * (len(ids) - 1) + [statistics.mode(ids)]


def listops(ability: Any, ids: list[int]) -> list[int]:
    """With a stack: a closing bracket evaluates what came after its operator."""
    operations: dict[int, Callable[[list[int]], float]] = {
        10: min, 11: max, 12: statistics.median, 13: lambda values: sum(values) % 10
    }  # fmt: skip
    stack: list[tuple[int, list[int]]] = []
    targets = []
    for token in ids:
        targets.append(IGNORE)
        if 10 <= token < 14:
            stack.append((token, []))
        elif token < 10:
            stack[-1][1].append(token)
        else:
            operator, values = stack.pop()
            value = int(operations[operator](values))
            if stack:
                stack[-1][1].append(value)
            if not (ability.root_only and stack):
                targets[-1] = value
    return targets


def needle(ability: Any, ids: list[int]) -> list[int]:
    return [IGNORE] * (len(ids) - 1) + [ids[ids.index(ability.words) + 1]]


def extrapolate(ability: Any, ids: list[int]) -> Sequence[int] | None:
    return SOLVERS[ability.inner.name](ability.inner, ids)


SOLVERS: dict[str, Solver] = {
    "recall": recall,
    "noisy_recall": noisy_recall,
    "fuzzy_recall": fuzzy_recall,
    "selective_copy": selective_copy,
    "compress": compress,
    "memorize": memorize,
    "induction": induction,
    "copy": written(lambda items: items),
    "reverse": written(lambda items: items[::-1]),
    "sort": written(sorted),
    "parity": parity,
    "majority": majority,
    "listops": listops,
    "needle": needle,
    "extrapolate": extrapolate,
}
