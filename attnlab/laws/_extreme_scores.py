"""Law 7 in float32: large scores and growing keys. Right answers, not NaN, not zeros by underflow.

The answer is the definition's in float64, on the same numbers. T queries and keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.laws._compare import must
from attnlab.laws._trial import HEAD_DIM, HEADS, VALUE_DIM
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, repeat_heads

T = 23


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check_stress(
    mechanism: Mechanism, exact: Mechanism, q: Tensor, k: Tensor, causal: bool, limit: float
) -> None:
    """float32 forward, backward and decoding of one against the float64 definition of the other."""
    v = draw(3, *k.shape[:3], VALUE_DIM)
    mask = Mask(causal=causal)
    q64, k64, v64 = q.double(), k.double(), repeat_heads(v, HEADS).double()
    weights = exact.weights(q64, k64, mask)
    condition = exact.condition(q64, k64, mask)
    usable = condition < 30  # beyond that a cancelling sum has no float32 answer
    must(float(usable.double().mean()) > 0.2, "nearly every row cancels: nothing can be told")
    wanted = (weights @ v64).detach()
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    out = mechanism(q, k, v, mask)
    out.square().masked_select(usable).sum().backward()
    if mechanism.card.rows_sum_to_one:
        lost = (out == 0).all(-1) & (wanted != 0).any(-1)
        must(not bool(lost.any()), "zeros by underflow")
    close(out, wanted, condition, usable, limit)
    for x in (q, k, v):
        must(x.grad is None or bool(x.grad.isfinite().all()), "a gradient is not finite")
    if causal:
        state, read = None, []
        for t in range(k.shape[2]):
            here = slice(t, t + 1)
            state = mechanism.absorb(k[:, :, here], v[:, :, here], None, state)
            read.append(mechanism.read(q[:, :, here], state, t))
        close(torch.cat(read, 2), wanted, condition, usable, limit)


def close(out: Tensor, wanted: Tensor, condition: Tensor, usable: Tensor, limit: float) -> None:
    must(bool(out.isfinite().all()), "the output is not finite")
    error = (out.detach().double() - wanted).abs() / (condition**2 * (1 + wanted.abs()))
    worst = float(error.masked_select(usable).max())
    must(worst < limit, f"float32 is {worst:.1e} off, more than {limit:.1e}")


def check_large_scores(
    mechanism: Mechanism, exact: Mechanism, largest: float, causal: bool, seed: int = 1
) -> None:
    """7. Scores up to `largest` in size."""
    q, k = draw(seed, 2, HEADS, T, HEAD_DIM), draw(seed + 1, 2, 3, T, HEAD_DIM)
    scores = (q @ repeat_heads(k, HEADS).mT).abs().max() * HEAD_DIM**-0.5
    grow = (largest / scores).sqrt()
    # a score of 1e4 has a rounding error of about 1e-3 in float32, and so have its weights
    check_stress(mechanism, exact, q * grow, k * grow, causal, limit=1e-6 * largest)


def check_growing_keys(mechanism: Mechanism, exact: Mechanism, seed: int = 1) -> None:
    """7. The last key is e^1000 times the first: a maximum over all would underflow."""
    growth = torch.linspace(1, 60, T)[:, None]
    q, k = draw(seed, 2, HEADS, T, HEAD_DIM), draw(seed + 1, 2, 3, T, HEAD_DIM) * growth
    check_stress(mechanism, exact, q, k, True, limit=1e-3)
    check_stress(mechanism, exact, q, k.flip(2), True, limit=1e-3)
