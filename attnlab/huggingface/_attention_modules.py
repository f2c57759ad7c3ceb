"""Finds the attention modules of a Hugging Face model: self or cross, encoder or decoder."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from torch import Tensor, nn

from attnlab.interpret._attention_call import AttentionKind, StackName

CROSS_NAME = re.compile(r"cross|encoder_att|encdec|encoder_decoder_att", re.IGNORECASE)
ATTENTION_NAME = re.compile(r"Attention(?!\w*(Projection|Output|LayerNorm|Config)$)")
OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "cross_attention_states")


def is_huggingface(module: nn.Module) -> bool:
    """Whether a module comes from transformers or uses its attention interface.

    It does not import transformers.

    >>> from torch import nn
    >>> from attnlab.huggingface import is_huggingface
    >>> is_huggingface(nn.Linear(2, 2))
    False
    """
    packages = {base.__module__.split(".")[0] for base in type(module).__mro__}
    return "transformers" in packages or uses_interface(module)


def is_model(module: nn.Module) -> bool:
    """Whether it is a whole model with a configuration, not a layer."""
    return any(base.__name__ == "PreTrainedModel" for base in type(module).__mro__)


def uses_interface(module: nn.Module) -> bool:
    """Whether its own code gets its attention function from transformers."""
    kind: Any = type(module)
    return _calls_get_interface(kind)


@cache
def _calls_get_interface(kind: type[Any]) -> bool:
    own = kind.__mro__[: kind.__mro__.index(nn.Module)]
    members = [member for base in own for member in vars(base).values() if callable(member)]
    codes = [getattr(inspect.unwrap(member), "__code__", None) for member in members]
    return any(code is not None and "get_interface" in code.co_names for code in codes)


def attention_like(module: nn.Module) -> bool:
    """Whether its class name has "Attention", and no module inside has such a name (except parts
    of an attention, such as CvtSelfAttentionProjection)."""
    if not ATTENTION_NAME.search(type(module).__name__):
        return False
    return not any(
        ATTENTION_NAME.search(type(part).__name__)
        for part in module.modules()
        if part is not module
    )


def without_interface(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The outermost models in `model` that have attention, but never use the interface."""
    prefixes: list[str] = []
    for name, module in model.named_modules():
        if not is_model(module) or any(name.startswith(prefix) for prefix in prefixes):
            continue
        inner = list(module.modules())
        if any(map(uses_interface, inner)) or not any(map(attention_like, inner)):
            continue
        prefixes.append(f"{name}." if name else "")
        yield name, module


def kind_of(
    name: str, module: nn.Module, arguments: Mapping[str, Any], T: int, S: int, causal: bool
) -> AttentionKind:
    """Decided by the module's attributes, its name, its arguments, and last by the lengths."""
    if getattr(module, "is_cross_attention", False) or CROSS_NAME.search(name):
        return "cross"
    if any(isinstance(arguments.get(name), Tensor) for name in OTHER_SEQUENCE):
        return "cross"
    may_use_cache = causal or getattr(module, "is_decoder", False) or hasattr(module, "layer_idx")
    return "self" if T == S or may_use_cache else "cross"


def is_cross(module: nn.Module) -> bool:
    """Whether a module says that it is cross-attention: by an attribute, its class name, or as a
    decoder layer that is not causal. (Mechanisms themselves raise if lengths differ.)"""
    if getattr(module, "is_cross_attention", False):
        return True
    if CROSS_NAME.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(module).__name__)):
        return True
    is_decoder = getattr(module, "is_decoder", False) is True
    return is_decoder and getattr(module, "is_causal", True) is False


def stack_of(name: str, module: nn.Module, kind: AttentionKind, causal: bool) -> StackName:
    """Decided by the module's attributes, its name, and last by whether it is causal."""
    config = getattr(module, "config", None)
    if kind == "cross" or getattr(module, "is_decoder", getattr(config, "is_decoder", False)):
        return "decoder"
    parts = name.lower()
    if "decoder" in parts:
        return "decoder"
    if re.search(r"encoder|vision|visual|image|audio", parts):
        return "encoder"
    return "decoder" if causal else "encoder"
