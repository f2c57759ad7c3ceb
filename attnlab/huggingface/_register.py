"""Mechanisms as attention implementations of Hugging Face models.

register()
model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="attnlab-favor")
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import is_model, uses_interface
from attnlab.huggingface._layer_mechanisms import Spec, check_spec, without_parameters
from attnlab.huggingface._mask_meaning import make_mask
from attnlab.huggingface._replace_attention import prepare

PREFIX = "attnlab-"
PLANNED = "attnlab-planned"
Plan = str | Mapping[str, str | Sequence[str]]

_specs: dict[str, str] = {}
_plans: WeakKeyDictionary[nn.Module, Spec] = WeakKeyDictionary()
_lock = threading.RLock()


def register(*specs: str) -> list[str]:
    """Make mechanisms known to transformers; their names for `attn_implementation`.

    Without arguments: each mechanism that has no learned parameters, as "attnlab-softmax",
    "attnlab-favor" and so on. With them: these lines of text, as "attnlab-favor:features=64" or, a
    mechanism for each group of heads, "attnlab-6*window:window=32+3*softmax".
    """
    for spec in specs:
        check_spec(spec)
    chosen = list(specs) or without_parameters()
    for spec in chosen:
        _register(PREFIX + spec)
        _specs[PREFIX + spec] = spec
    return [PREFIX + spec for spec in chosen]


def _register(name: str) -> None:
    try:
        models = import_module("transformers.modeling_utils")
        masks = import_module("transformers.masking_utils")
    except ImportError as error:
        raise ValueError(
            f"register: needs the transformers package, 5 or newer ({error}): "
            "pip install -U transformers"
        ) from None
    models.AttentionInterface.register(name, Implementation(name))
    # without it transformers makes no mask for this name, and says nothing
    masks.AttentionMaskInterface.register(name, make_mask)
    _guard(models.PreTrainedModel)


def why_not(kind: Any) -> str:
    """Why a class of models cannot have our attention, or ""."""
    if not kind._can_set_attn_implementation():
        return "does not ask transformers' AttentionInterface for its attention"
    if not kind._supports_sdpa:  # its own word: soft caps, sinks, or other layers beside
        return "needs more than plain scaled dot-product attention"
    return ""


def _guard(kind: Any) -> None:
    """Models that do not ask for their attention function would take any name and ignore it."""
    check, change = kind.get_correct_attn_implementation, kind.set_attn_implementation
    if getattr(check, "guards", False):
        return

    def refuse(self: Any, requested: Any) -> None:
        reason = why_not(type(self)) if str(requested).startswith(PREFIX) else ""
        if reason:
            raise ValueError(
                f"{type(self).__name__}: {reason}, so {requested} cannot be used; "
                'leave attn_implementation out, or give "eager"'
            )

    @wraps(check)
    def guarded(self: Any, requested: str | None, *args: Any, **options: Any) -> Any:
        refuse(self, requested)
        return check(self, requested, *args, **options)

    @wraps(change)
    def changed(self: Any, attn_implementation: Any, *args: Any, **options: Any) -> Any:
        if not self.config.sub_configs:  # else it is for the models inside, which are asked
            refuse(self, attn_implementation)
        return change(self, attn_implementation, *args, **options)

    guarded.guards = True  # type: ignore[attr-defined]
    kind.get_correct_attn_implementation = guarded
    kind.set_attn_implementation = changed


class Implementation:
    """What a layer calls in place of its own attention function."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    @torch.compiler.disable  # layers share compiled code, but not their mechanisms
    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, H, M), and the weights (B, H, T, S) where they are asked for."""
        spec = spec_of(self.name, module)
        ready = prepare(spec, module, query, key, value, attention_mask, options)
        weights = ready.weights() if weights_asked(options) else None
        return ready.output().transpose(1, 2).contiguous(), weights


def weights_asked(options: Mapping[str, Any]) -> bool:
    """Some models do not pass the wish on (GPT-2, OPT): transformers then collects by a hook."""
    if options.get("output_attentions"):
        return True
    collected = None if _collector() is None else _collector().get()
    return any("attentions" in name for name in collected or ())


@cache
def _collector() -> Any:
    """What transformers collects at the moment; older versions have none."""
    try:
        return import_module("transformers.utils.output_capturing")._active_collector
    except (ImportError, AttributeError):
        return None


def is_ours(name: str) -> bool:
    return name in _specs or name == PLANNED


def spec_of(name: str, module: nn.Module) -> Spec:
    """The mechanisms of this implementation in this layer."""
    return _plans.get(module, "softmax") if name == PLANNED else _specs[name]


@contextmanager
def attend_with(model: nn.Module, plan: Plan) -> Iterator[None]:
    """Run a Hugging Face model with other mechanisms, layer by layer and head by head.

    `plan` is one line of text for all layers, or for each layer by name (as `capture` names them)
    a line of text or a list of them, one for each head. Layers that it does not name have softmax.
    """
    layers = {name: each for name, each in model.named_modules() if uses_interface(each)}
    reasons = [why_not(type(each)) for each in model.modules() if is_model(each)]
    if any(reasons) or not layers:
        reason = next(filter(None, reasons), "has no attention of transformers")
        raise ValueError(f"{type(model).__name__}: {reason}, so it cannot be exchanged")
    chosen = dict.fromkeys(layers, plan) if isinstance(plan, str) else dict(plan)
    for name, each in chosen.items():
        if name not in layers:
            raise ValueError(f"attend_with: no layer {name!r}; there are {', '.join(layers)}")
        for spec in [each] if isinstance(each, str) else each:
            check_spec(spec)
    _register(PLANNED)
    configs = _configs(model)
    before = [config._attn_implementation for config in configs]
    with _lock:
        outer = {layer: _plans.pop(layer, None) for layer in layers.values()}
        for name, each in chosen.items():
            _plans[layers[name]] = each if isinstance(each, str) else tuple(each)
    try:
        for config in configs:
            config._attn_implementation = PLANNED
        yield
    finally:
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation = implementation
        with _lock:
            for layer, planned in outer.items():  # this may have been inside another
                _plans.pop(layer, None)
                if planned is not None:
                    _plans[layer] = planned


def _configs(model: nn.Module) -> list[Any]:
    """Each configuration inside, outer ones first."""
    found = {id(m.config): m.config for m in model.modules() if is_model(m)}
    return [each for each in found.values() if hasattr(each, "_attn_implementation")]
