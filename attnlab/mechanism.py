"""The one idea: a mechanism is a weight matrix A(q, k), and its output is A @ v.

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
from attnlab.state import KeyValues, Origin, State

Kind = TypeVar("Kind", bound=State)
DERIVATIVES = (TransformType.Grad, TransformType.Jvp)  # vmap alone is no derivative


@dataclass(frozen=True)
class Card:
    """What a mechanism can do. `attnlab mechanisms` prints it, the laws hold it to its word."""

    summary: str
    paper: str
    arxiv: str
    time: str
    """Of one forward pass of a head: N tokens, D head size, C features, R rank, W keys in sight."""
    memory: str
    """Beyond q, k, v and the output."""
    causal: bool = True
    cross: bool = True
    padding: bool = True
    constant_state: bool = False
    """The decoding state stops growing."""
    rows_sum_to_one: bool = True
    """Or to 0, for a query with nothing to look at and for a zero denominator."""
    signed: bool = False
    """Weights can be negative."""
    continuous: bool = True
    """A small change of q or k makes a small change of the weights."""
    learned: bool = False
    """Has parameters of its own, so it must be created once and trained."""
    needs_length: bool = False
    """Has a table over positions, so `max_length` must be given."""
    uses_query: bool = True
    uses_key: bool = True
    """A layer builds no projection for what is not used and passes it with width 0."""


def transformed() -> bool:
    """Derivatives are wanted that neither the C kernels nor the loops by hand have: those of
    torch.func, and of forward mode, where PyTorch would take a result for a constant."""
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(each.key() in DERIVATIVES for each in stack)


class Mechanism(nn.Module):
    """Subclasses define `weights`; all else has a default and, where overridden, must agree."""

    name: ClassVar[str]
    card: Card
    trials: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options at which every law is tested: small enough that short inputs cross all borders."""
    compilable: ClassVar[bool] = False
    """Has a path through the C kernels."""
    use_compiled = True
    """False: computed in PyTorch alone, to compare."""
    size_option: ClassVar[str | None] = None
    """The option that trades cost for accuracy (features, window, block); comparisons sweep it."""
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options that a sweep adds to each value of `size_option`."""
    shift_invariant: ClassVar[bool] = False
    """Needs only distances, so it can go on where a cache has dropped its first tokens. It matters
    only where `card.cross` is False: other mechanisms need no positions."""

    def __init__(self, *, head_dim: int, heads: int, max_length: int | None = None) -> None:
        super().__init__()
        check_size(self, head_dim=head_dim, heads=heads, max_length=max_length)
        if self.card.needs_length and max_length is None:
            raise ValueError(
                f"{self.name}: has a table over positions; "
                "give max_length, the longest sequence it must take"
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
        """The output (B, H, T, M): checks, then `compute`. Without a mask all keys are visible."""
        for name in unknown:
            raise TypeError(
                f"{self.name}: no argument {name!r}; give mask=attnlab.Mask(causal=..., keys=...)"
            )
        check_call(self, q, k, v, mask)
        return self.attend(q, blank(k, mask.keys), blank(v, mask.keys), mask)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """`compute`, or the definition where derivatives are wanted that only it has."""
        if not self.compilable or not transformed():
            return self.compute(q, k, v, mask)
        if self.training and getattr(self, "dropout", None):
            raise RuntimeError(
                f"{self.name}: torch.func.grad and forward-mode derivatives are taken of its "
                "definition, which has no dropout; call eval(), or set dropout to 0"
            )
        return Mechanism.compute(self, q, k, v, mask)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The output of inputs that fit, padding blank. Override with a faster way to the same."""
        return self.weights(q, k, mask) @ repeat_heads(v, self.heads)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        """A new state that has seen these keys and values too; the old one stays valid."""
        k, v = self.prepare_memory(k, v, keys, state)
        return self.grown(k, v, state).append(k, v, keys)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        """Attend to all that was absorbed, from position `start` on; never causal by itself."""
        check_read(self, q, state, start)
        k, v, keys = self.own(state, KeyValues).opened()
        return self.compute(q, k, v, Mask(keys=keys, start=start))

    def condition(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        """How many times a rounding error may grow in each output row: (B, H, T, 1).

        More than 1 only where the terms of a denominator have both signs and cancel.
        """
        del k, mask
        return q.new_ones(*q.shape[:3], 1)

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        """The output under a mask that only a tensor describes.

        `allowed` (B or 1, H or 1, T, S) is True where a query may look at a key. Only a mechanism
        whose weights are a softmax over the keys it may see can define it.
        """
        del q, k, v, allowed, start, dropout
        raise NotImplementedError(f"{self.name}: is not defined under a mask that is a tensor")

    # Facts that benches, views and notes use, so that they need not know mechanisms by name.

    def visible_keys(self, tokens: int, causal: bool) -> int | None:
        """How many keys a query sees at most: W in the card's costs. None: all that the mask
        allows. Queries that see everything (global ones) do not count."""
        del tokens, causal
        return None

    def covers_all(self, tokens: int, causal: bool) -> bool:
        """Whether a mechanism that leaves out far keys of a softmax leaves out none on a text of
        so many tokens, and so is exact attention there."""
        del tokens, causal
        return False

    def prefers_matrix(self, tokens: int) -> bool:
        """Whether `weights @ v` is cheaper than `forward` on a text of so many tokens."""
        del tokens
        return False

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        """Options with which a text of so many tokens crosses the mechanism's borders (a window,
        a block, a rank). Empty: the defaults already show what it does."""
        del tokens
        return {}

    @classmethod
    def sweep(
        cls, options: Mapping[str, Any], values: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        """The sets of options to compare: the given ones with each of the `values` of
        `size_option`, in each of the `variants`. What is given is not swept."""
        option = cls.size_option
        if option is None or option in options or option not in values:
            return [dict(options)]
        variants = ({},) if options else cls.variants
        return [
            {**options, option: value, **variant}
            for value in values[option]
            for variant in variants
        ]

    # Checks, and padding blanked, because 0 * NaN would still be NaN.

    def prepare_weights(self, q: Tensor, k: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        check_call(self, q, k, None, mask)
        return q, blank(k, mask.keys)

    def prepare_memory(
        self, k: Tensor, v: Tensor, keys: Tensor | None, state: State | None
    ) -> tuple[Tensor, Tensor]:
        check_call(self, None, k, v, Mask(keys=keys))
        check_absorb(self, k, v, state)
        return blank(k, keys), blank(v, keys)

    # States belong to the mechanism that made them.

    def signature(self) -> tuple[Any, ...]:
        """What a state depends on: one made with another signature is refused."""
        return (self.name, self.heads, self.head_dim)

    def origin(self, k: Tensor, v: Tensor) -> Origin:
        return Origin(self.signature(), k.shape[1], k.shape[3], v.shape[3], k.dtype)

    def grown(self, k: Tensor, v: Tensor, state: State | None) -> KeyValues:
        """The state that these keys and values are to be appended to."""
        if state is None:
            return KeyValues.empty(self.origin(k, v), k, v)
        return self.own(state, KeyValues)

    def own(self, state: State, kind: type[Kind]) -> Kind:
        if not isinstance(state, kind) or state.origin.mechanism != self.signature():
            made_by = ", ".join(map(str, state.origin.mechanism))
            own = ", ".join(map(str, self.signature()))
            raise ValueError(
                f"{self.name}: given a state that another mechanism made ({made_by}, not {own}); "
                f"give one that this mechanism's absorb returned"
            )
        return state


Method = TypeVar("Method", bound=Callable[..., Any])


def full_precision(method: Method) -> Method:
    """Sums over many keys stay in float32 or better, also where autocast lowers products."""

    @wraps(method)
    def called(self: Any, x: Tensor, *rest: Any) -> Any:
        if not torch.is_autocast_enabled(x.device.type):  # as mostly; a decoding step would notice
            return method(self, x, *rest)
        with torch.autocast(x.device.type, enabled=False):
            return method(self, x, *rest)

    return cast(Method, called)


def blank(x: Tensor, keys: Tensor | None) -> Tensor:
    """x (B, G, S, D) with zeros where `keys` (B, S) says padding."""
    return x if keys is None else x.masked_fill(~keys[:, None, :, None], 0)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Grouped heads (B, G, S, D) as (B, H, S, D): query head h reads key head h * G // H."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
