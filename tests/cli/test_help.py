"""What `attnlab COMMAND --help` shows: sentences, groups, and one name for one thing."""

from __future__ import annotations

import re
import typing
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any

import pytest
from cyclopts import App
from cyclopts.argument import Argument

from attnlab._command_options import create_app, flatten_options, option_values, options_of
from attnlab._help_groups import COMMON, MODEL, OPTIMIZER, HelpGroup
from attnlab.cli import app
from tests.support.command_line import run

MOST_COMMON_OPTIONS = 12
DIFFERENT_TYPES = {
    "--json": "a flag where a command prints, a file where it also writes --html",
    "--layers": "how many layers a model has; look takes the numbers of some",
    "--heads": "how many heads a model has; look takes the numbers of some",
    "--pairs": "how many pairs a row has; knowledge takes a file with pairs of texts",
    "--text": "look takes a text, heads a file",
    "--position": "how a model encodes positions; look takes the number of a token",
    "--attention": "a mechanism for each layer, or the contenders; convert takes one",
    "--held-out": "a share of what a command trains on; convert takes files",
    "--model": "vision has kinds of models, the studio takes folders",
}
"""Options that mean different things, and why both are called that."""


def commands(parent: App = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    """Every command with its name, such as "language train"."""
    if parent.default_command is not None:
        yield " ".join(path), parent
    for name in parent:
        if not name.startswith("-"):
            yield from commands(parent[name], (*path, name))


COMMANDS = dict(commands())


def arguments(command: App) -> list[Argument]:
    return [each for each in command.assemble_argument_collection() if each.show]


def options(command: App) -> list[Argument]:
    return [each for each in arguments(command) if each.names[0].startswith("--")]


def group_of(argument: Argument) -> str:
    groups: Any = argument.parameter.group
    (group,) = groups
    return str(group.name)


def sentence_problem(text: str) -> str:
    """Why a help text is not a sentence, or an empty text."""
    text = re.sub(r" \[default: [^\]]*\]$", "", text)
    if not re.match(r"[A-Z]", text):
        return "begins with no capital letter"
    if not text.endswith("."):
        return "ends with no period"
    return "has a colon before a single word" if re.search(r"\b(0|none|default): ", text) else ""


def plain_type(hint: Any) -> str:
    """The type of a value without None; lists and tuples are the same on the command line."""
    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    parts = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    parts = tuple(part for part in parts if part is not NoneType)
    for part in parts:
        if typing.get_origin(part) in (list, tuple):
            return f"list of {typing.get_args(part)[0].__name__}"
    return str(parts[0].__name__)


def test_commands_are_listed() -> None:
    assert len(COMMANDS) > 30
    assert {"language train", "knowledge audit", "compare vision", "look", "runs"} <= set(COMMANDS)
    for name in ("bench all", "heads"):  # their options are in several classes
        assert {"--json", "--mechanisms"} <= {option.names[0] for option in options(COMMANDS[name])}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_sentence(name: str) -> None:
    problems = {
        argument.names[0]: f"{sentence_problem(argument.parameter.help or '')}: "
        f"{argument.parameter.help}"
        for argument in arguments(COMMANDS[name])
        if sentence_problem(argument.parameter.help or "")
    }
    assert problems == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_at_most_a_dozen_options_come_before_the_groups(name: str) -> None:
    common = [each.names[0] for each in options(COMMANDS[name]) if group_of(each) == COMMON.value]
    assert len(common) <= MOST_COMMON_OPTIONS, common


@pytest.mark.parametrize("name", COMMANDS)
def test_groups_are_those_that_the_settings_can_name(name: str) -> None:
    groups = {group_of(each) for each in options(COMMANDS[name])}
    assert groups <= {group.value for group in HelpGroup}


@pytest.mark.parametrize("name", [name for name, _ in commands() if name])
def test_every_command_has_a_description(name: str) -> None:
    text = str(COMMANDS[name].help).strip()
    first_line = text.splitlines()[0]
    assert sentence_problem(first_line) == "", first_line


def test_equal_names_have_equal_types() -> None:
    types: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, command in COMMANDS.items():
        for option in options(command):
            types[option.names[0]][plain_type(option.hint)].append(name)
    different = {name: dict(uses) for name, uses in types.items() if len(uses) > 1}
    assert {name: uses for name, uses in different.items() if name not in DIFFERENT_TYPES} == {}
    assert set(DIFFERENT_TYPES) <= set(different), "a name in DIFFERENT_TYPES is equal by now"


def test_the_help_of_seeds_begins_alike() -> None:
    for name, command in COMMANDS.items():
        for option in options(command):
            if option.names[0] == "--seed":
                assert str(option.parameter.help).startswith("Random seed "), name


def test_help_shows_common_options_then_groups(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run("language train --help", capsys)
    assert code == 0
    titles = re.findall(r"^╭─ ([A-Z][a-z ]+) ─", text, re.M)
    order = ["Arguments", *(group.value for group in HelpGroup if group.value in titles)]
    assert titles == order
    assert titles[:2] == ["Arguments", "Options"]
    assert {"Model", "Optimizer", "Data"} <= set(titles)
    first, rest = text.split("╭─ Data")
    assert "--learning-rate" in first
    assert "--beta1" in rest


@dataclass(frozen=True)
class SmallSettings:
    size: Annotated[int, "Size of it."] = 3
    depth: Annotated[int, "Depth of it.", MODEL] = 5
    rate: Annotated[float, "Rate of it.", OPTIMIZER, COMMON] = 7.0


@pytest.mark.parametrize(
    ("common", "groups"),
    [(None, ["Options", "Model", "Options"]), (("depth",), ["Options", "Options", "Optimizer"])],
)
def test_settings_name_their_group(common: tuple[str, ...] | None, groups: list[str]) -> None:
    options_class: Any = options_of(SmallSettings, common=common)
    small = create_app("small", "A small command.")

    @small.default
    @flatten_options(settings=options_class)
    def command(*, settings: Any = options_class()) -> None:  # noqa: B008
        del settings

    assert [group_of(option) for option in options(small)] == groups
    assert option_values(options_class()) == {"size": 3, "depth": 5, "rate": 7.0}


# Names of version 0.1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("language train --rate 0.1", "--rate is now --learning-rate"),
        ("language train --rate=0.1", "--rate is now --learning-rate"),
        ("summary train --optimiser muon", "--optimiser is now --optimizer"),
        ("vision train digits --batch-rows 3", "--batch-rows is now --batch-size"),
        ("vision train digits --best", "--best is now --keep-best"),
        ("vision train digits --no-best", "--no-best is now --no-keep-best"),
        ("knowledge pretrain --warmup 5", "--warmup is now --warmup-steps"),
        ("language write run --tokens 5", "--tokens is now --max-new-tokens"),
        ("compare vision --rates 1 2", "--rates is now --learning-rate-factors"),
        ("compare vision --clip 1", "--clip is now --max-gradient-norm"),
        ("knowledge world --out x --tellings 2", "--tellings is now --repetitions"),
    ],
)
def test_an_old_name_leads_to_the_new_one(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(command, capsys)
    assert (code, out, err) == (2, "", f"attnlab: {message}\n")


def test_an_old_name_means_nothing_to_another_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("tour --rate 3", capsys)
    assert code == 2
    assert "is now" not in err
    assert "--rate" in err
