"""Arrays of rows that several abilities need.

Letters: R rows, T tokens of a row.
"""

from __future__ import annotations

import numpy as np

from attnlab.tasks.simple import IGNORE

CHUNK = 2**22  # random numbers that are sorted at a time, which bounds the memory


def draw_distinct(rng: np.random.Generator, rows: int, count: int, size: int) -> np.ndarray:
    """(R, count): in each row different numbers below `size`, in random order."""
    if size > 16 * count:
        drawn = rng.integers(0, size, (rows, count))
        while (again := is_repeated(drawn)).any():
            drawn[again] = rng.integers(0, size, int(again.sum()))
        return drawn
    drawn = np.empty((rows, count), dtype=np.int64)
    step = max(1, CHUNK // size)
    for start in range(0, rows, step):
        part = drawn[start : start + step]
        part[:] = rng.random((len(part), size)).argsort(1)[:, :count]
    return drawn


def is_repeated(items: np.ndarray) -> np.ndarray:
    """(R, T) -> (R, T): whether the same number stands further left in the row."""
    order = items.argsort(1, kind="stable")
    ordered = np.take_along_axis(items, order, 1)
    repeated = np.zeros(items.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return repeated


def answer_rows(prompt: np.ndarray, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a decoder that reads prompts (R, P) and writes answers (R, A): ids and targets."""
    ids = np.concatenate([prompt, answer[:, :-1]], 1)  # (R, P + A - 1)
    targets = np.full_like(ids, IGNORE)
    targets[:, prompt.shape[1] - 1 :] = answer
    return ids, targets


def append_token(items: np.ndarray, token: int) -> np.ndarray:
    """(R, T) -> (R, T + 1), with the same token at the end of every row."""
    return np.pad(items, ((0, 0), (0, 1)), constant_values=token)
