"""The table of `attnlab tour`: every mechanism on one input, compared with exact attention.

Letters: B batch, H heads, N tokens, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.console import Console

from attnlab._attention import attention
from attnlab._create_mechanism import create_mechanism
from attnlab.bench._contenders import Sizes
from attnlab.bench._error_bench import relative_error, uniform_weights
from attnlab.bench._measure_costs import least_seconds
from attnlab.gates import sample_gates
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS
from attnlab.report import Table
from attnlab.report._terminal import print_table

SIZES = Sizes(heads=4, head_dim=64)


@dataclass(frozen=True)
class TourRow:
    """The measurements of one mechanism."""

    name: str
    causal: bool
    learned: bool
    gated: bool
    sees_all: bool
    """It may skip far keys, but skips none of these: here it is softmax."""
    error: float
    """|output - softmax's output| / |softmax's output|."""
    milliseconds: float
    state_bytes: int


def measure_tour(tokens: int, seed: int) -> Iterator[TourRow]:
    """Each mechanism with its default options, causal if it has a causal form."""
    q, k, v, _ = SIZES.inputs(tokens, seed)
    sizes = {"head_dim": SIZES.head_dim, "heads": SIZES.heads}
    softmax = create_mechanism("softmax", **sizes)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        for name, kind in MECHANISMS.items():
            length = tokens if kind.card.needs_length else None
            mechanism: Any = create_mechanism(name, **sizes, max_length=length)
            mask = Mask(causal=kind.card.causal)
            gates = sample_gates(kind.gates, k, torch.Generator().manual_seed(seed))
            error = relative_error(mechanism(q, k, v, mask, **gates), softmax(q, k, v, mask))
            milliseconds = 1e3 * least_seconds([partial(mechanism, q, k, v, mask, **gates)])[0]
            state: Any = None
            for part in (slice(0, -1), slice(-1, None)):  # a prompt, then one token
                own = {gate: x[:, :, part] for gate, x in gates.items()}
                state = mechanism.absorb(k[:, :, part], v[:, :, part], None, state, **own)
            sees_all = mechanism.covers_all(tokens, mask.causal)
            facts = (mask.causal, kind.card.learned, bool(gates), sees_all)
            yield TourRow(name, *facts, error, milliseconds, state.nbytes)


def remarks_on(row: TourRow) -> str:
    remarks = {
        "untrained": row.learned,
        "random gates": row.gated,
        "not causal": not row.causal,
        "sees all keys": row.sees_all,
    }
    return ", ".join(remark for remark, applies in remarks.items() if applies)


def control_error(tokens: int, seed: int) -> float:
    """Error of the plain average of all values so far."""
    q, k, v, _ = SIZES.inputs(tokens, seed)
    average = uniform_weights(Mask(causal=True), tokens, tokens).to(v.dtype) @ v
    return relative_error(average, attention(q, k, v, causal=True))


def print_tour(tokens: int, seed: int, console: Console | None = None) -> None:
    if tokens < 2:
        raise ValueError(f"tour: --tokens {tokens} is too few; give 2 or more")
    console = console or Console()
    console.print(
        f"Every mechanism on one input: {tokens} tokens, {SIZES.heads} heads of "
        f"{SIZES.head_dim}, q, k, v ~ N(0, 1), seed {seed}, CPU time of one thread.",
        highlight=False,
    )
    measured = []
    with console.status("running") as status:
        for row in measure_tour(tokens, seed):
            status.update(f"{row.name} done")
            measured.append(row)
    rows = [
        [
            row.name,
            f"{row.error:.3f}",
            f"{row.milliseconds:.1f}",
            f"{row.state_bytes / 1e3:,.0f}",
            remarks_on(row),
        ]
        for row in measured
    ]
    rows.append(["(equal weights)", f"{control_error(tokens, seed):.3f}", "", "", "control"])
    note = (
        "error: |output - softmax's| / |softmax's|; control: the average of all values. "
        "state: size of the decoding state after these tokens. sees all keys: it skips none of "
        "these tokens, so here it equals softmax."
    )
    print_table(Table("", ["mechanism", "error", "time, ms", "state, kB", ""], rows, note), console)
    console.print("Next: attnlab mechanisms favor, attnlab bench error --quick")
