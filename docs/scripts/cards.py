"""The parts of the mechanisms' pages that the registry knows: facts, options, the index."""

from __future__ import annotations

from pathlib import Path

from attnlab._create_mechanism import mechanism_options
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS

BEGIN, END = "<!-- made by docs/scripts: edit the registry instead -->", "<!-- made until here -->"


def made(docs: Path) -> dict[Path, str]:
    """The pages with their made part renewed; what people wrote around it stays."""
    found = {docs / "mechanisms.md": index()}
    for name in names():
        found[docs / "mechanisms" / f"{name}.md"] = page_of(name)
    return {path: renewed(path, part) for path, part in found.items()}


def names() -> list[str]:
    """attnlab's own, in the registry's order, whatever else was registered."""
    return [name for name in MECHANISMS if name in MECHANISMS.built_in]


def renewed(path: Path, part: str) -> str:
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path}: needs one line {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{rest.split(END)[1]}"


def index() -> str:
    rows = [
        "| mechanism | what it is | time | memory | causal | cross | state | trained |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in names():
        card = MECHANISMS[name].card
        cells = (
            f"[`{name}`](mechanisms/{name}.md)",
            card.summary,
            card.time,
            card.memory,
            yes(card.causal),
            yes(card.cross),
            "constant" if card.constant_state else "grows",
            yes(card.learned),
        )
        rows.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(rows)


def page_of(name: str) -> str:
    card, kind = MECHANISMS[name].card, MECHANISMS[name]
    required = ", max_length=..." if card.needs_length else ""
    parts = [
        f"![The matrix of {name} beside softmax's](../pictures/{name}.svg)",
        facts(kind),
        f'`attnlab.create_mechanism("{name}", head_dim=..., heads=...{required})`; in models '
        f'`attention="{name}"`.',
        options(name),
        f"Reference: {card.paper}, [arXiv {card.arxiv}](https://arxiv.org/abs/{card.arxiv}).",
    ]
    return "\n\n".join(parts)


def facts(kind: type[Mechanism]) -> str:
    card = kind.card
    used = [what for what, uses in (("q", card.uses_query), ("k", card.uses_key)) if uses]
    rows = [
        ("time of one head", card.time),
        ("memory beyond q, k, v and output", card.memory),
        ("causal form", yes(card.causal)),
        ("cross-attention", yes(card.cross)),
        ("decoding state", "constant size" if card.constant_state else "grows with the tokens"),
        ("rows sum to 1", yes(card.rows_sum_to_one)),
        ("negative weights", yes(card.signed)),
        ("learned parameters", yes(card.learned)),
        ("computed from", " and ".join(used) or "positions alone"),
        ("computed by", "kernels in C, or PyTorch" if kind.compilable else "PyTorch"),
    ]
    lines = [f"| {cell(what)} | {cell(said)} |" for what, said in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def options(name: str) -> str:
    found = mechanism_options(name)
    if not found:
        return "It has no options."
    lines = [
        f"| `{each.name}` | `{each.default}` | {cell(each.type)} | {cell(each.help)} |"
        for each in found
    ]
    return "\n".join(["| option | default | type | meaning |", "| --- | --- | --- | --- |", *lines])


def yes(value: bool) -> str:
    return "yes" if value else "no"


def cell(text: str) -> str:
    return text.replace("|", "\\|")
