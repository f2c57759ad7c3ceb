"""The attention layers of attnlab's own models, as interventions change them.

Letters: B batch, T queries, S keys, H heads, G key heads, D head size, M value size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.interpret._attention_sites import AttentionSite, HeadEdit, WeightEdit, checked_edit
from attnlab.interpret._attnlab_hooks import MechanismRole, allowed_keys, mechanism_roles
from attnlab.interpret._inspected_model import BatchOutput
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, zero_padding
from attnlab.models import Decoder, Encoder, Model, Seq2Seq, ViT
from attnlab.models._pointer_generator import CopyHead


def attnlab_sites(model: nn.Module) -> list[AttentionSite]:
    """Every mechanism in a model: in `MultiHead`, alone, or in a copy head."""
    layers = {m.mechanism: m for m in model.modules() if isinstance(m, MultiHead | CopyHead)}
    return [
        MechanismSite(mechanism, role, layers.get(mechanism))
        for mechanism, role in mechanism_roles(model).items()
    ]


class MechanismSite(AttentionSite):
    """A mechanism, and the layer around it if it has one."""

    def __init__(
        self, mechanism: Mechanism, role: MechanismRole, layer: MultiHead | CopyHead | None
    ) -> None:
        self.mechanism, self.layer = mechanism, layer
        self.module: nn.Module = mechanism if layer is None else layer
        self.name, self.heads = role.name, mechanism.heads
        self.stack = role.stack or "decoder"
        self.kind = "cross" if role.cross else "self"

    def edit_heads(self, edit: HeadEdit) -> AbstractContextManager[object]:
        layer = self.layer
        if isinstance(layer, CopyHead):
            raise ValueError(
                f"{self.name}: a copy head has weights but no outputs; change them with "
                ".weights(layer, head, edit)"
            )
        if layer is None:

            def change(module: nn.Module, args: Any, out: Tensor) -> Tensor:
                del module, args
                return edit(out.transpose(1, 2)).transpose(1, 2)  # (B, H, T, M)

            return _removed(self.mechanism.register_forward_hook(change))
        H = layer.heads

        def change_input(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            del module
            joined, *rest = args  # (B, T, H M)
            return (edit(joined.unflatten(-1, (H, -1))).flatten(-2), *rest)

        return _removed(layer.out.register_forward_pre_hook(change_input))

    @contextmanager
    def edit_weights(self, heads: Sequence[int], edit: WeightEdit) -> Iterator[None]:
        mechanism: Any = self.mechanism
        heads = list(heads)
        original: Callable[..., Tensor] = mechanism.weights
        computing = False

        def weights(q: Tensor, k: Tensor, mask: Mask | None = None, **gates: Tensor) -> Tensor:
            nonlocal computing
            mask = Mask() if mask is None else mask
            if computing:  # `allowed_keys` itself calls `weights`
                return original(q, k, mask, **gates)
            computing = True
            try:
                allowed = _allowed(mechanism, q, k.shape[2], mask, heads)  # (B, T, S)
                A = original(q, k, mask, **gates).clone()  # (B, H, T, S)
            finally:
                computing = False
            for head in heads:
                A[:, head] = checked_edit(edit, A[:, head], allowed)
            return A

        def change(module: Any, args: Any, kwargs: Any, out: Tensor) -> Tensor:
            bound = inspect.signature(Mechanism.forward).bind(module, *args, **kwargs).arguments
            mask, gates = bound.get("mask", Mask()), bound.get("gates", {})
            q, k, v = (bound[name] for name in ("q", "k", "v"))
            k, v = zero_padding(k, mask.keys), zero_padding(v, mask.keys)
            A = mechanism.weights(q, k, mask, **gates)[:, heads]
            groups = [head * v.shape[1] // q.shape[1] for head in heads]
            changed = out.clone()
            changed[:, heads] = (A @ v[:, groups]).to(out.dtype)
            return changed

        def read(*_: Any, **__: Any) -> Tensor:
            raise ValueError(
                f"{self.name}: its weights can be changed in a whole forward pass only, not while "
                "the model decodes from a state; call model(ids)"
            )

        before = {name: mechanism.__dict__.get(name) for name in ("weights", "read")}
        handle = mechanism.register_forward_hook(change, with_kwargs=True)
        mechanism.weights, mechanism.read = weights, read
        try:
            yield
        finally:
            handle.remove()
            restore_attributes(mechanism, before)


def restore_attributes(owner: nn.Module, before: dict[str, Any]) -> None:
    """Set the instance's own attributes to what they were; None deletes one."""
    for name, value in before.items():
        owner.__dict__.pop(name, None)
        if value is not None:
            owner.__dict__[name] = value


def _allowed(mechanism: Mechanism, q: Tensor, S: int, mask: Mask, heads: list[int]) -> Tensor:
    """(B, T, S): True where any of these heads may attend."""
    rows = []
    for row in range(len(q)):
        own = slice(row, row + 1)
        keys, segments = (None if x is None else x[own] for x in (mask.keys, mask.segments))
        start = int(mask.start[row]) if isinstance(mask.start, Tensor) else mask.start
        one = replace(mask, keys=keys, segments=segments, start=start)
        rows.append(allowed_keys(mechanism, q[own], S, one, heads))
    return torch.stack(rows)


@contextmanager
def _removed(handle: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def predict(model: nn.Module, inputs: dict[str, Tensor]) -> BatchOutput | None:
    """Run one of attnlab's models on the inputs of a `PreparedInput`."""
    if not isinstance(model, Model):
        return None
    if isinstance(model, Decoder):
        return BatchOutput(model(inputs["ids"]), "next")
    if isinstance(model, Encoder):
        return BatchOutput(model(inputs["ids"], types=inputs.get("types")), "masked")
    if isinstance(model, Seq2Seq):
        if "source" not in inputs:
            raise ValueError("a seq2seq model reads two texts; give a text, and a pair")
        return BatchOutput(model(inputs["source"], inputs["target"]), "next")
    if isinstance(model, ViT):
        return BatchOutput(model(inputs["images"]), "classes")
    raise ValueError(f"a {model.kind} model has no attention to change")
