"""Which layers get which mechanism, and why some cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from attnlab._create_mechanism import find_mechanism, parse_groups
from attnlab._short_repr import short_repr
from attnlab.report import read_report

ALL, SOFTMAX = "all", "softmax"
Plan = Mapping[int, str]
"""For each converted layer its mechanism, or one for each group of heads."""
HeadPlan = dict[int, dict[int, str]]
"""For each layer, and each of its heads, a mechanism."""


def parse_layers(text: str, layers: int) -> list[int]:
    """The layers that "8-22", "0,2,5-7" or "all" names, of a model with `layers` layers.

    >>> parse_layers("0,2-4", 6)
    [0, 2, 3, 4]
    """
    chosen: set[int] = set()
    for part in ["0-" + str(layers - 1)] if text.strip() == ALL else text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(
                f"--layers {short_repr(text)}: {short_repr(part)} names no layer; give numbers and "
                "ranges, as in 0,2,8-22, or all"
            )
        if last >= layers:
            raise ValueError(
                f"--layers {short_repr(text)}: there is no layer {last}; the model has "
                f"{layers}, 0 to {layers - 1}"
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def check_mechanisms(specs: Sequence[str]) -> None:
    """Refuse mechanisms that cannot stand in for softmax in a decoder."""
    for name in dict.fromkeys(name for spec in specs for _, name, _ in parse_groups(spec)):
        kind = find_mechanism(name)
        problem = ""
        if not kind.card.causal:
            problem = "has no causal form, which a decoder needs"
        elif kind.gates:
            gates = ", ".join(gate.name for gate in kind.gates)
            problem = f"takes gates ({gates}), which a model with softmax does not make"
        elif not (kind.card.uses_query and kind.card.uses_key):
            problem = "does not read the queries and keys that the model makes"
        elif kind.card.needs_length:
            problem = "has a table over positions, so it reads no longer text"
        if problem:
            raise ValueError(f"--attention {name}: {problem}; choose another, as hedgehog_window")


def read_head_plan(path: Path) -> HeadPlan:
    """The choice of `attnlab heads --json`."""
    report = read_report(path)
    if report.kind != "heads":
        raise ValueError(f"{path}: is a report of {report.kind}; give one of attnlab heads --json")
    plan: HeadPlan = {}
    for row in (row for section in report.sections for row in section.measurements):
        layer, head, spec = (row.get(name) for name in ("layer", "head", "mechanism"))
        if row.get("chosen") is not True or row.get("part") != "decoder":
            continue
        if type(layer) is not int or type(head) is not int or not isinstance(spec, str):
            raise ValueError(f"{path}: a row of its choice names no layer, head and mechanism")
        plan.setdefault(layer, {})[head] = spec
    if not plan:
        raise ValueError(f"{path}: has no choice for the heads of a decoder; measure one")
    return plan


def plan_heads(
    chosen: HeadPlan, layers: Sequence[int], heads: int, attention: str | None, source: Path
) -> dict[int, str]:
    """The mechanism of each layer, by heads. `attention` replaces whatever is cheaper than softmax.
    Layers in which no head can do without softmax stay as they are."""
    plan = {}
    for layer in layers:
        specs = chosen.get(layer, {})
        wrong = [head for head in specs if head not in range(heads)]
        if wrong:
            raise ValueError(
                f"{source}: has a choice for head {wrong[0]} of layer {layer}, but the model has "
                f"{heads} heads; measure this model"
            )
        if attention is not None:
            specs = {head: attention for head, spec in specs.items() if spec != SOFTMAX}
        listed = [specs.get(head, SOFTMAX) for head in range(heads)]
        if set(listed) != {SOFTMAX}:
            plan[layer] = join_heads(listed)
    if not plan:
        raise ValueError(f"{source}: needs softmax in every head of these layers")
    return plan


def join_heads(specs: Sequence[str]) -> str:
    """One text for a layer.

    >>> join_heads(["softmax", "elu", "elu"])
    '1*softmax+2*elu'
    """
    groups = [(spec, len(list(same))) for spec, same in groupby(specs)]
    return groups[0][0] if len(groups) == 1 else "+".join(f"{n}*{spec}" for spec, n in groups)
