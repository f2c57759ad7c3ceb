"""Hears attention calls and makes layers of them.

Letters: H heads that were kept, T queries, S keys, M value size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from attnlab.interpret._attention_call import Call, accurate
from attnlab.interpret._join_calls import Joined, Piece
from attnlab.interpret._memory_limit import GIBIBYTES, Budget
from attnlab.interpret._records import LIMIT, Layer, plain

NOTHING = "capture: no attention was seen; run the model inside the `with`."
HELP = (
    'Loading it with from_pretrained(..., attn_implementation="eager") helps where a model has '
    "eager attention that gives its weights."
)


class Seen:
    """What was captured so far; complete when the `with` ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._layers: list[Layer] | None = None
        self.notes: list[str] = []
        """Sentences about the whole capture."""

    @property
    def layers(self) -> list[Layer]:
        """In the order in which they ran."""
        return self._recorder.layers() if self._layers is None else self._layers

    @property
    def difference(self) -> float | None:
        """The largest of all layers between weights times values and what the layer gave."""
        found = [layer.difference for layer in self.layers if layer.difference is not None]
        return max(found, default=None)


@dataclass(frozen=True)
class CaptureOptions:
    """What a capture keeps; see `attnlab.capture`."""

    weights: bool = True
    qkv: bool = False
    gradients: bool = False
    layers: Sequence[int | str] | None = None
    heads: Sequence[int] | None = None
    max_tokens: int = 2048
    row: int = 0
    memory: float = GIBIBYTES
    taken: int = 0
    """Bytes of that memory that are gone."""
    maps: int = 0
    """Of (T, S) that will be made of each layer: they take memory too."""
    then: Callable[[Layer], None] | None = None
    """Gets each call as a layer, as soon as it was heard; nothing is then kept."""


class Recorder:
    """Hears calls and makes layers of them."""

    def __init__(self, model: nn.Module, options: CaptureOptions) -> None:
        _check(model, options)
        self.wants_weights, self.wants_gradients = options.weights, options.gradients
        self.qkv, self.then = options.qkv, options.then
        self.chosen = None if options.layers is None else list(dict.fromkeys(options.layers))
        self.heads = None if options.heads is None else list(dict.fromkeys(options.heads))
        self.max_tokens, self.row = options.max_tokens, options.row
        self.budget = Budget(
            options.memory, gradients=options.gradients, maps=options.maps, taken=options.taken
        )
        self.names: dict[str, int] = {}
        self.joined: dict[str, Joined] = {}
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.backward = False
        self.seen = Seen(self)

    def expect(self, names: Sequence[str]) -> None:
        """The layers that the model has."""
        if self.chosen is None:
            self.budget.expect(names)

    # What the models' ears ask and tell

    def admit(
        self, name: str, *, batch: int, heads: int, queries: int, keys: int
    ) -> list[int] | None:
        number = self.names.setdefault(name, len(self.names))
        if self.chosen is not None and number not in self.chosen and name not in self.chosen:
            return None
        if self.row >= batch:
            raise ValueError(
                f"capture: row={self.row}, but {name} got a batch of {batch}; "
                f"give a row from 0 to {batch - 1}"
            )
        if max(queries, keys) > self.max_tokens:
            raise ValueError(
                f"capture: {name} has {queries} queries and {keys} keys, more than "
                f"max_tokens={self.max_tokens}; give a shorter input, or a larger max_tokens with "
                "layers=[...] and heads=[...] to keep the memory small"
            )
        if self.heads is not None and max(self.heads) >= heads:
            raise ValueError(
                f"capture: heads={self.heads}, but {name} has {heads}; "
                f"give numbers from 0 to {heads - 1}"
            )
        kept = list(range(heads)) if self.heads is None else self.heads
        if self.wants_weights and self.then is None:
            self.budget.ask(name, heads=len(kept), queries=queries, keys=keys)
        return kept

    def afford(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        self.budget.ask(name, heads=heads, queries=queries, keys=keys, kept_twice=True)

    def note(self, sentence: str) -> None:
        if sentence not in self.seen.notes:
            self.seen.notes.append(sentence)

    def hear(self, call: Call) -> None:
        difference, excess = _difference(call)
        output, pick, direct = call.output, call.pick, call.direct
        values = None
        if self.wants_gradients and call.v is not None:
            values = accurate(call.v)[call.groups]  # (H, S, M)
        joined = Joined() if self.then else self.joined.setdefault(call.name, Joined())
        piece = joined.add(call, difference, excess, self.qkv)
        if self.then is not None:
            self.then(joined.layer(self.qkv))
            return
        if piece is None or not self.wants_gradients or output is None or pick is None:
            return
        if not output.requires_grad:
            if not torch.is_grad_enabled():
                return
            output.requires_grad_()  # no parameter is learned: the graph begins here

        def told(gradient: Tensor) -> None:
            """out = A v is linear in A: the gradient by A is that by out, times v."""
            self.backward = True
            mine = accurate(pick(gradient))
            by_weights = mine if direct or values is None else mine @ values.mT  # (H, T, S)
            _add_gradient(piece, plain(by_weights))

        self.handles.append(output.register_hook(told))

    def unhook(self) -> None:
        for handle in self.handles:
            handle.remove()

    # The end

    def layers(self) -> list[Layer]:
        found = [joined.layer(self.qkv) for joined in self.joined.values()]
        for before, layer in pairwise(found):
            one, other = before.allowed, layer.allowed
            if one is not None and other is not None and torch.equal(one, other):
                layer.allowed = one  # most layers share one mask
        return found

    def finish(self) -> None:
        """Say what a person must know; an error where there is nothing to show."""
        if not self.names:
            raise ValueError(" ".join([NOTHING, *self.seen.notes, *[HELP] * bool(self.seen.notes)]))
        missing = [
            each
            for each in self.chosen or []
            if each not in self.names and each not in self.names.values()
        ]
        if missing:
            raise ValueError(
                f"capture: layers={self.chosen}, but the model ran no {missing[0]!r}; it has "
                f"0 to {len(self.names) - 1}: {', '.join(self.names)}"
            )
        joined = self.joined.values()
        replaced = max((each.replaced for each in joined), default=0)
        if replaced:
            self.note(f"The model read {replaced + 1} inputs; the last one is kept.")
        dropped = max((each.dropped for each in joined), default=0)
        if dropped:
            self.note(
                f"{dropped} calls went on from another text than the one kept (a beam, another "
                "row) and are left out; run the model once over the finished text to see all of it."
            )
        found = self.seen._layers = self.layers()
        explained = bool(found) and all(layer.no_gradient for layer in found)
        if self.wants_gradients and not self.backward and not explained:
            self.note("No gradients: call backward inside the `with`, on what the model gave.")
        self._warn()
        self.joined.clear()  # the layers have it all

    def _warn(self) -> None:
        doubtful = [layer for layer in self.seen.layers if layer.doubtful]
        if doubtful:
            worst = max(doubtful, key=lambda layer: layer.excess or 0.0)
            sentence = (
                f"capture: in {worst.name} the weights times the values differ by "
                f"{worst.difference:.2g} from what the layer gave; do not trust them"
            )
            self.note(f"{sentence[0].upper()}{sentence[1:]}.")
            warnings.warn(sentence, stacklevel=5)


def _difference(call: Call) -> tuple[float | None, float]:
    """The largest between weights times values and what was given, and as a multiple of what
    rounding can explain (at least LIMIT)."""
    if not call.checked or call.weights is None or call.v is None or call.given is None:
        return None, 0.0
    if not call.weights.numel():
        return 0.0, 0.0
    values, given = accurate(call.v)[call.groups], call.given
    product = accurate(call.weights) @ values  # (H, T, M)
    apart = (product - accurate(given)).abs()
    steps = 64 if torch.finfo(given.dtype).eps < 1e-4 else 2  # sums are in float32 anyway
    rounding = steps * torch.finfo(given.dtype).eps * values.abs().amax() * call.condition
    tolerated = torch.as_tensor(rounding).clamp(min=LIMIT)
    excess = (apart.double() / tolerated).amax()  # a huge one is still a number
    found = float(apart.amax())
    return found, float("inf") if found != found else float(excess)


def _add_gradient(piece: Piece, gradient: Tensor) -> None:
    piece.gradient = gradient if piece.gradient is None else piece.gradient + gradient


def _check(model: nn.Module, options: CaptureOptions) -> None:
    if not isinstance(model, nn.Module):
        inner = getattr(model, "model", None)
        hint = "; give its .model" if isinstance(inner, nn.Module) else ""
        raise ValueError(f"capture: a {type(model).__name__} is no torch.nn.Module{hint}")
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "capture: a compiled model runs code that nobody can look into; capture and run its "
            "original, model._orig_mod, which has the same weights"
        )
    if options.max_tokens < 1 or options.row < 0:
        raise ValueError(
            f"capture: max_tokens={options.max_tokens}, row={options.row}; "
            "give max_tokens above 0 and a row from 0"
        )
    for name, chosen in (("layers", options.layers), ("heads", options.heads)):
        if chosen is None:
            continue
        if isinstance(chosen, str | int) or not list(chosen):
            raise ValueError(f"capture: {name}={chosen!r}; give a list, or None for all")
        if any(isinstance(each, int) and each < 0 for each in chosen):
            raise ValueError(f"capture: {name}={chosen!r}; give numbers from 0")
