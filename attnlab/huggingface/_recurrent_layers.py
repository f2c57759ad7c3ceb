"""Recurrent layers as matrices: Mamba, Mamba-2, Gated DeltaNet, Kimi Delta Attention and RWKV-4.

Such a layer calls a function of its file with its queries, keys, values and gates. During a capture
a wrapper calls the real function and computes the matrix A from the same arguments, by attnlab's
definitions in `attnlab.mechanisms`. A @ v must equal what the function returned.

Letters: B batch, H heads, T tokens, D size of the state's keys, M value size, C channels.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.interpret._attention_call import AttentionCall
from attnlab.mechanisms.recurrent import Tokens, recurrent_weights

MAX_CHANNELS = 16
"""How many heads are captured of a layer in which each of hundreds of channels is a head."""


@dataclass(frozen=True)
class Scan:
    """What one call of a recurrence reads and returns. `q` and `k` are None for RWKV-4."""

    mechanism: str
    v: Tensor  # (B, H, T, M)
    output: Tensor  # what the function returned, with its graph
    heads_of: Callable[[Tensor], Tensor]
    """A tensor like `output` as (B, H, T, M)."""
    weights: Callable[[int, int], Tensor]
    """Of a row and a head: (T, T)."""
    inner: Tensor  # (B, H, T, M): A @ v must equal this
    q: Tensor | None = None  # (B, H, T, D)
    k: Tensor | None = None  # (B, H, T, D)
    scale: float | None = None
    gate: Tensor | None = None  # (B, H, T, M): what the function multiplies `inner` by
    per_channel: bool = False
    normalized: bool = False
    note: str = ""


Reader = Callable[[dict[str, Any], Any, Callable[..., Any]], Scan | None]


def _heads_first(x: Tensor) -> Tensor:
    """(B, T, H, D) as (B, H, T, D), in float32 or better."""
    return x.detach().transpose(1, 2).to(torch.promote_types(x.dtype, torch.float32))


def read_mamba2(given: dict[str, Any], result: Any, _: Callable[..., Any]) -> Scan | None:
    if given["initial_states"] is not None:
        return None
    output = result[0] if isinstance(result, tuple) else result  # (B, T, H, M)
    v, k, q = (_heads_first(given[name]) for name in ("hidden_states", "B", "C"))
    H = v.shape[1]
    k, q = (x.repeat_interleave(H // x.shape[1], 1) for x in (k, q))
    step = given["dt"].detach()  # (B, T, H)
    if given["dt_bias"] is not None:
        step = step + given["dt_bias"].detach()
    if given["dt_softplus"]:
        step = F.softplus(step)
    low, high = given["dt_limit"]
    step = step.clamp(low, high).float().transpose(1, 2)  # (B, H, T)
    decay = given["A"].detach().float()[:, None] * step
    skip = given["D"]
    if skip is not None and skip.dim() != 1:
        return None

    def weights(row: int, head: int) -> Tensor:
        tokens = _tokens(k, decay, step, row, head)
        matrix = recurrent_weights(_one(q, row, head), tokens, False, 1.0)[0, 0]
        return matrix if skip is None else matrix + skip[head].detach() * torch.eye(len(matrix))

    note = "" if skip is None else "The diagonal includes what skips the state (D)."
    inner = _heads_first(output)
    return Scan("mamba2", v, output, _swap, weights, inner, q, k, 1.0, note=note)


def read_delta(given: dict[str, Any], result: Any, _: Callable[..., Any]) -> Scan | None:
    """Gated DeltaNet, or with a decay per channel Kimi Delta Attention."""
    if given["initial_state"] is not None:
        return None
    q, k, v, decay, strength = (
        _heads_first(given[name]) for name in ("query", "key", "value", "g", "beta")
    )
    if given["use_qk_l2norm_in_kernel"]:
        q, k = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    H = v.shape[1]
    q, k = (x.repeat_interleave(H // x.shape[1], 1) for x in (q, k))
    scale = float(q.shape[-1] ** -0.5)

    def weights(row: int, head: int) -> Tensor:
        tokens = _tokens(k, decay, strength, row, head)
        return recurrent_weights(_one(q, row, head), tokens, True, scale)[0, 0]

    output = result[0]  # (B, T, H, M)
    name = "gated_delta" if decay.dim() == 3 else "kda"
    return Scan(name, v, output, _swap, weights, _heads_first(output), q, k, scale)


def read_mamba(given: dict[str, Any], result: Any, real: Callable[..., Any]) -> Scan | None:
    """Mamba-1: each channel is a head with a decay for each number of its state."""
    output = result[0] if isinstance(result, tuple) else result  # (B, C, T)
    step = given["dt"].detach()  # (B, C, T)
    if given["delta_bias"] is not None:
        step = step + given["delta_bias"].detach()[..., None]
    step = (F.softplus(step) if given["delta_softplus"] else step).float()
    A, k, q = given["A"].detach().float(), given["B"].detach().float(), given["C"].detach().float()
    skip, z = given["D"], given["z"]

    def weights(row: int, head: int) -> Tensor:
        one = step[row, head]  # (T,)
        written = k[row].T * one[:, None]  # (T, D)
        decay = one[:, None] * A[head]  # (T, D)
        tokens = Tokens(written[None, None], decay[None, None], None)
        matrix = recurrent_weights(q[row].T[None, None], tokens, False, 1.0)[0, 0]
        return matrix if skip is None else matrix + skip[head].detach() * torch.eye(len(matrix))

    inner, gate = output, None
    if z is not None:
        with torch.no_grad():
            inner = real(**{**given, "z": None, "return_last_state": False})
        gate = F.silu(z.detach()).float()[..., None]
    note = "Each channel is a head. The diagonal includes what skips the state (D)."
    return Scan(
        "mamba", given["hidden_states"].detach().float()[..., None], output, _append, weights,
        inner.detach().float()[..., None], gate=gate, per_channel=True, note=note,
    )  # fmt: skip


def read_rwkv(given: dict[str, Any], result: Any, _: Callable[..., Any]) -> Scan | None:
    """RWKV-4: each channel is a head, a softmax of keys with a decay, and a bonus for itself."""
    if given["state"] is not None and bool((given["state"][1] != 0).any()):
        return None
    rate, bonus = given["time_decay"].detach().float().exp(), given["time_first"].detach().float()
    k, v = given["key"].detach().float(), given["value"].detach().float()  # (B, T, C)
    T = k.shape[1]
    distance = torch.arange(T)[:, None] - torch.arange(T)  # (T, T)

    def weights(row: int, head: int) -> Tensor:
        scores = k[row, :, head] - (distance - 1) * rate[head]
        scores = torch.where(distance == 0, k[row, :, head] + bonus[head], scores)
        return scores.masked_fill(distance < 0, -torch.inf).softmax(-1)

    def channels(x: Tensor) -> Tensor:
        return x.transpose(1, 2)[..., None]

    output = result[0]
    return Scan(
        "rwkv", channels(v), output, channels, weights, channels(output.detach().float()),
        per_channel=True, normalized=True, note="Each channel is a head.",
    )  # fmt: skip


READERS: dict[str, Reader] = {
    "mamba2_chunk_scan": read_mamba2,
    "torch_chunk_gated_delta_rule": read_delta,
    "chunk_kimi_delta_attention": read_delta,
    "mamba_selective_scan": read_mamba,
    "rwkv_linear_attention": read_rwkv,
}


def _swap(x: Tensor) -> Tensor:
    return x.transpose(1, 2)


def _append(x: Tensor) -> Tensor:
    return x[..., None]


def _one(x: Tensor, row: int, head: int) -> Tensor:
    return x[row : row + 1, head : head + 1]


def _tokens(k: Tensor, decay: Tensor, strength: Tensor, row: int, head: int) -> Tokens:
    return Tokens(*(_one(x, row, head) for x in (k, decay, strength)))


class ScanObserver(Protocol):
    def is_own_thread(self) -> bool: ...

    def on_scan(self, module: nn.Module, scan: Scan) -> None: ...


_observers: dict[nn.Module, list[ScanObserver]] = {}
_patched: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
_entered = threading.local()
_lock = threading.RLock()


def scan_functions(module: nn.Module) -> list[str]:
    """The recurrences that a module's own forward calls."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    names = set() if code is None else set(code.co_names)
    for member in vars(type(module)).values():  # forward may call another method
        code = getattr(inspect.unwrap(member), "__code__", None) if callable(member) else None
        names |= set() if code is None else set(code.co_names)
    return [name for name in READERS if name in names]


def is_recurrent(module: nn.Module) -> bool:
    return bool(scan_functions(module)) and not isinstance(module, nn.ModuleList)


@contextmanager
def watch(modules: Sequence[nn.Module], observer: ScanObserver) -> Iterator[None]:
    """Pass every recurrence of these modules to an observer."""
    handles = []
    with _lock:
        for module in modules:
            _observers[module] = [*_observers.get(module, []), observer]
            handles += [
                module.register_forward_pre_hook(_enter),
                module.register_forward_hook(_leave, always_call=True),
            ]
            _patch(module)
    try:
        yield
    finally:
        with _lock:
            for handle in handles:
                handle.remove()
            for module in modules:
                _observers[module] = [x for x in _observers[module] if x is not observer]
                if not _observers[module]:
                    del _observers[module]
            if not _observers:
                for (_, name), (place, real) in _patched.items():
                    place[name] = real
                _patched.clear()


def _enter(module: nn.Module, _: Any) -> None:
    _entered.stack = [*getattr(_entered, "stack", []), module]


def _leave(module: nn.Module, *_: Any) -> None:
    del module
    _entered.stack = getattr(_entered, "stack", [])[:-1]


def _patch(module: nn.Module) -> None:
    place = inspect.unwrap(type(module).forward).__globals__
    for name in scan_functions(module):
        if (id(place), name) not in _patched:
            _patched[id(place), name] = (place, place[name])
            place[name] = _wrapper(place[name], READERS[name])


def _wrapper(real: Callable[..., Any], read: Reader) -> Callable[..., Any]:
    signature = inspect.signature(real)

    def scan(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        module = next(iter(getattr(_entered, "stack", [])[-1:]), None)
        observers = [] if module is None else _observers.get(module, [])
        observers = [each for each in observers if each.is_own_thread()]
        if module is not None and observers:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = dict(bound.arguments)
            given |= given.pop("kwargs", {})
            one = read(given, result, real)
            if one is not None:
                for observer in observers:
                    observer.on_scan(module, one)
        return result

    return scan


def fill_scan(call: AttentionCall, scan: Scan, row: int, wants_weights: bool) -> None:
    """Fill in the tensors of one row for the call's heads."""
    heads = call.heads
    call.mechanism, call.scale = scan.mechanism, scan.scale
    call.signed, call.normalized = not scan.normalized, scan.normalized
    call.note = " ".join(filter(None, [call.note, scan.note]))
    call.v, call.groups = scan.v[row, heads], list(range(len(heads)))
    if scan.q is not None and scan.k is not None:
        call.q, call.k = scan.q[row, heads], scan.k[row, heads]
    T = scan.v.shape[2]
    call.allowed = torch.ones(T, T, dtype=torch.bool, device=scan.v.device).tril()
    call.head_outputs = scan.inner[row, heads]
    call.output = scan.output
    gate = None if scan.gate is None else scan.gate[row, heads]
    call.select = lambda x: _gradient(scan.heads_of(x)[row, heads], gate)
    if wants_weights:
        call.weights = torch.stack([scan.weights(row, head) for head in heads])


def _gradient(x: Tensor, gate: Tensor | None) -> Tensor:
    return x if gate is None else x.float() * gate


def usual_channels(scan: Scan) -> list[int] | None:
    """The heads to capture if none are requested: some of very many channels."""
    H = scan.v.shape[1]
    if not scan.per_channel or H <= MAX_CHANNELS:
        return None
    return [round(i * (H - 1) / (MAX_CHANNELS - 1)) for i in range(MAX_CHANNELS)]
