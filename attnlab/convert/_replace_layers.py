"""A copy of a model with other mechanisms in some layers."""

from __future__ import annotations

from attnlab._create_mechanism import parse_attention
from attnlab.convert._plan import Plan
from attnlab.convert._stages import block_of
from attnlab.heads._mechanism_errors import with_scale
from attnlab.layers import attention_per_layer
from attnlab.mechanism import Mechanism
from attnlab.mechanisms._mechanism_per_head_group import scale_of
from attnlab.models import Decoder


def replace_layers(model: Decoder, plan: Plan) -> Decoder:
    """A copy of the model with these mechanisms, which shares all other weights."""
    config = model.config
    specs = attention_per_layer(config.attention, config.layers)
    for layer, spec in plan.items():
        mechanism = block_of(model, layer).attention.mechanism
        if mechanism.gates:
            raise ValueError(
                f"--layers: layer {layer} has {mechanism.name}, which is not softmax; leave it out"
            )
        parse_attention(spec, config.heads)
        specs[layer] = _with_scale_of(mechanism, spec)
    converted, new = model.with_settings(attention=specs)
    other = [name for name in new if ".attention.mechanism." not in name]
    if other:
        raise ValueError(
            f"--attention {plan[min(plan)]}: needs {other[0]}, which the original model lacks; "
            "leave this option out, or choose another mechanism"
        )
    converted.load_state_dict(
        {name: x for name, x in model.state_dict().items() if name in converted.state_dict()
         and ".attention.mechanism." not in name},
        strict=False, assign=True,
    )  # fmt: skip
    if config.tie:
        converted.head.weight = converted.stack.embedding.weight
    return converted.requires_grad_(False).eval()


def _with_scale_of(mechanism: Mechanism, spec: str) -> str:
    """The same mechanisms with the inverse temperature of the original one."""
    beta = scale_of(mechanism)
    if beta == mechanism.head_dim**-0.5:
        return spec
    groups = (group.rpartition("*") for group in spec.split("+"))
    return "+".join(count + star + with_scale(rest, beta) for count, star, rest in groups)
