"""How a C kernel becomes a PyTorch operator: with gradients, and with shapes for `torch.compile`.

`Library.define` rather than `torch.library.custom_op`: 43 against 50 microseconds a call without
gradients, and as much (about 100) with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms.compiled.calls import all_dense, dense, in_large_pages

_library = torch.library.Library("attnlab", "DEF")


def operator(
    name: str, takes: str, gives: int, room: Callable[..., Any], compute: Callable[..., None]
) -> None:
    """Define attnlab::name: `room` allocates what it returns, `compute` fills that."""
    many = ", ".join(["Tensor"] * gives)
    _library.define(f"{name}({takes}) -> ({many})")

    def call(*inputs: Any) -> Any:
        inputs = tuple(all_dense(inputs))
        results = room(*inputs)
        if any(x.numel() for x in results):
            in_large_pages(results)
            compute(*inputs, *results)
        return results

    def shapes(*inputs: Any) -> Any:
        return room(*all_dense(inputs))

    _library.impl(name, call, "CPU")
    torch.library.register_fake(f"attnlab::{name}", shapes, lib=_library)


def differentiable(name: str, chain: Callable[..., tuple[Tensor | None, ...]]) -> None:
    """Its first result has a gradient; `chain` gets all inputs, all results and that gradient, and
    returns the gradients of all inputs. Nothing here can be differentiated twice."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.takes = len(inputs)
        everything = (*inputs, *output)
        ctx.tensors = [isinstance(x, Tensor) for x in everything]
        ctx.others = [x for x in everything if not isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in everything if isinstance(x, Tensor)))

    def back(ctx: Any, grad: Any, *_: Any) -> Any:
        if grad is None:  # nobody used the result
            return (None,) * ctx.takes
        tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
        everything = [next(tensors) if is_tensor else next(others) for is_tensor in ctx.tensors]
        return chain(*everything, grad)

    torch.library.register_autograd(f"attnlab::{name}", back, setup_context=keep, lib=_library)


def gradients_of(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    """Room for the gradient of each; none has no elements, since an operator cannot return None."""
    some = next(x for x in inputs if x is not None)
    return tuple(some.new_empty(0) if x is None else torch.empty_like(dense(x)) for x in inputs)
