"""Registers mechanisms as attention implementations of Hugging Face models.

register()
model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="attnlab-favor")
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnlab._compiling import never_compiled
from attnlab.huggingface._attention_modules import is_model, uses_interface
from attnlab.huggingface._attention_settings import FIELD, restoring_implementations
from attnlab.huggingface._eager_check import check_against_eager, check_traced
from attnlab.huggingface._layer_mechanisms import Spec, check_spec, parameter_free_mechanisms
from attnlab.huggingface._mask_meaning import (
    has_only_eager,
    leave_mark_out_of_files,
    make_mask,
    mark_only_eager,
)
from attnlab.huggingface._replace_attention import prepare_call
from attnlab.huggingface._trace_attention import TracedCall
from attnlab.huggingface._traced_layers import (
    REASONS,
    implementation_of,
    is_dot_product,
    set_implementation,
    traceable,
)
from attnlab.huggingface._traced_layers import replacement as traced_replacement

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
    leave_mark_out_of_files(models.PreTrainedConfig)
    _reject_unsupported(models.PreTrainedModel)


def unsupported_reason(model: nn.Module) -> str:
    """Why a model cannot use attnlab's mechanisms; "" if it can."""
    types = {getattr(m.config, "model_type", "") for m in model.modules() if is_model(m)}
    return next((reason for name, reason in REASONS.items() if name in types), "")


def _reject_unsupported(kind: Any) -> None:
    """Make unsupported models raise, and let the others run with attnlab's implementations.

    transformers knows three kinds of models: those that ask it for their attention function, of
    which some support only eager attention, and those that compute their attention themselves.
    """
    check, change, finish = (
        kind.get_correct_attn_implementation,
        kind.set_attn_implementation,
        kind.post_init,
    )
    if getattr(check, "rejects_unsupported", False):
        return

    def raise_if_unsupported(self: Any, requested: Any) -> None:
        reason = unsupported_reason(self) if str(requested).startswith(PREFIX) else ""
        if reason:
            raise ValueError(
                f"{type(self).__name__}: {reason}, so {requested} cannot be used; "
                'omit attn_implementation, or give "eager"'
            )

    @wraps(check)
    def checked_get(self: Any, requested: str | None, *args: Any, **options: Any) -> Any:
        raise_if_unsupported(self, requested)
        if not str(requested).startswith(PREFIX):
            return check(self, requested, *args, **options)
        _allow_class_by_name(type(self), str(requested))
        if not type(self)._can_set_attn_implementation():
            self._attnlab_requested = requested  # `finished` reads it
            return check(self, "eager", *args, **options)
        if not self._supports_sdpa:
            mark_only_eager(self.config)
        return check(self, requested, *args, **options)

    @wraps(change)
    def checked_set(self: Any, attn_implementation: Any, *args: Any, **options: Any) -> Any:
        is_whole = isinstance(attn_implementation, dict) and set(attn_implementation) == {""}
        if is_whole and not self.config.sub_configs:
            attn_implementation = attn_implementation[""]
        if isinstance(attn_implementation, dict):
            for name in _names_in(attn_implementation):
                raise_if_unsupported(self, name)
            _check_parts(self, attn_implementation)
        raise_if_unsupported(self, attn_implementation)
        change(self, attn_implementation, *args, **options)
        if isinstance(attn_implementation, str):
            _set_traced(self, attn_implementation)

    @wraps(finish)
    def finished(self: Any, *args: Any, **options: Any) -> Any:
        result = finish(self, *args, **options)
        requested = vars(self).pop("_attnlab_requested", self.config._attn_implementation)
        if str(requested).startswith(PREFIX):
            _set_traced(self, requested)
        return result

    checked_get.rejects_unsupported = True  # type: ignore[attr-defined]
    kind.get_correct_attn_implementation = checked_get
    kind.set_attn_implementation = checked_set
    kind.post_init = finished


def _names_in(requested: Mapping[str, Any]) -> Iterator[str]:
    """The implementations in a dictionary with one for each part of a model, at any depth."""
    for value in requested.values():
        if isinstance(value, Mapping):
            yield from _names_in(value)
        else:
            yield str(value)


def _check_parts(model: nn.Module, requested: Mapping[str, Any]) -> None:
    """Raise if a dictionary would leave layers as they are that compute attention themselves."""
    traced = list(traceable(model))
    replaced = any(implementation_of(module) is not None for module in traced)
    if traced and (replaced or any(name.startswith(PREFIX) for name in _names_in(requested))):
        raise ValueError(
            f"{type(model).__name__}: {type(traced[0]).__name__} computes its attention itself, "
            f"which the dictionary {requested} cannot change; give one name for the whole model, "
            "or call set_attn_implementation of a part of it"
        )


def _set_traced(model: nn.Module, requested: str) -> None:
    """Set the implementation of the layers that compute their attention themselves."""
    name = requested if requested.startswith(PREFIX) else None
    traced = list(traceable(model))
    has_softmax = any(map(is_dot_product, traced)) or any(map(uses_interface, model.modules()))
    if name and traced and not has_softmax:
        raise ValueError(
            f"{type(model).__name__}: {type(traced[0]).__name__} is no softmax of queries times "
            f'keys, so {name} cannot be used; give attn_implementation="eager"'
        )
    for module in traced:
        if name is not None or implementation_of(module) is not None:
            set_implementation(module, name)
    for part in model.modules():
        if not is_model(part):
            continue
        if name is not None and not any(map(uses_interface, part.modules())):
            setattr(part.config, FIELD, "eager")  # decides how the model creates its masks
        elif name is not None and (
            not getattr(part, "_supports_sdpa", False) or any(traceable(part))
        ):
            mark_only_eager(part.config)  # traced layers read its masks too


def _allow_class_by_name(kind: type[Any], name: str) -> None:
    """Some models choose the class of a layer by the implementation: ours is the eager one."""
    for base in kind.__mro__:
        for table in vars(sys.modules.get(base.__module__, object)).values():
            is_table = isinstance(table, dict) and "eager" in table and "sdpa" in table
            if is_table and all(isinstance(value, type) for value in table.values()):
                table.setdefault(name, table["eager"])


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
        if has_only_eager(module):
            check_against_eager(module, query, key, value, attention_mask, options)
        prepared = prepare_call(spec, module, query, key, value, attention_mask, options)
        weights = prepared.weights() if weights_requested(options) else None
        return prepared.output().transpose(1, 2).contiguous(), weights


def _replace_traced(name: str, module: nn.Module, call: TracedCall) -> Tensor:
    """(B, H, T, M), from a mechanism."""
    options = {"scaling": call.scaling, "dropout": call.dropout, "is_causal": call.is_causal}
    dtype = torch.promote_types(call.query.dtype, call.value.dtype)  # GPT-J's scores are float32
    q, k, v = (x.to(dtype) for x in (call.query, call.key, call.value))
    check_traced(module, call, options)
    out, _ = AttentionImplementation(name)(module, q, k, v, call.mask, **options)
    return out.transpose(1, 2)


traced_replacement.append(_replace_traced)


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
    traced = set(traceable(model))
    layers = {
        name: module
        for name, module in model.named_modules()
        if uses_interface(module) or (module in traced and is_dot_product(module))
    }
    reason = unsupported_reason(model)
    if reason or not layers:
        reason = reason or "has no attention layer of transformers"
        raise ValueError(f"{type(model).__name__}: {reason}, so its attention cannot be replaced")
    specs = dict.fromkeys(layers, plan) if isinstance(plan, str) else dict(plan)
    for name, layer_spec in specs.items():
        if name not in layers:
            raise ValueError(f"attend_with: no layer {name!r}; give one of {', '.join(layers)}")
        for spec in [layer_spec] if isinstance(layer_spec, str) else layer_spec:
            check_spec(spec)
    _register(PLANNED)
    with _lock:
        outer = {layer: _plans.pop(layer, None) for layer in layers.values()}
        before = {module: implementation_of(module) for module in traced}
        for name, layer_spec in specs.items():
            _plans[layers[name]] = layer_spec if isinstance(layer_spec, str) else tuple(layer_spec)
    try:
        with restoring_implementations(model) as configs:
            for config in configs:
                setattr(config, FIELD, PLANNED)
            _set_traced(model, PLANNED)
            yield
    finally:
        for module, implementation in before.items():
            set_implementation(module, implementation)
        with _lock:
            for layer, planned in outer.items():  # of an enclosing `attend_with`
                _plans.pop(layer, None)
                if planned is not None:
                    _plans[layer] = planned
