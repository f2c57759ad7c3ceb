"""The command line's reference, as its own help tells it."""

from __future__ import annotations

import re
from pathlib import Path

from attnlab.cli import app

NOTE = "Made by `make docs` from the command line's own help; do not edit."


def made(docs: Path) -> dict[Path, str]:
    folder = docs / "reference"
    found = {folder / f"{name}.md": page_of(name) for name in names()}
    found[folder / "README.md"] = index()
    return found


def names() -> list[str]:
    return sorted(name for name in app if not name.startswith("-"))


def index() -> str:
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
    lines += [f"| [`attnlab {name}`]({name}.md) | {about(name)} |" for name in names()]
    return "\n".join([*lines, ""])


def about(name: str) -> str:
    return " ".join(str(app[name].help).split("\n\n")[0].split())


def page_of(name: str) -> str:
    text = app[name].generate_docs(output_format="markdown", recursive=True)
    # the list of commands comes again below it, in order and with a sentence each
    text = re.sub(r"## Table of Contents\n\n(?:- .*\n)+\n", "", text)
    text = re.sub(rf"```console\n{name}\b", f"```console\nattnlab {name}", text)
    # whoever is run as `python -m NAME` is taken for the program
    text = re.sub(r"^(attnlab [a-z ]+) -m [\w.]+", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^(#+) (.*)$", r"\1 attnlab \2", text, flags=re.MULTILINE)
    text = text.replace(f"(#{name}-", f"(#attnlab-{name}-")
    text = text.replace(" *[default: False]*", "").replace("```console", "```text")
    first, rest = text.split("\n", 1)
    return f"{first}\n\n{NOTE}\n{rest.rstrip()}\n"
