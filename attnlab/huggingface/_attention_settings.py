"""The attention implementation in the configurations of a model and of all models inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from attnlab.huggingface._attention_modules import is_model

FIELD = "_attn_implementation_internal"
"""The field itself: its property also sets it in the configurations inside."""


def configs_of(model: nn.Module) -> list[Any]:
    """The configurations of all models inside, and those inside them, each once."""
    configs: dict[int, Any] = {}

    def visit(config: Any) -> None:
        if config is None or id(config) in configs or not hasattr(config, FIELD):
            return
        configs[id(config)] = config
        for name in getattr(config, "sub_configs", ()):
            visit(getattr(config, name, None))

    for module in model.modules():
        if is_model(module):
            visit(module.config)
    return list(configs.values())


@contextmanager
def restoring_implementations(model: nn.Module) -> Iterator[list[Any]]:
    """The configurations; after the `with`, each has its implementation from before."""
    configs = configs_of(model)
    before = [getattr(config, FIELD) for config in configs]
    try:
        yield configs
    finally:
        for config, implementation in zip(configs, before, strict=True):
            setattr(config, FIELD, implementation)
