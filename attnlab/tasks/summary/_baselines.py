"""Baselines without training: the first words of the text, and the best words in order.

A model has to beat the first one. Nothing that only copies words in order can beat the second.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from attnlab.tasks.summary._pairs import Pair
from attnlab.tasks.summary._rouge import common_subsequence, rouge, words_of

MAX_WORDS = 40
ALPHANUMERIC = re.compile("[A-Za-z0-9]+")


def first_words(text: str, count: int) -> str:
    return " ".join(text.split()[:count])


def best_word_count(pairs: Sequence[Pair], most: int = MAX_WORDS) -> int:
    """How many first words have the best mean ROUGE-L. Choose it on validation texts."""

    def quality(count: int) -> float:
        scores = (rouge(first_words(pair.text, count), pair.summary) for pair in pairs)
        return statistics.fmean(score["rougeL"].f for score in scores)

    return max(range(1, most + 1), key=quality)


def best_words(text: str, reference: str) -> str:
    """The words of the text, in order, with the highest possible ROUGE-L.

    They are the longest common subsequence. Any other word would cost precision.
    """
    words = ALPHANUMERIC.findall(text.encode("ascii", "replace").decode())
    compared = words_of(text)
    if [
        word.lower() for word in words
    ] != compared:  # the lower case of some letters is another letter
        words = compared
    return " ".join(words[i] for i in common_subsequence(compared, words_of(reference)))
