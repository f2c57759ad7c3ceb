"""Arrays of rows that several abilities need.

Letters: R rows, T tokens of a row.
"""

from __future__ import annotations

import numpy as np

from attnlab.tasks.simple import IGNORE


def draw_distinct(rng: np.random.Generator, rows: int, count: int, size: int) -> np.ndarray:
    """(R, count): in each row different numbers below `size`, in random order."""
    if size <= 16 * count:
        return rng.random((rows, size)).argsort(1)[:, :count]
    drawn = rng.integers(0, size, (rows, count))
    while True:  # draw rows with a number twice again; most have none
        ordered = np.sort(drawn, 1)
        again = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        if not again.any():
            return drawn
        drawn[again] = rng.integers(0, size, (int(again.sum()), count))


def answer_rows(prompt: np.ndarray, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a decoder that reads prompts (R, P) and writes answers (R, A): ids and targets."""
    ids = np.concatenate([prompt, answer[:, :-1]], 1)  # (R, P + A - 1)
    targets = np.full_like(ids, IGNORE)
    targets[:, prompt.shape[1] - 1 :] = answer
    return ids, targets


def append_token(items: np.ndarray, token: int) -> np.ndarray:
    """(R, T) -> (R, T + 1), with the same token at the end of every row."""
    return np.pad(items, ((0, 0), (0, 1)), constant_values=token)
