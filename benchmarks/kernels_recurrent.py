"""Parts of benchmarks/kernels.py: decay and the delta rule, and packed documents."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import references
import torch
from kernels_turns import (
    HEAD_DIM,
    HEADS,
    Call,
    KernelBenchmark,
    create_backward,
    create_forward,
    exact,
    normal,
)
from torch import Tensor

from attnlab import Mask, Mechanism, create_mechanism
from attnlab.gates import Gates, sample_gates
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.recurrent import gate_columns

TARGETS = {  # x exact: forward, with backward
    "retention": (45, 30),
    "mamba2": (45, 30),
    "gla": (25, 15),
    "delta": (20, 14),
    "gated_delta": (20, 14),
    "kda": (12, 8),
}
TIMES_CHUNKS = 3
LONGEST, ROW, SHORTEST = 512, 2048, 32  # tokens of documents, and of a packed row
DOCUMENTS = 64


def gates_of(mechanism: Mechanism, k: Tensor) -> Gates:
    return sample_gates(mechanism.gates, k, torch.Generator().manual_seed(7))


def create_mechanism_call(mechanism: Mechanism, names: list[str]) -> Callable[..., Tensor]:
    """q, k, the gates and v -> the output."""

    def attend(q: Tensor, k: Tensor, *rest: Tensor) -> Tensor:
        *gates, v = rest
        return mechanism(q, k, v, Mask(causal=True), **dict(zip(names, gates, strict=True)))

    return attend


def create_chunks(mechanism: Any, names: list[str]) -> Callable[..., Tensor]:
    """The same in plain PyTorch."""

    def attend(q: Tensor, k: Tensor, *rest: Tensor) -> Tensor:
        *gates, v = rest
        given = dict(zip(names, gates, strict=True))
        tokens = mechanism.tokens(k, None, given)  # retention's decay, normalized keys
        return references.gated_chunks(
            q, tokens.k, v, tokens.log_decay, tokens.strength, mechanism.delta, mechanism.beta
        )

    return attend


def recurrent(run: KernelBenchmark, repeats: int) -> None:
    """8,192 tokens: each mechanism, exact attention, and chunks in plain PyTorch."""
    length = 8192
    q, k, v = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(3))
    for part, timed in (("forward", create_forward), ("with back", create_backward)):
        calls: dict[str, Call] = {"exact": timed(exact, q, k, v)}
        for name in TARGETS:
            mechanism = create_mechanism(name, head_dim=HEAD_DIM, heads=HEADS)
            gates = gates_of(mechanism, k)
            inputs = (q, k, *gates.values(), v)
            calls[name] = timed(create_mechanism_call(mechanism, list(gates)), *inputs)
            calls[f"{name} in chunks"] = timed(create_chunks(mechanism, list(gates)), *inputs)
        medians = run.turns(part, length, calls, repeats)
        for name, targets in TARGETS.items():
            target = targets[part == "with back"]
            run.figure(f"{name} 8,192, {part}: x exact", medians["exact"] / medians[name], target)
            ratio = medians[f"{name} in chunks"] / medians[name]
            run.figure("  x chunks in plain PyTorch", ratio, TIMES_CHUNKS)


def recurrent_decode(run: KernelBenchmark, repeats: int) -> None:
    """One token: 200 steps per turn, after texts of two lengths."""
    steps, lengths = 200, (128, 8192)
    q, k, v = (normal(n, 1, HEADS, 1, HEAD_DIM) for n in range(3))
    calls: dict[str, Call] = {}
    for name in TARGETS:
        mechanism: Any = create_mechanism(name, head_dim=HEAD_DIM, heads=HEADS)
        gates = gates_of(mechanism, k)
        for length in lengths:
            keys, values = (normal(n, 1, HEADS, length, HEAD_DIM) for n in range(2))
            with torch.no_grad():
                state = mechanism.absorb(keys, values, **gates_of(mechanism, keys))
            step = partial(whole_steps, mechanism, (q, k, v), gates, state, steps)
            calls[f"{name} after {length:,}"] = step
            calls[f"{name} kernel after {length:,}"] = partial(
                kernel_steps, mechanism, (q, k, v), gates, state, steps
            )
    medians = run.turns("decode", steps, calls, 2 * repeats, time.thread_time)
    for name in TARGETS:
        first, last = (medians[f"{name} kernel after {length:,}"] / steps for length in lengths)
        run.figure(f"{name}: microseconds of a step's kernel", 1e3 * last, 60, at_least=False)
        run.figure("  after 8,192 tokens: x after 128", last / first, 1.2, at_least=False)
        whole = medians[f"{name} after 8,192"] / steps
        run.figure("  with checks and layout: microseconds", 1e3 * whole, 1000, at_least=False)


def kernel_steps(
    mechanism: Any, token: tuple[Tensor, ...], gates: Gates, state: Any, steps: int
) -> None:
    q, k, v = token
    tokens, content = mechanism.tokens(k, None, gates), state.content
    columns = gate_columns(tokens)
    with torch.no_grad():
        for _ in range(steps):
            content = compiled.recurrent_absorb(tokens.k, v, *columns, mechanism.delta, content)
            q @ content


def whole_steps(
    mechanism: Any, token: tuple[Tensor, ...], gates: Gates, state: Any, steps: int
) -> None:
    q, k, v = token
    with torch.no_grad():
        for _ in range(steps):
            state = mechanism.absorb(k, v, None, state, **gates)
            mechanism.read(q, state, state.length - 1)


def packing(run: KernelBenchmark, repeats: int) -> None:
    """Documents of 32 to 512 tokens in rows of 2,048, compared with one padded row for each."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (DOCUMENTS,), generator=generator).tolist()
    rows = pack(lengths)
    segments = torch.full((len(rows), ROW), len(lengths))  # the rest of a row is a document too
    keys = torch.zeros(len(rows), ROW, dtype=torch.bool)
    for row, documents in enumerate(rows):
        first = 0
        for document in documents:
            last = first + lengths[document]
            segments[row, first:last], keys[row, first:last] = document, True
            first = last
    packed = Mask(causal=True, keys=keys, segments=segments)
    padded = Mask(
        causal=True, keys=torch.arange(LONGEST) < torch.tensor(lengths)[:, None]
    )  # (documents, LONGEST)
    shapes = {"packed": (len(rows), ROW), "padded": (DOCUMENTS, LONGEST)}
    for name in ("softmax", "window", *TARGETS):
        mechanism = create_mechanism(name, head_dim=HEAD_DIM, heads=HEADS)
        calls: dict[str, Call] = {}
        for what, mask in (("packed", packed), ("padded", padded)):
            B, T = shapes[what]
            q, k, v = (normal(n, B, HEADS, T, HEAD_DIM) for n in range(3))
            gates = gates_of(mechanism, k)
            attend = masked_call(mechanism, list(gates), mask)
            calls[what] = create_backward(attend, q, k, *gates.values(), v)
        medians = run.turns(f"pack {name[:5]}", ROW, calls, repeats)
        ratio = medians["padded"] / medians["packed"]
        run.figure(f"{name}, packed documents: x padded", ratio, 1.5)


def masked_call(mechanism: Mechanism, names: list[str], mask: Mask) -> Callable[..., Tensor]:
    def attend(q: Tensor, k: Tensor, *rest: Tensor) -> Tensor:
        *gates, v = rest
        return mechanism(q, k, v, mask, **dict(zip(names, gates, strict=True)))

    return attend


def pack(lengths: list[int]) -> list[list[int]]:
    """Documents of each row: the longest first, each into the first row that has space."""
    rows: list[list[int]] = []
    free: list[int] = []
    for document in sorted(range(len(lengths)), key=lambda d: -lengths[d]):
        row = next((r for r, space in enumerate(free) if space >= lengths[document]), len(rows))
        if row == len(rows):
            rows.append([])
            free.append(ROW)
        rows[row].append(document)
        free[row] -= lengths[document]
    return [sorted(row) for row in rows]
