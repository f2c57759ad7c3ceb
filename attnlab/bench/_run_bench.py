"""Runs benches: from Python as from the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Literal

import torch

from attnlab._create_mechanism import find_mechanism
from attnlab.bench._contenders import contenders, only_causal
from attnlab.bench._cost_report import MEMORY, SPEED, cost_section
from attnlab.bench._decode_bench import measure_decoding
from attnlab.bench._decode_report import decode_section
from attnlab.bench._error_bench import measurable, measure_errors, name_of
from attnlab.bench._error_report import error_section
from attnlab.bench._machine_info import machine, versions
from attnlab.bench._memory_bench import measure_memory
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._settings import CostSettings, DecodeSettings, ErrorSettings, settings_of
from attnlab.bench._speed_bench import measure_speed
from attnlab.report._content import Report, Section

Kind = Literal["error", "speed", "memory", "decode"]
TITLE = "Attention mechanisms, measured"
KINDS: tuple[Kind, ...] = ("error", "speed", "memory", "decode")
SEEDS = 2**31  # seeds are multiplied, and PyTorch's have 64 bits


def bench(
    kinds: Sequence[Kind] = KINDS,
    *,
    mechanisms: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
    **settings: Any,
) -> Report:
    """Measure mechanisms, all that can if none is named: "favor", "favor:features=64".

    `settings` are fields of ErrorSettings, CostSettings and DecodeSettings. Of several kinds, a
    mechanism takes part in those that it can do; of one alone, what it cannot do is an error.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"no bench {kind!r} (there are: {', '.join(KINDS)})")
    mechanisms = without_repeats(mechanisms)
    check_seed(seed)
    for spec in mechanisms:
        find_mechanism(name_of(spec))
    known = {
        each.name for one in (ErrorSettings, CostSettings, DecodeSettings) for each in fields(one)
    }
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"bench: no setting {name!r}{hint} (there are: {_listed(known)})")
    begin = time.perf_counter()
    plan = {kind: suited(kind, mechanisms, alone=len(kinds) == 1) for kind in kinds}
    plan = {kind: specs for kind, specs in plan.items() if specs or not mechanisms}
    if not plan:
        raise ValueError(f"{', '.join(mechanisms)}: none of these can do any of {', '.join(kinds)}")
    sections = [
        section_of(kind, specs, quick, seed, progress, settings) for kind, specs in plan.items()
    ]
    threads = settings.get("threads") or 1
    seconds = time.perf_counter() - begin
    return Report("bench", TITLE, sections, machine(threads), versions(), seconds)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def without_repeats(mechanisms: Sequence[str]) -> list[str]:
    """Each in its first place: who is named twice takes part once."""
    return list(dict.fromkeys(spec.strip() for spec in mechanisms))


def check_seed(seed: int) -> None:
    if not 0 <= seed < SEEDS:
        raise ValueError(f"--seed {seed}: give a number from 0 to {SEEDS - 1}")


def suited(kind: Kind, specs: Sequence[str], alone: bool) -> list[str]:
    """Those of the named ones that a bench can measure; alone, the first that cannot be is told."""
    found = []
    for spec in specs:
        card = find_mechanism(name_of(spec)).card
        if kind == "error" and (card.learned or name_of(spec) == "softmax"):
            if alone:
                measurable([spec], ErrorSettings.tokens)  # says why not
        elif kind == "decode" and not card.causal:
            if alone:
                raise ValueError(f"{spec}: has no causal form, so it cannot decode token by token")
        else:
            found.append(spec)
    return found


def section_of(
    kind: Kind,
    specs: Sequence[str],
    quick: bool,
    seed: int,
    progress: Progress,
    given: dict[str, Any],
) -> Section:
    if kind == "error":
        how: ErrorSettings = settings_of(ErrorSettings, quick, given)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rows = measure_errors(specs, how, seed, progress)
        return error_section(rows, specs, how)
    parties = contenders(specs)
    if kind == "decode":
        steps: DecodeSettings = settings_of(DecodeSettings, quick, given)
        return decode_section(measure_decoding(only_causal(parties), steps, progress), steps)
    costs: CostSettings = settings_of(CostSettings, quick, given)
    if kind == "speed":
        return cost_section(measure_speed(parties, costs, progress), SPEED, costs)
    return cost_section(measure_memory(parties, costs, progress), MEMORY, costs)
