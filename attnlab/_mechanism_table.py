"""What `attnlab mechanisms` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnlab._create_mechanism import find_mechanism, mechanism_options
from attnlab._join_words import join_words
from attnlab.laws import check_laws
from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._compiled import status

LEGEND = """
causal: has a causal form (only: has no other); cross: can read another
sequence; pack: takes several documents in one row; const state: the decoding
state stops growing; rows to 1: the weights of a query sum to 1. Cost of one
head, beyond q, k, v and output: N tokens, D head size, C features, R rank, W
visible keys.
attnlab mechanisms NAME shows one mechanism: its paper, gates and options."""


def mechanism_to_dict(name: str) -> dict[str, Any]:
    kind, path = find_mechanism(name), computed_in(name)
    return {
        "name": name,
        "path": path,
        **asdict(kind.card),
        "gates": [
            {"name": gate.name, "shape": gate.axes, "range": gate.range} for gate in kind.gates
        ],
        "layer_defaults": dict(kind.layer_defaults),
        "options": [asdict(option) for option in mechanism_options(name)],
    }


def computed_in(name: str) -> str:
    """Whether C or PyTorch computes it on this machine's processor."""
    return "C" if find_mechanism(name).compilable and status().active else "PyTorch"


def describe_paths() -> str:
    names = [name for name, kind in MECHANISMS.items() if kind.compilable]
    active, reason = status().active, status().reason
    method = "in C" if active else "in PyTorch alone, several times slower"
    return f"{', '.join(names)}: computed {method}, because {reason}. The others: in PyTorch."


def mechanisms_to_json(name: str | None) -> str:
    names = list(MECHANISMS) if name is None else [name]
    facts = [mechanism_to_dict(name) for name in names]
    return json.dumps(facts if name is None else facts[0], indent=2)


def print_all(console: Console | None = None) -> None:
    console = console or Console()
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("mechanism", style="bold", no_wrap=True)
    for heading in ("causal", "cross", "pack", "const\nstate", "rows\nto 1"):
        table.add_column(heading, no_wrap=True)
    for heading in ("time", "memory", "arXiv"):
        table.add_column(heading, no_wrap=True)
    for name, mechanism in MECHANISMS.items():
        card = mechanism.card
        can = (card.cross, card.packs, card.constant_state, card.rows_sum_to_one)
        can_text = (causal_form(card), *map(yes_no, can))
        table.add_row(name, *can_text, card.time, card.memory, card.arxiv)
    console.print(table)
    console.print(LEGEND, highlight=False)
    console.print(describe_paths(), highlight=False)


def mechanism_facts(kind: type[Mechanism]) -> list[tuple[str, str]]:
    """What a mechanism can do and what it needs: (fact, value) for the terminal and the pages."""
    card = kind.card
    inputs = [letter for letter, uses in (("q", card.uses_query), ("k", card.uses_key)) if uses]
    inputs += ["gates"] if kind.gates else []
    facts = [
        ("time of one head", card.time),
        ("memory beyond q, k, v, output", card.memory),
        ("causal form", causal_form(card)),
        ("cross-attention", yes_no(card.cross)),
        ("packed documents", yes_no(card.packs)),
        ("decoding state", "constant size" if card.constant_state else "grows with the tokens"),
        ("rows sum to 1", yes_no(card.rows_sum_to_one)),
        ("negative weights", yes_no(card.signed)),
        ("learned parameters", yes_no(card.learned)),
        ("computed from", join_words(inputs) or "positions alone"),
    ]
    if not card.one_graph:
        facts.append(("torch.compile", "in several graphs; not under vmap"))
    facts += [(f"gate {gate.name}", f"{gate.axes}, {gate.range}") for gate in kind.gates]
    if kind.layer_defaults:
        facts.append(("defaults in models", options_text(kind.layer_defaults)))
    return facts


def causal_form(card: Card) -> str:
    return "only" if card.causal and not card.bidirectional else yes_no(card.causal)


def options_text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in options.items())


def print_one(name: str, console: Console | None = None) -> None:
    console = console or Console()
    kind = find_mechanism(name)
    card = kind.card
    console.print(f"[bold]{name}[/bold]: {card.summary}", highlight=False)
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("paper", f"{card.paper}, arXiv:{card.arxiv}")
    for fact, value in mechanism_facts(kind):
        facts.add_row(fact, value)
    facts.add_row("computed in", computed_in(name))
    console.print(facts, highlight=False)
    required = ", max_length=..." if card.needs_length else ""
    console.print(
        f'\nattnlab.create_mechanism("{name}", head_dim=..., heads=...{required}, [options])',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    options = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for heading in ("option", "default", "type", "meaning"):
        options.add_column(heading)
    for option in mechanism_options(name):
        options.add_row(option.name, str(option.default), option.type, option.help)
    console.print()
    console.print(options if options.row_count else "no options")


def print_law_results(name: str, examples: int, seed: int, console: Console | None = None) -> bool:
    """Print a line for each law, at all options of `trials`; return whether all laws hold."""
    console = console or Console()
    results = check_laws(name, examples=examples, seed=seed)
    console.print(f"[bold]{name}[/bold]: {len(find_mechanism(name).trials)} sets of options")
    for law in dict.fromkeys(result.law for result in results):
        rows = [result for result in results if result.law == law]
        tried, broken = sum(row.tried for row in rows), [row for row in rows if not row.holds]
        outcome = (
            f"holds on {tried} inputs"
            if tried
            else "not tested: its card says that it does not support this"
        )
        mark = "[red]broken[/red]" if broken else "ok    "
        console.print(f"  {mark} {law}: ", end="", highlight=False)
        if broken:
            outcome = f"{broken[0].problem} (options {dict(broken[0].options)})"
        console.print(outcome, highlight=False, markup=False, soft_wrap=True)
    return all(result.holds for result in results)


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
