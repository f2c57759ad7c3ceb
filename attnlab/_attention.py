"""`attnlab.attention`: one call of any mechanism, on tensors or numpy arrays.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor

from attnlab._argument_checks import GATE_NAMES, ONLY_CAUSAL, unknown_argument
from attnlab._create_mechanism import (
    create_mechanism,
    find_mechanism,
    parse_attention,
    parse_groups,
)
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms._mechanism_per_head_group import HeadGroups, group_gate, members_of

Array = TypeVar("Array", Tensor, np.ndarray[Any, Any])
Mechanisms = tuple[tuple[type[Mechanism], int, tuple[tuple[str, type, Any], ...]], ...]
"""(class, heads, options) of each group of heads."""


@overload
def attention(
    q: Array, k: Array, v: Array, mechanism: str | Mechanism = ..., causal: bool = ...,
    key_mask: Any = ..., *, return_weights: Literal[False] = ..., **options: Any,
) -> Array: ...  # fmt: skip


@overload
def attention(
    q: Array, k: Array, v: Array, mechanism: str | Mechanism = ..., causal: bool = ...,
    key_mask: Any = ..., *, return_weights: Literal[True], **options: Any,
) -> tuple[Array, Array]: ...  # fmt: skip


def attention(
    q: Any,
    k: Any,
    v: Any,
    mechanism: str | Mechanism = "softmax",
    causal: bool = False,
    key_mask: Any = None,
    *,
    return_weights: bool = False,
    **options: Any,
) -> Any:
    """Attend once: q (B, H, T, D), k (B, H, S, D) and v (B, H, S, M) give (B, H, T, M).

    You can leave out the batch, or batch and heads: (H, T, D) and (T, D) work too, and the output
    has as many axes as `q`. Numpy arrays give a numpy array. `k` and `v` may have fewer, grouped
    heads.

    `mechanism` is a name with options, such as "favor:features=64", as in models; options can
    also be keyword arguments. With `causal=True` a query sees no later key. `key_mask` (B, S) is
    True for real tokens and False for padding. With `return_weights=True` you get
    (output, A), where A (B, H, T, S) holds the attention weights. Mechanisms with gates take them
    as keyword arguments: log_decay=..., write_strength=....

    >>> import numpy as np
    >>> import attnlab
    >>> q = k = v = np.eye(3)
    >>> output, weights = attnlab.attention(q, k, v, causal=True, return_weights=True)
    >>> weights.round(2)
    array([[1.  , 0.  , 0.  ],
           [0.36, 0.64, 0.  ],
           [0.26, 0.26, 0.47]])
    >>> attnlab.attention(q, k, v, "favor:features=64").shape
    (3, 3)
    >>> attnlab.attention(q, k, v, is_causal=True)
    Traceback (most recent call last):
    TypeError: attention: no argument 'is_causal'; use causal=True
    """
    check_arguments(mechanism, options, causal=causal, return_weights=return_weights)
    tensors = {name: as_tensor(name, x) for name, x in {"q": q, "k": k, "v": v}.items()}
    axes = tensors["q"].dim()
    check_axes(tensors)
    missing = (None,) * (4 - axes)
    Q, K, V = (x[missing] for x in tensors.values())
    gates = {
        name: as_tensor(name, options.pop(name))[missing]
        for name in gate_names(mechanism)
        if name in options
    }
    mask = Mask(causal=bool(causal), keys=as_key_mask(key_mask, axes))
    if isinstance(mechanism, str):
        mechanism = mechanism_for(mechanism, Q, K.shape[2], options)
    if not (causal or mechanism.card.bidirectional):
        raise ValueError(f"{mechanism.name}: {ONLY_CAUSAL.format('causal=True')}")
    results = [mechanism(Q, K, V, mask, **gates)]  # (B, H, T, M)
    if return_weights:
        results.append(cast(Any, mechanism).weights(Q, K, mask, **gates))  # (B, H, T, S)
    first = (0,) * (4 - axes)
    results = [x[first] for x in results]
    if isinstance(q, np.ndarray):
        results = [x.detach().cpu().numpy() for x in results]
    return tuple(results) if return_weights else results[0]


def check_arguments(mechanism: object, options: dict[str, Any], **switches: object) -> None:
    for name in options:
        if problem := unknown_argument(name):
            raise TypeError(f"attention: {problem}")
    if not isinstance(mechanism, str | Mechanism):
        raise TypeError(
            f"attention: mechanism is a {type(mechanism).__name__}; give a name, such as "
            "'softmax' or 'favor:features=64' (a mask goes to causal= and key_mask=)"
        )
    options = {name: x for name, x in options.items() if name not in gate_names(mechanism)}
    if isinstance(mechanism, Mechanism) and options:
        raise TypeError(
            f"attention: a mechanism that already exists takes no options ({', '.join(options)}); "
            "give them to create_mechanism"
        )
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_):
            text = type(value).__name__ if isinstance(value, Tensor | np.ndarray) else repr(value)
            raise TypeError(f"attention: {name} is {text}; give True or False")


def gate_names(mechanism: str | Mechanism) -> list[str]:
    """The gates that a mechanism takes besides q, k and v, and those that others take: the call
    refuses them by name."""
    if isinstance(mechanism, Mechanism):
        return [*GATE_NAMES, *(gate.name for gate in mechanism.gates)]
    kinds = [find_mechanism(name) for _, name, _ in parse_groups(mechanism)]
    own = [(gate.name, index) for index, kind in enumerate(kinds) for gate in kind.gates]
    return [*GATE_NAMES, *(name if len(kinds) == 1 else group_gate(name, n) for name, n in own)]


def as_tensor(name: str, x: object) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, np.ndarray):
        raise TypeError(
            f"attention: {name} is a {type(x).__name__}; give a tensor or a numpy array"
        )
    if x.dtype.kind != "f":
        raise ValueError(f"attention: {name} holds {x.dtype}; give floating-point numbers")
    if x.dtype.itemsize > 8:
        raise ValueError(f"attention: {name} holds {x.dtype}; give float16, float32 or float64")
    # a copy in the machine's byte order: torch takes no view of a read-only array
    return torch.from_numpy(np.array(x, dtype=x.dtype.newbyteorder("=")))


def check_axes(tensors: dict[str, Tensor]) -> None:
    axes = tensors["q"].dim()
    if not 2 <= axes <= 4:
        raise ValueError(
            f"attention: q {tuple(tensors['q'].shape)} has {axes} axes; give (T, D), (H, T, D) or "
            "(B, H, T, D): batch, heads, length, width"
        )
    for name, x in tensors.items():
        if x.dim() != axes:
            raise ValueError(
                f"attention: {name} {tuple(x.shape)} has {x.dim()} axes and q "
                f"{tuple(tensors['q'].shape)} has {axes}; give q, k and v the same number"
            )


def as_key_mask(key_mask: Any, axes: int) -> Tensor | None:
    """(B, S); without a batch it may be (S,) too."""
    if key_mask is None:
        return None
    if isinstance(key_mask, np.ndarray | Sequence):
        try:
            key_mask = torch.as_tensor(np.array(key_mask))
        except (TypeError, ValueError):  # a ragged list, None, text
            raise ValueError(
                f"attention: key_mask is a {type(key_mask).__name__} that holds no booleans; give "
                "(B, S), True for a real token"
            ) from None
    if isinstance(key_mask, Tensor) and key_mask.dim() == 1 and axes < 4:
        key_mask = key_mask[None]
    if not (isinstance(key_mask, Tensor) and key_mask.dtype == torch.bool and key_mask.dim() == 2):
        shape = f" {tuple(key_mask.shape)}" if isinstance(key_mask, Tensor) else ""
        kind = key_mask.dtype if isinstance(key_mask, Tensor) else type(key_mask).__name__
        raise ValueError(
            f"attention: key_mask is {kind}{shape}; give booleans (B, S), True for a real token"
        )
    return key_mask


def mechanism_for(spec: str, q: Tensor, keys: int, options: dict[str, Any]) -> Mechanism:
    """The mechanism that a spec such as "favor:features=64" describes, for these queries and this
    many keys."""
    groups = parse_groups(spec)
    if options and len(groups) > 1:
        raise ValueError(
            f"attention {spec!r} has several groups; write the options of each group into the text"
        )
    described: Mechanisms = tuple(
        (find_mechanism(part.name), part.heads, cache_key(part.name, {**part.options, **options}))
        for part in parse_attention(spec, q.shape[1])
    )
    for kind, _, _ in described:
        refuse_learned(kind)
    needs_length = any(kind.card.needs_length for kind, _, _ in described)
    length = max(q.shape[2], keys, 1) if needs_length else None
    mechanism = cached_mechanism(described, q.shape[3], length, q.device)
    for member in members_of(mechanism):
        refuse_learned(member)  # its options made it so
    return mechanism


def refuse_learned(mechanism: Mechanism | type[Mechanism]) -> None:
    if mechanism.card.learned:
        raise ValueError(
            f"{mechanism.name}: has learned parameters, which one call cannot train; use "
            f"attnlab.create_mechanism({mechanism.name!r}, head_dim=..., heads=..., max_length=...)"
        )


def cache_key(mechanism: str, options: dict[str, Any]) -> tuple[tuple[str, type, Any], ...]:
    """Options that are not None, with their types: 64 and 64.0 are equal, but 64.0 is refused."""
    for name in ("head_dim", "heads", "max_length", "name"):
        if name in options:
            raise TypeError(f"attention: leave out {name!r}; it follows from q, k and v")
    if options.get("dropout"):
        raise ValueError(
            f"{mechanism}: dropout is {options['dropout']!r}, but one call has no dropout; use "
            f"attnlab.create_mechanism({mechanism!r}, head_dim=..., heads=..., dropout=...)"
        )
    key = []
    for name in sorted(options):
        value = options[name]
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, Hashable):  # such as a list: refused later, by its name
            value = repr(value)
        if value is not None:
            key.append((name, type(value), value))
    return tuple(key)


@lru_cache(maxsize=64)
def cached_mechanism(
    groups: Mechanisms, head_dim: int, length: int | None, device: torch.device
) -> Mechanism:
    """Kept between calls, because random directions take longer to sample than to use.

    The key holds classes, not names: a name can be registered again.
    """
    with torch.inference_mode(False):  # a later call may need gradients
        members = [
            create_mechanism(
                kind.name,
                head_dim=head_dim,
                heads=heads,
                max_length=length if kind.card.needs_length else None,
                **{name: value for name, _, value in options},
            )
            for kind, heads, options in groups
        ]
        mechanism = members[0] if len(members) == 1 else HeadGroups(members)
        return mechanism.to(device).eval()
