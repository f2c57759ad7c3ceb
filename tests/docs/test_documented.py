"""Runs every documented command: as written, or as `tests/support/command_rules.py` says."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from attnlab.cli import app
from tests.support.command_rules import (
    PLACEHOLDERS,
    RULES,
    missing,
    named_outputs,
    rule_of,
    runnable,
    with_options,
)
from tests.support.command_runner import CommandRunner, at_studio
from tests.support.documented_folders import fill_folder, small_inputs
from tests.support.examples import slow_unless
from tests.support.markdown_blocks import (
    COMMAND_START,
    DOCUMENTS,
    PIECE,
    ROOT,
    DocumentedCommand,
    find_commands,
    read_page,
)
from tests.support.registries import restored_registries
from tests.support.studio_servers import start_studio

ALL_COMMANDS = [command for path in DOCUMENTS for command in find_commands(read_page(path), path)]


def commands_by_page() -> dict[str, list[DocumentedCommand]]:
    """The commands of each page that `test_blocks_run` does not run. A command that occurs several
    times runs once, on the first page, so other pages must not rely on its files."""
    commands: dict[str, list[DocumentedCommand]] = {}
    known_lines = {
        runnable(command, short=False).line for command in ALL_COMMANDS if command.as_written
    }
    for command in ALL_COMMANDS:
        rule = rule_of(command.line)
        line = command.line if command.place == "python" else runnable(command).line
        if command.as_written or line in known_lines or (rule and (rule.not_run or rule.only_slow)):
            continue
        known_lines.add(line)
        commands.setdefault(command.page, []).append(command)
    return commands


@pytest.fixture(scope="module")
def filled_folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_folder(tmp_path_factory.mktemp("desk"), made)


@pytest.fixture
def work_folder(filled_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A new folder with everything that the documentation uses."""
    folder = shutil.copytree(filled_folder, tmp_path / "desk", symlinks=True)
    with restored_registries(), chdir(folder):
        yield folder


COMMANDS_BY_PAGE = commands_by_page()
STUDIO_PAGE = "docs/reference/studio-api.md"
SLOW_PAGES = {
    "docs/benchmarks.md",
    "docs/course.md",
    "docs/knowledge.md",
    "docs/course/cs182.md",
    "docs/course/cs224n.md",
    "docs/course/nyu.md",
    "docs/models-to-look-at.md",
    "docs/reference/reliability.md",
    "docs/reference/results.md",
    "docs/several-machines.md",
    "docs/vision.md",
}


@pytest.mark.usefixtures("few_docstrings", "claims_here")
@pytest.mark.parametrize(
    "path",
    slow_unless(
        {*COMMANDS_BY_PAGE} - SLOW_PAGES,
        [path for path in COMMANDS_BY_PAGE if path != STUDIO_PAGE],
    ),
)
def test_commands_run(path: str, work_folder: Path) -> None:
    """In the order of the page, in one folder: a command may read what earlier ones wrote."""
    known_lines = {
        runnable(command).line
        for commands in COMMANDS_BY_PAGE.values()
        for command in commands
        if command.place != "python"
    }
    runner = CommandRunner(work_folder, skip=known_lines)
    with small_inputs(work_folder):
        for command in runnable_commands(path):
            runner.run(command)
    skip_if_packages_are_missing(path)


def runnable_commands(path: str) -> list[DocumentedCommand]:
    return [command for command in COMMANDS_BY_PAGE[path] if not missing(command.line)]


def skip_if_packages_are_missing(path: str) -> None:
    """Call it after all other commands have run."""
    packages = {name for command in COMMANDS_BY_PAGE[path] for name in missing(command.line)}
    if packages:
        pytest.skip(f"all but the commands that need {', '.join(sorted(packages))}, not found here")


@pytest.mark.usefixtures("few_docstrings")
def test_studio_commands_run(work_folder: Path) -> None:
    """Runs the curl commands against a running studio."""
    runner = CommandRunner(work_folder)
    with small_inputs(work_folder), start_studio(work_folder / "runs") as studio:
        for command in runnable_commands(STUDIO_PAGE):
            line = at_studio(command.line, studio.port, studio.token)
            output = runner.run(replace(command, line=line))
            assert command.line != line or not command.line.startswith("curl")
            if "api/events" in line:
                assert "event: " in output
        assert studio.interrupt() == 0
    skip_if_packages_are_missing(STUDIO_PAGE)


def slow_commands() -> list[DocumentedCommand]:
    """The slow commands, each once."""
    commands: dict[str, DocumentedCommand] = {}
    for command in ALL_COMMANDS:
        rule = rule_of(command.line)
        if rule is not None and (rule.slow or rule.only_slow) and not command.as_written:
            commands.setdefault(runnable(command, short=False).line, command)
    return list(commands.values())


@pytest.mark.slow
@pytest.mark.parametrize("command", slow_commands(), ids=lambda command: command.line)
def test_commands_run_as_written(command: DocumentedCommand, work_folder: Path) -> None:
    """Only placeholders are replaced."""
    if missing(command.line):
        pytest.skip(f"needs {', '.join(missing(command.line))}, not found here")
    shutil.rmtree(work_folder / "runs" / "pretrained")  # as if nothing had been trained yet
    CommandRunner(work_folder, short=False).run(command)


# Tests that no command is left out


def test_every_command_is_valid() -> None:
    """Also as written: the options that a rule replaces must be valid too."""
    for command in ALL_COMMANDS:
        words = [] if command.place == "python" else list(runnable(command, short=False).words)
        if words[1:2] == ["--extension"]:  # `main` handles these, and they are run
            continue
        if words[:1] == ["attnlab"] and (len(words) > 3 or words[-1].startswith("-")):
            app.parse_args(words[1:], exit_on_error=False, print_error=False)


def test_wrong_commands_are_detected(work_folder: Path) -> None:
    """Unknown names, options and programs, and promised files that are missing."""
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
    commands = [command for command in find_commands(text) if not command.as_written]
    assert [command.place for command in commands] == [
        *["sentence"] * 5,
        "remark",
        "text",
        "text",
        "python",
    ]
    runner = CommandRunner(work_folder)
    for command in commands:
        with pytest.raises((AssertionError, ValueError)):
            runner.run(command)


def test_missing_output_file_is_detected(
    work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommandRunner, "program", lambda *_: (0, ""))
    with pytest.raises(AssertionError, match=r"no a\.html"):
        CommandRunner(work_folder).run(
            DocumentedCommand("", "text", "attnlab bench show other.json --html a.html")
        )


NAMES = "|".join(name for name in app if not name.startswith("-"))
TARGETS = "|".join(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
COMMAND_PATTERN = re.compile(
    rf"\battnlab (?:{NAMES})\b(?!:)|\bpython \w+/\S*\.py|\btorchrun --|\bcurl -|\bpip install"
    rf"|\bmake (?:{TARGETS})\b"
)
NOT_COMMANDS = (
    r"<!--[^>]*-->",  # markers between which a bench writes
    r"^```output\n(?s:.*?)^```$",  # output of a command, compared elsewhere
    r"^Next: .*$",  # printed too, in a `text` block because its times vary
    r"^#+ attnlab .*$",  # headings of the reference
)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_no_command_is_overlooked(path: str) -> None:
    """A simpler pattern finds no more commands: each match is in a command that is run."""
    text = read_page(path)
    for pattern in NOT_COMMANDS:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    if "reference/" in path:  # usage lines are made from the code
        text = re.sub(r"^```text\n(?s:.*?)^```$", "", text, flags=re.MULTILINE)
    matches = len(COMMAND_PATTERN.findall(" ".join(text.split())))
    commands = sum(
        len(COMMAND_PATTERN.findall(command.line)) for command in find_commands(text, path)
    )
    assert commands == matches, f"{path}: {matches} texts look like commands, {commands} are run"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_block_has_a_language(path: str) -> None:
    text = read_page(path)
    assert len(re.findall(r"^\s*(?:```|~~~)", text, flags=re.MULTILINE)) % 2 == 0
    languages = [language for language, _, span in PIECE.findall(text) if not span]
    assert len(languages) * 2 == len(re.findall(r"^\s*(?:```|~~~)", text, flags=re.MULTILINE))
    assert set(languages) <= {"sh", "python", "output", "text", "json"}


def test_every_rule_is_needed() -> None:
    """And every rule that runs nothing has a reason."""
    lines = [command.line for command in ALL_COMMANDS if not command.as_written]
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


TRAINS = re.compile(
    r"attnlab (?:compare \w+|\w+ (?:train|pretrain|finetune|learn|convert)|convert)\b"
)
MOST_STEPS = 100


def test_every_training_is_short() -> None:
    """A training runs in `make test` only with a budget, as written or by its rule."""
    for command in ALL_COMMANDS:
        rule = rule_of(command.line)
        if not TRAINS.search(command.line) or (rule and (rule.not_run or rule.only_slow)):
            continue
        words = runnable(command, short=not command.as_written).words
        budgets = {name: value for name, value in pairwise(words) if name.startswith("--")}
        short = (
            "--help" in words
            or float(budgets.get("--epochs", 2)) <= 1
            or int(budgets.get("--steps", MOST_STEPS + 1)) <= MOST_STEPS
            or float(budgets.get("--minutes", 1)) <= 0.1
            or float(budgets.get("--reader-epochs", 2)) <= 1
        )
        assert short, f"{command.page}: {shlex.join(words)} needs a rule with --steps"


def test_ci_runs_the_commands_that_tests_do_not_run() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    for line in (
        "make test",
        "make lint",
        "make .venv/.installed",
        "pip install --quiet --no-compile --editable",
    ):
        assert line in ci


def test_rule_options_replace_written_ones() -> None:
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


def test_command_start_pattern() -> None:
    for line in ("attnlab runs", "A=1 python x.py", ". .venv/bin/activate", "pip install 'a[b]'"):
        assert COMMAND_START.match(line), line
    for line in (
        "attnlab",
        "attnlab.look(model)",
        "make",
        "torchrun",
        "python = 3",
        "attnlab-favor",
    ):
        assert not COMMAND_START.match(line), line
