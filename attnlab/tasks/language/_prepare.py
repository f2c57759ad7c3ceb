"""Prepare a text for training: read it, split it, train a tokenizer and encode it.

Files may be larger than memory: they are read several times, piece by piece.
"""

from __future__ import annotations

import hashlib
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from attnlab.tasks.language._corpus import Corpus
from attnlab.tasks.language._corpus_cache import cached_corpus, cached_split
from attnlab.tasks.language._reading_progress import reading_progress
from attnlab.tasks.language._split import Documents, DocumentSplit, split_documents
from attnlab.tasks.language._text_files import (
    OnBytes,
    byte_chunks,
    cut_pieces,
    file_documents,
    text_chunks,
)
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer
from attnlab.training import is_main_process

T = TypeVar("T")
TOKENIZERS = ("characters", "bytes", "bpe")
MAX_IN_MEMORY = 16 * 2**20  # bytes; smaller files are encoded again by each run, not cached
BPE_SAMPLE = 32_000_000  # characters; of a longer text, BPE learns from a random sample


@dataclass(frozen=True)
class PreparedText:
    """A text as token ids, split for training and validation."""

    tokenizer: Tokenizer
    train: Corpus
    validation: Corpus


class TextSource(ABC):
    """Documents that can be read several times."""

    quiet = True
    digest: str | None = None
    """Identifies the text in the cache; None if it is encoded in memory."""

    @abstractmethod
    def documents(self, label: str) -> Documents:
        """The documents, each in pieces. Use up each document before you take the next."""

    def print_wait(self) -> None:
        """Explain why nothing happens while another process makes the same files."""
        if is_main_process() and not self.quiet:
            print("another process is tokenizing this text; waiting for it", file=sys.stderr)


class TextsInMemory(TextSource):
    """Documents as strings."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._documents = documents

    def documents(self, label: str) -> Documents:
        del label
        return (cut_pieces([document]) for document in self._documents)


class TextFiles(TextSource):
    """Documents in files, which must not change until the end.

    Small files are checked at once. Of large ones only the digest is computed: it takes less time,
    and those that are in the cache were checked before.
    """

    def __init__(self, paths: Sequence[str | Path], *, quiet: bool = False) -> None:
        if not paths:
            raise ValueError("no files to read documents from; give one or more")
        self.paths, self.size = list(map(Path, paths)), 0
        for path in self.paths:
            with suppress(OSError):
                self.size += path.stat().st_size
        is_large = self.size > MAX_IN_MEMORY
        self.quiet = quiet or not is_large
        self._digests: list[str | None] = [None] * len(self.paths)
        for _ in self._read(byte_chunks if is_large else text_chunks, "reading the text"):
            pass
        if is_large:
            self.digest = hashlib.sha256(repr(self._digests).encode()).hexdigest()

    def documents(self, label: str) -> Documents:
        return self._read(file_documents, label)

    def _read(self, read: Callable[[Path, OnBytes], Iterable[T]], label: str) -> Iterator[T]:
        with reading_progress(label, self.size, quiet=self.quiet) as advance:
            for number, path in enumerate(self.paths):
                sha = hashlib.sha256(path.suffix.lower().encode() + b"\0")

                def on_bytes(content: bytes, sha: hashlib._Hash = sha) -> None:
                    sha.update(content)
                    advance(len(content))

                yield from read(path, on_bytes)
                if self._digests[number] not in (None, sha.hexdigest()):
                    raise ValueError(f"{path}: changed while it was being read; start again")
                self._digests[number] = sha.hexdigest()


def make_tokenizer(kind: str, texts: Iterable[str], vocabulary: int) -> Tokenizer:
    if kind == "characters":
        return Characters.train(texts)
    if kind == "bytes":
        return Bytes()
    if kind == "bpe":
        return BPE.train(texts, vocabulary)
    raise ValueError(f"tokenizer is {kind!r}; choose {', '.join(TOKENIZERS)}")


def prepare_text(
    source: TextSource,
    kind: str | Tokenizer,
    vocabulary: int,
    seed: int,
    learned: Tokenizer | None = None,
) -> PreparedText:
    """Split the documents, train a tokenizer on the training part, and encode everything.

    `kind` is the name of a tokenizer, or one that needs no training. `learned` is the tokenizer of
    a run that you resume. It replaces one that would learn from a sample of the text, because older
    versions of attnlab learned from the whole text.
    """

    def make() -> tuple[DocumentSplit, Tokenizer]:
        split = split_documents(source.documents("splitting the text"), seed=seed)
        if isinstance(kind, Tokenizer):
            return split, kind
        fraction = BPE_SAMPLE / split.training_characters if kind == "bpe" else 1.0
        if fraction < 1 and learned is not None:
            return split, learned
        pieces = split.training(source.documents("training the tokenizer"))
        return split, make_tokenizer(kind, _sample(pieces, fraction, seed), vocabulary)

    if source.digest is None:
        split, tokenizer = make()
    else:
        resumed = learned and learned.to_json()
        name = kind.to_json() if isinstance(kind, Tokenizer) else kind
        settings = (source.digest, name, vocabulary, seed, BPE_SAMPLE, resumed)
        split, tokenizer = cached_split(settings, make, source.print_wait)
    corpus = encode_text(source, tokenizer, split)
    return PreparedText(
        tokenizer, corpus.select(~split.validation), corpus.select(split.validation)
    )


def encode_text(
    source: TextSource, tokenizer: Tokenizer, split: DocumentSplit | None = None
) -> Corpus:
    """All documents as ids. A single document has two parts if it was split."""

    def documents() -> Documents:
        whole = source.documents("tokenizing")
        return whole if split is None else split.parts(whole)

    if source.digest is None:
        return Corpus.in_memory(documents(), tokenizer)
    settings = (source.digest, split and split.cut)
    return cached_corpus(settings, tokenizer, documents, source.print_wait)


def _sample(pieces: Iterable[str], fraction: float, seed: int) -> Iterator[str]:
    """About this fraction of the pieces, from everywhere in the text."""
    generator = random.Random(seed)
    return (piece for piece in pieces if fraction >= 1 or generator.random() < fraction)
