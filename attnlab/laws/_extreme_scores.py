"""Law 7 in float32: large scores, growing keys and extreme decays give no NaN and no zeros by
underflow.

The expected output is that of the definition in float64. Letters: T queries and keys.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.gates import Gates, sample_gates
from attnlab.laws._compare import require
from attnlab.laws._law_inputs import HEAD_DIM, HEADS, VALUE_DIM
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, repeat_heads

T = 23


def random_normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check_stress(
    mechanism: Any, exact: Any, q: Tensor, k: Tensor, causal: bool, limit: float,
    gates: Gates | None = None,
) -> None:  # fmt: skip
    """Compare float32 forward, backward and decoding with the float64 definition of `exact`."""
    v = random_normal(3, *k.shape[:3], VALUE_DIM)
    mask = Mask(causal=causal)
    if gates is None:
        gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(4))
    gates64 = {name: gate.double() for name, gate in gates.items()}
    q64, k64, v64 = q.double(), k.double(), repeat_heads(v, HEADS).double()
    weights = exact.weights(q64, k64, mask, **gates64)
    condition = exact.condition(q64, k64, mask, **gates64).detach()
    usable = condition < 30  # beyond that, a canceling sum has no float32 answer
    require(
        float(usable.double().mean()) > 0.2, "nearly every row cancels, so nothing can be compared"
    )
    expected = (weights @ v64).detach()
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    gates = {name: gate.clone().requires_grad_() for name, gate in gates.items()}
    out = mechanism(q, k, v, mask, **gates)
    out.square().masked_select(usable).sum().backward()
    if mechanism.card.rows_sum_to_one:
        lost = (out == 0).all(-1) & (expected != 0).any(-1)
        require(not bool(lost.any()), "the output has zeros by underflow")
    require_close(out, expected, condition, usable, limit)
    for x in (q, k, v, *gates.values()):
        require(x.grad is None or bool(x.grad.isfinite().all()), "a gradient is not finite")
    if causal:
        state, read = None, []
        for t in range(k.shape[2]):
            here = slice(t, t + 1)
            own = {name: gate[:, :, here] for name, gate in gates.items()}
            state = mechanism.absorb(k[:, :, here], v[:, :, here], None, state, **own)
            read.append(mechanism.read(q[:, :, here], state, t))
        require_close(torch.cat(read, 2), expected, condition, usable, limit)


def require_close(
    out: Tensor, expected: Tensor, condition: Tensor, usable: Tensor, limit: float
) -> None:
    require(bool(out.isfinite().all()), "the output is not finite")
    error = (out.detach().double() - expected).abs() / (condition**2 * (1 + expected.abs()))
    worst = float(error.masked_select(usable).max())
    require(
        worst < limit, f"the float32 output is off by {worst:.1e}; at most {limit:.1e} is allowed"
    )


def check_large_scores(
    mechanism: Mechanism, exact: Mechanism, largest: float, causal: bool, seed: int = 1
) -> None:
    """7. Scores up to `largest` in size."""
    q, k = random_normal(seed, 2, HEADS, T, HEAD_DIM), random_normal(seed + 1, 2, 3, T, HEAD_DIM)
    scores = (q @ repeat_heads(k, HEADS).mT).abs().max() * HEAD_DIM**-0.5
    scale = (largest / scores).sqrt()
    # a score of 1e4 has a rounding error of about 1e-3 in float32, and so have its weights
    check_stress(mechanism, exact, q * scale, k * scale, causal, limit=1e-6 * largest)


def check_growing_keys(mechanism: Mechanism, exact: Mechanism, seed: int = 1) -> None:
    """7. The last key is e^1000 times the first: one maximum for all keys would underflow."""
    growth = torch.linspace(1, 60, T)[:, None]
    q, k = (
        random_normal(seed, 2, HEADS, T, HEAD_DIM),
        random_normal(seed + 1, 2, 3, T, HEAD_DIM) * growth,
    )
    check_stress(mechanism, exact, q, k, True, limit=1e-3)
    check_stress(mechanism, exact, q, k.flip(2), True, limit=1e-3)


def check_decays(mechanism: Mechanism, exact: Mechanism, seed: int = 1) -> None:
    """7. Decays that forget nothing, nearly nothing, and everything."""
    decays = [gate for gate in mechanism.gates if gate.name.startswith("log_decay")]
    if not decays:
        return
    q, k = random_normal(seed, 2, HEADS, T, HEAD_DIM), random_normal(seed + 1, 2, 3, T, HEAD_DIM)
    gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(4))
    values = torch.tensor([0.0, -1e-8, -0.1, -50.0, -1e4, -torch.inf])
    generator = torch.Generator().manual_seed(seed + 2)
    for choices in (values, values[:3], values[3:]):
        changed = {
            gate.name: choices[torch.randint(len(choices), gate.shape(k), generator=generator)]
            for gate in decays
        }
        check_stress(mechanism, exact, q, k, True, 1e-5, {**gates, **changed})
