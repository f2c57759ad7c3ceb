"""Names use the field's words: no private vocabulary, no class name twice, American spelling."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("attnlab", "tests", "benchmarks", "examples", "docs")
PRIVATE_WORDS = {
    *("told", "tell", "tells", "teller", "telling", "said", "say", "says", "found", "wish"),
    *("wishes", "meeting", "meets", "pasts", "sides", "room", "rooms", "ear", "ears", "hear"),
    *("hears", "heard", "mine", "theirs", "ours", "party", "parties", "whom", "who", "golds"),
    *("speaks", "lesson", "lessons", "wording", "begun"),
}
BRITISH = re.compile(
    r"colour|optimis|normalis|initialis|summaris|tokenis|behaviour|neighbour|labelled|centre|grey"
    r"|stabilis|generalis|modelling"
)
OLD_FORMATS = {"normalised"}
"""A name in capture files of version 1."""
PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TYPESCRIPT = sorted((ROOT / "web" / "src").rglob("*.ts*"))
DECLARED = re.compile(r"\b(?:const|let|function|class|interface|type|enum)\s+([A-Za-z_$][\w$]*)")


def words_of(name: str) -> set[str]:
    """The words of an identifier or a file name, in lower case."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return {part.lower() for part in parts}


def python_names(text: str) -> Iterator[str]:
    """Every name that a module declares."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr
            case ast.alias() if node.asname:
                yield node.asname
            case _:
                pass


def problems(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    names = python_names(text) if path.suffix == ".py" else DECLARED.findall(text)
    return sorted(
        {
            name
            for name in (path.name.split(".")[0], *names)
            if words_of(name) & PRIVATE_WORDS
            or (BRITISH.search(name.lower()) and name not in OLD_FORMATS)
        }
    )


@pytest.mark.parametrize(
    "path", [*PYTHON, *TYPESCRIPT], ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_name_uses_a_private_word_or_british_spelling(path: Path) -> None:
    assert problems(path) == []


def test_a_private_word_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "what_was_said.py"
    module.write_text(
        "def told(wish): found = wish.room\nclass EarOfX: colour = 1\nground = None\n"
    )
    assert problems(module) == ["EarOfX", "colour", "found", "told", "what_was_said", "wish"]
    page = tmp_path / "page.ts"
    page.write_text("const saidBy = 1;\nfunction ground() {}\n")
    assert problems(page) == ["saidBy"]


def test_every_class_name_is_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "attnlab").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_what_only_attnlab_imports_begins_with_an_underscore() -> None:
    """Documentation, examples and extensions import public modules alone."""
    private = re.compile(r"(?:from|import) attnlab(?:\.\w+)*\._\w+")
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py"), ROOT / "README.md"]
    for path in files:
        if path.name != "log.md" and "course" not in path.parts:
            assert not private.search(path.read_text(encoding="utf-8")), path
