"""Generates the Python reference from signatures and docstrings."""

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
    "attnlab", "attnlab.laws", "attnlab.gates", "attnlab.layers", "attnlab.models",
    "attnlab.generate", "attnlab.tokenizer", "attnlab.run_folder", "attnlab.training",
    "attnlab.tasks", "attnlab.tasks.language",
    "attnlab.tasks.knowledge", "attnlab.tasks.summary", "attnlab.tasks.vision", "attnlab.compare",
    "attnlab.interpret", "attnlab.huggingface", "attnlab.claims", "attnlab.bench",
    "attnlab.heads", "attnlab.report",
)  # fmt: skip


def generate_pages(docs: Path) -> dict[Path, str]:
    """A page for each public package, and an index of them."""
    folder = docs / "reference"
    pages = {folder / "python" / f"{name}.md": describe_module(name) for name in MODULES}
    pages[folder / "python.md"] = index_page()
    return pages


def index_page() -> str:
    rows = [
        f"| [`{name}`](python/{name}.md) | {first_sentence(import_module(name))} |"
        for name in MODULES
    ]
    head = ["# Python reference", "", NOTE, "", "| package | |", "| --- | --- |"]
    return "\n".join([*head, *rows, ""])


def first_sentence(value: Any) -> str:
    return " ".join(docstring(value).split("\n\n")[0].split())


def describe_module(name: str) -> str:
    package = import_module(name)
    members = (describe_member(member, getattr(package, member)) for member in package.__all__)
    parts = [f"# {name}", NOTE, docstring(package), *members]
    return "\n\n".join(filter(None, parts)) + "\n"


def describe_member(name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"## {name}\n\n{describe_constant(value)}"
    parts = [f"## {name}", f"```text\n{name}{format_signature(value)}\n```", docstring(value)]
    if inspect.isclass(value):
        parts += [field_table(value), method_list(value)]
    return "\n\n".join(filter(None, parts))


def describe_constant(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"A dict of {len(value)}: {', '.join(f'`{key}`' for key in value)}."
    if isinstance(value, tuple):
        return f"A tuple of {len(value)}."
    text = re.sub(r" at 0x[0-9a-f]+", "", str(value))  # addresses differ in each process
    text = re.sub(r"(?:[a-z_]+\.)+([A-Z])", r"\1", text)
    return f"Stands for `{text}`."


def format_signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, StrEnum):
        return f"({' | '.join(repr(str(member)) for member in value)})"
    try:
        result = inspect.signature(value)
    except ValueError:  # a class with the signature of a built-in base class
        return ""
    inner = [format_parameter(item) for item in result.parameters.values()]
    kinds = [item.kind for item in result.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        inner.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    ending = "" if inspect.isclass(value) else f" -> {shorten_annotation(result.return_annotation)}"
    line = f"({', '.join(inner)}){ending}"
    if len(line) < 80:
        return line
    lines = "".join(f"    {text},\n" for text in inner)
    return f"(\n{lines}){ending}"


def format_parameter(parameter: inspect.Parameter) -> str:
    marks: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    stars = marks.get(parameter.kind, "")
    annotation = (
        ""
        if parameter.annotation is parameter.empty
        else f": {shorten_annotation(parameter.annotation)}"
    )
    default = (
        ""
        if parameter.default is parameter.empty
        else f" = {shorten_annotation(repr(parameter.default))}"
    )
    if isinstance(parameter.default, StrEnum):
        default = f" = {type(parameter.default).__name__}.{parameter.default.name}"
    default = " = ..." if "<" in default else default  # an object without a readable repr
    return f"{stars}{parameter.name}{annotation}{default}"


def shorten_annotation(annotation: Any) -> str:
    """An annotation without module names and without the texts in Annotated."""
    if get_origin(annotation) is Annotated:  # pydantic's validators differ in each process
        annotation = get_args(annotation)[0]
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"Annotated\[(.*), (?:'[^']*'|\"[^\"]*\")\]", r"\1", text)
    return re.sub(r"(?:[a-zA-Z_]+\.)+([A-Z])", r"\1", text)


def docstring(value: Any) -> str:
    return inspect.cleandoc(written_docstring(value)) if written_docstring(value) else ""


def written_docstring(value: Any) -> str:
    text = value.__doc__ or ""
    # the generated docstring of a dataclass only repeats its signature
    return "" if inspect.isclass(value) and text.startswith(f"{value.__name__}(") else text


def field_table(kind: Any) -> str:
    """A table of the documented fields of a dataclass."""
    if not dataclasses.is_dataclass(kind):
        return ""
    hints = get_type_hints(kind, include_extras=True)
    rows = []
    for field in dataclasses.fields(kind):
        arguments = get_args(hints[field.name])
        if len(arguments) > 1 and isinstance(arguments[1], str):
            has_default = field.default is not dataclasses.MISSING and field.default != ""
            default = f"`{field.default}`" if has_default else ""
            text = arguments[1].replace("|", chr(92) + "|")
            rows.append(f"| `{field.name}` | {default} | {text} |")
    return "\n".join(["| setting | default | |", "| --- | --- | --- |", *rows]) if rows else ""


def method_list(kind: Any) -> str:
    lines = []
    for name, value in vars(kind).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
            continue
        first = " ".join(inspect.cleandoc(inner.__doc__).split("\n\n")[0].split())
        lines.append(f"- `{name}`: {first}")
    return "\n".join(lines)
