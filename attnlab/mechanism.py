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

from attnlab._argument_checks import check_absorb, check_call, check_read, check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.state import KeyValues, State, StateOrigin

Kind = TypeVar("Kind", bound=State)
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
    cross: bool = True
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
    shift_invariant: ClassVar[bool] = False
    """Depends only on distances, so it works after a cache dropped its first tokens. It matters
    only where `card.cross` is False: other mechanisms need no positions."""

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
        """The definition: (B, H, T, S)."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = NO_MASK, **unknown: Any
    ) -> Tensor:
        """The output (B, H, T, M). Without a mask, every query sees all keys."""
        for name in unknown:
            raise TypeError(
                f"{self.name}: no argument {name!r}; give mask=attnlab.Mask(causal=..., keys=...)"
            )
        check_call(self, q, k, v, mask)
        return self.attend(q, zero_padding(k, mask.keys), zero_padding(v, mask.keys), mask)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """`compute`, or the definition where only that can be differentiated."""
        if not self.compilable or not needs_definition_gradients():
            return self.compute(q, k, v, mask)
        if self.training and getattr(self, "dropout", None):
            raise RuntimeError(
                f"{self.name}: torch.func.grad and forward mode differentiate its definition, "
                "which has no dropout; call eval(), or set dropout to 0"
            )
        return Mechanism.compute(self, q, k, v, mask)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The output of checked inputs with zero padding. Override it with something faster."""
        return self.weights(q, k, mask) @ repeat_heads(v, self.heads)

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

    def condition(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        """The factor by which a rounding error may grow in each output row: (B, H, T, 1).

        It exceeds 1 only where terms of a denominator have both signs and cancel.
        """
        del k, mask
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

    # Facts for benchmarks and pages, so that they need not list mechanisms by name.

    def visible_keys(self, tokens: int, causal: bool) -> int | None:
        """The largest number of keys that a query sees: W in the card's costs. None means all that
        the mask allows. Global queries, which see everything, do not count."""
        del tokens, causal
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
        check_call(self, None, k, v, Mask(keys=keys))
        check_absorb(self, k, v, state)
        return zero_padding(k, keys), zero_padding(v, keys)

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


Method = TypeVar("Method", bound=Callable[..., Any])


def full_precision(method: Method) -> Method:
    """Decorate a method so that autocast does not lower the precision of its sums."""

    @wraps(method)
    def wrapper(self: Any, x: Tensor, *rest: Any) -> Any:
        if not torch.is_autocast_enabled(x.device.type):  # the common case must be fast
            return method(self, x, *rest)
        with torch.autocast(x.device.type, enabled=False):
            return method(self, x, *rest)

    return cast(Method, wrapper)


def zero_padding(x: Tensor, keys: Tensor | None) -> Tensor:
    """x (B, G, S, D) with zeros where `keys` (B, S) is False."""
    return x if keys is None else x.masked_fill(~keys[:, None, :, None], 0)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Grouped heads (B, G, S, D) as (B, H, S, D): query head h reads key head h * G // H."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
