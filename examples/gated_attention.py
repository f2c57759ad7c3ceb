"""Two mechanisms with gates of their own.

    attnlab mechanisms check examples/gated_attention.py
    attnlab --extension examples/gated_attention.py tour

Letters: B batch, H heads, G key heads, T queries, S keys, D head size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnlab import Card, Mask, Mechanism, register_mechanism
from attnlab.gates import ForgetGate, StrengthGate, log_decay, write_strength
from attnlab.mechanism import repeat_heads
from attnlab.mechanisms.recurrent import Recurrent, recurrent_card
from attnlab.state import KeyValues, State


@register_mechanism
class Weighted(Mechanism):
    """Sigmoid attention in which each token sets how much it counts. A state keeps a token's
    strength as one more entry of its key."""

    name = "weighted"
    card = Card(
        summary="sigmoid attention in which each token sets how much it counts",
        paper="none",
        arxiv="0",
        time="N^2 D",
        memory="N^2",
        rows_sum_to_one=False,
    )
    gates = (write_strength(high=float("inf")),)  # for the laws, tour and bench too

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        """How a layer makes the gate: sigmoid(W x) from the hidden state."""
        return StrengthGate(width, key_heads, self.head_dim)

    def weights(self, q: Tensor, k: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        strength = repeat_heads(gates["write_strength"], self.heads)  # (B, H, S), 0 at padding
        scores = q @ repeat_heads(k, self.heads).mT * self.head_dim**-0.5  # (B, H, T, S)
        weights = scores.sigmoid() * strength[:, :, None]
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        return weights if allowed is None else weights.masked_fill(~allowed, 0)

    def absorb(
        self,
        k: Tensor,
        v: Tensor,
        keys: Tensor | None = None,
        state: State | None = None,
        **gates: Tensor,
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        entries = torch.cat([k, gates["write_strength"][..., None]], dim=-1)  # (B, G, S, D+1)
        new = self.state_to_extend(entries, v, state).append(entries, v, keys)
        return replace(new, origin=self.origin(k, v))

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        entries, v, keys = self.as_own_state(state, KeyValues).tensors_to_read()
        k, strength = entries[..., :-1], entries[..., -1]
        A = self.weights(q, k, Mask(keys=keys, start=start), write_strength=strength)
        return A @ repeat_heads(v, self.heads)


@register_mechanism
class GatedRetention(Recurrent):
    """Linear attention with a decay for each head that depends on the input."""

    name = "gated_retention"
    card = recurrent_card(
        "linear attention with a learned decay for each head", "Sun et al. 2024", "2405.05254"
    )
    layer_defaults: ClassVar = {"head_norm": True, "output_gate": True}
    gates = (log_decay(),)

    def create_gates(self, width: int, key_heads: int) -> nn.Module:
        return ForgetGate(width, key_heads, self.head_dim, temperature=16.0)
