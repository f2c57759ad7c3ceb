"""Checks of the arguments of a mechanism, made before any arithmetic. Each error is one sentence.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnlab._compiling import is_mapped
from attnlab._short_repr import short_repr
from attnlab.mask import Mask
from attnlab.state import State

if TYPE_CHECKING:
    from attnlab.mechanism import Mechanism

NOT_CAUSAL = (
    "has no causal form, because every output mixes all positions; "
    "use it without a causal mask, or choose another mechanism"
)
ONLY_CAUSAL = "exists only in causal form; give {}"
NO_CROSS = (
    "cannot do cross-attention, because it is defined by distances inside one sequence; "
    "use softmax or a kernel mechanism for it"
)


GATE_NAMES = ("log_decay", "write_strength")
LARGEST_SIZE, LARGEST_FEATURES = 2**24, 2**20  # larger ones fit no memory
USE_MASKS = "use causal=True, and key_mask=..., True for real tokens, for padding"
ARGUMENTS_ELSEWHERE = {
    "attn_mask": USE_MASKS,
    "mask": USE_MASKS,
    "attention_mask": "use key_mask=..., a boolean tensor that is True for real tokens",
    "key_padding_mask": "use key_mask=..., which is True for real tokens, not for padding",
    "is_causal": "use causal=True",
    "need_weights": "use return_weights=True",
    "output_attentions": "use return_weights=True",
    "scale": "use beta=..., the factor of the scores",
    "dropout_p": "use dropout=... in create_mechanism",
}
"""Arguments of PyTorch and Hugging Face, and what to use instead in `attnlab.attention`."""


def unknown_argument(name: str) -> str:
    """What to use in place of an argument of another library; empty for any other name."""
    hint = ARGUMENTS_ELSEWHERE.get(name)
    return f"no argument {name!r}; {hint}" if hint else ""


def check_call(
    mechanism: Mechanism, q: Tensor | None, k: Tensor, v: Tensor | None, mask: Mask
) -> None:
    if not isinstance(mask, Mask):
        raise TypeError(
            f"{mechanism.name}: mask is a {type(mask).__name__}; give attnlab.Mask(causal=True), "
            "or attnlab.Mask(keys=...) with a boolean tensor (B, S) that is True for real tokens"
        )
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) and not (x is None and name != "k"):
            raise TypeError(
                f"{mechanism.name}: {name} is a {type(x).__name__}; give tensors "
                "(attnlab.attention takes numpy arrays too)"
            )
    for problem in _call_problems(mechanism, q, k, v, mask):
        tensors = {"q": q, "k": k, "v": v}
        shapes = [f"{name} {tuple(x.shape)}" for name, x in tensors.items() if x is not None]
        raise _error(mechanism, problem, ", ".join([*shapes, mask.describe()]))


def check_gates(mechanism: Mechanism, k: Tensor, gates: dict[str, Tensor]) -> None:
    """Refuse a missing or superfluous gate, another shape, and values outside a gate's range."""
    expected = {gate.name: gate for gate in mechanism.gates}
    for name, gate in expected.items():
        if name not in gates:
            raise ValueError(
                f"{mechanism.name}: {name} is missing; give {name}={gate.axes}, {gate.range}"
            )
    for name, x in gates.items():
        if name not in expected and name in GATE_NAMES:
            takes = " and ".join(expected) or "no gate"
            raise ValueError(f"{mechanism.name}: takes {takes}; leave out {name}")
        if name not in expected:
            raise TypeError(
                f"{mechanism.name}: no argument {name!r}; "
                "give mask=attnlab.Mask(causal=..., keys=...)"
            )
        if not isinstance(x, Tensor):
            raise TypeError(f"{mechanism.name}: {name} is a {type(x).__name__}; give a tensor")
        if not x.is_floating_point():
            raise ValueError(
                f"{mechanism.name}: {name} holds {x.dtype}; give floating-point numbers"
            )
        gate = expected[name]
        if x.shape != gate.shape(k):
            raise ValueError(
                f"{mechanism.name}: {name} has shape {tuple(x.shape)}; give {gate.axes}, "
                f"here {gate.shape(k)}"
            )


def check_gate_range(mechanism: Mechanism, gates: dict[str, Tensor]) -> None:
    """Refuse values outside a gate's range, once padding is 0."""
    if _values_are_unknown():
        return
    for gate in mechanism.gates:
        x = gates[gate.name].detach()
        if not x.numel():
            continue
        low, high = (float(bound) for bound in x.aminmax())
        if not (gate.low <= low and high <= gate.high and high < math.inf):  # also NaN
            wrong = low if not gate.low <= low else high
            raise ValueError(
                f"{mechanism.name}: {gate.name} has the value {wrong:g}; give {gate.range}"
            )


def all_finite(*tensors: Tensor) -> bool:
    """Whether no tensor holds infinity or NaN; True where the values are unknown."""
    if _values_are_unknown():
        return True
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    return all(bool(x.detach().sum(dtype=wide).isfinite()) for x in tensors)


def _values_are_unknown() -> bool:
    """Whether torch.compile traces the call, or torch.func.vmap maps it."""
    return torch.compiler.is_compiling() or is_mapped()


def check_read(mechanism: Mechanism, q: Tensor, state: State, start: int | Tensor) -> None:
    for problem in _read_problems(mechanism, q, state, start):
        arguments = f"q {tuple(q.shape)}, a state of length {state.length}, start {start}"
        raise _error(mechanism, problem, arguments)


def check_absorb(mechanism: Mechanism, k: Tensor, v: Tensor, state: State | None) -> None:
    if state is None:
        return
    for problem in _absorb_problems(mechanism, k, v, state):
        arguments = f"k {tuple(k.shape)}, v {tuple(v.shape)}, {k.dtype}"
        raise _error(mechanism, problem, f"{arguments}; a state of length {state.length}")


def check_size(mechanism: Mechanism, *, least: int = 1, **sizes: int | None) -> None:
    """Refuse a size or option that is not a whole number from `least` (0 or 1) on. Only max_length
    may be None."""
    wanted = "above 0" if least else "of 0 or more"
    for name, size in sizes.items():
        if size is None and name == "max_length":
            continue
        if not isinstance(size, int) or isinstance(size, bool) or size < least:
            raise ValueError(
                f"{mechanism.name}: {name} is {short_repr(size)}; give a whole number {wanted}"
            )
        largest = LARGEST_FEATURES if name == "features" else LARGEST_SIZE
        if size > largest:
            raise ValueError(f"{mechanism.name}: {name} is {size:,}; give at most {largest:,}")


def check_number(
    mechanism: Mechanism, name: str, value: object, allowed: str, accepts: Callable[[float], bool]
) -> None:
    """Refuse an option that is not a number, or one that `accepts` rejects."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not accepts(value):  # type: ignore[arg-type]
        raise ValueError(f"{mechanism.name}: {name} is {value!r}; give {allowed}")


def check_seed(mechanism: Mechanism, seed: object) -> None:
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"{mechanism.name}: seed is {seed!r}; give a whole number, 0 or more")


def _error(mechanism: Mechanism, problem: str, arguments: str) -> ValueError:
    return ValueError(f"{mechanism.name}: {problem} (given {arguments})")


def _call_problems(
    mechanism: Mechanism, q: Tensor | None, k: Tensor, v: Tensor | None, mask: Mask
) -> Iterator[str]:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x is not None and x.dim() != 4:
            yield f"{name} has {x.dim()} axes; give four: batch, heads, length, width"
        if x is not None and not x.is_floating_point():
            yield f"{name} holds {x.dtype}; give floating-point numbers"
    B, G, S, D = k.shape
    if G == 0 or mechanism.heads % G:
        yield (
            f"k has {G} heads, but the mechanism was created with heads={mechanism.heads}; "
            "give k and v that many heads, or a divisor of it"
        )
    if not _fits(D, mechanism.head_dim, mechanism.card.uses_key):
        yield f"k has width {D}, but the mechanism was created with head_dim={mechanism.head_dim}"
    if v is not None and v.shape[:3] != k.shape[:3]:
        yield "k and v must agree in batch, heads and length"
    dtypes = {x.dtype for x in (q, k, v) if x is not None}
    if len(dtypes) > 1 and not torch.is_autocast_enabled(k.device.type):
        yield f"q, k and v must have one dtype, not {' and '.join(sorted(map(str, dtypes)))}"
    if mask.keys is not None and mask.keys.shape != (B, S):
        yield f"the mask's keys must have shape {(B, S)}, one value for each key"
    if mask.segments is not None:
        if not mechanism.card.packs:
            yield "cannot attend to packed documents; give each document a row of its own"
        elif mask.segments.shape != (B, S):
            yield f"the mask's segments must have shape {(B, S)}, one number for each key"
        elif q is not None and q.shape[2] != S:
            yield f"packed documents are self-attention; give {S} queries, one for each key"
    if isinstance(mask.start, Tensor) and mask.start.shape != (B,):
        yield f"the mask's start must be one number, or {B} of them, one per row"
    if mask.segments is None:
        yield from _length_problems(mechanism, S)
    elif mechanism.max_length is not None and not torch.compiler.is_compiling():
        yield from _length_problems(mechanism, mask.longest_document(S))
    if q is not None:
        yield from _query_problems(mechanism, q, B)
        yield from _mask_problems(mechanism, q.shape[2], S, mask)


def _query_problems(mechanism: Mechanism, q: Tensor, B: int) -> Iterator[str]:
    if q.dim() != 4:
        yield f"q has {q.dim()} axes; give four: batch, heads, length, width"
    if q.shape[0] != B:
        yield f"q has a batch of {len(q)}, but the keys have {B}"
    if q.shape[1] != mechanism.heads:
        yield (
            f"q has {q.shape[1]} heads, but the mechanism was created with heads={mechanism.heads}"
        )
    if not _fits(q.shape[3], mechanism.head_dim, mechanism.card.uses_query):
        yield (
            f"q has width {q.shape[3]}, "
            f"but the mechanism was created with head_dim={mechanism.head_dim}"
        )


def _mask_problems(mechanism: Mechanism, T: int, S: int, mask: Mask) -> Iterator[str]:
    if mask.causal and not mechanism.card.causal:
        yield NOT_CAUSAL
    if not mask.causal and not mechanism.card.bidirectional:
        yield ONLY_CAUSAL.format("attnlab.Mask(causal=True)")
    if mechanism.card.cross or T == 0:
        return
    first, last = _least_and_greatest(mask.start)
    if mask.causal:  # queries are a part of the sequence: each stands at the position of a key
        if first < 0 or last + T > S:
            yield f"{NO_CROSS}; {T} causal queries from start on must lie within the {S} keys"
    elif T != S or first != 0 or last != 0:
        yield f"{NO_CROSS}; give the same number of queries ({T}) and keys ({S}), from start 0"


def _least_and_greatest(start: int | Tensor) -> tuple[int, int]:
    """The least and the greatest start; (0, 0) while torch.compile traces: values are unknown."""
    if isinstance(start, int):
        return start, start
    if torch.compiler.is_compiling() or not len(start):
        return 0, 0
    return int(start.min()), int(start.max())


def _absorb_problems(mechanism: Mechanism, k: Tensor, v: Tensor, state: State) -> Iterator[str]:
    if state.batch != k.shape[0]:
        yield f"k has a batch of {len(k)}, but the state has {state.batch}"
    origin = state.origin
    if (k.shape[1], k.shape[3], v.shape[3], k.dtype) != origin[1:]:
        yield (
            f"the state holds {origin.heads} heads, keys of width {origin.key_width} and values of "
            f"width {origin.value_width} in {origin.dtype}; absorb the same"
        )
    yield from _length_problems(mechanism, k.shape[2] + state.longest)


def _read_problems(
    mechanism: Mechanism, q: Tensor, state: State, start: int | Tensor
) -> Iterator[str]:
    yield from _query_problems(mechanism, q, state.batch)
    if q.dtype != state.origin.dtype and not torch.is_autocast_enabled(q.device.type):
        yield f"q is {q.dtype}, but the state holds {state.origin.dtype}; read with the same dtype"
    if isinstance(start, Tensor) and start.shape != (state.batch,):
        yield f"start must be one number, or {state.batch} of them, one per row"
    if mechanism.card.cross:
        return
    at_end = start + q.shape[2] == state.length
    if isinstance(at_end, Tensor):  # torch.compile does not know its values
        at_end = torch.compiler.is_compiling() or bool(at_end.all())
    if not at_end:
        yield (
            f"{NO_CROSS}; it reads only for the newest tokens: "
            "start must be the state's length minus the number of queries"
        )


def _length_problems(mechanism: Mechanism, length: int) -> Iterator[str]:
    if mechanism.max_length is not None and length > mechanism.max_length:
        yield (
            f"{length} tokens exceed max_length={mechanism.max_length}; "
            "shorten the input or create the mechanism with a larger max_length"
        )


def _fits(width: int, head_dim: int, used: bool) -> bool:
    return width == head_dim or (width == 0 and not used)
