"""Generates the parts of the mechanisms' pages that come from the registry."""

from __future__ import annotations

from pathlib import Path

from attnlab._create_mechanism import mechanism_options
from attnlab._mechanism_table import causal_form, mechanism_facts, yes_no
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

BEGIN, END = "<!-- made by docs/scripts: edit the registry instead -->", "<!-- made until here -->"


def generate_pages(docs: Path) -> dict[Path, str]:
    """The pages with their generated part replaced; the rest stays."""
    parts = {docs / "mechanisms.md": index_table()}
    for name in mechanism_names():
        parts[docs / "mechanisms" / f"{name}.md"] = mechanism_page(name)
    return {path: replace_generated_part(path, part) for path, part in parts.items()}


def mechanism_names() -> list[str]:
    """The built-in mechanisms in the order of the registry, without those of extensions."""
    return [name for name in MECHANISMS if name in MECHANISMS.built_in]


def replace_generated_part(path: Path, part: str) -> str:
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path}: add one line {BEGIN} and one line {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{rest.split(END)[1]}"


def index_table() -> str:
    rows = [
        "| mechanism | what it is | time | memory | causal | cross | state | gates | learned |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in mechanism_names():
        kind = MECHANISMS[name]
        card = kind.card
        cells = (
            f"[`{name}`](mechanisms/{name}.md)",
            card.summary,
            f"${card.time}$",
            f"${card.memory}$",
            causal_form(card),
            yes_no(card.cross),
            "constant" if card.constant_state else "grows",
            ", ".join(f"`{gate.name}`" for gate in kind.gates),
            yes_no(card.learned),
        )
        rows.append(f"| {' | '.join(map(escape_cell, cells))} |")
    return "\n".join(rows)


def mechanism_page(name: str) -> str:
    card, kind = MECHANISMS[name].card, MECHANISMS[name]
    required = ", max_length=..." if card.needs_length else ""
    parts = [
        f"![The matrix of {name} beside softmax's](../pictures/{name}.svg)",
        fact_table(kind),
        f'`attnlab.create_mechanism("{name}", head_dim=..., heads=...{required})`; in models '
        f'`attention="{name}"`.',
        option_table(name),
        f"Reference: {card.paper}, [arXiv {card.arxiv}](https://arxiv.org/abs/{card.arxiv}).",
    ]
    return "\n\n".join(parts)


def fact_table(kind: type[Mechanism]) -> str:
    rows = mechanism_facts(kind)
    rows.append(("computed by", "kernels in C, or PyTorch" if kind.compilable else "PyTorch"))
    costs = {kind.card.time, kind.card.memory}
    rows = [(name, f"${value}$" if value in costs else value) for name, value in rows]
    lines = [f"| {escape_cell(name)} | {escape_cell(value)} |" for name, value in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def option_table(name: str) -> str:
    known_options = mechanism_options(name)
    if not known_options:
        return "It has no options."
    lines = [
        f"| `{option.name}` | `{option.default}` | {escape_cell(option.type)} | "
        f"{escape_cell(option.help)} |"
        for option in known_options
    ]
    return "\n".join(["| option | default | type | meaning |", "| --- | --- | --- | --- |", *lines])


def escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
