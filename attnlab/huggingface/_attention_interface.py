"""Hears every attention call of a Hugging Face model, with its fused functions left on.

A layer asks transformers' AttentionInterface for a function and calls it. While somebody listens,
what it gets calls the real one, unchanged, and looks at the arguments on the side. The weights come
from the model's own eager function, so that soft caps, sinks and biases are right by construction.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import (
    attention_like,
    is_model,
    kind_of,
    stack_of,
    uses_interface,
    without_interface,
)
from attnlab.huggingface._mask_arguments import cut, is_causal, read_sight
from attnlab.huggingface._query_positions import Positions
from attnlab.huggingface._record_call import Arguments, fill
from attnlab.huggingface._weights_fallback import ask_for_attentions
from attnlab.interpret._attention_call import Call, Listener

INPUTS = ("input_ids", "inputs_embeds", "pixel_values", "decoder_input_ids")


class Ear:
    """One listener at one model."""

    def __init__(self, model: nn.Module, listener: Listener) -> None:
        self.listener = listener
        self.names = {module: name for name, module in model.named_modules()}
        self.positions = Positions()
        self.thread = threading.get_ident()  # what other threads do is not ours
        self.depth = 0
        self.batch, self.sizes = 0, set[int]()  # of the model's inputs
        self.counts: Counter[str] = Counter()
        self.given: dict[nn.Module, dict[str, Any]] = {}
        self.missed: dict[str, None] = {}

    # A model runs from its outermost forward to its end: a layer that runs twice in between is
    # shared by two layers, and counts as two.

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        if not self.here():
            return
        if not self.depth:
            self.counts.clear()
            named = [kwargs.get(name) for name in INPUTS]
            first = [x for x in (*args, *named) if isinstance(x, Tensor) and x.dim()]
            self.batch = len(first[0]) if first else 0
            given = (*args, *kwargs.values())
            self.sizes = {len(x) for x in given if isinstance(x, Tensor) and x.dim()}
        self.depth += 1

    def end(self, *_: Any) -> None:
        self.depth -= self.here() and self.depth > 0

    def here(self) -> bool:
        return self.thread == threading.get_ident()

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args
        if self.here():
            self.given[module] = kwargs

    def leave(self, module: nn.Module, *_: Any) -> None:
        if self.here():
            self.given.pop(module, None)

    def miss(self, module: nn.Module, *_: Any) -> None:
        if self.here():
            self.missed[self.names[module]] = None

    def hear(self, module: nn.Module, given: Arguments, result: Any) -> None:
        q, k, plain_name = given.query, given.key, self.names[module]
        name, row = self._name(module), self._row(len(q))
        if row >= len(q):
            self.listener.admit(name, batch=len(q), heads=q.shape[1], queries=0, keys=0)
            return
        with torch.no_grad():
            sight = read_sight(given.implementation, module, q, k, given.mask, given.options, row)
        T, causal = q.shape[2], is_causal(module, given.options)
        others = self.given.get(module, {})
        kind = kind_of(plain_name, module, others, T, sight.length, causal)
        if kind == "cross":  # the memory's last keys may be padding, but are no free slots
            seen = sight.additive
            sight = replace(sight, length=k.shape[2] if seen is None else seen.shape[-1])
        elif sight.length < k.shape[2]:
            sight = cut(sight)
        stack = stack_of(plain_name, module, kind, causal)
        start, first = self.positions.place(name, stack, kind, T, sight.length)
        heads = self.listener.admit(
            name,
            batch=self.listener.row + 1,  # it is there
            heads=q.shape[1],
            queries=start + T,
            keys=first + sight.length,
        )
        if heads is None:
            return
        call = Call(name, stack, kind, heads, q.shape[1], start, first)
        call.causal = causal and kind == "self"
        call.note = " ".join(filter(None, [sight.note, *self._remarks(module, given)]))
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            fill(call, module, given, sight, result, row, self.listener.wants_weights)
        self.listener.hear(call)

    def _name(self, module: nn.Module) -> str:
        if not self.depth:
            self.counts.clear()
        name = self.names[module] or type(module).__name__
        self.counts[name] += 1
        return name if self.counts[name] == 1 else f"{name} ({self.counts[name]})"

    def _row(self, B: int) -> int:
        """Of this layer's batch, which may hold several windows of an input, or all inputs."""
        row = self.listener.row
        return row * B // self.batch if self._in_parts(B) and row < self.batch else row

    def _in_parts(self, B: int) -> bool:
        """No input has this many rows, but a multiple or a part of them."""
        if not self.depth or not self.batch or B in self.sizes:
            return False
        return B % self.batch == 0 or self.batch % B == 0

    def _remarks(self, module: nn.Module, given: Arguments) -> Iterator[str]:
        cap, batch = given.options.get("softcap"), len(given.query)
        if cap is not None:
            yield f"Scores x are capped: {cap:g} tanh(x / {cap:g})."
        if given.options.get("s_aux") is not None or hasattr(module, "sinks"):
            yield "A learned sink takes a part of each row."
        if self._in_parts(batch):
            yield (
                f"Its batch holds {batch} parts (windows, or several inputs in one) of "
                f"{self.batch} inputs; this is part {self._row(batch)}."
            )


_ears: dict[nn.Module, list[Ear]] = {}
_lock = threading.RLock()
_original: Callable[..., Any] | None = None


def _get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Any:
    """In the place of AttentionInterface.get_interface while somebody listens."""
    assert _original is not None
    real = _original(self, attn_implementation, default)
    implementation = "eager" if real is default else attn_implementation

    def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = real(module, *args, **kwargs)
        for ear in _ears.get(module, ()):
            if ear.here():
                ear.hear(module, Arguments(implementation, default, args, kwargs), result)
        return result

    return attend


def _listen(ear: Ear, modules: list[nn.Module]) -> None:
    global _original
    with _lock:
        if _original is None:
            interface = import_module("transformers.modeling_utils").AttentionInterface
            _original = interface.get_interface
            interface.get_interface = _get_interface
        for module in modules:
            _ears[module] = [*_ears.get(module, []), ear]


def _stop(ear: Ear, modules: list[nn.Module]) -> None:
    global _original
    with _lock:
        for module in modules:
            _ears[module] = [each for each in _ears[module] if each is not ear]
            if not _ears[module]:
                del _ears[module]
        if not _ears:
            interface = import_module("transformers.modeling_utils").AttentionInterface
            interface.get_interface, _original = _original, None


@contextmanager
def listen(model: nn.Module, listener: Listener) -> Iterator[list[str]]:
    """Tell `listener` of every attention call of `model`; the names of all that it will tell of."""
    ear = Ear(model, listener)
    attending = [module for module in model.modules() if uses_interface(module)]
    others = list(without_interface(model))
    inside = {module for _, other in others for module in other.modules()}
    deaf = [
        module
        for module in model.modules()
        if attention_like(module) and module not in inside and not uses_interface(module)
    ]
    outer = [module for module in model.modules() if module is model or is_model(module)]
    with ExitStack() as stack:
        if attending:
            stack.callback(_stop, ear, attending)
            _listen(ear, attending)
        handles = [
            *(m.register_forward_pre_hook(ear.begin, with_kwargs=True) for m in outer),
            *(m.register_forward_hook(ear.end, always_call=True) for m in outer),
            *(m.register_forward_pre_hook(ear.enter, with_kwargs=True) for m in attending),
            *(m.register_forward_hook(ear.leave, always_call=True) for m in attending),
            *(m.register_forward_hook(ear.miss) for m in deaf),
        ]
        for handle in handles:
            stack.callback(handle.remove)
        for name, other in others:
            stack.enter_context(ask_for_attentions(name, other, listener, ear.positions))
        asked = [module for module in inside if attention_like(module)]
        yield [ear.names[module] for module in (*attending, *asked)]
        if ear.missed:
            listener.note(
                f"Not captured, because it does not use transformers' attention interface: "
                f"{', '.join(ear.missed)}."
            )
