"""Models that do not use transformers' attention interface are asked for their own weights.

They then run their eager attention. Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import attention_like, stack_of
from attnlab.huggingface._query_positions import Positions, nature
from attnlab.interpret._attention_call import Call, Kind, Listener, StackName

FIELDS: dict[str, Kind] = {
    "encoder_attentions": "self",
    "attentions": "self",
    "decoder_attentions": "self",
    "cross_attentions": "cross",
}
LOCAL = ("longformer", "led")
"""Their encoders give a band around the diagonal, which is no matrix of queries and keys."""
NOTE = "As the model's eager attention gave it: without queries, keys, values and check."
APART = "the model gives copies of its weights, which it does not compute with."


class _Hearer(NamedTuple):
    prefix: str
    listener: Listener
    positions: Positions
    thread: int


class _Asking:
    """One model that is asked for its attentions at every call, for all who listen to it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.config: Any = getattr(model, "config", None)
        self.hearers: list[_Hearer] = []
        self.names = {module: name for name, module in model.named_modules()}
        self.ran: list[nn.Module] = []
        # of calls under way: did they ask for attentions, for a tuple; settings to put back
        self.wanted: list[tuple[bool, bool, list[tuple[Any, Any]]]] = []
        self.graph: set[Any] = set()
        """What the outputs were computed with, where gradients are wanted."""
        self.gave = False
        self.hooks = ExitStack()

    def start(self) -> None:
        leaves = [module for module in self.model.modules() if attention_like(module)]
        for handle in (
            self.model.register_forward_pre_hook(self._ask, with_kwargs=True),
            self.model.register_forward_hook(self._answer, always_call=True),
            *(leaf.register_forward_pre_hook(self._begin, with_kwargs=True) for leaf in leaves),
            *(leaf.register_forward_hook(self._run) for leaf in leaves),
        ):
            self.hooks.callback(handle.remove)

    def _ask(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del model
        if not self._heard():
            return None
        attentions, as_dict = (
            kwargs[name] if kwargs.get(name) is not None else getattr(self.config, name, default)
            for name, default in (("output_attentions", False), ("return_dict", True))
        )
        self.wanted.append((bool(attentions), not as_dict, self._settings()))
        for config, _ in self.wanted[-1][2]:
            # some look at this, not at what is asked for, when they make their masks
            config._attn_implementation = "eager"
        self.ran.clear()
        asked = {**kwargs, "output_attentions": True}
        return args, asked if as_dict else {**asked, "return_dict": True}

    def _heard(self) -> list[_Hearer]:
        """By whom: what other threads do is nobody's."""
        return [each for each in self.hearers if each.thread == threading.get_ident()]

    def _settings(self) -> list[tuple[Any, Any]]:
        """Each configuration inside, outer ones first, and the attention that it names."""
        configs = {id(m.config): m.config for m in self.model.modules() if hasattr(m, "config")}
        named = [each for each in configs.values() if hasattr(each, "_attn_implementation")]
        return [(config, config._attn_implementation) for config in named]

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Where no parameter is learned, the graph begins at what the first layer reads."""
        del module
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        first = next((x for x in given if x.is_floating_point()), None)
        if first is None or any(x.requires_grad for x in given) or not self._wants_graph():
            return None
        begun = first.detach().requires_grad_().clone()  # no leaf: it may be changed in place
        return (
            tuple(begun if x is first else x for x in args),
            {name: begun if x is first else x for name, x in kwargs.items()},
        )

    def _wants_graph(self) -> bool:
        wanted = any(hearer.listener.wants_gradients for hearer in self._heard())
        return wanted and torch.is_grad_enabled()

    def _run(self, module: nn.Module, args: Any, output: Any) -> None:
        del args
        self.ran.append(module)
        parts = output if isinstance(output, tuple) else ()
        maps = [x for x in parts if isinstance(x, Tensor) and x.dim() == 4]
        for hearer in self._heard() if maps else ():
            # some have (T, S, B, H): the longest axes are those of the tokens
            *rest, queries, keys = sorted(max(maps, key=Tensor.numel).shape)
            name = ".".join(filter(None, [hearer.prefix, self.names[module]]))
            hearer.listener.afford(name, heads=prod(rest), queries=queries, keys=keys)

    def _answer(self, model: nn.Module, args: Any, output: Any) -> Any:
        """Take the attentions, and give back what the caller would have got without us."""
        del model, args
        if not self.wanted or not self._heard():
            return None
        attentions, as_tuple, settings = self.wanted.pop()
        for config, implementation in settings:
            config._attn_implementation = implementation
        if not isinstance(output, dict):  # it failed, or is of no known form
            return None
        self.graph = graph_of(output) if self._wants_graph() else set()
        for hearer in self._heard():
            self._read(hearer, output)
        self.graph = set()
        if not attentions:
            kept: Any = {
                name: value for name, value in output.items() if not name.endswith("attentions")
            }
            output = type(output)(**kept)
        return output.to_tuple() if as_tuple else output

    def _read(self, hearer: _Hearer, output: dict[str, Any]) -> None:
        found = {
            field: [x for x in output.get(field) or () if isinstance(x, Tensor) and x.dim() == 4]
            for field in FIELDS
        }
        if getattr(self.config, "model_type", None) in LOCAL:
            found["attentions"] = found["encoder_attentions"] = []
        # in the order in which they ran: the encoder's, then each layer's own and its cross
        self.gave = self.gave or any(found.values())
        order = [(field, i) for field in FIELDS for i in range(len(found[field]))]
        order.sort(key=lambda each: (each[0] != "encoder_attentions", each[1]))
        named = len(self.ran) == len(order)
        counts: Counter[str] = Counter()
        for (field, i), module in zip(
            order, self.ran if named else [None] * len(order), strict=True
        ):
            name = f"{field}[{i}]" if module is None else self.names[module]
            counts[name] += 1
            name = ".".join(filter(None, [hearer.prefix, name]))
            name = name if counts[name] == 1 else f"{name} ({counts[name]})"
            self._hear(hearer, name, field, module or self.model, found[field][i])

    def _hear(
        self, hearer: _Hearer, name: str, field: str, module: nn.Module, weights: Tensor
    ) -> None:
        kind, listener = FIELDS[field], hearer.listener
        B, H, T, S = weights.shape
        row = listener.row if B > 1 else 0
        causal = self._causal(weights.detach()[min(row, B - 1)])
        stack: StackName = "encoder" if field == "encoder_attentions" else "decoder"
        if field == "attentions":
            stack = stack_of(name, module, kind, causal)
        start, first = hearer.positions.place(name, stack, kind, T, S)
        heads = listener.admit(name, batch=B, heads=H, queries=start + T, keys=first + S)
        if heads is None:
            return
        mine = weights.detach()[row, heads]  # (kept, T, S)
        signed, normalised = nature(mine)
        seen = (mine != 0).any(0)
        used = used_of(weights, self.graph)
        listener.hear(
            Call(
                name=name,
                stack=stack,
                kind=kind,
                heads=heads,
                all_heads=H,
                start=start,
                first=first,
                causal=causal and kind == "self",
                signed=signed,
                normalised=normalised,
                weights=mine if listener.wants_weights else None,
                allowed=None if bool(seen.all()) else seen,
                output=used,
                pick=lambda x: x[row, heads],
                direct=True,
                no_gradient=APART if used is None and self._wants_graph() else "",
                checked=False,
                note=NOTE,
            )
        )

    def _causal(self, weights: Tensor) -> bool:
        """No query of (H, T, S) looks behind itself, those aside that look at all keys alike:
        an eager function does so where a query may look at none. One token: does the model write?
        """
        _, T, S = weights.shape
        chooses = (weights.amax(-1) - weights.amin(-1) > 1e-6).any(0)  # (T,)
        if T > 1 and bool(chooses.any()):
            return not bool((weights != 0).any(0).triu(1 + S - T)[chooses].any())
        can = getattr(self.model, "can_generate", None)
        return bool(can is not None and can())


def graph_of(output: dict[str, Any]) -> set[Any]:
    """Every step on the way to what a model gave, its attentions aside."""
    given = [x for x in output.values() if isinstance(x, Tensor)]
    found: set[Any] = set()
    pending: list[Any] = [x.grad_fn for x in given if x.grad_fn is not None]
    while pending:
        step = pending.pop()
        if step not in found:
            found.add(step)
            pending += [each for each, _ in step.next_functions if each is not None]
    return found


def used_of(weights: Tensor, graph: set[Any]) -> Tensor | None:
    """The tensor with these weights that the model went on with, or None.

    It may have gone on with what `weights` is a view of (XLNet's, whose axes are turned twice).
    """
    if weights.grad_fn in graph:
        return weights
    base = weights._base
    if base is None or base.grad_fn not in graph or base.shape != weights.shape:
        return None
    return base if base.stride() == weights.stride() else None


_asking: dict[nn.Module, _Asking] = {}
_lock = threading.RLock()


@contextmanager
def ask_for_attentions(
    prefix: str, model: nn.Module, listener: Listener, positions: Positions
) -> Iterator[None]:
    """Let `model` give its attentions at every call, and tell `listener` of them."""
    hearer = _Hearer(prefix, listener, positions, threading.get_ident())
    with _lock:
        if model not in _asking:
            _asking[model] = _Asking(model)
            _asking[model].start()
        asking = _asking[model]
        asking.hearers = [*asking.hearers, hearer]
    try:
        yield
        told = "it was asked for its weights, and ran its eager attention"
        if not asking.gave:
            told = "it gave no weights, and was not captured"
            if getattr(asking.config, "model_type", None) in LOCAL:
                told = "its weights are a band around the diagonal, which cannot be captured"
        listener.note(
            f"{type(model).__name__} does not use transformers' attention interface: {told}."
        )
    finally:
        with _lock:
            asking.hearers = [each for each in asking.hearers if each is not hearer]
            if not asking.hearers:
                del _asking[model]
                asking.hooks.close()
