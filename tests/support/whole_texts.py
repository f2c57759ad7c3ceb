"""Reading, splitting and batching with everything in memory: the reference for the streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from attnlab.tokenizer import Tokenizer


def read_whole(path: Path) -> str:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.start + len(content) - len(error.object)
        raise ValueError(
            f"{path}: is not UTF-8 text (byte {byte} is 0x{content[byte]:02x}); convert it first"
        ) from None
    if b"\0" in content:
        raise ValueError(f"{path}: is binary, not text (byte {content.index(0)} is zero)")
    if not text.strip():
        raise ValueError(f"{path}: is empty; give a file with text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_whole_documents(path: Path) -> list[str]:
    text = read_whole(path)
    if path.suffix != ".jsonl":
        return [text]
    return [json.loads(line)["text"] for line in text.split("\n") if line.strip()]


def split_whole(
    documents: Sequence[str], fraction: float, seed: int
) -> tuple[list[str], list[str]]:
    if len(documents) == 1:
        size = len(documents[0])
        held_out = min(max(round(size * fraction), 1), size - 1)
        return [documents[0][:-held_out]], [documents[0][-held_out:]]
    positions = {}
    for document in documents:
        content = f"{seed}:{document}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=6).digest()
        positions[document] = int.from_bytes(digest, "big") / 2**48
    distinct = sorted(positions, key=lambda document: (positions[document], document))
    if len(distinct) == 1:
        return list(documents[:-1]), list(documents[-1:])
    count = sum(position < fraction for position in positions.values())
    validation = set(distinct[: min(max(count, 1), len(distinct) - 1)])
    return (
        [document for document in documents if document not in validation],
        [document for document in documents if document in validation],
    )


def whole_rows(
    documents: Sequence[str], tokenizer: Tokenizer, context: int, overlap: int
) -> list[list[int]]:
    rows = []
    for document in documents:
        text = [tokenizer.end, *tokenizer.encode(document), tokenizer.end]
        starts = range(0, max(1, len(text) - overlap), context)
        rows += [text[start : start + context + overlap] for start in starts]
    return rows


def digest_of_rows(rows: Sequence[Sequence[int]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(torch.tensor(row).numpy().tobytes() + b"|")
    return sha.hexdigest()[:16]


def bucket_in_lists(
    lengths: Sequence[int], *, tokens: int, rows: int | None, generator: torch.Generator
) -> list[list[int]]:
    order = torch.randperm(len(lengths), generator=generator).tolist()
    mean = max(1, sum(lengths) // max(1, len(lengths)))
    window = 64 * (rows or max(1, tokens // mean))
    batches: list[list[int]] = []
    for start in range(0, len(order), window):
        batch: list[int] = []
        for row in sorted(order[start : start + window], key=lambda r: lengths[r]):
            full = len(batch) >= rows if rows else (len(batch) + 1) * lengths[row] > tokens
            if batch and full:
                batches.append(batch)
                batch = []
            batch.append(row)
        batches.append(batch)
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]
