"""Turn C kernels into PyTorch operators, with gradients and with shapes for `torch.compile`.

`Library.define` is faster than `torch.library.custom_op`: 43 instead of 50 microseconds per call
without gradients, and equal (about 100) with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms._compiled.calls import TYPES, all_dense, dense, use_large_pages

_library = torch.library.Library("attnlab", "DEF")


def operator(
    name: str,
    arguments: str,
    result_count: int,
    layout: str,
    allocate: Callable[..., Any],
    compute: Callable[..., None],
) -> None:
    """Define attnlab::name: `allocate` makes its results, `compute` fills them.

    `layout` has a word for each tensor argument, with a letter for each axis. Calls are checked
    against it, because C reads memory by these sizes. `BS:bool` is a mask, `QW:int64` a table.
    """
    results = ", ".join(["Tensor"] * result_count)
    _library.define(f"{name}({arguments}) -> ({results})")
    words = [(word.partition(":")[0], word.partition(":")[2]) for word in layout.split()]

    def call(*inputs: Any) -> Any:
        check_layout(name, words, inputs)
        inputs = tuple(all_dense(inputs))
        results = allocate(*inputs)
        if any(x.numel() for x in results):
            use_large_pages(results)
            compute(*inputs, *results)
        return results

    def shapes(*inputs: Any) -> Any:
        return allocate(*all_dense(inputs))

    _library.impl(name, call, "CPU")
    torch.library.register_fake(f"attnlab::{name}", shapes, lib=_library)


def check_layout(name: str, words: Sequence[tuple[str, str]], inputs: Sequence[Any]) -> None:
    """Require one size for each letter, and one dtype that the kernels support."""
    tensors = [x for x in inputs if x is None or isinstance(x, Tensor)]
    sizes: dict[str, int] = {"1": 1, "2": 2}
    dtypes = set()
    for (word, dtype), x in zip(words, tensors, strict=True):
        if x is None:
            continue
        fits = x.dim() == len(word) and all(
            sizes.setdefault(letter, size) == size
            for letter, size in zip(word, x.shape, strict=True)
        )
        if dtype:
            fits = fits and x.dtype == getattr(torch, dtype)
        else:
            dtypes.add(x.dtype)
        if not fits or len(dtypes) > 1 or not dtypes <= TYPES.keys():
            shapes = [f"{tuple(x.shape)} {x.dtype}" for x in tensors if x is not None]
            expected = " ".join(word for word, _ in words)
            raise ValueError(
                f"attnlab::{name}: takes tensors {expected} of one dtype, not {', '.join(shapes)}"
            )


def require(holds: bool, expected: str) -> None:
    """Check what the letters of a layout cannot express."""
    if not holds:
        raise ValueError(f"attnlab: the C kernels take {expected}")


def register_gradient(name: str, gradients: Callable[..., tuple[Tensor | None, ...]]) -> None:
    """Make the first result of attnlab::name differentiable.

    `gradients` takes all inputs, all results and the gradient of the first, and returns the
    gradients of all inputs, computed by attnlab::name_backward. A second derivative raises an
    error; otherwise PyTorch would treat the gradient as a constant.
    """

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.input_count = len(inputs)
        everything = (*inputs, *output)
        ctx.tensors = [isinstance(x, Tensor) for x in everything]
        ctx.others = [x for x in everything if not isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in everything if isinstance(x, Tensor)))

    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        if grad is None:  # the result was not used
            return (None,) * ctx.input_count
        tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
        everything = [next(tensors) if is_tensor else next(others) for is_tensor in ctx.tensors]
        return gradients(*everything, grad)

    def refuse_second_derivative(ctx: Any, *grads: Any) -> Any:
        del ctx, grads
        raise RuntimeError(
            f"attnlab::{name}: the C kernel cannot be differentiated twice; "
            "weights(q, k, mask, **gates) @ v can"
        )

    torch.library.register_autograd(f"attnlab::{name}", backward, setup_context=save, lib=_library)
    torch.library.register_autograd(
        f"attnlab::{name}_backward", refuse_second_derivative, lib=_library
    )


def allocate_gradients(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    """Memory for the gradient of each input; empty for None, which an operator cannot return."""
    some = next(x for x in inputs if x is not None)
    return tuple(some.new_empty(0) if x is None else torch.empty_like(dense(x)) for x in inputs)
