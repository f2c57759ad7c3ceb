"""Layers that compute their attention themselves: runs them with a mechanism, or observes them.

Such a layer runs under an `AttentionTracer`, in a `forward` of its own while it is replaced or
observed. (Hooks would not do: torch skips them after Ctrl-C, and the tracer would stay on.) The
name of the implementation is an attribute of the layer, so that a copy of the model has it too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from attnlab.huggingface._attention_modules import attention_like, uses_interface
from attnlab.huggingface._trace_attention import AttentionTracer, TracedCall, batch_of

ATTRIBUTE = "_attnlab_implementation"
NOT_DOT_PRODUCTS = (
    "Additive", "Deformable", "Delta", "GRU", "Gated", "Lightning", "Linear", "Rwkv",
)  # fmt: skip
"""In class names: weights that do not come from queries and keys. Such layers are left alone."""
REASONS = {
    "big_bird": "attends to blocks of keys, which it gathers itself",
    "bigbird_pegasus": "attends to blocks of keys, which it gathers itself",
    "dinat": "attends to a neighborhood of each pixel in one operation of another package",
    "led": "computes a band around the diagonal in chunks",
    "longformer": "computes a band around the diagonal in chunks",
    "mra": "approximates its matrix at several resolutions",
    "nystromformer": "approximates its matrix by landmarks",
    "reformer": "sorts its tokens by hashes and attends in chunks",
    "yoso": "samples its matrix by hashes",
}
"""By model type: why the attention is more than softmax(q k^T) v."""

Replace = Callable[[str, nn.Module, TracedCall], Tensor]
Observe = Callable[[nn.Module, str, TracedCall, Tensor], None]

replacement: list[Replace] = []  # set by `_register`, which imports this module
_observers: dict[nn.Module, list[Observe]] = {}
_running: set[tuple[int, nn.Module]] = set()
_lock = threading.RLock()


def traceable(model: nn.Module) -> Iterator[nn.Module]:
    """The layers of a model that compute their attention themselves."""
    for module in model.modules():
        if attention_like(module) and not uses_interface(module):
            yield module


def is_dot_product(module: nn.Module) -> bool:
    return not any(word in type(module).__name__ for word in NOT_DOT_PRODUCTS)


def implementation_of(module: nn.Module) -> str | None:
    """The attnlab implementation that this layer runs with."""
    name: str | None = getattr(module, ATTRIBUTE, None)
    return name


def set_implementation(module: nn.Module, name: str | None) -> None:
    """Run the layer with an attnlab implementation; None: as it is."""
    if name is not None:
        setattr(module, ATTRIBUTE, name)
    else:
        vars(module).pop(ATTRIBUTE, None)
    _set_forward(module)


@contextmanager
def observe(modules: list[nn.Module], on_call: Observe) -> Iterator[None]:
    """Pass every attention of these layers to `on_call`."""
    with _lock:
        for module in modules:
            _observers[module] = [*_observers.get(module, []), on_call]
            _set_forward(module)
    try:
        yield
    finally:
        with _lock:
            for module in modules:
                _observers[module] = [x for x in _observers[module] if x is not on_call]
                if not _observers[module]:
                    del _observers[module]
                _set_forward(module)


def _set_forward(module: nn.Module) -> None:
    """Give the layer a traced forward if it is replaced or observed, otherwise its own."""
    current = vars(module).get("forward")
    if implementation_of(module) is not None or module in _observers:
        if not isinstance(current, TracedForward):
            module.forward = TracedForward(module, current)
    elif isinstance(current, TracedForward):
        del module.forward
        if current.before is not None:
            module.forward = current.before


class TracedForward:
    """Runs the forward of a layer under a tracer. A copy of the layer has a copy of it.

    `before` is a forward that somebody else gave to this layer, as accelerate does.
    """

    def __init__(self, module: nn.Module, before: Callable[..., Any] | None) -> None:
        self.module, self.before = module, before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, run = self.module, (threading.get_ident(), self.module)
        forward = partial(type(module).forward, module) if self.before is None else self.before
        is_used = implementation_of(module) is not None or module in _observers
        if run in _running or not is_used:  # somebody's forward may have another of these inside
            return forward(*args, **kwargs)
        _running.add(run)
        try:
            return _trace(module, forward, args, kwargs)
        finally:
            _running.remove(run)


def _trace(
    module: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    name, observers = implementation_of(module), _observers.get(module, [])

    def on_attention(call: TracedCall) -> Tensor | None:
        output = None
        if name is not None:
            output = replacement[0](name, module, call)
        for observer in observers:
            observer(module, name or "eager", call, call.output if output is None else output)
        return output

    with AttentionTracer(batch_of(args, kwargs), on_attention) as tracer:
        result = forward(*args, **kwargs)
    if name is not None and not tracer.count and is_dot_product(module):
        raise ValueError(
            f"{type(module).__name__}: computes no softmax(q k^T) v that attnlab recognizes, so "
            f'{name} cannot replace it; use attn_implementation="eager"'
        )
    return result
