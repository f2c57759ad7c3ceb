"""What answers look like, learned from the training answers: names, numbers, dates, words, lists.

A shape is the sequence of word classes of an answer: "Ada Byron" is A A, "1850" is 0000,
"4 May 1850" is 0 A 0000, "numpy.linalg" is a.a, and "Bank of England" is A of A. The shapes decide
which strings of a document a model learns to copy and to recall. Nothing is said about a relation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

PUNCTUATION = "()[],.;:\"'"  # not part of a name
MIN_FRACTION = 0.005  # of the answers have a shape that counts
MAX_WORDS = 12  # of a shape that is searched for in documents
CAPITALIZED, LOWER = "A", "a"
Shape = tuple[str, ...]


def shape_of(words: Sequence[str]) -> Shape:
    """The classes of these words, with the punctuation between them.

    >>> from attnlab.tasks.knowledge._answer_shapes import shape_of
    >>> shape_of("Bank of England,".split())
    ('A', 'of', 'A')
    """
    classes = [word_class(word) for word in words]
    if not {*classes} <= {LOWER}:  # "of" holds a name together, so it stands for itself
        classes = [
            words[i] if name == LOWER and 0 < i < len(words) - 1 else name
            for i, name in enumerate(classes)
        ]
    for i, (left, right) in enumerate(pairwise(words)):
        classes[i] += _between(left, right)
    return tuple(classes)


@lru_cache(100_000)
def word_class(word: str) -> str:
    """A for a capitalized word; else its letters as a, its digits as 0, and its symbols.

    >>> from attnlab.tasks.knowledge._answer_shapes import word_class
    >>> [word_class(word) for word in ("(Oslo)", "1850", "os.path", "gr-qc", "painter.")]
    ['A', '0000', 'a.a', 'a-a', 'a']
    """
    bare = word.strip(PUNCTUATION)
    if bare[:1].isupper():
        return CAPITALIZED
    signature = re.sub(r"\d", "0", re.sub(r"[^\W\d_]+", LOWER, bare))
    return re.sub(r"(\Wa)\1+", r"\1", signature)  # a.a.a is a.a


def _between(left: str, right: str) -> str:
    """The punctuation between two words."""
    ending = left[len(left.rstrip(PUNCTUATION)) :]
    return ending + right[: len(right) - len(right.lstrip(PUNCTUATION))]


class AnswerShapes:
    """The shapes of some answers, and where the documents have strings of such a shape."""

    def __init__(self, answers: Sequence[str], documents: Sequence[str]) -> None:
        shapes = Counter(shape_of(answer.split()) for answer in answers if answer.split())
        least = MIN_FRACTION * len(answers)
        frequent = {shape for shape, count in shapes.items() if count >= least}
        self.capitalized = any({*shape} == {CAPITALIZED} for shape in frequent)
        """Whether some answers are runs of capitalized words."""
        self.windows = {
            shape
            for shape in frequent
            if len(shape) <= MAX_WORDS and {*shape} != {CAPITALIZED} and any(shape)
        }
        self.lengths = sorted({len(shape) for shape in self.windows})
        self._documents_with = Counter(
            word for document in documents for word in {*map(_bare, document.split())}
        )
        self._commonest = max(self._commonest_edge(answers), 1, len(documents) // 100)

    def _commonest_edge(self, answers: Sequence[str]) -> int:
        """How many documents have a lowercase word that begins or ends an answer, at most.

        This tells an answer such as "painter" from "was". The few answers with the commonest words
        do not count.
        """
        counts = sorted(
            self._documents_with[word]
            for answer in answers
            for word in _lower_edges(answer.split())
        )
        return counts[int(0.95 * (len(counts) - 1))] if counts else 0

    def spans(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """The words [start, end) whose shape some answers have; without runs of capitalized words.

        Strings may overlap.
        """
        return [
            (start, start + length)
            for length in self.lengths
            for start in range(len(words) - length + 1)
            if self._fits(words[start : start + length])
        ]

    def _fits(self, words: Sequence[str]) -> bool:
        return shape_of(words) in self.windows and all(
            self._documents_with[word] <= self._commonest for word in _lower_edges(words)
        )


def _bare(word: str) -> str:
    return word.strip(PUNCTUATION)


def _lower_edges(words: Sequence[str]) -> list[str]:
    """The first and the last word, if they are lowercase words."""
    edges = {_bare(word) for word in (*words[:1], *words[-1:])}
    return [word for word in edges if word_class(word) == LOWER]
