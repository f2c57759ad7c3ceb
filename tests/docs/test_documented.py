"""Runs every documented command: as written, or as `tests/support/command_rules.py` says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from attnlab.cli import app
from tests.support.command_rules import (
    PLACEHOLDERS,
    RULES,
    missing,
    named_outputs,
    ready,
    rule_of,
    with_options,
)
from tests.support.command_runner import Typist, at_studio
from tests.support.documented_folders import furnish, small_world
from tests.support.markdown_blocks import BEGINNING, DOCUMENTS, PIECE, ROOT, Told, page, told
from tests.support.registries import restored_registries
from tests.support.studio_servers import start_studio

EVERYTHING = [each for path in DOCUMENTS for each in told(page(path), path)]


def typed_here() -> dict[str, list[Told]]:
    """By page: what `test_blocks_run` does not type. The same command is typed once, where it is
    first; another page cannot count on its files."""
    found: dict[str, list[Told]] = {}
    seen = {ready(each, short=False).line for each in EVERYTHING if each.as_written}
    for each in EVERYTHING:
        rule = rule_of(each.line)
        line = each.line if each.place == "python" else ready(each).line
        if each.as_written or line in seen or (rule and (rule.not_run or rule.only_slow)):
            continue
        seen.add(line)
        found.setdefault(each.page, []).append(each)
    return found


@pytest.fixture(scope="module")
def furnished(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnish(tmp_path_factory.mktemp("desk"), made)


@pytest.fixture
def desk(furnished: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder of one's own with all that the documentation names."""
    folder = shutil.copytree(furnished, tmp_path / "desk", symlinks=True)
    with restored_registries(), chdir(folder):
        yield folder


HERE = typed_here()


@pytest.mark.usefixtures("few_docstrings", "claims_here")
@pytest.mark.parametrize("path", [path for path in HERE if path != "docs/studio.md"])
def test_commands_run(path: str, desk: Path) -> None:
    """In the order of the page, in one folder: a command may read what one before it wrote."""
    known = {ready(each).line for many in HERE.values() for each in many if each.place != "python"}
    typist = Typist(desk, known=known)
    with small_world(desk):
        for each in possible(path):
            typist.type(each)
    tell_what_is_missing(path)


def possible(path: str) -> list[Told]:
    return [each for each in HERE[path] if not missing(each.line)]


def tell_what_is_missing(path: str) -> None:
    """Once all others have run."""
    lacking = {name for each in HERE[path] for name in missing(each.line)}
    if lacking:
        pytest.skip(f"all but the commands that need {', '.join(sorted(lacking))}, not found here")


@pytest.mark.usefixtures("few_docstrings")
def test_commands_of_the_studio_run(desk: Path) -> None:
    """Those of curl on one that is served."""
    typist = Typist(desk)
    with small_world(desk), start_studio(desk / "runs") as studio:
        for each in possible("docs/studio.md"):
            line = at_studio(each.line, studio.port, studio.token)
            said = typist.type(replace(each, line=line))
            assert each.line != line or not each.line.startswith("curl")
            if "api/events" in line:
                assert "event: " in said
        assert studio.interrupt() == 0
    tell_what_is_missing("docs/studio.md")


def as_written_in_minutes() -> list[Told]:
    """Each once."""
    found: dict[str, Told] = {}
    for each in EVERYTHING:
        rule = rule_of(each.line)
        if rule is not None and (rule.slow or rule.only_slow) and not each.as_written:
            found.setdefault(ready(each, short=False).line, each)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("each", as_written_in_minutes(), ids=lambda each: each.line)
def test_commands_run_as_written(each: Told, desk: Path) -> None:
    """Placeholders aside."""
    if missing(each.line):
        pytest.skip(f"needs {', '.join(missing(each.line))}, not found here")
    shutil.rmtree(desk / "runs" / "pretrained")  # nobody has trained here yet
    Typist(desk, short=False).type(each)


# That nothing is left out


def test_every_command_is_understood() -> None:
    """As it is written, too: what a rule replaces must have been right."""
    for each in EVERYTHING:
        words = [] if each.place == "python" else list(ready(each, short=False).words)
        if words[1:2] == ["--extension"]:  # `main` takes these, and they are run
            continue
        if words[:1] == ["attnlab"] and (len(words) > 3 or words[-1].startswith("-")):
            app.parse_args(words[1:], exit_on_error=False, print_error=False)


def test_a_wrong_command_would_be_noticed(desk: Path) -> None:
    """A name, an option or a program that is not there; a promise that is not kept."""
    text = """
Try `attnlab bench speed --treads 2`, `python benchmarks/look.py sighing`, `git pull`,
`make sense` or `pip install 'attnlab[nothing]'`:
```sh
attnlab look --help    # attnlab look MODEL --txt "a" --out x.html: why
```
```text
attnlab claims copi     a remark
attnlab look MODEL \\
    --text "a" --out page.html --json nowhere.json
import json
```
```text
import json

json.loads("{")
```
"""
    found = [each for each in told(text) if not each.as_written]
    assert [each.place for each in found] == [*["sentence"] * 5, "remark", "text", "text", "python"]
    typist = Typist(desk)
    for each in found:
        with pytest.raises((AssertionError, ValueError)):
            typist.type(each)


def test_a_promise_that_is_not_kept_is_noticed(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Typist, "program", lambda *_: (0, ""))
    with pytest.raises(AssertionError, match=r"no a\.html"):
        Typist(desk).type(Told("", "text", "attnlab bench show other.json --html a.html"))


NAMES = "|".join(name for name in app if not name.startswith("-"))
TARGETS = "|".join(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
CRUDE = re.compile(
    rf"\battnlab (?:{NAMES})\b(?!:)|\bpython \w+/\S*\.py|\btorchrun --|\bcurl -|\bpip install"
    rf"|\bmake (?:{TARGETS})\b"
)
NO_COMMANDS = (
    r"<!--[^>]*-->",  # marks between which a bench writes
    r"^```output\n(?s:.*?)^```$",  # printed by a command, and compared
    r"^Next: .*$",  # printed, too, in a block of `text` since its times differ
    r"^#+ attnlab .*$",  # headings of the reference
)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_no_command_is_overlooked(path: str) -> None:
    """A cruder look finds no more: each hit lies in a command that is run."""
    text = page(path)
    for pattern in NO_COMMANDS:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    if "reference/" in path:  # usage lines are made from the code
        text = re.sub(r"^```text\n(?s:.*?)^```$", "", text, flags=re.MULTILINE)
    crude = len(CRUDE.findall(" ".join(text.split())))
    run = sum(len(CRUDE.findall(each.line)) for each in told(text, path))
    assert run == crude, f"{path}: {crude} things look like commands, {run} are run"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_block_has_a_language(path: str) -> None:
    text = page(path)
    assert len(re.findall(r"^\s*(?:```|~~~)", text, flags=re.MULTILINE)) % 2 == 0
    found = [language for language, _, span in PIECE.findall(text) if not span]
    assert len(found) * 2 == len(re.findall(r"^\s*(?:```|~~~)", text, flags=re.MULTILINE))
    assert set(found) <= {"sh", "python", "output", "text", "json"}


def test_every_rule_is_needed() -> None:
    """And none runs nothing without a reason."""
    lines = [each.line for each in EVERYTHING if not each.as_written]
    used = {rule_of(line) for line in lines}
    assert [rule.command for rule in RULES if rule not in used] == []
    for command, placeholder, _ in PLACEHOLDERS:
        fits = [line for line in lines if re.match(command, line) and re.search(placeholder, line)]
        assert fits, (command, placeholder)
    for rule in RULES:
        assert (
            rule.options
            or rule.makes
            or rule.slow
            or rule.only_slow
            or rule.needs
            or len(rule.not_run) > 30
        ), rule.command


def test_where_that_is_run_which_is_not_run_here() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    for line in (
        "make test",
        "make lint",
        "make .venv/.installed",
        "pip install --quiet --editable",
    ):
        assert line in ci


def test_options_take_each_others_place() -> None:
    words = ["attnlab", "bench", "--lengths", "1", "2", "--quick"]
    changed = with_options(words, ["--lengths", "3", "--seed", "1"])
    assert changed == ["attnlab", "bench", "--lengths", "3", "--quick", "--seed", "1"]
    assert with_options(["attnlab", "claims", "--html", "a"], ["copy"])[-3:] == [
        "--html",
        "a",
        "copy",
    ]
    assert list(named_outputs(("attnlab", "runs", "--json", "--out", "x"))) == ["x"]
    assert list(named_outputs(("curl", "--json", "{}", "-c", "jar"))) == ["jar"]


def test_only_what_can_be_typed_is_a_command() -> None:
    for line in ("attnlab runs", "A=1 python x.py", ". .venv/bin/activate", "pip install 'a[b]'"):
        assert BEGINNING.match(line), line
    for line in (
        "attnlab",
        "attnlab.look(model)",
        "make",
        "torchrun",
        "python = 3",
        "attnlab-favor",
    ):
        assert not BEGINNING.match(line), line
