"""Documents as token ids, in memory or in a file, and the rows that training reads from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, Protocol

import numpy as np
import torch
from torch import Tensor

from attnlab.tasks.language._text_files import cut_pieces
from attnlab.tasks.language._tokenize import tokenize
from attnlab.tokenizer import Tokenizer

ROWS_AT_ONCE = 4096  # when all rows are read in order


class IdStore(Protocol):
    """A long array of token ids."""

    def read(self, start: int, stop: int) -> np.ndarray: ...


@dataclass(frozen=True)
class IdArray:
    """Ids in memory."""

    ids: np.ndarray

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.ids[start:stop]


class IdFile:
    """Ids at the start of an open file.

    They are read, not mapped: mapped pages would count as memory of the process, and a file that
    another program cuts would end the process with a bus error.
    """

    def __init__(self, file: IO[bytes], dtype: np.dtype) -> None:
        self.handle, self.dtype = os.dup(file.fileno()), dtype

    def __del__(self) -> None:
        os.close(self.handle)

    def read(self, start: int, stop: int) -> np.ndarray:
        size = self.dtype.itemsize
        content = os.pread(self.handle, (stop - start) * size, start * size)
        if len(content) != (stop - start) * size:
            raise OSError("the tokenized text was changed while it was in use; start again")
        return np.frombuffer(content, self.dtype)


@dataclass(frozen=True)
class Corpus:
    """Documents as ids. Each stands between two end tokens."""

    ids: IdStore
    starts: np.ndarray
    """Where each document starts."""
    lengths: np.ndarray
    """The ids of each document, with both end tokens."""
    characters: np.ndarray
    """The characters of each document."""
    unknown: Mapping[str, int]
    """Characters that the tokenizer had to replace, and how often."""

    @staticmethod
    def of(documents: Iterable[str], tokenizer: Tokenizer) -> Corpus:
        return Corpus.in_memory((cut_pieces([document]) for document in documents), tokenizer)

    @staticmethod
    def in_memory(documents: Iterable[Iterable[str]], tokenizer: Tokenizer) -> Corpus:
        """Documents in pieces as ids in memory."""
        parts: list[np.ndarray] = []
        index = tokenize(documents, tokenizer, parts.append)
        ids = np.concatenate(parts) if parts else np.zeros(0, tokenizer.id_type)
        return Corpus.of_lengths(IdArray(ids), index.lengths, index.characters, index.unknown)

    @staticmethod
    def of_lengths(
        ids: IdStore, lengths: np.ndarray, characters: np.ndarray, unknown: Mapping[str, int]
    ) -> Corpus:
        """Documents that follow each other without gaps."""
        return Corpus(ids, np.cumsum(lengths) - lengths, lengths, characters, unknown)

    def select(self, documents: np.ndarray) -> Corpus:
        """Only the documents for which this is True."""
        return replace(
            self,
            starts=self.starts[documents],
            lengths=self.lengths[documents],
            characters=self.characters[documents],
        )

    def rows(self, context: int, overlap: int) -> Rows:
        """Documents cut into rows of the context size.

        With `overlap` 1 the next row repeats a row's last token, which the first row only predicts.
        """
        counts = -(-np.maximum(1, self.lengths - overlap) // context)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        within = (np.arange(len(first)) - first) * context
        remaining = np.repeat(self.lengths, counts) - within
        return Rows(
            self.ids,
            starts=np.repeat(self.starts, counts) + within,
            lengths=np.minimum(context + overlap, remaining).astype(np.int32),
            is_last=remaining <= context + overlap,
            characters=int(self.characters.sum()),
        )


@dataclass(frozen=True)
class Rows(Sequence[Tensor]):
    """Rows of ids, read when you take them."""

    ids: IdStore
    starts: np.ndarray
    lengths: np.ndarray
    is_last: np.ndarray
    """Whether a row ends its document."""
    characters: int

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> Tensor:  # type: ignore[override]
        start = int(self.starts[row])
        ids = self.ids.read(start, start + int(self.lengths[row]))
        return torch.from_numpy(ids.astype(np.int64))

    @cached_property
    def digest(self) -> str:
        """Identifies the text, so that a run is not resumed with another one."""
        sha = hashlib.sha256()
        for row in self._in_order():
            sha.update(row.data)
            sha.update(b"|")
        return sha.hexdigest()[:16]

    def _in_order(self) -> Iterator[np.ndarray]:
        """All rows as int64; neighbors are read together."""
        for begin in range(0, len(self), ROWS_AT_ONCE):
            starts = self.starts[begin : begin + ROWS_AT_ONCE].tolist()
            lengths = self.lengths[begin : begin + ROWS_AT_ONCE].tolist()
            block = self.ids.read(starts[0], starts[-1] + lengths[-1]).astype(np.int64)
            for start, length in zip(starts, lengths, strict=True):
                yield block[start - starts[0] : start - starts[0] + length]

    def sample(self, tokens: int, seed: int, tokenizer: Tokenizer) -> Rows:
        """All rows, or if they have more than `tokens` ids a random part of them in their order."""
        if int(self.lengths.sum()) <= tokens:
            return self
        order = np.random.default_rng(seed).permutation(len(self))
        count = int(np.searchsorted(np.cumsum(self.lengths[order]), tokens, side="right"))
        return self.choose(np.sort(order[: max(1, count)]), tokenizer)

    def choose(self, chosen: np.ndarray, tokenizer: Tokenizer) -> Rows:
        """The rows with these indices. Their characters are those of their targets: of each row
        without its first token."""
        per_token = characters_per_token(tokenizer)
        characters = sum(
            int(per_token[self[row][1 : -1 if self.is_last[row] else None]].sum()) for row in chosen
        )
        return Rows(
            self.ids, self.starts[chosen], self.lengths[chosen], self.is_last[chosen], characters
        )


def characters_per_token(tokenizer: Tokenizer) -> np.ndarray:
    """How many characters begin in each token. Continuation bytes of UTF-8 are 10xxxxxx."""
    contents = map(tokenizer.content, range(tokenizer.vocabulary))
    return np.array([sum(byte & 0xC0 != 0x80 for byte in content) for content in contents])
