"""Opens attnlab's own models, and hears their attention calls: forward, and reading from states.

Mechanisms are hooked from outside; `weights`, their definition, is called on the side.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import ModelAdapter
from attnlab.interpret._attention_call import Call, Kind, Listener, StackName, accurate, key_heads
from attnlab.interpret._inspected_model import Subject
from attnlab.interpret._key_value_cache import (
    Absorbed,
    Memory,
    absorbed_by,
    follow_states,
    remember,
)
from attnlab.layers import Block
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, blank
from attnlab.mechanisms._head_groups import HeadGroups, members_of, name_of, scale_of
from attnlab.models import MODELS, Model
from attnlab.models._pointer_generator import CopyHead
from attnlab.models._stack import Stack
from attnlab.run_folder._file_names import CONFIG
from attnlab.state import State
from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class Place:
    """What is known of a mechanism before it runs."""

    name: str
    stack: StackName | None
    cross: bool


def places_of(model: nn.Module) -> dict[Mechanism, Place]:
    """Every mechanism that is not part of another, and what it is for."""
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
        module: Place(
            name.removesuffix("mechanism").removesuffix(".") or module.name,
            stacks.get(module),
            module in cross,
        )
        for name, module in model.named_modules()
        if isinstance(module, Mechanism) and module not in inner
    }


class Ear:
    """One listener at one mechanism."""

    def __init__(self, mechanism: Mechanism, place: Place, listener: Listener) -> None:
        self.mechanism, self.place, self.listener = mechanism, place, listener
        self.thread = threading.get_ident()

    def forward(self, mechanism: nn.Module, args: Any, kwargs: Any, out: Tensor) -> None:
        given = inspect.signature(Mechanism.forward).bind(mechanism, *args, **kwargs).arguments
        q, k, v, mask = (given[name] for name in ("q", "k", "v", "mask"))
        if self._asked(q):
            row = self.listener.row
            keys = None if mask.keys is None else mask.keys[row]
            self._hear(q, out, (k[row], v[row], keys), _at(mask.start, row), mask.causal)

    def read(self, q: Tensor, out: Tensor, absorbed: Absorbed | None, start: int | Tensor) -> None:
        if not self._asked(q):
            return
        if absorbed is None:
            self.listener.note(
                f"{self.place.name}: read from a state that was made before the capture began, "
                "which cannot be opened; begin with the prompt inside the `with`."
            )
            return
        row = self.listener.row
        self._hear(q, out, absorbed.of_row(row), _at(start, row), None)

    def _asked(self, q: Tensor) -> bool:
        """Of this thread, this layer and a row that is there."""
        if self.thread != threading.get_ident():
            return False
        batch, heads = q.shape[:2]
        asked = self.listener.admit(self.place.name, batch=batch, heads=heads, queries=0, keys=0)
        return asked is not None

    def _hear(
        self, q: Tensor, out: Tensor, memory: Memory, start: int, causal: bool | None
    ) -> None:
        """Queries of all rows, memory of the row; causal None: read from a state."""
        listener, row = self.listener, self.listener.row
        k, v, keys = memory
        H, T, S = q.shape[1], q.shape[2], k.shape[1]
        heads = listener.admit(self.place.name, batch=len(q), heads=H, queries=start + T, keys=S)
        assert heads is not None
        cross = self.place.cross or (causal is False and T != S)
        kind: Kind = "cross" if cross else "self"
        follows = causal is not False and not cross
        stack = self.place.stack or ("decoder" if cross or follows else "encoder")
        call = Call(self.place.name, stack, kind, heads, H, start, causal=follows)
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            real = None if keys is None else keys[None]
            k, v = (blank(accurate(x[None]), real) for x in (k, v))
            self._fill(call, accurate(q[row : row + 1]), k, v, real, causal)
        call.output, call.pick = out, lambda x: x[row, heads]
        call.given = call.pick(out.detach())
        listener.hear(call)

    def _fill(
        self, call: Call, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, causal: bool | None
    ) -> None:
        mechanism, heads = self.mechanism, call.heads
        card, (G, S) = mechanism.card, k.shape[1:3]
        call.mechanism = name_of(mechanism)
        call.signed, call.normalised = card.signed, card.rows_sum_to_one
        kept, call.groups = key_heads(heads, mechanism.heads, G)
        call.q = q[0, heads] if q.shape[3] else None
        call.k = k[0, kept] if k.shape[3] else None
        call.v = v[0, kept]
        call.scale = scale_of(mechanism) if card.uses_query and card.uses_key else None
        q, mask, rows = arranged(mechanism, q, S, keys, call.start, causal)
        call.allowed = allowed_of(mechanism, q, S, mask, heads)
        call.allowed = None if call.allowed is None else call.allowed[rows]
        if self.listener.wants_weights:
            call.weights = mechanism.weights(q, k, mask)[0, heads, rows]
            call.condition = mechanism.condition(q, k, mask)[0, heads, rows]
        if mechanism.training and drops(mechanism):
            call.checked = False
            call.note = "Dropout is on: the weights are those before it, and are not checked."


def arranged(
    mechanism: Mechanism, q: Tensor, S: int, keys: Tensor | None, start: int, causal: bool | None
) -> tuple[Tensor, Mask, slice]:
    """Queries and mask that `weights` understands, and where the rows asked for are.

    Reading from a state is not causal. A mechanism that refuses cross-attention reads for the
    newest tokens alone: for one of them that is the last causal row, for more the last rows of all.
    """
    T = q.shape[2]
    if causal is not None:
        return q, Mask(causal, keys, start), slice(0, T)
    if mechanism.card.cross:
        return q, Mask(keys=keys, start=start), slice(0, T)
    if T == 1:
        return q, Mask(True, keys, S - 1), slice(0, 1)
    whole = q.new_zeros(*q.shape[:2], S, q.shape[3])
    whole[:, :, S - T :] = q
    return whole, Mask(keys=keys), slice(S - T, S)


def allowed_of(
    mechanism: Mechanism, q: Tensor, S: int, mask: Mask, heads: list[int]
) -> Tensor | None:
    """(T, S) True where any of these heads may look; None: everywhere."""
    T, seen = q.shape[2], q.new_zeros(q.shape[2], S, dtype=torch.bool)
    places = mechanism.places if isinstance(mechanism, HeadGroups) else [heads]
    for member, own in zip(members_of(mechanism), places, strict=True):
        if not set(own) & set(heads):
            continue
        allowed = mask.allowed(T, S, q.device)
        if not member.card.cross:
            # a pattern of positions (window, blocks): of equal scores, all in sight have a share
            D, E = (
                member.head_dim * used for used in (member.card.uses_query, member.card.uses_key)
            )
            zero = q.new_zeros(1, member.heads, 1, 1)
            even = member.weights(zero.expand(-1, -1, T, D), zero.expand(-1, -1, S, E), mask)
            allowed = even > 0
        seen |= True if allowed is None else allowed[0].any(0)
    return None if bool(seen.all()) else seen


def drops(mechanism: Mechanism) -> bool:
    return any(bool(getattr(each, "dropout", 0.0)) for each in mechanism.modules())


def _at(start: int | Tensor, row: int) -> int:
    return int(start[row]) if isinstance(start, Tensor) else start


_ears: dict[Mechanism, list[Ear]] = {}
_lock = threading.RLock()


def _hook_states(mechanism: Mechanism) -> None:
    """`absorb` and `read` are no forward: the instance gets its own, which tell."""
    absorb, read = mechanism.absorb, mechanism.read

    def heard_absorb(
        k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        new = absorb(k, v, keys, state)
        remember(new, state, k, v, keys)
        return new

    def heard_read(q: Tensor, state: State, start: int | Tensor) -> Tensor:
        out = read(q, state, start)
        for ear in _ears.get(mechanism, ()):
            ear.read(q, out, absorbed_by(state), start)
        return out

    mechanism.absorb = heard_absorb  # type: ignore[method-assign]
    mechanism.read = heard_read  # type: ignore[method-assign]


@contextmanager
def listen(model: nn.Module, listener: Listener) -> Iterator[list[str]]:
    """Tell `listener` of every call of every mechanism; the names of all of them."""
    ears = [Ear(mechanism, place, listener) for mechanism, place in places_of(model).items()]
    with ExitStack() as stack:
        if ears:
            stack.enter_context(follow_states())
            stack.callback(_stop, ears)
            _start(ears)
            for ear in ears:
                handle = ear.mechanism.register_forward_hook(ear.forward, with_kwargs=True)
                stack.callback(handle.remove)
        yield [ear.place.name for ear in ears]


def _start(ears: list[Ear]) -> None:
    with _lock:
        for ear in ears:
            if ear.mechanism not in _ears:
                _hook_states(ear.mechanism)
            _ears[ear.mechanism] = [*_ears.get(ear.mechanism, []), ear]


def _stop(ears: list[Ear]) -> None:
    with _lock:
        for ear in ears:
            mechanism = ear.mechanism
            _ears[mechanism] = [each for each in _ears[mechanism] if each is not ear]
            if not _ears[mechanism]:
                del _ears[mechanism]
                del mechanism.absorb, mechanism.read  # the class's own are there again


class OwnModels(ModelAdapter):
    def open_folder(self, path: Path) -> Subject | None:
        from attnlab.interpret._attnlab_models import open_own  # all tasks: `capture` needs none

        return open_own(path) if _is_own(path / CONFIG) else None

    def subject_of(self, model: Any, reader: Any) -> Subject | None:
        from attnlab.interpret._attnlab_models import OwnSubject

        if not isinstance(model, Model):
            return None
        if reader is not None and not isinstance(reader, Tokenizer):
            raise ValueError("tokenizer: give one of attnlab.tokenizer with a model of attnlab")
        return OwnSubject(model, reader, type(model).__name__)

    def listen(self, model: nn.Module, listener: Listener) -> AbstractContextManager[list[str]]:
        return listen(model, listener)


def _is_own(config: Path) -> bool:
    """Whether attnlab wrote it; another adapter says what is wrong with a broken file."""
    try:
        read = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(read, dict) and ("training" in read or str(read.get("model")) in MODELS)
