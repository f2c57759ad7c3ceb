"""One attention pass, forward only or with gradients, as the speed and memory benches run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.bench._contenders import Attend

PassKey = tuple[str, bool, bool]
"""Name of the contender, causal or not, with backward or not."""


def create_pass(
    attend: Attend, inputs: Sequence[Tensor], leaves: Sequence[Tensor], causal: bool, backward: bool
) -> Callable[[], object]:
    """A function that runs one forward pass; with `backward` also the gradients of q, k, v and the
    parameters."""
    q, k, v, gradient = inputs
    if not backward:

        def forward() -> object:
            with torch.no_grad():
                return attend(q, k, v, causal)

        return forward
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))

    def forward_backward() -> object:
        out = attend(q, k, v, causal)
        return torch.autograd.grad(out, [q, k, v, *leaves], gradient, allow_unused=True)

    return forward_backward
