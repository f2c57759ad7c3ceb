"""Forgetting attention: softmax whose scores fall with what later tokens forget.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnlab._argument_checks import check_read
from attnlab.gates import ForgetGate, Gate, log_decay
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms.softmax import (
    Beta,
    attend_biased,
    inverse_temperature,
    masked_softmax,
    recompute,
    scaled_scores,
)
from attnlab.state import JoinedState, KeyValues, State

BLOCK = 256  # queries at once


class Forgetting(Mechanism):
    """softmax(beta q_i.k_j + L_i - L_j), with L the cumulative log_decay."""

    name = "forgetting"
    by_scores = True
    card = Card(
        summary="softmax attention that forgets: scores fall by a decay of each later token",
        paper="Lin et al. 2025",
        arxiv="2503.02130",
        time="N^2 D",
        memory="N",
        bidirectional=False,
        cross=False,
    )
    trials = ({}, {"beta": 2.5})
    gates: Sequence[Gate] = (log_decay(),)

    def __init__(
        self, *, head_dim: int, heads: int, max_length: int | None = None, beta: Beta = None
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return ForgetGate(width, key_heads, self.head_dim, temperature=4.0)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK, **gates: Tensor) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        T, S = q.shape[2], k.shape[2]
        if S == 0:
            return q.new_zeros(*q.shape[:3], 0)
        allowed = mask.allowed(T, S, q.device)
        position = mask.positions(T, q.device)  # (B or 1, T)
        bias, near = score_bias(repeat_heads(gates["log_decay"], self.heads), position)
        allowed = near if allowed is None else near & allowed
        return masked_softmax(scaled_scores(q, k, self.beta) + bias.to(q.dtype), allowed)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """Block by block: memory for some queries only."""
        T, S = q.shape[2], k.shape[2]
        decay = repeat_heads(gates["log_decay"], self.heads)
        position = mask.positions(T, q.device)  # (B or 1, T)

        def attend(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, first: int) -> Tensor:
            part = Mask(mask.causal, mask.keys, mask.start + first)
            allowed = part.allowed(q.shape[2], S, q.device)
            bias, near = score_bias(decay, position[:, first : first + q.shape[2]])
            visible = near if allowed is None else near & allowed
            return attend_biased(q, k, v, bias.to(q.dtype), visible, self.beta)

        attend_block = recompute(attend) if T > BLOCK else attend
        blocks = range(0, T, BLOCK)
        outs = [
            attend_block(q[:, :, first : first + BLOCK], k, v, decay, first) for first in blocks
        ]
        return torch.cat(outs, dim=2) if outs else q.new_zeros(*q.shape[:3], v.shape[3])

    # The state has two parts: keys and values, and the decays, which have more digits.

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None,
        **gates: Tensor,
    ) -> State:  # fmt: skip
        k, v = self.prepare_memory(k, v, keys, state)
        origin = self.origin(k, v)
        decay = gates["log_decay"][..., None].to(torch.promote_types(k.dtype, torch.float32))
        if state is None:
            memory, decays = (KeyValues.empty(origin, *x) for x in ((k, v), (decay, decay)))
        else:
            memory, decays = self._parts(state)
        parts = memory.append(k, v, keys), decays.append(decay, decay, keys)
        return JoinedState.of(origin, *parts)

    def _parts(self, state: State) -> tuple[KeyValues, KeyValues]:
        memory, decays = self.as_own_state(state, JoinedState).parts
        assert isinstance(memory, KeyValues)
        assert isinstance(decays, KeyValues)
        return memory, decays

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        memory, decays = self._parts(state)
        k, v, keys = memory.tensors_to_read()
        decay = decays.tensors_to_read()[0][..., 0]
        if keys is not None:  # a trimmed state may have written into the padding of this one
            decay = decay.masked_fill(~keys[:, None], 0)
        decay = repeat_heads(decay, self.heads)
        length = torch.as_tensor(state.length, device=q.device).reshape(-1, 1)  # (B or 1, 1)
        position = (length - 1).expand(-1, q.shape[2])  # all queries see the whole state
        bias, near = score_bias(decay, position)
        allowed = near if keys is None else near & keys[:, None, None]
        return attend_biased(q, k, v, bias.to(q.dtype), allowed, self.beta)


def score_bias(log_decay: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """L_i - L_j (B, H, T, S) for queries at `position` (B or 1, T) and all keys, and where no token
    in between forgets everything. Sums are in float64, since differences of long sums cancel.
    The bias of a later key, which no query sees, is 0: it could overflow in float16."""
    forgets_all = log_decay == -torch.inf
    total = log_decay.masked_fill(forgets_all, 0).double().cumsum(2)  # (B, H, S)
    resets = forgets_all.cumsum(2)
    B, H, S = total.shape
    index = position.clamp(0, S - 1)[:, None].expand(B, H, -1)  # (B, H, T)
    bias = (total.gather(2, index)[..., None] - total[:, :, None]).clamp(max=0)
    near = resets.gather(2, index)[..., None] == resets[:, :, None]
    return bias, near
