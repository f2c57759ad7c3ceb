"""Split documents into training and validation without holding their text."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

VALIDATION_FRACTION = 0.05

Documents = Iterable[Iterable[str]]
"""Documents, each in pieces."""


@dataclass(frozen=True)
class DocumentSplit:
    """Which documents are for validation. Of a single document, it is the last part."""

    validation: np.ndarray
    """True for each document that is for validation; the two parts of one count as two."""
    training_characters: int
    cut: int | None = None
    """The characters of the training part, if there is only one document."""

    def parts(self, documents: Documents) -> Iterator[Iterable[str]]:
        """The same documents; a single one in its two parts."""
        if self.cut is None:
            yield from documents
            return
        for document in documents:
            yield from _cut_in_two(document, self.cut)

    def training(self, documents: Documents) -> Iterator[str]:
        """The pieces of the training documents."""
        for held_out, document in zip(self.validation, self.parts(documents), strict=True):
            for piece in document:
                if not held_out:
                    yield piece


def split_documents(
    documents: Documents, fraction: float = VALIDATION_FRACTION, seed: int = 0
) -> DocumentSplit:
    """Choose about `fraction` of the documents for validation.

    A document's content and the seed decide its part. So copies stay together, and adding documents
    moves no other. With two or more documents neither part is empty; of a single document the last
    `fraction` of its characters becomes the validation part.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}; give a number between 0 and 1, both excluded")
    positions, lengths = array("d"), array("q")
    for document in documents:
        position, length = _position_and_length(document, seed)
        positions.append(position)
        lengths.append(length)
    if not positions:
        raise ValueError("no documents to split; give two or more")
    if len(positions) == 1:
        cut = _training_characters(lengths[0], fraction)
        return DocumentSplit(np.array([False, True]), cut, cut)
    validation = _held_out(np.array(positions), fraction)
    return DocumentSplit(validation, int(np.array(lengths)[~validation].sum()))


def _held_out(positions: np.ndarray, fraction: float) -> np.ndarray:
    """Documents with equal positions are copies: 48 bits differ for different ones."""
    first, last = positions.min(), positions.max()
    if first == last:  # all are copies of one document
        return np.arange(len(positions)) == len(positions) - 1
    if first >= fraction:
        return positions == first
    return positions < fraction if last >= fraction else positions < last


def hash_position(document: str, seed: int) -> float:
    """A position between 0 and 1 that looks random but depends only on the document and the
    seed."""
    return _position_and_length([document], seed)[0]


def _position_and_length(pieces: Iterable[str], seed: int) -> tuple[float, int]:
    digest, length = hashlib.blake2b(f"{seed}:".encode(), digest_size=6), 0
    for piece in pieces:
        digest.update(piece.encode("utf-8", "surrogatepass"))
        length += len(piece)
    return int.from_bytes(digest.digest(), "big") / 2**48, length  # 48 bits: exact in a float


def _training_characters(characters: int, fraction: float) -> int:
    if characters < 2:
        raise ValueError(f"one document of {characters} characters cannot be split; give more text")
    return characters - min(max(round(characters * fraction), 1), characters - 1)


def _cut_in_two(pieces: Iterable[str], cut: int) -> Iterator[Iterator[str]]:
    """The first `cut` characters and the others. Use up the first before you take the second."""
    remaining, rest = iter(pieces), [""]

    def first() -> Iterator[str]:
        left = cut
        for piece in remaining:
            if len(piece) >= left:
                rest[0] = piece[left:]
                yield piece[:left]
                return
            left -= len(piece)
            yield piece

    def second() -> Iterator[str]:
        if rest[0]:
            yield rest[0]
        yield from remaining

    yield first()
    yield second()
