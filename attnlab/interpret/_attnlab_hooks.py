"""Observes the attention calls of attnlab's own models: `forward`, and `read` from decoding states.

Mechanisms are hooked from outside. Their weights come from a second call, of `weights`.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._safe_files import read_json
from attnlab.interpret._adapters import ModelAdapter
from attnlab.interpret._attention_call import (
    AttentionCall,
    AttentionKind,
    CallListener,
    StackName,
    at_least_float32,
    key_heads,
)
from attnlab.interpret._attention_sites import AttentionSite
from attnlab.interpret._inspected_model import BatchOutput, InspectedModel
from attnlab.interpret._key_value_cache import (
    AbsorbedStep,
    AbsorbedTokens,
    absorbed_by,
    follow_states,
    remember,
)
from attnlab.layers import Block
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, zero_padding
from attnlab.mechanisms._mechanism_per_head_group import HeadGroups, members_of, name_of, scale_of
from attnlab.models import MODELS, Model
from attnlab.models._pointer_generator import CopyHead
from attnlab.models._stack import Stack
from attnlab.run_folder._config import CONFIG_BYTES
from attnlab.run_folder._file_names import CONFIG
from attnlab.state import State
from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class MechanismRole:
    """What a mechanism is for in its model."""

    name: str
    stack: StackName | None
    cross: bool


def mechanism_roles(model: nn.Module) -> dict[Mechanism, MechanismRole]:
    """Every mechanism that is not part of another, and its role."""
    inner = {
        part
        for module in model.modules()
        if isinstance(module, Mechanism)
        for part in module.modules()
        if part is not module
    }
    stacks: dict[nn.Module, StackName] = {
        part: "decoder" if module.causal else "encoder"
        for module in model.modules()
        if isinstance(module, Stack)
        for part in module.modules()
    }
    cross = {
        module.cross.mechanism
        for module in model.modules()
        if isinstance(module, Block) and module.cross is not None
    } | {module.mechanism for module in model.modules() if isinstance(module, CopyHead)}
    return {
        module: MechanismRole(
            name.removesuffix("mechanism").removesuffix(".") or module.name,
            stacks.get(module),
            module in cross,
        )
        for name, module in model.named_modules()
        if isinstance(module, Mechanism) and module not in inner
    }


class MechanismObserver:
    """Passes the calls of one mechanism to one listener."""

    def __init__(self, mechanism: Mechanism, role: MechanismRole, listener: CallListener) -> None:
        self.mechanism, self.role, self.listener = mechanism, role, listener
        self.thread = threading.get_ident()

    def forward(self, mechanism: nn.Module, args: Any, kwargs: Any, out: Tensor) -> None:
        arguments = inspect.signature(Mechanism.forward).bind(mechanism, *args, **kwargs).arguments
        q, k, v, mask = (arguments[name] for name in ("q", "k", "v", "mask"))
        if self._is_requested(q):
            row = self.listener.row
            tokens = AbsorbedTokens(k, v, mask.keys, arguments.get("gates", {}))
            segments = None if mask.segments is None else mask.segments[row : row + 1]
            start = _start_of(mask.start, row)
            own = Mask(mask.causal, None, start, segments)
            self._report(q, out, tokens.of_row(row), start, own)

    def read(
        self, q: Tensor, out: Tensor, absorbed: AbsorbedStep | None, start: int | Tensor
    ) -> None:
        if not self._is_requested(q):
            return
        if absorbed is None:
            self.listener.note(
                f"{self.role.name}: not captured, because it reads a decoding state from before "
                "the capture, whose keys are unknown; run the prompt inside the `with` too."
            )
            return
        row = self.listener.row
        self._report(q, out, absorbed.of_row(row), _start_of(start, row), None)

    def _is_requested(self, q: Tensor) -> bool:
        """Whether the listener wants this layer, called from the listener's own thread."""
        if self.thread != threading.get_ident():
            return False
        batch, heads = q.shape[:2]
        selected = self.listener.select_heads(
            self.role.name, batch=batch, heads=heads, queries=0, keys=0
        )
        return selected is not None

    def _report(
        self, q: Tensor, out: Tensor, memory: AbsorbedTokens, start: int, mask: Mask | None
    ) -> None:
        """`q` has all rows, `memory` and `mask` one. A read from a decoding state has no mask."""
        causal = None if mask is None else mask.causal
        listener, row = self.listener, self.listener.row
        H, T, S = q.shape[1], q.shape[2], memory.k.shape[1]
        heads = listener.select_heads(
            self.role.name, batch=len(q), heads=H, queries=start + T, keys=S
        )
        assert heads is not None
        cross = self.role.cross or (causal is False and T != S)
        kind: AttentionKind = "cross" if cross else "self"
        is_causal = causal is not False and not cross
        stack = self.role.stack or ("decoder" if cross or is_causal else "encoder")
        call = AttentionCall(self.role.name, stack, kind, heads, H, start, causal=is_causal)
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            keys = None if memory.keys is None else memory.keys[None]
            k, v = (zero_padding(at_least_float32(x[None]), keys) for x in memory[:2])
            gates = {name: at_least_float32(gate[None]) for name, gate in memory.gates.items()}
            inputs = AbsorbedTokens(k, v, keys, gates)
            self._fill(call, at_least_float32(q[row : row + 1]), inputs, mask)
        call.output, call.select = out, lambda x: x[row, heads]
        call.head_outputs = call.select(out.detach())
        listener.on_call(call)

    def _fill(
        self,
        call: AttentionCall,
        q: Tensor,
        memory: AbsorbedTokens,
        mask: Mask | None,
    ) -> None:
        k, v, keys, gates = memory
        mechanism: Any = self.mechanism
        heads = call.heads
        card, (G, S) = mechanism.card, k.shape[1:3]
        call.mechanism = name_of(mechanism)
        call.signed, call.normalized = card.signed, card.rows_sum_to_one
        used, call.groups = key_heads(heads, mechanism.heads, G)
        call.q = q[0, heads] if q.shape[3] else None
        call.k = k[0, used] if k.shape[3] else None
        call.v = v[0, used]
        call.scale = scale_of(mechanism) if card.uses_query and card.uses_key else None
        calls = weights_arguments(mechanism, q, S, keys, call.start, mask)
        allowed = [allowed_keys(mechanism, q, S, each, heads)[rows] for q, each, rows in calls]
        call.allowed = None if all(bool(some.all()) for some in allowed) else torch.cat(allowed)
        if self.listener.wants_weights:
            call.weights, call.condition = (
                torch.cat([f(q, k, each, **gates)[0, heads, rows] for q, each, rows in calls], 1)
                for f in (mechanism.weights, mechanism.condition)
            )
        if mechanism.training and has_dropout(mechanism):
            call.checkable = False
            call.note = "Dropout is on: the weights are those before dropout, and are not checked."


def weights_arguments(
    mechanism: Mechanism, q: Tensor, S: int, keys: Tensor | None, start: int, mask: Mask | None
) -> list[tuple[Tensor, Mask, slice]]:
    """The queries and masks to call `mechanism.weights` with, and which rows are the result.

    A read from a decoding state has no mask, and is not causal. A mechanism without cross-attention
    reads for the newest tokens only: the last causal row for one token, the last rows of a full
    matrix for more, or a last causal row for each where there is only a causal form.
    """
    T = q.shape[2]
    if mask is not None:
        return [(q, replace(mask, keys=keys), slice(0, T))]
    if mechanism.card.cross:
        return [(q, Mask(keys=keys, start=start), slice(0, T))]
    if T == 1 or not mechanism.card.bidirectional:
        return [(each, Mask(True, keys, S - 1), slice(0, 1)) for each in q.split(1, dim=2)]
    whole = q.new_zeros(*q.shape[:2], S, q.shape[3])
    whole[:, :, S - T :] = q
    return [(whole, Mask(keys=keys), slice(S - T, S))]


def allowed_keys(mechanism: Mechanism, q: Tensor, S: int, mask: Mask, heads: list[int]) -> Tensor:
    """(T, S): True where any of these heads may attend."""
    T, union = q.shape[2], q.new_zeros(q.shape[2], S, dtype=torch.bool)
    head_lists = mechanism.head_indices if isinstance(mechanism, HeadGroups) else [heads]
    for member, member_heads in zip(members_of(mechanism), head_lists, strict=True):
        if not set(member_heads) & set(heads):
            continue
        allowed = mask.allowed(T, S, q.device)
        if not member.card.cross and member.card.bidirectional and not member.gates:
            # a pattern of positions (window, blocks): equal scores give every allowed key a weight
            D, E = (
                member.head_dim * used for used in (member.card.uses_query, member.card.uses_key)
            )
            one = q.new_ones(1, member.heads, 1, 1)
            uniform = member.weights(one.expand(-1, -1, T, D), one.expand(-1, -1, S, E), mask)
            allowed = uniform > 0
        union |= True if allowed is None else allowed[0].any(0)
    return union


def has_dropout(mechanism: Mechanism) -> bool:
    return any(bool(getattr(module, "dropout", 0.0)) for module in mechanism.modules())


def _start_of(start: int | Tensor, row: int) -> int:
    return int(start[row]) if isinstance(start, Tensor) else start


_observers: dict[Mechanism, list[MechanismObserver]] = {}
_replaced: dict[Mechanism, dict[str, Any]] = {}
"""Methods that an instance already had of its own, because an intervention set them."""
_lock = threading.RLock()


def _hook_states(mechanism: Mechanism) -> None:
    """Forward hooks do not see `absorb` and `read`, so replace both on the instance."""
    absorb: Any = mechanism.absorb
    read = mechanism.read
    own = mechanism.__dict__
    _replaced[mechanism] = {name: own[name] for name in ("absorb", "read") if name in own}

    def observed_absorb(
        k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None,
        **gates: Tensor,
    ) -> State:  # fmt: skip
        new = absorb(k, v, keys, state, **gates)
        remember(new, state, k, v, keys, gates)
        return new

    def observed_read(q: Tensor, state: State, start: int | Tensor) -> Tensor:
        out = read(q, state, start)
        for observer in _observers.get(mechanism, ()):
            observer.read(q, out, absorbed_by(state), start)
        return out

    mechanism.absorb = observed_absorb  # type: ignore[method-assign]
    mechanism.read = observed_read  # type: ignore[method-assign]


@contextmanager
def listen(model: nn.Module, listener: CallListener) -> Iterator[list[str]]:
    """Pass every call of every mechanism to `listener`; returns the mechanisms' names."""
    observers = [
        MechanismObserver(mechanism, role, listener)
        for mechanism, role in mechanism_roles(model).items()
    ]
    with ExitStack() as stack:
        if observers:
            stack.enter_context(follow_states())
            stack.callback(_stop, observers)
            _start(observers)
            for observer in observers:
                handle = observer.mechanism.register_forward_hook(
                    observer.forward, with_kwargs=True
                )
                stack.callback(handle.remove)
        yield [observer.role.name for observer in observers]


def _start(observers: list[MechanismObserver]) -> None:
    with _lock:
        for observer in observers:
            if observer.mechanism not in _observers:
                _hook_states(observer.mechanism)
            _observers[observer.mechanism] = [*_observers.get(observer.mechanism, []), observer]


def _stop(observers: list[MechanismObserver]) -> None:
    with _lock:
        for observer in observers:
            mechanism = observer.mechanism
            _observers[mechanism] = [
                other for other in _observers[mechanism] if other is not observer
            ]
            if not _observers[mechanism]:
                del _observers[mechanism]
                del mechanism.absorb, mechanism.read  # back to the class's own methods
                mechanism.__dict__.update(_replaced.pop(mechanism))


class AttnlabAdapter(ModelAdapter):
    """The adapter for attnlab's own models."""

    def open_folder(self, path: Path) -> InspectedModel | None:
        from attnlab.interpret._attnlab_models import open_attnlab_model  # slow: imports all tasks

        return open_attnlab_model(path) if _is_attnlab_config(path / CONFIG) else None

    def wrap_model(self, model: Any, processor: Any) -> InspectedModel | None:
        from attnlab.interpret._attnlab_models import InspectedAttnlabModel

        if not isinstance(model, Model):
            return None
        if processor is not None and not isinstance(processor, Tokenizer):
            raise ValueError(
                f"tokenizer is a {type(processor).__name__}; an attnlab model needs a tokenizer of "
                "attnlab.tokenizer"
            )
        return InspectedAttnlabModel(model, processor, type(model).__name__)

    def listen(self, model: nn.Module, listener: CallListener) -> AbstractContextManager[list[str]]:
        return listen(model, listener)

    def sites(self, model: nn.Module) -> list[AttentionSite]:
        from attnlab.interpret._attnlab_sites import attnlab_sites

        return attnlab_sites(model)

    def predict(self, model: nn.Module, inputs: dict[str, Tensor]) -> BatchOutput | None:
        from attnlab.interpret._attnlab_sites import predict

        return predict(model, inputs)


def _is_attnlab_config(config: Path) -> bool:
    """Whether attnlab wrote this file. (The other adapter reports what is wrong with it.)"""
    try:
        content = read_json(config, CONFIG_BYTES, follow_links=True)
    except ValueError:
        return False
    return isinstance(content, dict) and (
        "training" in content or str(content.get("model")) in MODELS
    )
