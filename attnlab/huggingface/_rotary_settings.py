"""Rotary positions in a config.json: base and scaling, in the form of transformers 4 or 5."""

from __future__ import annotations

import math
from typing import Any

from attnlab.huggingface._config_fields import ConfigFields
from attnlab.models import StackConfig
from attnlab.position import parse_scaling

PARAMETERS = "rope_parameters"
NAMES = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "length": "original_max_position_embeddings",
    },
    "yarn": {
        "factor": "factor",
        "fast": "beta_fast",
        "slow": "beta_slow",
        "length": "original_max_position_embeddings",
        "amplitude": "attention_factor",
    },
}
"""What transformers calls the numbers of each scaling."""


def read_rotary(fields: ConfigFields) -> dict[str, Any]:
    """The settings `rotary_base` and `rotary_scaling`."""
    values = {"rope_theta": fields.values.get("rope_theta")}
    values |= {**fields.part("rope_scaling"), **fields.part(PARAMETERS)}
    parameters = ConfigFields(values, f"{fields.source}: {PARAMETERS}")
    if any(isinstance(value, dict) for value in values.values()):
        raise fields.error(PARAMETERS, "attnlab's models have one for all layers")
    kind = values.get("rope_type", values.get("type", "default"))
    for place in (parameters, fields):
        place.require("partial_rotary_factor", 1.0, "rotate all of a head")
    base = parameters.number("rope_theta", 1e4)
    if kind in (None, "default"):
        return {"rotary_base": base, "rotary_scaling": None}
    if kind not in NAMES:
        raise parameters.error("rope_type", f"attnlab has default, {', '.join(NAMES)}")
    parameters.require("truncate", True, "round the borders of yarn")
    numbers = {name: parameters.number(own, 0.0) for name, own in NAMES[kind].items()}
    if kind == "yarn":
        numbers |= _yarn_defaults(parameters, numbers)
        numbers["length"] = numbers["length"] or fields.count("max_position_embeddings")
    listed = ",".join(f"{name}={number!r}" for name, number in numbers.items())
    return {"rotary_base": base, "rotary_scaling": f"{kind}:{listed}"}


def _yarn_defaults(parameters: ConfigFields, numbers: dict[str, float]) -> dict[str, float]:
    factor = numbers["factor"]

    def amplitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    scale, all_scale = (parameters.number(name, 0.0) for name in ("mscale", "mscale_all_dim"))
    usual = amplitude(scale) / amplitude(all_scale) if scale and all_scale else amplitude(1)
    return {
        "fast": parameters.number("beta_fast", 32.0) or 32.0,
        "slow": parameters.number("beta_slow", 1.0) or 1.0,
        "amplitude": numbers["amplitude"] or usual,
    }


def write_rotary(config: StackConfig) -> dict[str, Any]:
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": config.rotary_base}
    if config.rotary_scaling is not None:
        kind, numbers = parse_scaling(config.rotary_scaling)
        parameters["rope_type"] = kind
        for name, own in NAMES[kind].items():
            is_count = own.startswith("original")
            parameters[own] = int(numbers[name]) if is_count else numbers[name]
    return {PARAMETERS: parameters}
