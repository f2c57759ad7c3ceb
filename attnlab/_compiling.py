"""What torch.compile must know about functions, without importing the compiler at the start, and
whether torch.func.vmap maps a call.

`torch.compiler.disable` and `assume_constant_result` import `torch._dynamo`, which takes longer
than the rest of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch._C._functorch import TransformType
from torch._compile import _disable_dynamo

P = ParamSpec("P")
T = TypeVar("T")


def constant_result(function: Callable[P, T]) -> Callable[P, T]:
    """`torch.compiler.assume_constant_result`."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def never_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """`torch.compiler.disable`."""
    disabled = _disable_dynamo(function)  # imports the compiler in its first call

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        compiling = torch.compiler.is_compiling()
        return (disabled if compiling else function)(*args, **kwargs)

    return call


def is_mapped() -> bool:
    """Whether torch.func.vmap maps the call: tensors then have no memory to read or write."""
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() == TransformType.Vmap for level in stack)
