"""Reads the code blocks and all commands of README and docs, wherever they occur."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PIECE = re.compile(rf"{BLOCK.pattern}|`([^`]+)`", flags=re.DOTALL | re.MULTILINE)

# A line that begins like this is a command, wherever it occurs
PROGRAMS = (
    r"attnlab|python3?|torchrun|make|curl|pip|npm|npx|node|ssh|scp|git|apt|apt-get|pytest|ruff|mypy"
    r"|jupyter|docker|bash|sh|cd|export|rm|cp|mv|mkdir|cat|wget|tar|unzip|\.venv/\S+|\."
)
COMMAND_START = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{PROGRAMS}) (?!= )\S")


@dataclass(frozen=True)
class DocumentedCommand:
    """A command, or a piece of Python in a `text` block."""

    page: str
    place: str
    """Where it occurs: sh, text, remark, sentence or python."""
    line: str

    @property
    def as_written(self) -> bool:
        """Whether `test_blocks_run` runs it exactly as written, in the order of the page."""
        return self.place == "sh" and bool(re.match(r"(?:[A-Z_]+=\S+ )*attnlab ", self.line))


def read_page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def read_blocks(path: str) -> list[tuple[str, str]]:
    """(language, text) of each block, in the order of the page."""
    return BLOCK.findall(read_page(path))


def find_commands(text: str, path: str = "") -> Iterator[DocumentedCommand]:
    """All commands in the order of the page, without the generated usage lines of the reference."""
    for language, block, span in PIECE.findall(text):
        if span:
            yield from _command_in_text(path, "sentence", span)
        elif language == "sh":
            yield from _commands_in_block(path, "sh", block)
        elif language == "python":  # its comments may contain commands
            yield from _commands_in_block(
                path, "text", re.sub(r"^[#\s]*", "", block, flags=re.MULTILINE)
            )
        elif language == "text" and "reference/" not in path:
            if is_python(block):
                yield DocumentedCommand(path, "python", block)
            else:
                yield from _commands_in_block(path, "text", block)


def is_python(block: str) -> bool:
    """Whether it is Python that does something; a single name or number does not count."""
    try:
        body = ast.parse(block).body
    except SyntaxError:
        return False
    kinds = ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom | ast.For | ast.With
    calls = (isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in body)
    return any(isinstance(n, kinds | ast.FunctionDef) for n in body) or any(calls)


def _commands_in_block(path: str, place: str, block: str) -> Iterator[DocumentedCommand]:
    """The commands of a block, and those in the remarks after them."""
    for line in re.sub(r" *\\\n\s*", " ", block).splitlines():
        if place == "sh":
            command, _, remark = line.partition("# ")
        else:  # a remark may follow without a #
            command, _, remark = re.sub(r"\s{2,}(?:# )?|\s# ", "# ", line).partition("# ")
        if command.strip() and (place == "sh" or COMMAND_START.match(command)):
            yield DocumentedCommand(path, place, command.strip())
        yield from _command_in_text(path, "remark", re.split(r": |; ", remark)[0])
        for span in re.findall(r"`([^`]+)`", remark):
            yield from _command_in_text(path, "remark", span)


def _command_in_text(path: str, place: str, text: str) -> Iterator[DocumentedCommand]:
    line = " ".join(text.split())
    if COMMAND_START.match(line):
        yield DocumentedCommand(path, place, line)
