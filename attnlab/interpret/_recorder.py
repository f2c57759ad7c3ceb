"""Turns a model's attention calls into layer records.

Letters: H captured heads, T queries, S keys, M value size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from attnlab.interpret._attention_call import AttentionCall, at_least_float32
from attnlab.interpret._join_calls import CallPart, JoinedCalls
from attnlab.interpret._layer_numbers import layer_numbers
from attnlab.interpret._memory_limit import GIBIBYTES, MemoryBudget
from attnlab.interpret._records import LIMIT, Layer, to_cpu_float32

NOTHING = "capture: no attention layer ran; run the model inside the `with`."
HELP = (
    'Try from_pretrained(..., attn_implementation="eager"): it works if the model\'s eager '
    "attention returns its weights."
)


class CapturedAttention:
    """The layers captured so far; complete when the `with` ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._layers: list[Layer] | None = None
        self.notes: list[str] = []
        """Messages about the whole capture."""

    @property
    def layers(self) -> list[Layer]:
        """The captured layers in the order in which they ran."""
        return self._recorder.layers() if self._layers is None else self._layers

    def without_gradients(self, reason: str) -> None:
        """Note that a backward pass failed; what it computed before is dropped."""
        self.notes.append(reason)
        self._recorder.drop_gradients()

    @property
    def difference(self) -> float | None:
        """Largest difference of any layer between weights times values and the layer's output."""
        checked = [layer.difference for layer in self.layers if layer.difference is not None]
        return max(checked, default=None)


@dataclass(frozen=True)
class CaptureOptions:
    """The options of `attnlab.capture`, and three for internal use."""

    weights: bool = True
    qkv: bool = False
    gradients: bool = False
    layers: Sequence[int | str] | None = None
    heads: Sequence[int] | None = None
    max_tokens: int = 2048
    row: int = 0
    memory: float = GIBIBYTES
    used_bytes: int = 0
    """Bytes of that memory that are already in use."""
    maps: int = 0
    """Number of (T, S) arrays that the caller will compute for each layer: they need memory too."""
    on_layer: Callable[[Layer], None] | None = None
    """Gets each call as a layer as soon as it has run; the recorder then keeps nothing."""


class Recorder:
    """A `CallListener` that keeps the calls of each layer."""

    def __init__(self, model: nn.Module, options: CaptureOptions) -> None:
        _check(model, options)
        self.wants_weights, self.wants_gradients = options.weights, options.gradients
        self.qkv, self.on_layer = options.qkv, options.on_layer
        self.selected_layers = (
            None if options.layers is None else list(dict.fromkeys(options.layers))
        )
        self.heads = None if options.heads is None else list(dict.fromkeys(options.heads))
        self.max_tokens, self.row = options.max_tokens, options.row
        self.budget = MemoryBudget(
            options.memory,
            gradients=options.gradients,
            maps=options.maps,
            used_bytes=options.used_bytes,
        )
        self.names: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.joined: dict[str, JoinedCalls] = {}
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.backward = False
        self.captured = CapturedAttention(self)

    def expect(self, names: Sequence[str]) -> None:
        """Announce the names of the model's layers."""
        if self.selected_layers is None:
            self.budget.expect(names)
        self.numbers = dict(zip(names, layer_numbers(names), strict=True))

    # The methods of `CallListener`

    def select_heads(
        self,
        name: str,
        *,
        batch: int,
        heads: int,
        queries: int,
        keys: int,
        usual: list[int] | None = None,
    ) -> list[int] | None:
        number = self.names.setdefault(name, self.numbers.get(name, len(self.names)))
        if (
            self.selected_layers is not None
            and number not in self.selected_layers
            and name not in self.selected_layers
        ):
            return None
        if self.row >= batch:
            raise ValueError(
                f"capture: row={self.row}, but {name} has a batch of {batch}; "
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
        selected = (usual or list(range(heads))) if self.heads is None else self.heads
        if self.wants_weights and self.on_layer is None:
            self.budget.reserve(name, heads=len(selected), queries=queries, keys=keys)
        return selected

    def reserve_memory(self, name: str, *, heads: int, queries: int, keys: int) -> None:
        self.budget.reserve(name, heads=heads, queries=queries, keys=keys, model_keeps_weights=True)

    def note(self, sentence: str) -> None:
        if sentence not in self.captured.notes:
            self.captured.notes.append(sentence)

    def on_call(self, call: AttentionCall) -> None:
        difference, excess = _difference(call)
        output, select, is_weights = call.output, call.select, call.output_is_weights
        values = None
        if self.wants_gradients and call.v is not None:
            values = at_least_float32(call.v)[call.groups]  # (H, S, M)
        joined = (
            JoinedCalls() if self.on_layer else self.joined.setdefault(call.name, JoinedCalls())
        )
        part = joined.add(call, difference, excess, self.qkv)
        if self.on_layer is not None:
            self.on_layer(joined.layer(self.qkv))
            return
        if part is None or not self.wants_gradients or output is None or select is None:
            return
        if not output.requires_grad:
            if not torch.is_grad_enabled():
                return
            output.requires_grad_()  # all parameters are frozen: the graph starts here

        def on_gradient(gradient: Tensor) -> None:
            """The output is A v: multiply its gradient by v to get the gradient of A."""
            self.backward = True
            selected = at_least_float32(select(gradient))
            if not is_weights and values is not None:
                selected = selected @ values.mT  # (H, T, S)
            _add_gradient(part, to_cpu_float32(selected))

        self.handles.append(output.register_hook(on_gradient))

    def drop_gradients(self) -> None:
        self.backward = True  # it was called: no note asks for it
        for part in [part for joined in self.joined.values() for part in joined.parts]:
            part.gradient = None

    def unhook(self) -> None:
        for handle in self.handles:
            handle.remove()

    def layers(self) -> list[Layer]:
        """One record per layer; equal masks of neighbors become one tensor to save memory."""
        layers = [joined.layer(self.qkv) for joined in self.joined.values()]
        for before, layer in pairwise(layers):
            one, other = before.allowed, layer.allowed
            if one is not None and other is not None and torch.equal(one, other):
                layer.allowed = one
        return layers

    def finish(self) -> None:
        """Add notes about problems; raise if nothing ran or a selected layer is missing."""
        if not self.names:
            raise ValueError(
                " ".join([NOTHING, *self.captured.notes, *[HELP] * bool(self.captured.notes)])
            )
        missing = [
            layer
            for layer in self.selected_layers or []
            if layer not in self.names and layer not in self.names.values()
        ]
        if missing:
            raise ValueError(
                f"capture: layers={self.selected_layers}, but the model ran no layer "
                f"{missing[0]!r}; it has {_listed(self.names)}"
            )
        joined = self.joined.values()
        replaced = max((calls.replaced for calls in joined), default=0)
        if replaced:
            self.note(f"The model read {replaced + 1} inputs; only the last one was captured.")
        dropped = max((calls.dropped for calls in joined), default=0)
        if dropped:
            self.note(
                f"{dropped} calls continued another text than the captured one (a beam, another "
                "row) and were skipped; run the model once over the whole text to capture it."
            )
        layers = self.captured._layers = self.layers()
        explained = bool(layers) and all(layer.no_gradient for layer in layers)
        if self.wants_gradients and not self.backward and not explained:
            self.note("No gradients: call backward on the model's output, inside the `with`.")
        self._warn()
        self.joined.clear()  # the layers hold everything now

    def _warn(self) -> None:
        doubtful = [layer for layer in self.captured.layers if layer.doubtful]
        if doubtful:
            worst = max(doubtful, key=lambda layer: layer.excess or 0.0)
            sentence = (
                f"capture: in {worst.name} the weights times the values differ by "
                f"{worst.difference:.2g} from the layer's output; do not trust these weights"
            )
            self.note(f"{sentence[0].upper()}{sentence[1:]}.")
            warnings.warn(sentence, stacklevel=5)


def _listed(names: dict[str, int]) -> str:
    numbers = list(names.values())
    first = f"0 to {len(names) - 1}"
    known = first if numbers == list(range(len(names))) else ", ".join(map(str, numbers))
    return f"{known}: {', '.join(names)}"


def _difference(call: AttentionCall) -> tuple[float | None, float]:
    """The largest difference between weights times values and the layer's output, and the same as
    a multiple of the rounding tolerance (at least LIMIT)."""
    if not call.checkable or call.weights is None or call.v is None or call.head_outputs is None:
        return None, 0.0
    if not call.weights.numel():
        return 0.0, 0.0
    values, outputs = at_least_float32(call.v)[call.groups], call.head_outputs
    weights = at_least_float32(call.weights)
    product = weights @ values  # (H, T, M)
    error = (product - at_least_float32(outputs)).abs()
    steps = 64 if torch.finfo(outputs.dtype).eps < 1e-4 else 2  # half precision sums in float32
    size = values.abs().amax() * weights.abs().sum(-1, keepdim=True).clamp(min=1)  # (H, T, 1)
    rounding = steps * torch.finfo(outputs.dtype).eps * size * call.condition
    tolerated = torch.as_tensor(rounding).clamp(min=LIMIT)
    excess = (error.double() / tolerated).amax()  # float64: a huge error must not overflow
    largest = float(error.amax())
    return largest, float("inf") if largest != largest else float(excess)


def _add_gradient(part: CallPart, gradient: Tensor) -> None:
    part.gradient = gradient if part.gradient is None else part.gradient + gradient


def _check(model: nn.Module, options: CaptureOptions) -> None:
    if not isinstance(model, nn.Module):
        inner = getattr(model, "model", None)
        hint = "; give its .model" if isinstance(inner, nn.Module) else ""
        raise ValueError(f"capture: a {type(model).__name__} is not a torch.nn.Module{hint}")
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "capture: the calls inside a compiled model cannot be recorded; capture and run the "
            "original model, model._orig_mod, which has the same weights"
        )
    if options.max_tokens < 1 or options.row < 0:
        raise ValueError(
            f"capture: max_tokens={options.max_tokens}, row={options.row}; "
            "give max_tokens above 0 and row 0 or more"
        )
    for name, numbers in (("layers", options.layers), ("heads", options.heads)):
        if numbers is None:
            continue
        if isinstance(numbers, str | int) or not list(numbers):
            raise ValueError(f"capture: {name}={numbers!r}; give a list, or None for all")
        if any(isinstance(number, int) and number < 0 for number in numbers):
            raise ValueError(f"capture: {name}={numbers!r}; give numbers from 0")
