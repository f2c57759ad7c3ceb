"""Texts to train on: the docstrings of the installed Python packages, or your own files."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

SHORTEST = 40  # characters; a shorter docstring says little more than the function's name
LARGEST_SOURCE = 2**20  # bytes; larger files are generated tables, slow to parse and without text
# Tests repeat the code; installed packages are read separately, after the standard library.
SKIPPED = {"__pycache__", "dist-packages", "idle_test", "site-packages", "test", "tests"}
NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documentation_text(
    limit: int = 4_000_000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Docstrings of the standard library, then of the installed packages: no download needed.

    Sources are parsed, never imported. Together the documents have at most `limit` characters;
    the last one is cut to fit. The seed only changes the order. The same Python with the same
    packages gives the same documents. `progress` is called with the number of characters so far.
    """
    if limit < SHORTEST:
        raise ValueError(
            f"limit is {limit}; give {SHORTEST} characters or more, the length of the shortest "
            "document"
        )
    documents: dict[str, None] = {}  # in order, without duplicates
    gathered = 0
    for source in _all_sources():
        for docstring in docstrings_of(source):
            if docstring in documents:
                continue
            document = docstring[: limit - gathered]
            documents[document] = None
            gathered += len(document)
            if limit - gathered < SHORTEST:
                return _shuffle(list(documents), seed)
        if progress is not None:
            progress(gathered)
    if not documents:
        raise ValueError("this Python has no source files to take docstrings from; give files")
    return _shuffle(list(documents), seed)


def read_documents(paths: Sequence[str | Path]) -> list[str]:
    """Each file is one document. In a .jsonl file each line is one: an object with a "text"."""
    if not paths:
        raise ValueError("no files to read documents from; give one or more")
    documents: list[str] = []
    for path in map(Path, paths):
        text = read_text_file(path)
        if path.suffix.lower() == ".jsonl":
            documents += _json_lines(path, text)
        else:
            documents.append(text)
    return documents


def split_documents(
    documents: Sequence[str], fraction: float = 0.05, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Split documents into training and validation, about `fraction` of them for validation.

    A document's content and the seed decide its part. So copies stay together, and adding documents
    moves no other. With two or more documents neither part is empty; of a single document the last
    `fraction` of its characters becomes the validation part.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}; give a number between 0 and 1, both excluded")
    if not documents:
        raise ValueError("no documents to split; give two or more")
    if len(documents) == 1:
        return _split_document(documents[0], fraction)
    positions = {document: hash_position(document, seed) for document in documents}
    distinct = sorted(positions, key=lambda document: (positions[document], document))
    if len(distinct) == 1:  # all are copies of one document
        return list(documents[:-1]), list(documents[-1:])
    held_out = sum(position < fraction for position in positions.values())
    validation = set(distinct[: min(max(held_out, 1), len(distinct) - 1)])
    return (
        [document for document in documents if document not in validation],
        [document for document in documents if document in validation],
    )


def _all_sources() -> Iterator[Path]:
    """All Python source files, the standard library first, sorted by package and path."""
    locations = sysconfig.get_paths()
    roots = dict.fromkeys(locations[name] for name in ("stdlib", "purelib", "platlib"))
    for root in map(Path, roots):
        yield from find_sources(root)


def find_sources(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        # A link may lead back up and never end.
        if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
            yield from find_sources(Path(entry.path))
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry.path)


def docstrings_of(source: Path) -> Iterator[str]:
    try:
        if source.stat().st_size > LARGEST_SOURCE:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the sources
            tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # templates, Python 2 or other encodings: skip them
    for node in _documented_nodes(tree):
        docstring = (ast.get_docstring(node) or "").strip()
        if len(docstring) >= SHORTEST and not NOT_TEXT.search(docstring):
            yield docstring


def _documented_nodes(tree: ast.AST) -> Iterator[Documented]:
    """Nodes that can have a docstring. ast.walk would spend its time in expressions."""
    waiting = [tree]  # no recursion, because each `elif` is one level deeper
    while waiting:
        node = waiting.pop()
        if isinstance(node, Documented):
            yield node
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):  # a lambda's body is an expression
                waiting += statements


def _shuffle(documents: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(documents)
    return documents


def read_text_file(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: does not exist") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: is a folder; give the files in it") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # `error.object` has no byte-order mark; count from the start of the file.
        byte = error.start + len(content) - len(error.object)
        raise ValueError(
            f"{path}: is not UTF-8 text (byte {byte} is 0x{content[byte]:02x}); convert it first"
        ) from None
    if b"\0" in content:
        raise ValueError(f"{path}: is binary, not text (byte {content.index(0)} is zero)")
    if not text.strip():
        raise ValueError(f"{path}: is empty; give a file with text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json_lines(path: Path, text: str) -> Iterator[str]:
    # Not splitlines: JSON may hold other line separators, such as U+2028, inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(f"{path}: line {number} is not JSON") from None
        document = record.get("text") if isinstance(record, dict) else None
        if not isinstance(document, str) or not document.strip():
            raise ValueError(f'{path}: line {number} has no "text", or an empty one')
        yield document


def hash_position(document: str, seed: int) -> float:
    """A position between 0 and 1 that looks random but depends only on the document and the
    seed."""
    content = f"{seed}:{document}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=6).digest()  # 48 bits: exact in a float
    return int.from_bytes(digest, "big") / 2**48


def _split_document(document: str, fraction: float) -> tuple[list[str], list[str]]:
    if len(document) < 2:
        raise ValueError(
            f"one document of {len(document)} characters cannot be split; give more text"
        )
    held_out = min(max(round(len(document) * fraction), 1), len(document) - 1)
    return [document[:-held_out]], [document[-held_out:]]
