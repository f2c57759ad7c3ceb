"""Read text files piece by piece, so that a text may be larger than memory."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from attnlab._pretokenize import last_break
from attnlab._safe_files import open_regular

CHUNK_BYTES = 2**15  # decoding larger chunks fragments the heap: by 500 MB for 3 GB of text
PIECE = 2**16  # characters; larger pieces are slower, because they leave the processor's cache
MAX_PIECE = 2**22  # characters of a text without any break
MAX_LINE = 2**26  # characters of a line in a .jsonl file, which is parsed as a whole

OnBytes = Callable[[bytes], object]
"""Called with all bytes of a file, one chunk after the other."""


def read_text_file(path: Path) -> str:
    """The whole text of a UTF-8 file, with line breaks as \\n."""
    return "".join(text_chunks(path))


def byte_chunks(path: Path, on_bytes: OnBytes | None = None) -> Iterator[bytes]:
    """The content of a regular file."""
    with _open_text(path) as file:
        while True:
            try:
                content = file.read(max(CHUNK_BYTES, len(codecs.BOM_UTF8)))
            except OSError as error:
                raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
            if not content:
                return
            if on_bytes is not None:
                on_bytes(content)
            yield content


def text_chunks(path: Path, on_bytes: OnBytes | None = None) -> Iterator[str]:
    """The text of a UTF-8 file in chunks, with line breaks as \\n.

    A file that is not text raises a ValueError, perhaps only after the last chunk.
    """
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    decoder = codecs.getincrementaldecoder("utf-8")()
    done, first_zero, blank = 0, -1, True
    for content in chain(byte_chunks(path, on_bytes), [b""]):
        if first_zero < 0 and (zero := content.find(0)) >= 0:
            first_zero = done + zero
        mark = len(codecs.BOM_UTF8) if not done and content.startswith(codecs.BOM_UTF8) else 0
        waiting = len(decoder.getstate()[0])  # bytes of a character that the last chunk cut
        try:
            text = decoder.decode(content[mark:], final=not content)
        except UnicodeDecodeError as error:
            byte, value = done + mark - waiting + error.start, error.object[error.start]
            raise ValueError(
                f"{path}: is not UTF-8 text (byte {byte} is 0x{value:02x}); convert it first"
            ) from None
        done += len(content)
        text = newlines.decode(text, final=not content)
        blank = blank and not text.strip()
        if text:
            yield text
    if first_zero >= 0:
        raise ValueError(f"{path}: is binary, not text (byte {first_zero} is zero)")
    if blank:
        raise ValueError(f"{path}: is empty; give a file with text")


def _open_text(path: Path) -> IO[bytes]:
    try:
        if path.is_dir():
            raise ValueError(f"{path}: is a folder; give the files in it")
        return open_regular(path, follow_links=True)
    except FileNotFoundError:
        raise ValueError(f"{path}: does not exist") from None
    except OSError as error:
        if error.strerror is None:  # a pipe or a device
            raise ValueError(f"{path}: is not a regular file; give a text file") from None
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def file_documents(path: Path, on_bytes: OnBytes | None = None) -> Iterator[Iterator[str]]:
    """The documents of a file, each in pieces. Use up each document before you take the next.

    A file is one document. In a .jsonl file each line is one: an object with a "text".
    """
    chunks = text_chunks(path, on_bytes)
    if path.suffix.lower() != ".jsonl":
        yield cut_pieces(chunks)
        return
    for document in _json_lines(path, chunks):
        yield cut_pieces([document])


def cut_pieces(chunks: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that a tokenizer can encode one by one; at least one piece."""
    text = ""
    for chunk in chunks:
        text, start = text + chunk, 0
        while (end := last_break(text, start, PIECE, MAX_PIECE)) is not None:
            yield text[start:end]
            start = end
        text = text[start:]
    yield text


def _json_lines(path: Path, chunks: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(_lines(path, chunks), start=1):
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


def _lines(path: Path, chunks: Iterable[str]) -> Iterator[str]:
    # Not splitlines: JSON may hold other line separators, such as U+2028, inside a string.
    number, parts = 1, [""]
    for chunk in chunks:
        first, *others = chunk.split("\n")
        parts.append(first)
        for line in others:
            yield "".join(parts)
            number, parts = number + 1, [line]
        if sum(map(len, parts)) > MAX_LINE:
            raise ValueError(
                f"{path}: line {number} has more than {MAX_LINE:,} characters; put one document "
                "on each line"
            )
    yield "".join(parts)
