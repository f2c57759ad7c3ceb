"""How a C kernel becomes a PyTorch operator: with gradients, and with shapes for `torch.compile`.

`Library.define` rather than `torch.library.custom_op`: 43 against 50 microseconds a call without
gradients, and as much (about 100) with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms._compiled.calls import TYPES, all_dense, dense, in_large_pages

_library = torch.library.Library("attnlab", "DEF")


def operator(
    name: str,
    takes: str,
    gives: int,
    layout: str,
    room: Callable[..., Any],
    compute: Callable[..., None],
) -> None:
    """Define attnlab::name: `room` allocates what it returns, `compute` fills that.

    `layout` has a word for each tensor that it takes, a letter for each of its axes: what C reads
    by them must be there, whoever calls. `BS:bool` is a mask, `QW:int64` a table.
    """
    many = ", ".join(["Tensor"] * gives)
    _library.define(f"{name}({takes}) -> ({many})")
    words = [(word.partition(":")[0], word.partition(":")[2]) for word in layout.split()]

    def call(*inputs: Any) -> Any:
        check_layout(name, words, inputs)
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


def check_layout(name: str, words: Sequence[tuple[str, str]], inputs: Sequence[Any]) -> None:
    """Axes of one letter have one size, and all numbers are of one type that C has."""
    tensors = [x for x in inputs if x is None or isinstance(x, Tensor)]
    sizes: dict[str, int] = {"1": 1, "2": 2}
    kinds = set()
    for (word, kind), x in zip(words, tensors, strict=True):
        if x is None:
            continue
        fits = x.dim() == len(word) and all(
            sizes.setdefault(letter, size) == size
            for letter, size in zip(word, x.shape, strict=True)
        )
        if kind:
            fits = fits and x.dtype == getattr(torch, kind)
        else:
            kinds.add(x.dtype)
        if not fits or len(kinds) > 1 or not kinds <= TYPES.keys():
            given = [f"{tuple(x.shape)} {x.dtype}" for x in tensors if x is not None]
            wanted = " ".join(word for word, _ in words)
            raise ValueError(
                f"attnlab::{name}: takes tensors {wanted} of one type (given {', '.join(given)})"
            )


def require(holds: bool, wanted: str) -> None:
    """What letters alone do not say."""
    if not holds:
        raise ValueError(f"attnlab: the C kernels take {wanted}")


def differentiable(name: str, chain: Callable[..., tuple[Tensor | None, ...]]) -> None:
    """Its first result has a gradient; `chain` gets all inputs, all results and that gradient, and
    returns the gradients of all inputs, by attnlab::name_backward. That has no gradient itself, and
    says so to who asks for one: without, PyTorch would take it for a constant."""

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

    def twice(ctx: Any, *grads: Any) -> Any:
        del ctx, grads
        raise RuntimeError(
            f"attnlab::{name}: the kernel in C cannot be differentiated twice; "
            "weights(q, k, mask) @ v can"
        )

    torch.library.register_autograd(f"attnlab::{name}", back, setup_context=keep, lib=_library)
    torch.library.register_autograd(f"attnlab::{name}_backward", twice, lib=_library)


def gradients_of(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    """Room for the gradient of each; none has no elements, since an operator cannot return None."""
    some = next(x for x in inputs if x is not None)
    return tuple(some.new_empty(0) if x is None else torch.empty_like(dense(x)) for x in inputs)
