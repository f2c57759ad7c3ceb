"""Observes every attention call of a Hugging Face model without turning off fused attention.

A layer gets its attention function from transformers' AttentionInterface. During a capture it gets
a wrapper, which calls the real function and also records its arguments. The weights come from the
model's own eager function, so soft caps, sinks and biases are right by construction.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

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
from attnlab.huggingface._mask_arguments import is_causal, read_row_mask, without_free_slots
from attnlab.huggingface._query_positions import PositionTracker
from attnlab.huggingface._record_call import CallArguments, fill_call
from attnlab.huggingface._recurrent_layers import (
    Scan,
    fill_scan,
    is_recurrent,
    usual_channels,
    watch,
)
from attnlab.huggingface._trace_attention import TracedCall, plain_attention
from attnlab.huggingface._traced_layers import (
    implementation_of,
    is_dot_product,
    observe,
    traceable,
)
from attnlab.huggingface._weights_fallback import request_attentions
from attnlab.interpret._attention_call import AttentionCall, CallListener

INPUTS = ("input_ids", "inputs_embeds", "pixel_values", "decoder_input_ids")


class ModelObserver:
    """Passes the attention calls of one model to one listener."""

    def __init__(self, model: nn.Module, listener: CallListener) -> None:
        self.listener = listener
        self.names = {module: name for name, module in model.named_modules()}
        self.positions = PositionTracker()
        self.thread = threading.get_ident()  # calls of other threads are ignored
        self.depth = 0
        self.batch, self.sizes = 0, set[int]()  # first axes of the model's inputs
        self.counts: Counter[str] = Counter()
        self.layer_arguments: dict[nn.Module, dict[str, Any]] = {}
        self.missed: dict[str, None] = {}
        self.traced: set[nn.Module] = set()

    # A run lasts from the start to the end of the outermost forward. A module that runs twice in
    # between is shared by two layers, and counts as two.

    def begin_run(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        if not self.is_own_thread():
            return
        if not self.depth:
            self.counts.clear()
            named = [kwargs.get(name) for name in INPUTS]
            first = [x for x in (*args, *named) if isinstance(x, Tensor) and x.dim()]
            self.batch = len(first[0]) if first else 0
            inputs = (*args, *kwargs.values())
            self.sizes = {len(x) for x in inputs if isinstance(x, Tensor) and x.dim()}
        self.depth += 1

    def end_run(self, *_: Any) -> None:
        self.depth -= self.is_own_thread() and self.depth > 0

    def is_own_thread(self) -> bool:
        return self.thread == threading.get_ident()

    def enter_layer(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args
        if self.is_own_thread():
            self.layer_arguments[module] = kwargs

    def leave_layer(self, module: nn.Module, *_: Any) -> None:
        if self.is_own_thread():
            self.layer_arguments.pop(module, None)

    def note_missed(self, module: nn.Module, *_: Any) -> None:
        if self.is_own_thread() and module not in self.traced:
            self.missed[self.names[module]] = None

    def on_traced(
        self, module: nn.Module, implementation: str, call: TracedCall, output: Tensor
    ) -> None:
        """An attention of a layer that computes it itself; output (B, H, T, M)."""
        if not self.is_own_thread():
            return
        self.traced.add(module)
        tensors = (call.query, call.key, call.value, call.mask)
        options = {
            "scaling": call.scaling,
            "dropout": call.dropout,
            "is_causal": call.is_causal,
        }
        weights = call.weights if implementation == "eager" else None
        self.on_call(
            module,
            CallArguments(implementation, plain_attention, tensors, options),
            (output.transpose(1, 2), weights),
        )

    def on_call(self, module: nn.Module, arguments: CallArguments, result: Any) -> None:
        q, k, plain_name = arguments.query, arguments.key, self.names[module]
        name, row = self._numbered_name(module), self._row(len(q))
        if row >= len(q):
            self.listener.select_heads(name, batch=len(q), heads=q.shape[1], queries=0, keys=0)
            return
        with torch.no_grad():
            row_mask = read_row_mask(
                arguments.implementation, module, q, k, arguments.mask, arguments.options, row
            )
        T, causal = q.shape[2], is_causal(module, arguments.options)
        layer_arguments = self.layer_arguments.get(module, {})
        kind = kind_of(plain_name, module, layer_arguments, T, row_mask.length, causal)
        row_mask = without_free_slots(row_mask, k.shape[2], cross=kind == "cross")
        stack = stack_of(plain_name, module, kind, causal)
        start, first_key = self.positions.advance(name, stack, kind, T, row_mask.length)
        heads = self.listener.select_heads(
            name,
            batch=self.listener.row + 1,  # checked above
            heads=q.shape[1],
            queries=start + T,
            keys=first_key + row_mask.length,
        )
        if heads is None:
            return
        call = AttentionCall(name, stack, kind, heads, q.shape[1], start, first_key)
        call.causal = causal and kind == "self"
        call.parts = len(q) // self.batch if self._has_parts(len(q)) and self.batch else 1
        call.note = " ".join(filter(None, [row_mask.note, *self._layer_notes(module, arguments)]))
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            fill_call(call, module, arguments, row_mask, result, row, self.listener.wants_weights)
        self.listener.on_call(call)

    def on_scan(self, module: nn.Module, scan: Scan) -> None:
        """A recurrence that read its whole input at once."""
        self.traced.add(module)
        B, H, T, _ = scan.v.shape
        name, row = self._numbered_name(module), self._row(B)
        usual = usual_channels(scan)
        batch = B if row >= B else self.listener.row + 1
        heads = self.listener.select_heads(
            name, batch=batch, heads=H, queries=T, keys=T, usual=usual
        )
        if heads is None:
            return
        call = AttentionCall(name, "decoder", "self", heads, H, 0, causal=True)
        if len(heads) < H and heads == usual:
            call.note = f"{len(heads)} of {H} channels."
        with torch.no_grad(), torch.autocast(scan.v.device.type, enabled=False):
            fill_scan(call, scan, row, self.listener.wants_weights)
        self.listener.on_call(call)

    def _numbered_name(self, module: nn.Module) -> str:
        if not self.depth:
            self.counts.clear()
        name = self.names[module] or type(module).__name__
        self.counts[name] += 1
        return name if self.counts[name] == 1 else f"{name} ({self.counts[name]})"

    def _row(self, B: int) -> int:
        """The row in this layer's batch, which may have several windows per input or all inputs."""
        row = self.listener.row
        return row * B // self.batch if self._has_parts(B) and row < self.batch else row

    def _has_parts(self, B: int) -> bool:
        """Whether B is a divisor of the batch size, or a multiple and no input's batch size."""
        if not self.depth or not self.batch or self.batch == B:
            return False
        if B and self.batch % B == 0:
            return True
        return B % self.batch == 0 and B not in self.sizes

    def _layer_notes(self, module: nn.Module, arguments: CallArguments) -> Iterator[str]:
        cap, batch = arguments.options.get("softcap"), len(arguments.query)
        if cap is not None:
            yield f"Scores x are capped: {cap:g} tanh(x / {cap:g})."
        if arguments.options.get("s_aux") is not None or hasattr(module, "sinks"):
            yield "A learned sink takes a part of each row's weight."
        if self._has_parts(batch):
            yield (
                f"Its batch has {batch} parts (windows, or several inputs in one) of "
                f"{self.batch} inputs; this is part {self._row(batch)}."
            )


class LaterCalls:
    """Traced calls of a model that is asked for its weights: they count if it returns none."""

    def __init__(self, observer: ModelObserver) -> None:
        self.observer, self.calls = observer, list[tuple[Any, ...]]()
        self.needed = True

    def add(self, *call: Any) -> None:
        if self.needed and self.observer.is_own_thread():
            self.calls.append(call)

    def end(self, nothing: bool) -> bool:
        """A run of the model ends; `nothing`: it returned no weights. Whether calls count."""
        self.needed = nothing
        calls, self.calls = self.calls if nothing else [], []
        for call in calls:
            self.observer.on_traced(*call)
        return bool(calls)


@dataclass(frozen=True, eq=False)
class Editor:
    """Changes what an attention function returns. Edits of weights come before the observers, so
    that a capture sees the edited weights; edits of heads come after, because they change what
    the layer makes of its attention."""

    stage: Literal["weights", "heads"]
    change: Callable[[CallArguments, Any], Any]


_observers: dict[nn.Module, list[ModelObserver]] = {}
_editors: dict[nn.Module, list[Editor]] = {}
_lock = threading.RLock()
_original: Callable[..., Any] | None = None


def _get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Any:
    """Replaces AttentionInterface.get_interface during a capture."""
    assert _original is not None
    real = _original(self, attn_implementation, default)
    implementation = "eager" if real is default else attn_implementation

    def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = real(module, *args, **kwargs)
        editors, observers = _editors.get(module, ()), _observers.get(module, ())
        if not editors and not observers:
            return result
        arguments = CallArguments(implementation, default, args, kwargs)
        for editor in editors:
            if editor.stage == "weights":
                result = editor.change(arguments, result)
        for observer in observers:
            if observer.is_own_thread():
                observer.on_call(module, arguments, result)
        for editor in editors:
            if editor.stage == "heads":
                result = editor.change(arguments, result)
        return result

    return attend


def _replace_interface() -> None:
    """Give the layers our function while anything observes or edits them."""
    global _original
    if bool(_observers or _editors) == (_original is not None):
        return
    interface = import_module("transformers.modeling_utils").AttentionInterface
    if _original is None:
        _original, interface.get_interface = interface.get_interface, _get_interface
    else:
        interface.get_interface, _original = _original, None


def _start(observer: ModelObserver, modules: list[nn.Module]) -> None:
    with _lock:
        for module in modules:
            _observers[module] = [*_observers.get(module, []), observer]
        _replace_interface()


def _stop(observer: ModelObserver, modules: list[nn.Module]) -> None:
    with _lock:
        for module in modules:
            _observers[module] = [other for other in _observers[module] if other is not observer]
            if not _observers[module]:
                del _observers[module]
        _replace_interface()


@contextmanager
def editing(module: nn.Module, editor: Editor) -> Iterator[None]:
    """Apply an editor to every attention call of a module, after the editors before it."""
    with _lock:
        _editors[module] = [*_editors.get(module, []), editor]
        _replace_interface()
    try:
        yield
    finally:
        with _lock:
            _editors[module] = [other for other in _editors[module] if other is not editor]
            if not _editors[module]:
                del _editors[module]
            _replace_interface()


@contextmanager
def listen(model: nn.Module, listener: CallListener) -> Iterator[list[str]]:
    """Pass every attention call of `model` to `listener`; returns the names of the layers."""
    observer = ModelObserver(model, listener)
    attending = [module for module in model.modules() if uses_interface(module)]
    recurrent = [module for module in model.modules() if is_recurrent(module)]
    fallbacks = [
        (name, part)
        for name, part in without_interface(model)
        if not all(map(is_recurrent, filter(attention_like, part.modules())))
    ]
    fallbacks = [(name, part) for name, part in fallbacks if not _must_trace(part)]
    inside = {module for _, part in fallbacks for module in part.modules()}
    unobserved = [
        module
        for module in traceable(model)
        if module not in inside and not any(map(is_recurrent, module.modules()))
    ]
    outer = [module for module in model.modules() if module is model or is_model(module)]
    with ExitStack() as stack:
        if attending:
            stack.callback(_stop, observer, attending)
            _start(observer, attending)
        handles = [
            *(m.register_forward_pre_hook(observer.begin_run, with_kwargs=True) for m in outer),
            *(m.register_forward_hook(observer.end_run, always_call=True) for m in outer),
            *(
                m.register_forward_pre_hook(observer.enter_layer, with_kwargs=True)
                for m in attending
            ),
            *(m.register_forward_hook(observer.leave_layer, always_call=True) for m in attending),
            *(m.register_forward_hook(observer.note_missed) for m in unobserved),
        ]
        for handle in handles:
            stack.callback(handle.remove)
        stack.enter_context(observe(unobserved, observer.on_traced))
        stack.enter_context(watch(recurrent, observer))
        for name, part in fallbacks:
            later = LaterCalls(observer)
            stack.enter_context(observe(list(traceable(part)), later.add))
            stack.enter_context(
                request_attentions(name, part, listener, observer.positions, later.end)
            )
        requested = [module for module in inside if attention_like(module)]
        expected = [*attending, *recurrent, *requested, *filter(is_dot_product, unobserved)]
        yield [observer.names[module] for module in expected]
        listener_note = other_layers(model, {*attending, *recurrent, *inside, *unobserved})
        if listener_note:
            listener.note(listener_note)
        if observer.missed:
            listener.note(
                "Not captured, because they compute no softmax of queries times keys that attnlab "
                f"recognizes: {', '.join(observer.missed)}."
            )


def _must_trace(part: nn.Module) -> bool:
    """Whether a model without the interface cannot be asked for its weights: it already runs a
    mechanism of attnlab, or it does not return them."""
    replaced = any(implementation_of(module) is not None for module in part.modules())
    parameters = inspect.signature(part.forward).parameters.values()
    takes = any(p.name == "output_attentions" or p.kind is p.VAR_KEYWORD for p in parameters)
    return replaced or not takes or "Timm" in type(part).__name__


def other_layers(model: nn.Module, attending: set[nn.Module]) -> str:
    """A note on the layers without attention, in a stack in which others have it."""
    listed, inner = [], set[nn.Module]()
    for name, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList) or len(stack) < 2 or stack in inner:
            continue
        inner.update(stack.modules())  # the parts of a layer are no layers
        children: list[Any] = list(stack)  # some are None
        has = [
            child is None or any(module in attending for module in child.modules())
            for child in children
        ]
        if any(has) and not all(has):
            listed += [f"{name}.{i}" for i, one in enumerate(has) if not one]
    if not listed:
        return ""
    return f"Layers without attention, which are not captured: {', '.join(listed)}."
