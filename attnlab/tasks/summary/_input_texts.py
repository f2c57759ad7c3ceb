"""Texts to summarize: files, lines of files, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.tasks.language._text_sources import file_text

LARGEST = 2**24  # bytes of standard input


@dataclass(frozen=True)
class Text:
    """One text, and where it was found: its file, with the line where each line is a text."""

    name: str
    content: str


def read_texts(files: Sequence[Path], lines: bool) -> list[Text]:
    """Each file, or each line that is not empty, is one text."""
    found = [Text(str(path), file_text(path)) for path in files]
    found = found or [Text("standard input", _standard_input())]
    if not lines:
        return found
    return [
        Text(f"{text.name}, line {number}", line)
        for text in found
        for number, line in enumerate(text.content.split("\n"), 1)
        if line.strip()
    ]


def _standard_input() -> str:
    content = sys.stdin.buffer.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"standard input: more than {LARGEST // 2**20} MB; give files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"standard input: is not UTF-8 text (byte {error.start} is "
            f"0x{content[error.start]:02x}); convert it first"
        ) from None
    if "\0" in text:
        raise ValueError("standard input: is binary, not text")
    if not text.strip():
        raise ValueError("standard input: is empty; give a text, or name files")
    return text.replace("\r\n", "\n").replace("\r", "\n")
