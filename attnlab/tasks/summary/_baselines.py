"""What needs no training: the text's first words, and the best words that stand in it.

The first line must be beaten; the second cannot be, by whoever only copies words in order.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from attnlab.tasks.summary._pairs import Pair
from attnlab.tasks.summary._rouge import common_words, rouge, words_of

MOST_WORDS = 40
ALPHANUMERIC = re.compile("[A-Za-z0-9]+")


def first_words(text: str, count: int) -> str:
    return " ".join(text.split()[:count])


def best_count(pairs: Sequence[Pair], most: int = MOST_WORDS) -> int:
    """How many first words make the best ROUGE-L; chosen on validation texts."""

    def quality(count: int) -> float:
        found = (rouge(first_words(each.text, count), each.summary) for each in pairs)
        return statistics.fmean(each["rougeL"].f for each in found)

    return max(range(1, most + 1), key=quality)


def best_words(text: str, right: str) -> str:
    """The words of the text, in its order, that make the highest ROUGE-L there can be.

    These are the longest common subsequence alone: any other word would cost precision.
    """
    shown = ALPHANUMERIC.findall(text.encode("ascii", "replace").decode())
    kept = words_of(text)
    if [each.lower() for each in shown] != kept:  # letters whose lower case is another letter
        shown = kept
    return " ".join(shown[i] for i in common_words(kept, words_of(right)))
