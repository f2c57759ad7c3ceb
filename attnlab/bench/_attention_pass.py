"""One pass of attention, forward or with its gradients, as every bench of costs runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.bench._contenders import Attend

Way = tuple[str, bool, bool]
"""Who, causal, with backward."""


def pass_of(
    attend: Attend, inputs: Sequence[Tensor], leaves: Sequence[Tensor], causal: bool, backward: bool
) -> Callable[[], object]:
    """One forward pass, or one with the gradients of q, k, v and the parameters."""
    q, k, v, gradient = inputs
    if not backward:

        def forward() -> object:
            with torch.no_grad():
                return attend(q, k, v, causal)

        return forward
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))

    def both() -> object:
        out = attend(q, k, v, causal)
        return torch.autograd.grad(out, [q, k, v, *leaves], gradient, allow_unused=True)

    return both
