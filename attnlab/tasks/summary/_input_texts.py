"""Texts to summarize: files, lines of files, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.tasks.language._text_files import read_text_file

MAX_BYTES = 2**24  # of standard input


@dataclass(frozen=True)
class InputText:
    """A text and its name: the file, and the line number if every line is a text."""

    name: str
    content: str


def read_texts(files: Sequence[Path], lines: bool) -> list[InputText]:
    """Read files, or standard input. Each file, or each line that is not empty, is one text."""
    texts = [InputText(str(path), read_text_file(path)) for path in files]
    texts = texts or [InputText("standard input", _standard_input())]
    if not lines:
        return texts
    return [
        InputText(f"{text.name}, line {number}", line)
        for text in texts
        for number, line in enumerate(text.content.split("\n"), 1)
        if line.strip()
    ]


def _standard_input() -> str:
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"standard input: has more than {MAX_BYTES // 2**20} MB; give files")
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
