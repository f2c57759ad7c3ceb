"""Captures models that do not use transformers' attention interface: requests their own weights.

Such a model then runs its eager attention. Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import CROSS_NAME, attention_like, stack_of
from attnlab.huggingface._attention_settings import FIELD, restoring_implementations
from attnlab.huggingface._query_positions import PositionTracker, signed_and_normalized
from attnlab.interpret._attention_call import AttentionCall, AttentionKind, CallListener, StackName

FIELDS: dict[str, AttentionKind] = {
    "encoder_attentions": "self",
    "attentions": "self",
    "decoder_attentions": "self",
    "cross_attentions": "cross",
}
LOCAL = ("longformer", "led")
"""Their encoders return a band around the diagonal instead of a matrix of queries and keys."""
NOTE = "From the model's eager attention: without queries, keys and values, and not checked."
COPIED = "the model returns copies of its weights, which it does not compute with."


class _Subscriber(NamedTuple):
    prefix: str
    listener: CallListener
    positions: PositionTracker
    thread: int
    end_run: Callable[[bool], bool]
    """Called after each run with whether the model returned no weights; returns whether they were
    read from its computation instead."""


class _AttentionRequester:
    """Requests the attentions of one model at every call, for all subscribers."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.config: Any = getattr(model, "config", None)
        self.subscribers: list[_Subscriber] = []
        self.names = {module: name for name, module in model.named_modules()}
        self.ran: list[nn.Module] = []
        # of running calls: whether the caller wants attentions, and a tuple; settings to restore
        self.calls: list[tuple[bool, bool, ExitStack]] = []
        self.graph: set[Any] = set()
        """Autograd nodes of the outputs, if gradients are requested."""
        self.batch = 0
        """Inputs of the running call."""
        self.has_weights = self.traced = False
        self.hooks = ExitStack()

    def start(self) -> None:
        leaves = [module for module in self.model.modules() if attention_like(module)]
        for handle in (
            self.model.register_forward_pre_hook(self._before_model, with_kwargs=True),
            self.model.register_forward_hook(self._after_model, always_call=True),
            *(
                leaf.register_forward_pre_hook(self._before_layer, with_kwargs=True)
                for leaf in leaves
            ),
            *(leaf.register_forward_hook(self._after_layer) for leaf in leaves),
        ):
            self.hooks.callback(handle.remove)

    def _before_model(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del model
        if not self._active():
            return None
        attentions, as_dict = (
            kwargs[name] if kwargs.get(name) is not None else getattr(self.config, name, default)
            for name, default in (("output_attentions", False), ("return_dict", True))
        )
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim()]
        self.batch = len(given[0]) if given else 0
        stack = ExitStack()
        self.calls.append((bool(attentions), not as_dict, stack))
        for config in stack.enter_context(restoring_implementations(self.model)):
            # some models look at this setting, not at the argument, to create their masks
            setattr(config, FIELD, "eager")
        self.ran.clear()
        changed = {**kwargs, "output_attentions": True}
        return args, changed if as_dict else {**changed, "return_dict": True}

    def _active(self) -> list[_Subscriber]:
        """The subscribers of this thread."""
        current = threading.get_ident()
        return [subscriber for subscriber in self.subscribers if subscriber.thread == current]

    def _before_layer(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """If all parameters are frozen, start the autograd graph at the first layer's input."""
        del module
        inputs = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        first = next((x for x in inputs if x.is_floating_point()), None)
        if first is None or any(x.requires_grad for x in inputs) or not self._wants_graph():
            return None
        start = first.detach().requires_grad_().clone()  # no leaf, so in-place changes are allowed
        return (
            tuple(start if x is first else x for x in args),
            {name: start if x is first else x for name, x in kwargs.items()},
        )

    def _wants_graph(self) -> bool:
        requested = any(subscriber.listener.wants_gradients for subscriber in self._active())
        return requested and torch.is_grad_enabled()

    def _after_layer(self, module: nn.Module, args: Any, output: Any) -> None:
        del args
        self.ran.append(module)
        parts = output if isinstance(output, tuple) else ()
        maps = [x for x in parts if isinstance(x, Tensor) and x.dim() == 4]
        for subscriber in self._active() if maps else ():
            # some models have (T, S, B, H): assume that the longest axes are the tokens
            *rest, queries, keys = sorted(max(maps, key=Tensor.numel).shape)
            name = ".".join(filter(None, [subscriber.prefix, self.names[module]]))
            subscriber.listener.reserve_memory(name, heads=prod(rest), queries=queries, keys=keys)

    def _after_model(self, model: nn.Module, args: Any, output: Any) -> Any:
        """Read the attentions, and return the output in the form that the caller requested."""
        del model, args
        if not self.calls or not self._active():
            return None
        attentions, as_tuple, settings = self.calls.pop()
        settings.close()
        if not isinstance(output, dict):  # it failed, or has an unknown form
            return None
        self.graph = autograd_nodes(output) if self._wants_graph() else set()
        for subscriber in self._active():
            self._report_layers(subscriber, output)
        self.graph = set()
        if not attentions:
            others: Any = {
                name: value for name, value in output.items() if not name.endswith("attentions")
            }
            output = type(output)(**others)
        return output.to_tuple() if as_tuple else output

    def _report_layers(self, subscriber: _Subscriber, output: dict[str, Any]) -> None:
        attentions = {
            field: [x for x in output.get(field) or () if isinstance(x, Tensor) and x.dim() == 4]
            for field in FIELDS
        }
        if getattr(self.config, "model_type", None) in LOCAL:
            attentions["attentions"] = attentions["encoder_attentions"] = []
        returned = any(attentions.values())
        self.has_weights = self.has_weights or returned
        self.traced = subscriber.end_run(not returned) or self.traced
        order = self._running_order({field: len(maps) for field, maps in attentions.items()})
        named = len(self.ran) == len(order)
        counts: Counter[str] = Counter()
        for (field, i), module in zip(
            order, self.ran if named else [None] * len(order), strict=True
        ):
            name = f"{field}[{i}]" if module is None else self.names[module]
            counts[name] += 1
            name = ".".join(filter(None, [subscriber.prefix, name]))
            name = name if counts[name] == 1 else f"{name} ({counts[name]})"
            self._report(subscriber, name, field, module or self.model, attentions[field][i])

    def _running_order(self, counts: dict[str, int]) -> list[tuple[str, int]]:
        """The maps in the order in which they ran, as field and index. By the names of the layers
        if these tell self- from cross-attention; otherwise the encoder's, then each layer's self-
        and cross-attention."""
        order = [(field, i) for field in FIELDS for i in range(counts[field])]
        order.sort(key=lambda item: (item[0] != "encoder_attentions", item[1]))
        kinds = ["cross" if CROSS_NAME.search(self.names[m]) else "self" for m in self.ran]
        waiting = {
            kind: [item for item in order if FIELDS[item[0]] == kind] for kind in ("self", "cross")
        }
        if any(kinds.count(kind) != len(items) for kind, items in waiting.items()):
            return order
        return [waiting[kind].pop(0) for kind in kinds]

    def _report(
        self, subscriber: _Subscriber, name: str, field: str, module: nn.Module, weights: Tensor
    ) -> None:
        kind, listener = FIELDS[field], subscriber.listener
        B, H, T, S = weights.shape
        row = listener.row if B > 1 else 0
        causal = self._is_causal(weights.detach()[min(row, B - 1)])
        stack: StackName = "encoder" if field == "encoder_attentions" else "decoder"
        if field == "attentions":
            stack = stack_of(name, module, kind, causal)
        start, first_key = subscriber.positions.advance(name, stack, kind, T, S)
        heads = listener.select_heads(name, batch=B, heads=H, queries=start + T, keys=first_key + S)
        if heads is None:
            return
        selected = weights.detach()[row, heads]  # (requested heads, T, S)
        signed, normalized = signed_and_normalized(selected)
        visible = (selected != 0).any(0)
        used = used_weights(weights, self.graph)
        listener.on_call(
            AttentionCall(
                name=name,
                stack=stack,
                kind=kind,
                heads=heads,
                all_heads=H,
                start=start,
                first_key=first_key,
                causal=causal and kind == "self",
                signed=signed,
                normalized=normalized,
                weights=selected if listener.wants_weights else None,
                allowed=None if bool(visible.all()) else visible,
                output=used,
                select=lambda x: x[row, heads],
                output_is_weights=True,
                no_gradient=COPIED if used is None and self._wants_graph() else "",
                checkable=False,
                parts=B // self.batch if self.batch and B % self.batch == 0 else 1,
                note=NOTE,
            )
        )

    def _is_causal(self, weights: Tensor) -> bool:
        """Whether no query of (H, T, S) attends to a later key. Queries with uniform weights do not
        count: an eager function gives those to queries without any key. For a single token it is
        whether the model can generate.
        """
        _, T, S = weights.shape
        not_uniform = (weights.amax(-1) - weights.amin(-1) > 1e-6).any(0)  # (T,)
        if T > 1 and bool(not_uniform.any()):
            return not bool((weights != 0).any(0).triu(1 + S - T)[not_uniform].any())
        can_generate = getattr(self.model, "can_generate", None)
        return bool(can_generate is not None and can_generate())


def autograd_nodes(output: dict[str, Any]) -> set[Any]:
    """All autograd nodes that a model's outputs, without its attentions, depend on."""
    tensors = [x for x in output.values() if isinstance(x, Tensor)]
    nodes: set[Any] = set()
    pending: list[Any] = [x.grad_fn for x in tensors if x.grad_fn is not None]
    while pending:
        node = pending.pop()
        if node not in nodes:
            nodes.add(node)
            pending += [source for source, _ in node.next_functions if source is not None]
    return nodes


def used_weights(weights: Tensor, graph: set[Any]) -> Tensor | None:
    """The tensor with these weights that the model's output depends on, or None.

    It may be the tensor that `weights` is a view of (in XLNet, which permutes the axes twice).
    """
    if weights.grad_fn in graph:
        return weights
    base = weights._base
    if base is None or base.grad_fn not in graph or base.shape != weights.shape:
        return None
    return base if base.stride() == weights.stride() else None


_requesters: dict[nn.Module, _AttentionRequester] = {}
_lock = threading.RLock()


@contextmanager
def request_attentions(
    prefix: str,
    model: nn.Module,
    listener: CallListener,
    positions: PositionTracker,
    end_run: Callable[[bool], bool] = lambda _: False,
) -> Iterator[None]:
    """Make `model` return its attentions at every call, and pass them to `listener`."""
    thread = threading.get_ident()
    subscriber = _Subscriber(prefix, listener, positions, thread, end_run)
    with _lock:
        if model not in _requesters:
            _requesters[model] = _AttentionRequester(model)
            _requesters[model].start()
        requester = _requesters[model]
        requester.subscribers = [*requester.subscribers, subscriber]
    try:
        yield
        outcome = "it ran its eager attention, to return its weights"
        if requester.traced:
            outcome = "it returned no weights, and they were read from its computation"
        elif not requester.has_weights:
            outcome = "it returned no weights, and was not captured"
            if getattr(requester.config, "model_type", None) in LOCAL:
                outcome = "its weights are a band around the diagonal, which cannot be captured"
        listener.note(
            f"{type(model).__name__} does not use transformers' attention interface: {outcome}."
        )
    finally:
        with _lock:
            requester.subscribers = [
                other for other in requester.subscribers if other is not subscriber
            ]
            if not requester.subscribers:
                del _requesters[model]
                requester.hooks.close()
