"""Linear attention with decay and the delta rule: six mechanisms, one definition.

A state S (D x M) holds associations of keys with values. Token t forgets, writes, and is read:

    P = diag(decay_t) S,    e = v_t - P^T k_t  (with the delta rule)  or  v_t,
    S = P + w_t k_t e^T,    out_t = beta S^T q_t.

With L the cumulative log_decay and Gamma_ij = exp(L_i - L_j) for j <= i, the weights are

    A = beta (Q K^T * Gamma) (I + diag(w) tril(K K^T * Gamma, -1))^-1 diag(w),

where the inverse is I without the delta rule, and a decay per channel goes inside the dot products.

Letters: B batch, H query heads, G key heads, T tokens, D head size, M value size, L tokens of a
chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab._argument_checks import all_finite, check_read
from attnlab._compiling import is_mapped
from attnlab.gates import (
    DecayAndStrength,
    ForgetGate,
    Gate,
    StepGate,
    StrengthGate,
    log_decay,
    write_strength,
)
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import (
    Card,
    Mechanism,
    full_precision,
    needs_definition_gradients,
    repeat_heads,
)
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms._block_sparse import gather_outputs, scatter_queries
from attnlab.mechanisms.softmax import Beta, inverse_temperature
from attnlab.state import State, advance

CHUNK, CHANNEL_CHUNK = 64, 16  # tokens at once in PyTorch; with a decay per channel
NormalizeKeys = Annotated[
    bool, "Divide each key by its length. Without it, products of I - w k k^T can explode."
]


@dataclass(frozen=True, eq=False)
class RecurrentState(State):
    """S, in float32 or better."""

    content: Tensor  # (B, G, D, M)


@dataclass(frozen=True)
class Tokens:
    """What some tokens write, in float32 or better."""

    k: Tensor  # (B, G, T, D)
    log_decay: Tensor | None  # (B, G, T) or (B, G, T, D)
    strength: Tensor | None  # (B, G, T)

    def part(self, tokens: slice) -> Tokens:
        return self._map(lambda x: x[:, :, tokens])

    def repeat(self, heads: int) -> Tokens:
        return self._map(lambda x: repeat_heads(x, heads))

    def forget_before(self, starts: Tensor) -> Tokens:
        """The same, but tokens where `starts` (B, T) is True forget everything before."""
        decay = self.log_decay
        if decay is None:
            decay = self.k.new_zeros(self.k.shape[:3])
        starts = starts[:, None] if decay.dim() == 3 else starts[:, None, :, None]
        return Tokens(self.k, decay.masked_fill(starts, -torch.inf), self.strength)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Tokens:
        both = (self.log_decay, self.strength)
        decay, strength = (None if x is None else change(x) for x in both)
        return Tokens(change(self.k), decay, strength)


class Recurrent(Mechanism):
    """Subclasses declare their `gates`, and whether they use the delta rule."""

    compilable = True
    delta: ClassVar[bool] = False

    def __init__(
        self, *, head_dim: int, heads: int, max_length: int | None = None, beta: Beta = None
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)

    def tokens(self, k: Tensor, keys: Tensor | None, gates: dict[str, Tensor]) -> Tokens:
        """Keys and gates as the recurrence uses them. Padding neither decays nor writes."""
        del keys
        wide = torch.promote_types(k.dtype, torch.float32)
        decay, strength = gates.get("log_decay"), gates.get("write_strength")
        return Tokens(
            k.to(wide),
            None if decay is None else decay.to(wide),
            None if strength is None else strength.to(wide),
        )

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK, **gates: Tensor) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        tokens = self.tokens(k, mask.keys, gates).repeat(self.heads)
        S = k.shape[2]
        everywhere = scatter_queries(q, S, mask).to(tokens.k.dtype)  # (B, H, S, D)
        weights = recurrent_weights(everywhere, tokens, self.delta, self.beta)
        return gather_outputs(weights, q.shape[2], mask).to(q.dtype)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        tokens = self.tokens(k, mask.keys, gates)
        out = self._scan(scatter_queries(q, k.shape[2], mask), v, tokens)  # (B, H, S, M)
        return gather_outputs(out, q.shape[2], mask).to(v.dtype)

    def attend_packed(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """All documents in one scan: each begins with a token that forgets everything.

        In PyTorch, infinity and NaN times 0 would reach the next document.
        """
        in_c = self.use_compiled and compiled.can_run(v)
        if needs_definition_gradients() or not (in_c or all_finite(q, k, v)):
            return super().attend_packed(q, k, v, mask, **gates)
        tokens = self.tokens(k, mask.keys, gates).forget_before(mask.document_starts)
        return self._scan(q, v, tokens).to(v.dtype)

    @full_precision
    def _scan(self, q: Tensor, v: Tensor, tokens: Tokens) -> Tensor:
        q, v = q.to(tokens.k.dtype), v.to(tokens.k.dtype)
        if self.use_compiled and compiled.can_run(v):
            return compiled.recurrent_attend(
                q, tokens.k, v, *gate_columns(tokens), self.delta, self.beta
            )
        tokens = tokens.repeat(self.heads)
        state = v.new_zeros(len(v), self.heads, tokens.k.shape[3], v.shape[3])
        return scan_chunks(q, repeat_heads(v, self.heads), tokens, state, self.delta, self.beta)[0]

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None,
        **gates: Tensor,
    ) -> State:  # fmt: skip
        k, v = self.prepare_memory(k, v, keys, state)
        old = None if state is None else self.as_own_state(state, RecurrentState).content
        content = self._absorb(v, self.tokens(k, keys, gates), old)
        return RecurrentState(
            self.origin(k, v), **advance(state, k.shape[2], keys), content=content
        )

    @full_precision
    def _absorb(self, v: Tensor, tokens: Tokens, state: Tensor | None) -> Tensor:
        v = v.to(tokens.k.dtype)
        needs_graph = torch.is_grad_enabled() or torch.compiler.is_compiling() or is_mapped()
        if not needs_graph and self.use_compiled and compiled.can_run(v):
            return compiled.recurrent_absorb(tokens.k, v, *gate_columns(tokens), self.delta, state)
        if state is None:
            state = v.new_zeros(*v.shape[:2], tokens.k.shape[3], v.shape[3])
        return scan_chunks(None, v, tokens, state, self.delta, self.beta)[1]

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        content = self.as_own_state(state, RecurrentState).content
        return self._read(q, content).to(q.dtype)

    @full_precision
    def _read(self, q: Tensor, content: Tensor) -> Tensor:
        B, H, T, D = q.shape
        G = content.shape[1]
        grouped = q.to(content.dtype).reshape(B, G, H // G * T, D)
        return self.beta * (grouped @ content).view(B, H, T, content.shape[3])


def gate_columns(tokens: Tokens) -> tuple[Tensor | None, Tensor | None]:
    """log_decay (B, G, T, 1 or D) and strength (B, G, T, 1)."""
    decay, strength = tokens.log_decay, tokens.strength
    if decay is not None and decay.dim() == 3:
        decay = decay[..., None]
    return decay, None if strength is None else strength[..., None]


def pair_decay(log_decay: Tensor | None, tokens: Tokens) -> Tensor:
    """Gamma_ij = exp(log_decay_{j+1} + ... + log_decay_i) for j <= i, else 0: (B, H, T, T[, D]).

    Each pair has its own sum: a difference of two cumulative sums would lose small decays that
    follow large ones, and be NaN after -inf.
    """
    T, device = tokens.k.shape[2], tokens.k.device
    lower = torch.ones(T, T, dtype=torch.bool, device=device).tril()
    if log_decay is None:
        return lower.to(tokens.k.dtype)
    strictly = lower.tril(-1)
    per_channel = log_decay.dim() == 4
    if per_channel:
        lower, strictly = lower[..., None], strictly[..., None]
    rows = log_decay[:, :, :, None]  # (B, H, T, 1[, D]): row i, for every j
    sums = torch.where(strictly, rows, 0).cumsum(2)
    return torch.where(lower, sums, -torch.inf).exp()


def decayed_products(a: Tensor, b: Tensor, gamma: Tensor) -> Tensor:
    """sum over channels of a_i b_j Gamma_ij: (B, H, T, T)."""
    if gamma.dim() == 5:
        return torch.einsum("bhid,bhjd,bhijd->bhij", a, b, gamma)
    return (a @ b.mT) * gamma


def recurrent_weights(q: Tensor, tokens: Tokens, delta: bool, beta: float) -> Tensor:
    """The definition: (B, H, T, T)."""
    gamma = pair_decay(tokens.log_decay, tokens)
    weights = beta * decayed_products(q, tokens.k, gamma)
    strength = None if tokens.strength is None else tokens.strength[..., None]  # (B, H, T, 1)
    if delta:
        overlap = decayed_products(tokens.k, tokens.k, gamma).tril(-1)
        overlap = overlap if strength is None else strength * overlap
        weights = torch.linalg.solve_triangular(
            unit_lower(overlap), weights, upper=False, left=False, unitriangular=True
        )
    return weights if strength is None else weights * strength.mT


def unit_lower(overlap: Tensor) -> Tensor:
    return overlap + torch.eye(overlap.shape[-1], dtype=overlap.dtype, device=overlap.device)


def scan_chunks(
    q: Tensor | None, v: Tensor, tokens: Tokens, state: Tensor, delta: bool, beta: float
) -> tuple[Tensor, Tensor]:
    """The outputs (empty without q) and the last state, in chunks of tokens."""
    decay, T = tokens.log_decay, v.shape[2]
    size = CHANNEL_CHUNK if decay is not None and decay.dim() == 4 else CHUNK
    outs = []
    for first in range(0, T, size):
        here = slice(first, first + size)
        query = None if q is None else q[:, :, here]
        out, state = scan_chunk(query, v[:, :, here], tokens.part(here), state, delta, beta)
        outs.append(out)
    return (torch.cat(outs, dim=2) if outs else v), state


def scan_chunk(
    q: Tensor | None, v: Tensor, tokens: Tokens, state: Tensor, delta: bool, beta: float
) -> tuple[Tensor, Tensor]:
    """One chunk as matrix products: (B, G, L, M) and the state after it."""
    k, decay = tokens.k, tokens.log_decay
    gamma = pair_decay(decay, tokens)  # (B, G, L, L[, D])
    since = 1.0 if decay is None else decay.cumsum(2).exp()  # (B, G, L[, D]) from before the chunk
    left: Any = gamma[..., -1, :] if decay is None or decay.dim() == 3 else gamma[:, :, -1]
    if isinstance(since, Tensor) and since.dim() == 3:
        since = since[..., None]
    if left.dim() == 3:
        left = left[..., None]  # (B, G, L, 1 or D) until the end of the chunk
    elif decay is None:
        left = 1.0
    strength = 1.0 if tokens.strength is None else tokens.strength[..., None]
    write = v
    if delta:
        overlap = decayed_products(k, k, gamma).tril(-1)
        write = torch.linalg.solve_triangular(
            unit_lower(strength * overlap), strength * (v - (k * since) @ state),
            upper=False, unitriangular=True,
        )  # fmt: skip
    elif tokens.strength is not None:
        write = strength * v
    out = v
    if q is not None:
        out = beta * (decayed_products(q, k, gamma) @ write + (q * since) @ state)
    kept = state
    if isinstance(since, Tensor):
        kept = since[:, :, -1, :, None] * state  # (B, G, D or 1, 1) * (B, G, D, M)
    return out, kept + (k * left).mT @ write


def recurrent_card(summary: str, paper: str, arxiv: str) -> Card:
    return Card(
        summary, paper, arxiv, time="N D^2", memory="N D", bidirectional=False, cross=False,
        constant_state=True, rows_sum_to_one=False, signed=True,
    )  # fmt: skip


GATED_OUTPUT: dict[str, Any] = {"head_norm": True, "output_gate": True}
SHORT_CONVOLUTION = {"convolution": 4, **GATED_OUTPUT}
UNGATED_DELTA: dict[str, Any] = {"convolution": 4, "head_norm": True, "normalize": True}
GATED_DELTA = {**SHORT_CONVOLUTION, "normalize": True}
SIGMOID_DELTA = {**GATED_DELTA, "output_gate": "sigmoid"}


class Retention(Recurrent):
    name = "retention"
    layer_defaults = GATED_OUTPUT
    card = recurrent_card(
        "linear attention with a fixed decay for each head", "Sun et al. 2023", "2307.08621"
    )

    def tokens(self, k: Tensor, keys: Tensor | None, gates: dict[str, Tensor]) -> Tokens:
        tokens = super().tokens(k, keys, gates)
        G, dtype = k.shape[1], tokens.k.dtype
        gamma = 1 - 2.0 ** (-5 - torch.arange(G, dtype=torch.float64, device=k.device))
        decay = gamma.log().to(dtype)[:, None].expand(len(k), G, k.shape[2])  # (B, G, T)
        decay = decay if keys is None else decay.masked_fill(~keys[:, None], 0)
        return Tokens(tokens.k, decay, None)


class Gla(Recurrent):
    name = "gla"
    layer_defaults = GATED_OUTPUT
    card = recurrent_card(
        "linear attention with a learned decay for each channel", "Yang et al. 2023", "2312.06635"
    )
    gates: Sequence[Gate] = (log_decay(per_channel=True),)

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return ForgetGate(
            width, key_heads, self.head_dim, per_channel=True, rank=16, temperature=16.0
        )


class Mamba2(Recurrent):
    name = "mamba2"
    layer_defaults = SHORT_CONVOLUTION
    card = recurrent_card(
        "linear attention with a decay and a step size for each head",
        "Dao and Gu 2024",
        "2405.21060",
    )
    gates: Sequence[Gate] = (log_decay(), write_strength(high=float("inf")))

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return StepGate(width, key_heads, self.head_dim)


class Delta(Recurrent):
    name = "delta"
    layer_defaults = UNGATED_DELTA
    card = recurrent_card(
        "the delta rule: a token replaces what the state holds for its key",
        "Yang et al. 2024",
        "2406.06484",
    )
    gates: Sequence[Gate] = (write_strength(high=2.0),)
    delta = True

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: Beta = None,
        normalize_keys: NormalizeKeys = True,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, beta=beta)
        self.normalize_keys = normalize_keys

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return StrengthGate(width, key_heads, self.head_dim)

    def tokens(self, k: Tensor, keys: Tensor | None, gates: dict[str, Tensor]) -> Tokens:
        tokens = super().tokens(k, keys, gates)
        if not self.normalize_keys:
            return tokens
        # F.normalize, but its division has a slower derivative
        size = torch.linalg.vector_norm(tokens.k, dim=-1, keepdim=True).clamp_min(1e-12)
        return Tokens(tokens.k * size.reciprocal(), tokens.log_decay, tokens.strength)


class GatedDelta(Delta):
    name = "gated_delta"
    layer_defaults = GATED_DELTA
    card = recurrent_card(
        "the delta rule with a decay for each head", "Yang et al. 2024", "2412.06464"
    )
    gates: Sequence[Gate] = (log_decay(), write_strength(high=2.0))

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return DecayAndStrength(width, key_heads, self.head_dim)


class KimiDelta(Delta):
    name = "kda"
    layer_defaults = SIGMOID_DELTA
    card = recurrent_card(
        "the delta rule with a decay for each channel", "Kimi Team 2025", "2510.26692"
    )
    gates: Sequence[Gate] = (log_decay(per_channel=True), write_strength(high=2.0))

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return DecayAndStrength(width, key_heads, self.head_dim, per_channel=True, rank=16)
