"""What README and docs hold: blocks, and every command, in whatever place a reader meets it."""

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

# A line that begins like this is something to type, wherever it stands
PROGRAMS = (
    r"attnlab|python3?|torchrun|make|curl|pip|npm|npx|node|ssh|scp|git|apt|apt-get|pytest|ruff|mypy"
    r"|jupyter|docker|bash|sh|cd|export|rm|cp|mv|mkdir|cat|wget|tar|unzip|\.venv/\S+|\."
)
BEGINNING = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{PROGRAMS}) (?!= )\S")


@dataclass(frozen=True)
class Told:
    """A command, or a piece of Python that stands in a `text` block."""

    page: str
    place: str
    """sh, text, remark or sentence; python."""
    line: str

    @property
    def as_written(self) -> bool:
        """`test_blocks_run` types it exactly so, in its place."""
        return self.place == "sh" and bool(re.match(r"(?:[A-Z_]+=\S+ )*attnlab ", self.line))


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(path: str) -> list[tuple[str, str]]:
    """(language, text) in the order in which a reader meets them."""
    return BLOCK.findall(page(path))


def told(text: str, path: str = "") -> Iterator[Told]:
    """In the order of the page. Usage lines of the reference, made from the code, are none."""
    for language, block, span in PIECE.findall(text):
        if span:
            yield from _spoken(path, "sentence", span)
        elif language == "sh":
            yield from _lines(path, "sh", block)
        elif language == "python":  # its remarks may tell of commands
            yield from _lines(path, "text", re.sub(r"^[#\s]*", "", block, flags=re.MULTILINE))
        elif language == "text" and "reference/" not in path:
            if is_python(block):
                yield Told(path, "python", block)
            else:
                yield from _lines(path, "text", block)


def is_python(block: str) -> bool:
    """It does something; a name or a number alone would be Python, too."""
    try:
        body = ast.parse(block).body
    except SyntaxError:
        return False
    kinds = ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom | ast.For | ast.With
    calls = (isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in body)
    return any(isinstance(n, kinds | ast.FunctionDef) for n in body) or any(calls)


def _lines(path: str, place: str, block: str) -> Iterator[Told]:
    """Commands and what is told of others in the remarks behind them."""
    for line in re.sub(r" *\\\n\s*", " ", block).splitlines():
        if place == "sh":
            command, _, remark = line.partition("# ")
        else:  # a remark may stand behind it without a sign
            command, _, remark = re.sub(r"\s{2,}(?:# )?|\s# ", "# ", line).partition("# ")
        if command.strip() and (place == "sh" or BEGINNING.match(command)):
            yield Told(path, place, command.strip())
        yield from _spoken(path, "remark", re.split(r": |; ", remark)[0])
        for span in re.findall(r"`([^`]+)`", remark):
            yield from _spoken(path, "remark", span)


def _spoken(path: str, place: str, text: str) -> Iterator[Told]:
    line = " ".join(text.split())
    if BEGINNING.match(line):
        yield Told(path, place, line)
