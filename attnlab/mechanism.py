"""The base class: a mechanism is a weight matrix A(q, k), and its output is A @ v.

Letters: B batch, H query heads, G key heads (a divisor of H), T queries, S keys, D head size,
M value size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn
from torch._C._functorch import TransformType
from torch.autograd import forward_ad

from attnlab._argument_checks import (
    check_absorb,
    check_call,
    check_gate_range,
    check_gates,
    check_read,
    check_size,
)
from attnlab.gates import Gate, Gates, skip_padding
from attnlab.mask import NO_MASK, Mask
from attnlab.state import KeyValues, State, StateOrigin

Kind = TypeVar("Kind", bound=State)
Method = TypeVar("Method", bound=Callable[..., Any])
DERIVATIVES = (TransformType.Grad, TransformType.Jvp)  # vmap is not a derivative


@dataclass(frozen=True)
class Card:
    """What a mechanism can do. `attnlab mechanisms` prints it, and the laws check it."""

    summary: str
    paper: str
    arxiv: str
    time: str
    """Of one forward pass of a head: N tokens, D head size, C features, R rank, W visible keys."""
    memory: str
    """Beyond q, k, v and the output."""
    causal: bool = True
    bidirectional: bool = True
    """Works without a causal mask too."""
    packs: bool = True
    """Takes several documents in one row (`Mask.segments`)."""
    cross: bool = True
    one_graph: bool = True
    """`torch.compile(fullgraph=True)` and `torch.func.vmap` work. Otherwise a step of `forward`
    depends on values: torch.compile splits the graph there, and vmap fails."""
    padding: bool = True
    constant_state: bool = False
    """The decoding state stops growing."""
    rows_sum_to_one: bool = True
    """Or to 0, for a query without visible keys and for a zero denominator."""
    signed: bool = False
    """Weights can be negative."""
    continuous: bool = True
    """A small change of q or k changes the weights only a little."""
    learned: bool = False
    """Has parameters, so create it once and train it."""
    needs_length: bool = False
    """Has a table over positions, so `max_length` must be given."""
    uses_query: bool = True
    uses_key: bool = True
    """A layer builds no projection for an unused input and passes it with width 0."""


def needs_definition_gradients() -> bool:
    """Whether torch.func or forward-mode differentiation is active.

    The C kernels and hand-written loops do not support these: PyTorch would treat their results as
    constants.
    """
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(level.key() in DERIVATIVES for level in stack)


def _with_gates(absorb: Method) -> Method:
    """`absorb` with checked gates that are 0 at padding."""

    @wraps(absorb)
    def wrapper(
        self: Mechanism, k: Tensor, v: Tensor, keys: Tensor | None = None,
        state: State | None = None, **gates: Tensor,
    ) -> State:  # fmt: skip
        if gates or self.gates:
            check_call(self, None, k, v, Mask(keys=keys))
            gates = self.prepare_gates(k, keys, gates)
        return absorb(self, k, v, keys, state, **gates)

    return cast(Method, wrapper)


class Mechanism(nn.Module):
    """Subclasses define `weights`. All else has a default, and an override must agree with it."""

    name: ClassVar[str]
    card: Card
    trials: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options at which every law is tested, small enough that short inputs span several blocks."""
    compilable: ClassVar[bool] = False
    """The C kernels can compute it."""
    use_compiled = True
    """Set it to False to compute in PyTorch, for comparison."""
    size_option: ClassVar[str | None] = None
    """The option that trades cost for accuracy (features, window, block). Comparisons sweep it."""
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options that a sweep combines with each value of `size_option`."""
    gates: Sequence[Gate] = ()
    """What it takes besides q, k and v: keyword arguments of `weights`, `forward`, `absorb`."""
    by_scores: ClassVar[bool] = False
    """Sees q and k only as the scores beta q.k, so a layer can give it latent keys."""
    layer_defaults: ClassVar[Mapping[str, Any]] = {}
    """Options of the layers that use it in a model, as its paper has them: its own options, and
    convolution, output_gate, head_norm, normalize and latent of `MultiHead`."""
    shift_invariant: bool = False
    """Depends only on distances, so it works after a cache dropped its first tokens. It matters
    only where `card.cross` is False: other mechanisms need no positions."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Check gates and split documents before a subclass's own code runs."""
        super().__init_subclass__(**options)
        for name, wrap in (("weights", _for_each_document), ("absorb", _with_gates)):
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))

    def __init__(self, *, head_dim: int, heads: int, max_length: int | None = None) -> None:
        super().__init__()
        check_size(self, head_dim=head_dim, heads=heads, max_length=max_length)
        if self.card.needs_length and max_length is None:
            raise ValueError(
                f"{self.name}: has a table over positions; "
                "give max_length, the length of the longest sequence"
            )
        self.head_dim = head_dim
        self.heads = heads
        self.max_length = max_length

    @abstractmethod
    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        """The definition: (B, H, T, S). Its mask never has segments: a row is one document."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = NO_MASK, **gates: Tensor
    ) -> Tensor:
        """The output (B, H, T, M). Without a mask, every query sees all keys."""
        check_call(self, q, k, v, mask)
        gates = self.prepare_gates(k, mask.keys, gates)
        zeroed = zero_padding(k, mask.keys)
        k, v = zeroed, zeroed if v is k else zero_padding(v, mask.keys)
        if mask.is_packed:
            return self.attend_packed(q, k, v, mask, **gates)
        return self.attend(q, k, v, mask.row, **gates)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """`compute`, or the definition where only that can be differentiated."""
        compute: Any = self.compute
        if gates and type(self).compute is Mechanism.compute:
            return self._apply_weights(q, k, v, mask, gates)
        if not self.compilable or not needs_definition_gradients():
            return compute(q, k, v, mask, **gates)
        if self.training and getattr(self, "dropout", None):
            raise RuntimeError(
                f"{self.name}: torch.func.grad and forward mode differentiate its definition, "
                "which has no dropout; call eval(), or set dropout to 0"
            )
        return self._apply_weights(q, k, v, mask, gates)

    def attend_packed(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """`attend` to each document alone."""

        def attend(part: Mask, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
            return self.attend(q, k, v, part, **dict(zip(gates, rest, strict=True)))

        rows = map_documents(attend, mask, q, k, v, *gates.values())
        return torch.cat([torch.cat(row, dim=2) for row in rows])

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The output of checked inputs with zero padding. Override it with something faster.

        If the mechanism has gates, add `**gates: Tensor` here, in `weights` and in `absorb`.
        """
        return self._apply_weights(q, k, v, mask, {})

    def _apply_weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, gates: Gates) -> Tensor:
        weights: Any = self.weights
        return weights(q, k, mask, **gates) @ repeat_heads(v, self.heads)

    @_with_gates
    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        """A new state that also holds these keys and values; the old state stays valid."""
        k, v = self.prepare_memory(k, v, keys, state)
        return self.state_to_extend(k, v, state).append(k, v, keys)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        """Attend to everything absorbed, without a causal mask. The first query is at `start`."""
        check_read(self, q, state, start)
        k, v, keys = self.as_own_state(state, KeyValues).tensors_to_read()
        return self.compute(q, k, v, Mask(keys=keys, start=start))

    def condition(self, q: Tensor, k: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """The factor by which a rounding error may grow in each output row: (B, H, T, 1).

        It exceeds 1 only where terms of a denominator have both signs and cancel.
        """
        del k, mask, gates
        return q.new_ones(*q.shape[:3], 1)

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        """The output under an arbitrary mask tensor.

        `allowed` (B or 1, H or 1, T, S) is True where a query may attend to a key. Only a mechanism
        whose weights are a softmax over the visible keys can define it.
        """
        del q, k, v, allowed, start, dropout
        raise NotImplementedError(f"{self.name}: does not support a mask tensor")

    def create_gates(self, width: int, key_heads: int) -> nn.Module | None:
        """The part of a layer that makes the gates from the hidden state (B, S, width)."""
        del width, key_heads
        return None

    # Facts for benchmarks and pages, so that they need not list mechanisms by name.

    def visible_keys(self, tokens: int, causal: bool) -> int | None:
        """The largest number of keys that a query sees: W in the card's costs. None means all that
        the mask allows. Global queries, which see everything, do not count, and neither do keys
        that a query sees through features."""
        del tokens, causal
        return None

    def feature_count(self) -> int | None:
        """The number of features of each head: C in the card's costs. None if it has none."""
        return None

    def covers_all(self, tokens: int, causal: bool) -> bool:
        """Whether a mechanism that skips far keys skips none in a text of this many tokens, and so
        equals exact attention there."""
        del tokens, causal
        return False

    def prefers_matrix(self, tokens: int) -> bool:
        """Whether `weights @ v` is cheaper than `forward` for this many tokens."""
        del tokens
        return False

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        """Options that make the structure (window, block, rank) visible in a text of this many
        tokens. Empty if the defaults already do."""
        del tokens
        return {}

    @classmethod
    def sweep(
        cls, options: Mapping[str, Any], values: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        """The sets of options to compare: `options` with each of the `values` of `size_option`, in
        each of the `variants`. An option that you fix is not swept."""
        option = cls.size_option
        if option is None or option in options or option not in values:
            return [dict(options)]
        variants = ({},) if options else cls.variants
        return [
            {**options, option: value, **variant}
            for value in values[option]
            for variant in variants
        ]

    # Check, and set padding to zero, because 0 * NaN would still be NaN.

    def prepare_weights(self, q: Tensor, k: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        check_call(self, q, k, None, mask)
        return q, zero_padding(k, mask.keys)

    def prepare_memory(
        self, k: Tensor, v: Tensor, keys: Tensor | None, state: State | None
    ) -> tuple[Tensor, Tensor]:
        check_call(self, None, k, v, NO_MASK if keys is None else Mask(keys=keys))
        check_absorb(self, k, v, state)
        zeroed = zero_padding(k, keys)
        return zeroed, zeroed if v is k else zero_padding(v, keys)

    def prepare_gates(self, k: Tensor, keys: Tensor | None, gates: Gates) -> Gates:
        if not gates and not self.gates:
            return gates
        check_gates(self, k, gates)
        gates = skip_padding(gates, keys)
        check_gate_range(self, gates)
        return gates

    # A state belongs to the mechanism that made it.

    def signature(self) -> tuple[Any, ...]:
        """What a state depends on. A state made with another signature is refused."""
        return (self.name, self.heads, self.head_dim)

    def origin(self, k: Tensor, v: Tensor) -> StateOrigin:
        return StateOrigin(self.signature(), k.shape[1], k.shape[3], v.shape[3], k.dtype)

    def state_to_extend(self, k: Tensor, v: Tensor, state: State | None) -> KeyValues:
        """The state to append these keys and values to: the given one, or an empty one."""
        if state is None:
            return KeyValues.empty(self.origin(k, v), k, v)
        return self.as_own_state(state, KeyValues)

    def as_own_state(self, state: State, kind: type[Kind]) -> Kind:
        """The state itself, if this mechanism made it; else a ValueError."""
        if not isinstance(state, kind) or state.origin.mechanism != self.signature():
            made_by = ", ".join(map(str, state.origin.mechanism))
            own = ", ".join(map(str, self.signature()))
            raise ValueError(
                f"{self.name}: this state belongs to another mechanism ({made_by}, not {own}); "
                f"give a state that this mechanism's absorb returned"
            )
        return state


def full_precision(method: Method) -> Method:
    """Decorate a method so that autocast does not lower the precision of its sums."""

    @wraps(method)
    def wrapper(self: Any, x: Tensor, *rest: Any, **gates: Tensor) -> Any:
        if not torch.is_autocast_enabled(x.device.type):  # the common case must be fast
            return method(self, x, *rest, **gates)
        with torch.autocast(x.device.type, enabled=False):
            return method(self, x, *rest, **gates)

    return cast(Method, wrapper)


def _for_each_document(weights: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`weights` with checked gates that are 0 at padding, and 0 between documents."""

    @wraps(weights)
    def wrapper(
        self: Mechanism, q: Tensor, k: Tensor, mask: Mask = NO_MASK, **gates: Tensor
    ) -> Tensor:
        check_call(self, q, k, None, mask)
        gates = self.prepare_gates(k, mask.keys, gates)
        if not mask.is_packed:
            return weights(self, q, k, mask.row, **gates)
        S = k.shape[2]

        def of_document(part: Mask, q: Tensor, k: Tensor, *rest: Tensor) -> Tensor:
            return weights(self, q, k, part, **dict(zip(gates, rest, strict=True)))

        rows = []
        for row in map_documents(of_document, mask, q, k, *gates.values()):
            first, blocks = 0, []
            for block in row:  # (1, H, length, length)
                length = block.shape[3]
                blocks.append(nn.functional.pad(block, (first, S - first - length)))
                first += length
            rows.append(torch.cat(blocks, dim=2))
        return torch.cat(rows)

    return wrapper


def map_documents(call: Callable[..., Tensor], mask: Mask, *tensors: Tensor) -> list[list[Tensor]]:
    """The results of `call(mask, *tensors)` for each document of each row.

    All tensors have the tokens on their third axis. (`split`, because its gradient is one
    concatenation; that of a slice is as large as the whole tensor.)
    """
    results = []
    for masks, lengths, *row in zip(
        mask.documents, mask.document_lengths, *(x.split(1) for x in tensors), strict=True
    ):
        parts = zip(masks, *(x.split(lengths, dim=2) for x in row), strict=True)
        results.append([call(*document) for document in parts])
    return results


def zero_padding(x: Tensor, keys: Tensor | None) -> Tensor:
    """x (B, G, S, D) with zeros where `keys` (B, S) is False."""
    return x if keys is None else x.masked_fill(~keys[:, None, :, None], 0)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Grouped heads (B, G, S, D) as (B, H, S, D): query head h reads key head h * G // H."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
