"""Registers mechanisms as attention implementations of Hugging Face models.

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

from torch import Tensor, nn

from attnlab._compiling import never_compiled
from attnlab.huggingface._attention_modules import is_model, uses_interface
from attnlab.huggingface._layer_mechanisms import Spec, check_spec, parameter_free_mechanisms
from attnlab.huggingface._mask_meaning import make_mask
from attnlab.huggingface._replace_attention import prepare_call

PREFIX = "attnlab-"
PLANNED = "attnlab-planned"
Plan = str | Mapping[str, str | Sequence[str]]

_specs: dict[str, str] = {}
_plans: WeakKeyDictionary[nn.Module, Spec] = WeakKeyDictionary()
_lock = threading.RLock()


def register(*specs: str) -> list[str]:
    """Register mechanisms with transformers; returns their names for `attn_implementation`.

    Without arguments it registers every mechanism that needs no training and no `max_length`, as
    "attnlab-softmax", "attnlab-favor" and so on. With arguments it registers these specifications,
    for example as "attnlab-favor:features=64" or, with a mechanism for each group of heads, as
    "attnlab-6*window:window=32+3*softmax".

    >>> from attnlab.huggingface import register
    >>> register("favor", "window:window=32")
    ['attnlab-favor', 'attnlab-window:window=32']
    """
    for spec in specs:
        check_spec(spec)
    selected = list(specs) or parameter_free_mechanisms()
    for spec in selected:
        _register(PREFIX + spec)
        _specs[PREFIX + spec] = spec
    return [PREFIX + spec for spec in selected]


def _register(name: str) -> None:
    try:
        models = import_module("transformers.modeling_utils")
        masks = import_module("transformers.masking_utils")
    except ImportError as error:
        raise ValueError(
            f"register: needs the transformers package, 5 or newer ({error}): "
            "pip install -U transformers"
        ) from None
    models.AttentionInterface.register(name, AttentionImplementation(name))
    # without this, transformers silently creates no mask for the name
    masks.AttentionMaskInterface.register(name, make_mask)
    _reject_unsupported(models.PreTrainedModel)


def unsupported_reason(kind: Any) -> str:
    """Why a class of models cannot use attnlab's mechanisms; "" if it can."""
    if not kind._can_set_attn_implementation():
        return "does not use transformers' AttentionInterface"
    if not kind._supports_sdpa:  # it has soft caps, sinks, or other kinds of layers
        return "needs more than plain scaled dot-product attention"
    return ""


def _reject_unsupported(kind: Any) -> None:
    """Make unsupported models raise: they would accept any implementation and ignore it."""
    check, change = kind.get_correct_attn_implementation, kind.set_attn_implementation
    if getattr(check, "rejects_unsupported", False):
        return

    def raise_if_unsupported(self: Any, requested: Any) -> None:
        reason = unsupported_reason(type(self)) if str(requested).startswith(PREFIX) else ""
        if reason:
            raise ValueError(
                f"{type(self).__name__}: {reason}, so {requested} cannot be used; "
                'omit attn_implementation, or give "eager"'
            )

    @wraps(check)
    def checked_get(self: Any, requested: str | None, *args: Any, **options: Any) -> Any:
        raise_if_unsupported(self, requested)
        return check(self, requested, *args, **options)

    @wraps(change)
    def checked_set(self: Any, attn_implementation: Any, *args: Any, **options: Any) -> Any:
        if not self.config.sub_configs:  # otherwise the models inside are checked
            raise_if_unsupported(self, attn_implementation)
        return change(self, attn_implementation, *args, **options)

    checked_get.rejects_unsupported = True  # type: ignore[attr-defined]
    kind.get_correct_attn_implementation = checked_get
    kind.set_attn_implementation = checked_set


class AttentionImplementation:
    """The function that a layer calls instead of its own attention function."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    @never_compiled  # layers share compiled code, but not their mechanisms
    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The output (B, T, H, M), and the weights (B, H, T, S) if they are requested."""
        spec = spec_of(self.name, module)
        prepared = prepare_call(spec, module, query, key, value, attention_mask, options)
        weights = prepared.weights() if weights_requested(options) else None
        return prepared.output().transpose(1, 2).contiguous(), weights


def weights_requested(options: Mapping[str, Any]) -> bool:
    """By the option, or by transformers' hook: some models (GPT-2, OPT) do not pass the option."""
    if options.get("output_attentions"):
        return True
    collected = None if _collector() is None else _collector().get()
    return any("attentions" in name for name in collected or ())


@cache
def _collector() -> Any:
    """The names of the outputs that transformers collects now; None in older versions."""
    try:
        return import_module("transformers.utils.output_capturing")._active_collector
    except (ImportError, AttributeError):
        return None


def is_attnlab_implementation(name: str) -> bool:
    return name in _specs or name == PLANNED


def spec_of(name: str, module: nn.Module) -> Spec:
    """The specification of this implementation in this layer."""
    return _plans.get(module, "softmax") if name == PLANNED else _specs[name]


@contextmanager
def attend_with(model: nn.Module, plan: Plan) -> Iterator[None]:
    """Run a Hugging Face model with other mechanisms, layer by layer and head by head.

    `plan` is one specification for all layers, or a mapping from layer names (as `capture` names
    them) to a specification or a list with one for each head. Other layers use softmax.

    >>> import torch
    >>> from attnlab.huggingface import attend_with
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32,
    ...                     bos_token_id=0, eos_token_id=0)
    >>> model = GPT2LMHeadModel(config).eval()
    >>> ids = torch.tensor([[5, 6, 7]])
    >>> with attend_with(model, "elu"):
    ...     logits = model(ids).logits
    >>> torch.equal(logits, model(ids).logits)
    False
    """
    layers = {name: module for name, module in model.named_modules() if uses_interface(module)}
    reasons = [unsupported_reason(type(part)) for part in model.modules() if is_model(part)]
    if any(reasons) or not layers:
        reason = next(filter(None, reasons), "has no attention layer of transformers")
        raise ValueError(f"{type(model).__name__}: {reason}, so its attention cannot be replaced")
    specs = dict.fromkeys(layers, plan) if isinstance(plan, str) else dict(plan)
    for name, layer_spec in specs.items():
        if name not in layers:
            raise ValueError(f"attend_with: no layer {name!r}; give one of {', '.join(layers)}")
        for spec in [layer_spec] if isinstance(layer_spec, str) else layer_spec:
            check_spec(spec)
    _register(PLANNED)
    configs = _configs(model)
    before = [config._attn_implementation for config in configs]
    with _lock:
        outer = {layer: _plans.pop(layer, None) for layer in layers.values()}
        for name, layer_spec in specs.items():
            _plans[layers[name]] = layer_spec if isinstance(layer_spec, str) else tuple(layer_spec)
    try:
        for config in configs:
            config._attn_implementation = PLANNED
        yield
    finally:
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation = implementation
        with _lock:
            for layer, planned in outer.items():  # of an enclosing `attend_with`
                _plans.pop(layer, None)
                if planned is not None:
                    _plans[layer] = planned


def _configs(model: nn.Module) -> list[Any]:
    """The configurations of all models inside, outer ones first."""
    configs = {id(m.config): m.config for m in model.modules() if is_model(m)}
    return [config for config in configs.values() if hasattr(config, "_attn_implementation")]
