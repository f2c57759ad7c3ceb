"""The Python reference, from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

NOTE = "Made by `make docs` from signatures and docstrings; do not edit."
# the public packages: each lists its names in __all__
MODULES = (
    "attnlab", "attnlab.laws", "attnlab.models", "attnlab.generate", "attnlab.tokenizer",
    "attnlab.run_folder", "attnlab.training", "attnlab.tasks", "attnlab.tasks.language",
    "attnlab.tasks.knowledge", "attnlab.tasks.summary", "attnlab.tasks.vision", "attnlab.compare",
    "attnlab.interpret", "attnlab.huggingface", "attnlab.claims", "attnlab.bench",
    "attnlab.heads", "attnlab.report",
)  # fmt: skip


def made(docs: Path) -> dict[Path, str]:
    links = [f"[{name}](#{name.replace('.', '')})" for name in MODULES]
    text = "\n\n".join(
        ["# Python reference", NOTE, " · ".join(links), *(module(name) for name in MODULES)]
    )
    return {docs / "reference" / "python.md": text + "\n"}


def module(name: str) -> str:
    found = import_module(name)
    names = found.__all__
    parts = [f"## {name}", doc(found), *(described(each, getattr(found, each)) for each in names)]
    return "\n\n".join(filter(None, parts))


def described(name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### {name}\n\n{constant(value)}"
    parts = [f"### {name}", f"```text\n{name}{signature(value)}\n```", doc(value)]
    if inspect.isclass(value):
        parts += [fields(value), methods(value)]
    return "\n\n".join(filter(None, parts))


def constant(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"A dict of {len(value)}: {', '.join(f'`{key}`' for key in value)}."
    if isinstance(value, tuple):
        return f"A tuple of {len(value)}."
    shown = re.sub(r" at 0x[0-9a-f]+", "", str(value))  # of a function, other in each process
    shown = re.sub(r"(?:[a-z_]+\.)+([A-Z])", r"\1", shown)
    return f"Stands for `{shown}`."


def signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, StrEnum):
        return f"({' | '.join(repr(str(each)) for each in value)})"
    try:
        found = inspect.signature(value)
    except ValueError:  # a class that takes what its ground takes
        return ""
    inner = [parameter(each) for each in found.parameters.values()]
    kinds = [each.kind for each in found.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        inner.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    ending = "" if inspect.isclass(value) else f" -> {short(found.return_annotation)}"
    line = f"({', '.join(inner)}){ending}"
    if len(line) < 80:
        return line
    lines = "".join(f"    {each},\n" for each in inner)
    return f"(\n{lines}){ending}"


def parameter(given: inspect.Parameter) -> str:
    marks: dict[Any, str] = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}
    stars = marks.get(given.kind, "")
    told = "" if given.annotation is given.empty else f": {short(given.annotation)}"
    default = "" if given.default is given.empty else f" = {short(repr(given.default))}"
    if isinstance(given.default, StrEnum):
        default = f" = {type(given.default).__name__}.{given.default.name}"
    default = " = ..." if "<" in default else default  # an object that has no words for itself
    return f"{stars}{given.name}{told}{default}"


def short(annotation: Any) -> str:
    """Without the modules in front of names, and without what is said of each in Annotated."""
    if get_origin(annotation) is Annotated:  # pydantic's validators differ in each process
        annotation = get_args(annotation)[0]
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"Annotated\[(.*), (?:'[^']*'|\"[^\"]*\")\]", r"\1", text)
    return re.sub(r"(?:[a-zA-Z_]+\.)+([A-Z])", r"\1", text)


def doc(value: Any) -> str:
    return inspect.cleandoc(own_doc(value)) if own_doc(value) else ""


def own_doc(value: Any) -> str:
    text = value.__doc__ or ""
    # what a dataclass writes of itself says no more than its signature
    return "" if inspect.isclass(value) and text.startswith(f"{value.__name__}(") else text


def fields(kind: Any) -> str:
    """A dataclass's settings, where they are documented as they are declared."""
    if not dataclasses.is_dataclass(kind):
        return ""
    hints = get_type_hints(kind, include_extras=True)
    rows = []
    for each in dataclasses.fields(kind):
        told = get_args(hints[each.name])
        if len(told) > 1 and isinstance(told[1], str):
            known = each.default is not dataclasses.MISSING and each.default != ""
            default = f"`{each.default}`" if known else ""
            rows.append(f"| `{each.name}` | {default} | {told[1].replace('|', chr(92) + '|')} |")
    return "\n".join(["| setting | default | |", "| --- | --- | --- |", *rows]) if rows else ""


def methods(kind: Any) -> str:
    lines = []
    for name, value in vars(kind).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
            continue
        first = " ".join(inspect.cleandoc(inner.__doc__).split("\n\n")[0].split())
        lines.append(f"- `{name}`: {first}")
    return "\n".join(lines)
