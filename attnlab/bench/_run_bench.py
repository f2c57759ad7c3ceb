"""Runs the benches, for Python and for the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Literal

import torch

from attnlab._create_mechanism import find_mechanism, resolve_aliases, what_needs_training
from attnlab.bench._contenders import causal_mechanisms, create_contenders
from attnlab.bench._cost_report import MEMORY, SPEED, cost_section
from attnlab.bench._decode_bench import measure_decoding
from attnlab.bench._decode_report import decode_section
from attnlab.bench._error_bench import measurable_specs, measure_errors, mechanism_name
from attnlab.bench._error_report import error_section
from attnlab.bench._machine_info import describe_machine, library_versions
from attnlab.bench._memory_bench import measure_memory
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._settings import CostSettings, DecodeSettings, ErrorSettings, create_settings
from attnlab.bench._speed_bench import measure_speed
from attnlab.report._content import Report, Section

BenchKind = Literal["error", "speed", "memory", "decode"]
TITLE = "Attention mechanisms, measured"
KINDS: tuple[BenchKind, ...] = ("error", "speed", "memory", "decode")
MAX_SEED = 2**31 - 1  # seeds are multiplied, and PyTorch's seeds have 64 bits


def bench(
    kinds: Sequence[BenchKind] = KINDS,
    *,
    mechanisms: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: BenchProgress = NO_PROGRESS,
    **settings: Any,
) -> Report:
    """Measure mechanisms, such as "favor" or "favor:features=64"; all if none is named.

    `settings` are fields of ErrorSettings, CostSettings and DecodeSettings. With several kinds, a
    mechanism takes part in those it supports. With one kind, an unsupported mechanism is an error.

    >>> from attnlab.bench import bench
    >>> small = {"tokens": 32, "norms": (1.0,), "head_dims": (8,), "seeds": 2}
    >>> report = bench(["error"], mechanisms=["elu"], **small)
    >>> [section.name for section in report.sections]
    ['error']
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"no bench {kind!r}; give one of: {', '.join(KINDS)}")
    mechanisms = without_repeats(mechanisms)
    check_seed(seed)
    for spec in mechanisms:
        find_mechanism(mechanism_name(spec))
    known = {
        field.name
        for settings_class in (ErrorSettings, CostSettings, DecodeSettings)
        for field in fields(settings_class)
    }
    for name in settings:
        if name not in known:
            matches = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {matches[0]!r}?" if matches else ""
            raise ValueError(f"bench: no setting {name!r}{hint} (settings: {_listed(known)})")
    begin = time.perf_counter()
    causal, strict = bool(settings.get("causal")), len(kinds) == 1
    plan = {kind: supported_specs(kind, mechanisms, causal, strict) for kind in kinds}
    plan = {kind: specs for kind, specs in plan.items() if specs or not mechanisms}
    if not plan:
        raise ValueError(
            f"{', '.join(mechanisms)}: cannot be measured by {' or '.join(kinds)}; name another"
        )
    sections = [
        measure_section(kind, specs, quick, seed, progress, settings)
        for kind, specs in plan.items()
    ]
    threads = settings.get("threads") or 1
    seconds = time.perf_counter() - begin
    return Report("bench", TITLE, sections, describe_machine(threads), library_versions(), seconds)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def without_repeats(mechanisms: Sequence[str]) -> list[str]:
    """The mechanisms in their order, each once."""
    return list(dict.fromkeys(resolve_aliases(spec.strip()) for spec in mechanisms))


def check_seed(seed: int) -> None:
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"--seed is {seed}; give a number from 0 to {MAX_SEED}")


def supported_specs(kind: BenchKind, specs: Sequence[str], causal: bool, strict: bool) -> list[str]:
    """The mechanisms that a bench can measure; with `strict` an unsupported one is an error."""
    supported = []
    for spec in specs:
        name = mechanism_name(spec)
        card = find_mechanism(name).card
        if kind == "error" and not strict and not (card.causal if causal else card.bidirectional):
            continue
        if kind == "error" and (what_needs_training(spec) or name == "softmax"):
            if strict:
                measurable_specs([spec], ErrorSettings.tokens)  # raises an error with the reason
        elif kind == "decode" and not card.causal:
            if strict:
                raise ValueError(f"{spec}: has no causal form, so it cannot decode token by token")
        else:
            supported.append(spec)
    return supported


def measure_section(
    kind: BenchKind,
    specs: Sequence[str],
    quick: bool,
    seed: int,
    progress: BenchProgress,
    options: dict[str, Any],
) -> Section:
    if kind == "error":
        error_settings: ErrorSettings = create_settings(ErrorSettings, quick, options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rows = measure_errors(specs, error_settings, seed, progress)
        return error_section(rows, specs, error_settings)
    contenders = create_contenders(specs)
    if kind == "decode":
        decode_settings: DecodeSettings = create_settings(DecodeSettings, quick, options)
        mechanisms = causal_mechanisms(contenders)
        decoding = measure_decoding(mechanisms, decode_settings, progress)
        return decode_section(decoding, decode_settings)
    cost_settings: CostSettings = create_settings(CostSettings, quick, options)
    if kind == "speed":
        return cost_section(
            measure_speed(contenders, cost_settings, progress), SPEED, cost_settings
        )
    return cost_section(measure_memory(contenders, cost_settings, progress), MEMORY, cost_settings)
