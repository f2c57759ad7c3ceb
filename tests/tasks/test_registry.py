"""A task is declared once: nothing outside its folder names it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.tasks.kind import Capability, TaskKind, load_reference
from attnlab.tasks.registry import TASKS, register_task, task_of

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "attnlab"
ABOUT_TASKS = {"tasks", "claims", "convert", "demo", "bench", "heads"}
"""Packages that are about particular tasks: experiments, a tour of one, readers of their data."""
SHARED = {
    *("abilities", "comparison", "kind", "registry", "serving", "simple"),
    *("_simple_commands", "_simple_comparison", "_simple_training", "_task_options"),
}
OTHER_FACTS = {
    ("interpret", "vision"),  # a kind of model
    ("huggingface", "vision"),
    ("studio", "summary"),  # a word of OpenAPI
    ("interpret", "induction"),  # a pattern of heads
    ("report", "reverse"),  # a style of text in a terminal
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if package not in ABOUT_TASKS:
            yield package, path


def named_tasks(package: str, text: str) -> set[str]:
    """The tasks that a module names: as a string, in a command, or as an import."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_ability = node.value in TASKS and TASKS[node.value].group != ""
            chosen = package == "compare" and is_ability  # the overview has a default selection
            if node.value in TASKS and not chosen and (package, node.value) not in OTHER_FACTS:
                names.add(node.value)
            names |= {name for name in TASKS if re.search(rf"\battnlab {name} [a-z]", node.value)}
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnlab.tasks."):
            names |= {str(node.module).split(".")[2]} - SHARED
    return names


def test_no_module_outside_a_task_names_it() -> None:
    for package, path in modules():
        assert not named_tasks(package, path.read_text(encoding="utf-8")), path


def test_the_check_notices_a_named_task() -> None:
    assert named_tasks("studio", 'if name == "knowledge": pass') == {"knowledge"}
    assert named_tasks("cli", 'say("attnlab vision train makes one")') == {"vision"}
    assert named_tasks("interpret", "from attnlab.tasks.summary._task import SummaryTask")
    assert not named_tasks("interpret", 'kinds = {ViT: "vision"}')
    assert not named_tasks("studio", "from attnlab.tasks.registry import TASKS")


@pytest.mark.parametrize("name", list(TASKS))
def test_pages_name_no_task(name: str) -> None:
    named = re.compile(rf"attnlab {name}\b|task\s*===?\s*[\"']{name}|[\"']{name}[\"']\s*:")
    for path in (ROOT / "web" / "src" / "studio").glob("*.ts*"):
        if ".test." not in path.name:
            assert not named.search(path.read_text(encoding="utf-8")), path


def test_the_registry_imports_neither_torch_nor_numpy() -> None:
    program = (
        "import sys, attnlab.tasks.registry, attnlab.tasks.simple\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("kind", TASKS.values(), ids=list(TASKS))
def test_references_of_a_task_can_be_loaded(kind: TaskKind) -> None:
    if kind.commands:
        assert load_reference(kind.commands).name[0] == kind.name
    else:
        assert kind.load_recipe().name == kind.name
    assert kind.inspected_model == "" or callable(load_reference(kind.inspected_model))
    assert kind.group or kind.example is not None
    if kind.example is not None:
        assert kind.example.command.startswith(f"attnlab {kind.name} ")
    for each in kind.capabilities.values():
        assert callable(load_reference(each.serve).open)
        assert {*each.files, *filter(None, (each.report,))} <= {"tokenizer.json", *kind.files}
        for reference in filter(None, (each.prepare, each.examples)):
            assert callable(load_reference(reference))


def test_a_capability_needs_a_model_and_files(tmp_path: Path) -> None:
    capability = Capability("nowhere:nothing", models=("decoder",), files=("known.json",))
    assert not capability.is_available(tmp_path, "decoder")
    (tmp_path / "known.json").touch()
    assert capability.is_available(tmp_path, "decoder")
    assert not capability.is_available(tmp_path, "encoder")
    assert Capability("nowhere:nothing").is_available(tmp_path, None)


def test_a_run_of_an_unknown_task() -> None:
    assert task_of({"task": {"name": "vision"}}) is TASKS["vision"]
    strangers: list[Any] = [{}, {"name": []}, {"name": "nobody"}, "vision", None]
    for task in strangers:
        assert task_of({"task": task}) is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (TaskKind("vision", "", "loss", "lower", recipe=1), "built into attnlab"),
        (TaskKind("My task", "", "loss", "lower", recipe=1), "lower-case"),
        (TaskKind("mine", "", "loss", "lower"), "no commands and no recipe"),
        (3, "not a task"),
    ],
)
def test_invalid_registrations(kind: Any, words: str) -> None:
    before = dict(TASKS)
    with pytest.raises(ValueError, match=words):
        register_task(kind)
    assert before == dict(TASKS)
