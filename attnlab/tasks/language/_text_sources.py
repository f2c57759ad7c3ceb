"""Texts to train on: the documentation that every Python carries, or the user's own files."""

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

SHORTEST = 40  # characters; below that a docstring says little more than the function's name
LARGEST_SOURCE = 2**20  # bytes; longer sources are generated tables, slow to parse and wordless
# Tests repeat what the code says; packages have their own turn after the standard library.
SKIPPED = {"__pycache__", "dist-packages", "idle_test", "site-packages", "test", "tests"}
NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documentation_text(
    limit: int = 4_000_000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Docstrings of the standard library, then of the installed packages: no download needed.

    Sources are parsed, never imported. Together the documents have at most `limit` characters,
    the last one cut to fit; the seed decides their order alone. The same Python with the same
    packages gives the same documents. `progress` hears of the characters gathered so far.
    """
    if limit < SHORTEST:
        raise ValueError(f"limit {limit}: a document has {SHORTEST} characters or more")
    documents: dict[str, None] = {}  # in the order found, each once
    gathered = 0
    for source in _sources():
        for docstring in docstrings_of(source):
            if docstring in documents:
                continue
            document = docstring[: limit - gathered]
            documents[document] = None
            gathered += len(document)
            if limit - gathered < SHORTEST:
                return _shuffled(list(documents), seed)
        if progress is not None:
            progress(gathered)
    if not documents:
        raise ValueError("this Python has no sources to take documentation from; give files")
    return _shuffled(list(documents), seed)


def read_documents(paths: Sequence[str | Path]) -> list[str]:
    """Each file is one document, but in .jsonl each line is one: an object with a "text"."""
    if not paths:
        raise ValueError("no files given to read documents from")
    documents: list[str] = []
    for path in map(Path, paths):
        text = file_text(path)
        if path.suffix.lower() == ".jsonl":
            documents += _json_lines(path, text)
        else:
            documents.append(text)
    return documents


def split_documents(
    documents: Sequence[str], share: float = 0.05, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Documents for training and for validation, about `share` of them for the latter.

    A document's side follows from its content and the seed alone: its copies go with it, and
    further documents move none. Two or more documents leave neither side empty; of a single one
    the last `share` of its characters is held out.
    """
    if not 0 < share < 1:
        raise ValueError(f"share {share}: give a fraction between 0 and 1, both excluded")
    if not documents:
        raise ValueError("no documents to split")
    if len(documents) == 1:
        return _cut(documents[0], share)
    places = {document: place_of(document, seed) for document in documents}
    distinct = sorted(places, key=lambda document: (places[document], document))
    if len(distinct) == 1:  # copies of one document can only part from each other
        return list(documents[:-1]), list(documents[-1:])
    held = sum(place < share for place in places.values())
    validation = set(distinct[: min(max(held, 1), len(distinct) - 1)])
    return (
        [document for document in documents if document not in validation],
        [document for document in documents if document in validation],
    )


def _sources() -> Iterator[Path]:
    """All Python sources: the standard library's first, each root's by package and path."""
    locations = sysconfig.get_paths()
    roots = dict.fromkeys(locations[name] for name in ("stdlib", "purelib", "platlib"))
    for root in map(Path, roots):
        yield from sources_below(root)


def sources_below(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        # A link may lead back up, around and around.
        if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
            yield from sources_below(Path(entry.path))
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry.path)


def docstrings_of(source: Path) -> Iterator[str]:
    try:
        if source.stat().st_size > LARGEST_SOURCE:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about other people's escapes
            tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # templates, Python 2, other encodings: there is enough without them
    for node in _documented(tree):
        docstring = (ast.get_docstring(node) or "").strip()
        if len(docstring) >= SHORTEST and not NOT_TEXT.search(docstring):
            yield docstring


def _documented(tree: ast.AST) -> Iterator[Documented]:
    """What can have a docstring; ast.walk would spend its time in expressions, which cannot."""
    waiting = [tree]  # no recursion: each `elif` is one level deeper than the one before
    while waiting:
        node = waiting.pop()
        if isinstance(node, Documented):
            yield node
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):  # a lambda's body is an expression
                waiting += statements


def _shuffled(documents: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(documents)
    return documents


def file_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: is a folder; name the files in it") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Its object is what follows a byte-order mark; a reader counts from the file's start.
        position = error.start + len(content) - len(error.object)
        raise ValueError(
            f"{path}: is not UTF-8 text (byte {position} is 0x{content[position]:02x}); "
            "convert it first"
        ) from None
    if b"\0" in content:
        raise ValueError(f"{path}: is binary, not text (byte {content.index(0)} is zero)")
    if not text.strip():
        raise ValueError(f"{path}: is empty")
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


def place_of(document: str, seed: int) -> float:
    """Where the document stands between 0 and 1, as if drawn at random."""
    content = f"{seed}:{document}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=6).digest()  # 48 bits: exact in a float
    return int.from_bytes(digest, "big") / 2**48


def _cut(document: str, share: float) -> tuple[list[str], list[str]]:
    if len(document) < 2:
        raise ValueError(f"one document of {len(document)} characters cannot be split; give more")
    held = min(max(round(len(document) * share), 1), len(document) - 1)
    return [document[:-held]], [document[-held:]]
