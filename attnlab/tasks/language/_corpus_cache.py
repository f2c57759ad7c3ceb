"""Tokenized texts in the cache folder, so that a large text is tokenized once.

A `.ids` file holds the ids of all documents, then for each document how many ids and characters it
has (int64), then a JSON object that describes both, then the size of that object. It is complete
and intact, or it is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from attnlab._cache import cache_folder, load_or_make
from attnlab._safe_files import open_regular, read_json
from attnlab.tasks.language._corpus import Corpus, IdFile
from attnlab.tasks.language._split import Documents, DocumentSplit
from attnlab.tasks.language._tokenize import tokenize
from attnlab.tokenizer import Tokenizer, parse_tokenizer

VERSION = 1  # of the files; raise it to discard those of older versions
MAX_CACHE_BYTES = 20 * 10**9
MAX_JSON_BYTES = 2**28
SIZE_BYTES = 8
BUFFER_BYTES = 2**22
FORMAT_NAME = "attnlab-corpus"


def cached_corpus(
    settings: Sequence[object],
    tokenizer: Tokenizer,
    documents: Callable[[], Documents],
    on_wait: Callable[[], None],
) -> Corpus:
    """These documents as ids, from the cache if they are there. `settings` identifies the text."""
    content = tokenizer.to_json()
    path = _path([*settings, content], ".ids")
    return load_or_make(
        path,
        lambda path: _load(path, tokenizer),
        lambda part: _make(part, tokenizer, documents()),
        max_bytes=MAX_CACHE_BYTES,
        on_wait=on_wait,
    )


def cached_split(
    settings: Sequence[object],
    make: Callable[[], tuple[DocumentSplit, Tokenizer]],
    on_wait: Callable[[], None],
) -> tuple[DocumentSplit, Tokenizer]:
    """The split and the tokenizer of a text, from the cache if they are there."""

    def write(part: Path) -> None:
        split, tokenizer = make()
        data = {
            "documents": len(split.validation),
            "validation": np.flatnonzero(split.validation).tolist(),
            "cut": split.cut,
            "training_characters": split.training_characters,
            "tokenizer": tokenizer.to_json(),
        }
        part.write_text(json.dumps({"data": data, "sha256": _digest(data)}), encoding="utf-8")

    return load_or_make(
        _path(settings, ".json"),
        _load_split,
        write,
        max_bytes=MAX_CACHE_BYTES,
        on_wait=on_wait,
    )


def _path(settings: Sequence[object], suffix: str) -> Path:
    key = hashlib.sha256(json.dumps([VERSION, *settings]).encode()).hexdigest()[:32]
    return cache_folder("corpora") / f"{key}{suffix}"


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _load_split(path: Path) -> tuple[DocumentSplit, Tokenizer] | None:
    try:
        content = read_json(path, MAX_JSON_BYTES)
        data = content["data"]
        if content["sha256"] != _digest(data):
            return None
    except (ValueError, KeyError, TypeError):  # missing or broken
        return None
    validation = np.zeros(data["documents"], bool)
    validation[data["validation"]] = True
    split = DocumentSplit(validation, data["training_characters"], data["cut"])
    return split, parse_tokenizer(data["tokenizer"])


def _make(part: Path, tokenizer: Tokenizer, documents: Documents) -> None:
    sha = hashlib.sha256()
    with part.open("wb", buffering=BUFFER_BYTES) as file:

        def write(values: np.ndarray) -> None:
            sha.update(values.data)
            file.write(values.data)

        index = tokenize(documents, tokenizer, write, in_processes=True)
        write(index.lengths)
        write(index.characters)
        header = {
            "format": FORMAT_NAME,
            "type": str(tokenizer.id_type),
            "documents": len(index.lengths),
            "ids": int(index.lengths.sum()),
            "unknown": index.unknown,
            "sha256": sha.hexdigest(),
        }
        content = json.dumps(header).encode()
        file.write(content + len(content).to_bytes(SIZE_BYTES, "little"))


def _load(path: Path, tokenizer: Tokenizer) -> Corpus | None:
    try:
        with open_regular(path) as file:
            return _read(file, tokenizer)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):  # missing, cut or changed
        return None


def _read(file: IO[bytes], tokenizer: Tokenizer) -> Corpus | None:
    """The corpus of an intact file. All of it is read through one open file, so another
    process cannot replace its content."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - SIZE_BYTES))
    header_size = int.from_bytes(file.read(SIZE_BYTES), "little")
    data_size = size - SIZE_BYTES - header_size
    if not 0 < header_size <= MAX_JSON_BYTES or data_size < 0:
        return None
    file.seek(data_size)
    header = json.loads(file.read(header_size))
    dtype, documents, ids = tokenizer.id_type, int(header["documents"]), int(header["ids"])
    expected = ids * dtype.itemsize + 2 * documents * 8
    if header["format"] != FORMAT_NAME or header["type"] != str(dtype) or data_size != expected:
        return None
    if _digest_of_start(file, data_size) != header["sha256"]:
        return None
    file.seek(ids * dtype.itemsize)
    lengths, characters = np.frombuffer(file.read(2 * documents * 8), np.int64).reshape(2, -1)
    return Corpus.of_lengths(IdFile(file, dtype), lengths, characters, header["unknown"])


def _digest_of_start(file: IO[bytes], size: int) -> str:
    sha, buffer = hashlib.sha256(), memoryview(bytearray(BUFFER_BYTES))
    file.seek(0)
    while size:
        count = file.readinto(buffer[:size])  # type: ignore[attr-defined]
        if not count:
            return ""
        sha.update(buffer[:count])
        size -= count
    return sha.hexdigest()
