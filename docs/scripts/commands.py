"""Generates the reference of the command line from its help."""

from __future__ import annotations

import re
from pathlib import Path

from attnlab.cli import app
from attnlab.tasks.registry import TASKS

NOTE = "Made by `make docs` from the command line's own help; do not edit."


def generate_pages(docs: Path) -> dict[Path, str]:
    folder = docs / "reference"
    pages = {folder / f"{name}.md": command_page(name) for name in command_names()}
    pages[folder / "README.md"] = index_page()
    return pages


def command_names() -> list[str]:
    """Without the commands of abilities: there are many, and all are alike."""
    return sorted(name for name in app if not name.startswith("-") and app[name].show)


def index_page() -> str:
    lines = [
        "# Reference",
        "",
        NOTE,
        "",
        "What can be called from Python: [python.md](python.md). What can be called from a shell",
        "(every command also takes `--help`):",
        "",
        "| command | |",
        "| --- | --- |",
    ]
    lines += [
        f"| [`attnlab {name}`]({name}.md) | {first_sentence(name)} |" for name in command_names()
    ]
    return "\n".join([*lines, ""])


def first_sentence(name: str) -> str:
    return " ".join(str(app[name].help).split("\n\n")[0].split())


def command_page(name: str) -> str:
    text = app[name].generate_docs(output_format="markdown", recursive=True)
    # a list of commands with sentences follows below
    text = re.sub(r"## Table of Contents\n\n(?:- .*\n)+\n", "", text)
    for task in [kind.name for kind in TASKS.values() if kind.group][1:]:  # the first is enough
        text = re.sub(rf"^## {name} {task}\n.*?(?=^## |\Z)", "", text, flags=re.DOTALL | re.M)
        text = text.replace(f"[`{task}`](#{name}-{task})", f"`{task}`")
    text = re.sub(rf"```console\n{name}\b", f"```console\nattnlab {name}", text)
    # cyclopts shows `-m NAME` if the program runs as `python -m NAME`
    text = re.sub(r"^(attnlab [a-z ]+) -m [\w.]+", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^(#+) (.*)$", r"\1 attnlab \2", text, flags=re.MULTILINE)
    text = text.replace(f"(#{name}-", f"(#attnlab-{name}-")
    text = text.replace(" *[default: False]*", "").replace("```console", "```text")
    first, rest = text.split("\n", 1)
    return f"{first}\n\n{NOTE}\n{rest.rstrip()}\n"
