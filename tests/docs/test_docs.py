"""README and docs: blocks run, outputs are correct, links exist, generated parts are up to date."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab import MECHANISMS
from attnlab._create_mechanism import mechanism_options
from attnlab.cli import app
from attnlab.extensions import forget_extensions
from docs.scripts.make import generate_pages
from tests.support.command_line import run
from tests.support.examples import slow_unless
from tests.support.markdown_blocks import BLOCK, DOCUMENTS, ROOT, read_blocks
from tests.support.registries import restored_registries


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a link to the examples. Removes afterwards what a page registers."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with restored_registries():
        yield tmp_path


SLOW_PAGES = {"docs/abilities.md", "docs/extensions.md", "docs/knowledge.md", "docs/vision.md"}


@pytest.mark.usefixtures("few_docstrings", "work_folder", "claims_here")
@pytest.mark.parametrize("path", slow_unless({*DOCUMENTS} - SLOW_PAGES, DOCUMENTS))
def test_blocks_run(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page, in one folder: commands may read files that earlier ones wrote."""
    output = ""
    for language, block in read_blocks(path):
        if language == "python":
            if "from transformers import" in block:
                pytest.importorskip("transformers", reason="transformers is not installed")
            exec(compile(block, path, "exec"), {"__name__": "__main__"})
            captured = capsys.readouterr()
            assert "Traceback" not in captured.err
            output = captured.out
        elif language == "sh":
            output = "".join(
                run_line(line, capsys, monkeypatch) for line in block.splitlines() if line.strip()
            )
        elif language == "output":
            assert_printed(output, block)
        else:
            assert language in ("text", "json"), f"{path}: a block of {language!r} is not run"


def run_line(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The output of an attnlab command; `tests/docs/test_documented.py` runs all others."""
    words = shlex.split(line, comments=True)
    with monkeypatch.context() as here:
        while words and re.match(r"[A-Z_]+=", words[0]):
            here.setenv(*words.pop(0).split("=", 1))
            forget_extensions()
        if not words or words[0] != "attnlab":
            return ""
        code, out, err = run(shlex.join(words[1:]), capsys)
        assert code == 0, f"{line}: {err}"
        return out


def assert_printed(output: str, expected: str) -> None:
    """Compares the output with a block word by word: numbers to 5%, and `...` skips a part."""
    parts = [part.split() for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    words = output.split()
    position = 0
    for number, part in enumerate(parts):
        if not part:
            continue
        starts = range(position, len(words) - len(part) + 1) if number else [0]
        match = next(
            (
                start
                for start in starts
                if all(map(words_match, words[start : start + len(part)], part))
            ),
            None,
        )
        assert match is not None, f"not printed: {' '.join(part)}\n\n{output}"
        position = match + len(part)


def words_match(one: str, other: str) -> bool:
    try:
        return math.isclose(as_number(one), as_number(other), rel_tol=0.05, abs_tol=0.002)
    except ValueError:
        return one == other


def as_number(word: str) -> float:
    return float(word.strip("(),;:%").replace(",", "").replace("\N{MINUS SIGN}", "-"))


def test_wrong_output_is_detected() -> None:
    output = "softmax 0.000 elu 0.994\nerror: nothing"
    for expected in (
        "softmax 0 elu 0.99",
        "...\nelu 0.994\n...",
        "softmax 0.000\n...\nerror: nothing",
    ):
        assert_printed(output, expected)
    for expected in ("softmax 0.5", "...\nrelu 0.994", "elu 0.994", "...\nerror:\n...\nsoftmax"):
        with pytest.raises(AssertionError):
            assert_printed(output, expected)


def test_readme_starts_with_two_commands_and_an_example() -> None:
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:24])
    assert "make demo" in screen
    assert "make test" in screen
    assert "attnlab.attention(" in screen


def test_readme_names_every_mechanism_and_command() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in MECHANISMS.built_in:
        assert f"`{name}`" in readme
    for command in app:
        if not command.startswith("-") and app[command].show:
            assert f"attnlab {command}" in readme or f"make {command}" in readme


@pytest.mark.parametrize("name", sorted(MECHANISMS.built_in))
def test_every_mechanism_has_a_page(name: str) -> None:
    text = (ROOT / "docs" / "mechanisms" / f"{name}.md").read_text()
    for heading in ("Formula", "Cost", "When to use it", "What goes wrong"):
        assert f"## {heading}\n" in text
    for option in mechanism_options(name):
        assert f"| `{option.name}` |" in text
    assert MECHANISMS[name].card.arxiv in text
    picture = ROOT / "docs" / "pictures" / f"{name}.svg"
    assert f"<title>The weights of {name}</title>" in picture.read_text()


def test_generated_pages_are_up_to_date() -> None:
    for path, text in generate_pages().items():
        assert path.exists(), f"{path.name} is missing: run make docs"
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run make docs"


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", [*DOCUMENTS, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_exist(name: str) -> None:
    path = ROOT / name
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if target.startswith("https://"):
            continue
        linked = path.parent / target if target else path
        assert linked.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name}: {target}#{anchor}"


def test_every_page_is_reachable() -> None:
    """By links from the README."""
    visited, queue = set[Path](), [ROOT / "README.md"]
    while queue:
        path = queue.pop()
        if path in visited or path.suffix != ".md":
            continue
        visited.add(path)
        text = BLOCK.sub("", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s:]+)", text):
            queue.append((path.parent / target).resolve())
    assert {ROOT / name for name in DOCUMENTS} <= visited
