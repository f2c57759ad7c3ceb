"""Which modules of a Hugging Face model attend, and what each of them is for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from torch import Tensor, nn

from attnlab.interpret._attention_call import Kind, StackName

CROSS_NAME = re.compile(r"cross|encoder_att|encdec|encoder_decoder_att", re.IGNORECASE)
OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "cross_attention_states")


def is_huggingface(module: nn.Module) -> bool:
    """Of transformers, or a user of its interface; whoever has such a model has imported it."""
    packages = {base.__module__.split(".")[0] for base in type(module).__mro__}
    return "transformers" in packages or uses_interface(module)


def is_model(module: nn.Module) -> bool:
    """A whole model with a configuration, not a layer."""
    return any(base.__name__ == "PreTrainedModel" for base in type(module).__mro__)


def uses_interface(module: nn.Module) -> bool:
    """Its own code asks transformers for an attention function."""
    kind: Any = type(module)
    return _asks(kind)


@cache
def _asks(kind: type[Any]) -> bool:
    own = kind.__mro__[: kind.__mro__.index(nn.Module)]
    members = [member for base in own for member in vars(base).values() if callable(member)]
    codes = [getattr(inspect.unwrap(member), "__code__", None) for member in members]
    return any(code is not None and "get_interface" in code.co_names for code in codes)


def attention_like(module: nn.Module) -> bool:
    """Called an attention, and has none of that name inside."""
    if "Attention" not in type(module).__name__:
        return False
    return not any(
        "Attention" in type(each).__name__ for each in module.modules() if each is not module
    )


def without_interface(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The largest models inside `model` that attend, but never through the interface."""
    taken: list[str] = []
    for name, module in model.named_modules():
        if not is_model(module) or any(name.startswith(prefix) for prefix in taken):
            continue
        inner = list(module.modules())
        if any(map(uses_interface, inner)) or not any(map(attention_like, inner)):
            continue
        taken.append(f"{name}." if name else "")
        yield name, module


def kind_of(
    name: str, module: nn.Module, given: Mapping[str, Any], T: int, S: int, causal: bool
) -> Kind:
    """By the module's word, its name, what it was `given`, and at last by lengths."""
    if getattr(module, "is_cross_attention", False) or CROSS_NAME.search(name):
        return "cross"
    if any(isinstance(given.get(each), Tensor) for each in OTHER_SEQUENCE):
        return "cross"
    goes_on = causal or getattr(module, "is_decoder", False) or hasattr(module, "layer_idx")
    return "self" if T == S or goes_on else "cross"


def is_cross(module: nn.Module) -> bool:
    """As far as a module says it: by a word, its class's name, or as a decoder's layer that is
    not causal. (Lengths that differ are refused by the mechanisms themselves.)"""
    if getattr(module, "is_cross_attention", False):
        return True
    if CROSS_NAME.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(module).__name__)):
        return True
    decodes = getattr(module, "is_decoder", False) is True
    return decodes and getattr(module, "is_causal", True) is False


def stack_of(name: str, module: nn.Module, kind: Kind, causal: bool) -> StackName:
    """By the module's word, its name, and at last by what it may see."""
    config = getattr(module, "config", None)
    if kind == "cross" or getattr(module, "is_decoder", getattr(config, "is_decoder", False)):
        return "decoder"
    parts = name.lower()
    if "decoder" in parts:
        return "decoder"
    if re.search(r"encoder|vision|visual|image|audio", parts):
        return "encoder"
    return "decoder" if causal else "encoder"
