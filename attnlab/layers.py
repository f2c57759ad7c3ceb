"""Layers around a mechanism: projections, feed-forward, block.

Letters: B batch, T tokens, S memory tokens, W width, H heads, G key heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._create_mechanism import create_attention, split_layer_options
from attnlab.convolution import ShortConvolution
from attnlab.feed_forward import FeedForward, create_norm
from attnlab.gates import Gates
from attnlab.latent import LatentKeys
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import fast_dropout
from attnlab.position import RotaryPositions
from attnlab.state import State

__all__ = ["Block", "FeedForward", "MultiHead"]


class MultiHead(nn.Module):
    """Multi-head attention with any mechanism. Builds only the projections that it uses.

    With `memory_width` it is cross-attention: keys and values come from another sequence.

    `convolution` is the length of a short causal convolution over q, k and v (0: none),
    `output_gate` multiplies the output by silu(W x), or by sigmoid(W x) if it is "sigmoid",
    `head_norm` normalizes each head's output, and `normalize` queries and keys. `latent` is the
    size of one latent key that all heads share (`LatentKeys`; 0: none). Each mechanism has defaults
    for them, as in its paper. `attention` may set them too: "gla:convolution=4".

    `head_dim` is width / heads if you do not give it. `qkv_bias` and `out_bias` are `bias` for the
    projections before and after the mechanism.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        attention: str = "softmax",
        *,
        key_heads: int | None = None,
        head_dim: int | None = None,
        memory_width: int | None = None,
        causal: bool = False,
        max_length: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        qkv_bias: bool | None = None,
        out_bias: bool | None = None,
        rotary: RotaryPositions | None = None,
        normalize: bool = False,
        norm_epsilon: float | None = None,
        convolution: int | None = None,
        output_gate: bool | Literal["sigmoid"] | None = None,
        head_norm: bool | None = None,
        latent: int | None = None,
    ) -> None:
        super().__init__()
        shared, key_heads = key_heads, heads if key_heads is None else key_heads
        uneven = head_dim is None and width % heads if heads > 0 else True
        if min(width, key_heads, head_dim or 1) < 1 or uneven or heads % key_heads:
            raise ValueError(
                f"MultiHead: width is {width}, heads {heads}, key_heads {key_heads}; width must be "
                "a multiple of heads (or give head_dim), and heads a multiple of key_heads"
            )
        qkv_bias = bias if qkv_bias is None else qkv_bias
        cross = memory_width is not None
        given = {
            "convolution": convolution,
            "output_gate": output_gate,
            "head_norm": head_norm,
            "latent": latent,
            "normalize": normalize or None,
        }
        attention, options = split_layer_options(attention, given, causal and not cross)
        rank = options["latent"]
        self.heads, self.head_dim = heads, head_dim or width // heads
        self.key_heads = key_heads = 1 if rank else key_heads
        self.latent = LatentKeys(heads, self.head_dim, rank, rotary) if rank else None
        query_dim, key_dim = self.head_dim, self.head_dim
        fixed = {}
        if self.latent is not None:
            query_dim, key_dim = self.latent.query_dim, self.latent.key_dim
            fixed = {"beta": query_dim**-0.5}
        self.mechanism = create_attention(
            attention, head_dim=key_dim, heads=heads, max_length=max_length, dropout=dropout,
            **fixed,
        )  # fmt: skip
        self._check_form(attention, cross, causal)
        if rank and (cross or shared is not None):
            raise ValueError(
                f"{attention}: latent keys are for self-attention without key_heads; leave out "
                f"{'latent' if cross else 'key_heads'}"
            )
        card = self.mechanism.card
        # positions of two sequences are unrelated
        self.rotary = None if cross or rank else rotary
        q = heads * query_dim if card.uses_query else 0
        k = key_heads * key_dim if card.uses_key else 0
        v = 0 if rank else key_heads * self.head_dim  # latent keys are the values too
        self.sizes = (q, k, v)
        self.query = nn.Linear(width, q, bias=qkv_bias) if cross and q else None
        # one matrix product for everything that reads the same input
        self.project = nn.Linear(
            width if memory_width is None else memory_width,
            (0 if cross else q) + k + v,
            bias=qkv_bias,
        )
        inner = heads * self.head_dim
        self.out = nn.Linear(inner, width, bias=bias if out_bias is None else out_bias)
        self.gates = self.mechanism.create_gates(memory_width or width, key_heads)
        norm = partial(nn.RMSNorm, self.head_dim, eps=norm_epsilon)
        self.query_norm = norm() if options["normalize"] and q else None
        self.key_norm = norm() if options["normalize"] and k else None
        taps = int(options["convolution"])
        self.convolution = ShortConvolution(q + k + v, taps) if taps else None
        self.output_gate = nn.Linear(width, inner, bias=bias) if options["output_gate"] else None
        self.gate_function = torch.sigmoid if options["output_gate"] == "sigmoid" else F.silu
        self.head_norm = norm() if options["head_norm"] else None

    def _check_form(self, attention: str, cross: bool, causal: bool) -> None:
        card = self.mechanism.card
        if cross and not card.cross:
            raise ValueError(
                f"{attention}: cannot do cross-attention; use softmax or a kernel mechanism"
            )
        if causal and not card.causal:
            raise ValueError(
                f"{attention}: has no causal form, which a decoder needs; choose another mechanism"
            )
        if not causal and not card.bidirectional:
            raise ValueError(
                f"{attention}: exists only in causal form, so it works only in a decoder; choose "
                "another mechanism"
            )

    def forward(self, x: Tensor, mask: Mask, memory: Tensor | None = None) -> Tensor:
        """(B, T, W) -> (B, T, W); memory (B, S, memory width) for cross-attention."""
        if memory is None:
            mask.check_tokens(*x.shape[:2])
        (q, k, v), gates, _ = self._split(x, mask, memory)
        return self._join(self.mechanism(q, k, v, mask, **gates), x)

    def prefill(self, x: Tensor, mask: Mask) -> tuple[Tensor, LayerState]:
        """Causal self-attention over right-padded prompts, and the state to continue from."""
        (q, k, v), gates, inputs = self._split(x, mask)
        # padding comes after every real token, so the causal mask already hides it
        out = self.mechanism(q, k, v, Mask(causal=True), **gates)
        return self._join(out, x), self._absorb(k, v, gates, inputs, mask, None)

    def prefill_last(self, x: Tensor, mask: Mask, lengths: Tensor) -> tuple[Tensor, LayerState]:
        """`prefill` that returns only the last real token of each row (B, 1, W)."""
        (q, k, v), gates, inputs = self._split(x, mask)
        state = self._absorb(k, v, gates, inputs, mask, None)
        state = state if mask.keys is None else state.trim(lengths)
        newest = select_last_token(q.transpose(1, 2), lengths)[:, :, None]  # (B, H, 1, D)
        start = lengths - 1 if mask.keys is not None else x.shape[1] - 1
        out = self.mechanism.read(newest, state.attention, start)
        return self._join(out, select_last_token(x, lengths)[:, None]), state

    def absorb_memory(self, memory: Tensor, keys: Tensor | None) -> State:
        k, v = self._heads(self.project(memory), self.sizes[1:])
        absorb: Any = self.mechanism.absorb
        k = self._normalized(k, self.key_norm)
        return absorb(k, v, keys, **self._gates(memory))

    def step(self, x: Tensor, state: LayerState, start: int | Tensor) -> tuple[Tensor, LayerState]:
        """Self-attention of the next tokens (B, T, W) to all tokens before; T is usually 1."""
        mask = Mask(start=start)
        (q, k, v), gates, inputs = self._split(x, mask, recent=state.recent)
        state = self._absorb(k, v, gates, inputs, mask, state)
        return self._join(self.mechanism.read(q, state.attention, start), x), state

    def read_memory(self, x: Tensor, state: State, start: int | Tensor) -> Tensor:
        return self._join(self.mechanism.read(self._query(x), state, start), x)

    def _split(
        self, x: Tensor, mask: Mask, memory: Tensor | None = None, recent: Tensor | None = None
    ) -> tuple[list[Tensor], Gates, Tensor]:
        """q, k and v, each (B, heads, length, D or 0); the gates; what the convolution takes."""
        projected = inputs = self.project(x if memory is None else memory)
        gates = self._gates(x if memory is None else memory)
        if memory is not None:
            k, v = self._heads(projected, self.sizes[1:])
            return [self._query(x), self._normalized(k, self.key_norm), v], gates, inputs
        if self.convolution is not None:
            projected = self.convolution(inputs, mask, recent)
        q, k, v = self._heads(projected, self.sizes)
        q, k = self._normalized(q, self.query_norm), self._normalized(k, self.key_norm)
        if self.latent is not None:
            position = mask.positions_to_index(x.shape[1], x.device)
            q, k = self.latent.queries(q, position), self.latent.keys(k, position)
            v = k  # the same tensor, which a state holds once
        if self.rotary is not None:
            tables = self.rotary.tables(mask.positions_to_index(x.shape[1], x.device), q)
            q = self.rotary.rotate(q, tables) if q.shape[-1] else q
            k = self.rotary.rotate(k, tables) if k.shape[-1] else k
        return [q, k, v], gates, inputs

    def _gates(self, x: Tensor) -> Gates:
        """What the tokens that write contribute besides k and v."""
        return {} if self.gates is None else self.gates(x)

    def _absorb(
        self, k: Tensor, v: Tensor, gates: Gates, inputs: Tensor, mask: Mask,
        state: LayerState | None,
    ) -> LayerState:  # fmt: skip
        absorb: Any = self.mechanism.absorb
        attention = None if state is None else state.attention
        new = absorb(k, v, mask.keys, attention, **gates)
        if self.convolution is None:
            return LayerState(new, None)
        recent = None if state is None else state.recent
        return LayerState(new, self.convolution.state(inputs, mask, recent))

    def _query(self, x: Tensor) -> Tensor:
        projected = x[..., :0] if self.query is None else self.query(x)
        return self._normalized(self._heads(projected, self.sizes[:1])[0], self.query_norm)

    def _heads(self, projected: Tensor, sizes: tuple[int, ...]) -> list[Tensor]:
        """(B, T, sizes) -> each (B, heads, T, D); what the mechanism does not use has width 0."""
        B, T, _ = projected.shape
        counts = (self.heads, self.key_heads, self.key_heads)[-len(sizes) :]
        counts = (self.heads,) if len(sizes) == 1 else counts
        parts = zip(projected.split(list(sizes), dim=-1), counts, strict=True)
        return [x.reshape(B, T, n, x.shape[-1] // n).transpose(1, 2) for x, n in parts]

    @staticmethod
    def _normalized(x: Tensor, norm: nn.Module | None) -> Tensor:
        return x if norm is None else norm(x)

    def _join(self, out: Tensor, x: Tensor) -> Tensor:
        """The heads' outputs (B, H, T, D), for the layer's input x, as (B, T, W)."""
        out = out if self.latent is None else self.latent.outputs(out)
        joined = self._normalized(out, self.head_norm).transpose(1, 2).flatten(2)
        if self.output_gate is not None:
            joined = joined * self.gate_function(self.output_gate(x))
        return self.out(joined)


@dataclass(frozen=True, eq=False)
class LayerState:
    """The state of a self-attention layer: its mechanism's, and its convolution's if it has one."""

    attention: State
    recent: Tensor | None  # (B, taps - 1, channels)

    def select(self, rows: Tensor) -> LayerState:
        recent = None if self.recent is None else self.recent[rows]
        return LayerState(self.attention.select(rows), recent)

    def overwritable(self) -> LayerState:
        return LayerState(self.attention.overwritable(), self.recent)

    def trim(self, lengths: Tensor) -> LayerState:
        return LayerState(self.attention.trim(lengths), self.recent)

    @property
    def nbytes(self) -> int:
        recent = 0 if self.recent is None else self.recent.numel() * self.recent.element_size()
        return self.attention.nbytes + recent


@dataclass(frozen=True, eq=False)
class BlockState:
    """The states of a block while decoding: self-attention, and cross-attention if it has any."""

    attention: LayerState
    memory: State | None

    def select(self, rows: Tensor) -> BlockState:
        memory = None if self.memory is None else self.memory.select(rows)
        return BlockState(self.attention.select(rows), memory)

    def overwritable(self) -> BlockState:
        return BlockState(self.attention.overwritable(), self.memory)

    def trim(self, lengths: Tensor) -> BlockState:
        return BlockState(self.attention.trim(lengths), self.memory)


class Block(nn.Module):
    """Self-attention, optional cross-attention and feed-forward, each with a residual path."""

    def __init__(
        self,
        width: int,
        heads: int,
        attention: str = "softmax",
        *,
        cross_attention: str | None = None,
        memory_width: int | None = None,
        memory_length: int | None = None,
        feed_forward: str = "gelu",
        feed_width: int | None = None,
        norm: str = "layer",
        norm_epsilon: float | None = None,
        norm_first: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        head_dim: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        shared: dict[str, Any] = {"dropout": dropout, "bias": bias, "head_dim": head_dim}
        self.attention = MultiHead(
            width, heads, attention, norm_epsilon=norm_epsilon, **shared, **options
        )
        self.attention_norm = create_norm(norm, width, norm_epsilon)
        self.cross: MultiHead | None = None
        if cross_attention is not None:
            self.cross = MultiHead(
                width,
                heads,
                cross_attention,
                memory_width=width if memory_width is None else memory_width,
                max_length=memory_length,
                **shared,
            )
            self.cross_norm = create_norm(norm, width, norm_epsilon)
        self.feed_forward = FeedForward(width, feed_forward, feed_width, bias)
        self.feed_norm = create_norm(norm, width, norm_epsilon)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Mask, memory: Tensor | None = None, memory_mask: Mask | None = None
    ) -> Tensor:
        x = self._residual(x, self.attention_norm, lambda h: self.attention(h, mask))
        if self.cross is not None:
            cross, cross_mask = self.cross, memory_mask or Mask()
            x = self._residual(x, self.cross_norm, lambda h: cross(h, cross_mask, memory))
        return self._residual(x, self.feed_norm, self.feed_forward)

    def prefill(
        self, x: Tensor, mask: Mask, memory: Tensor | None = None, memory_keys: Tensor | None = None
    ) -> tuple[Tensor, BlockState]:
        """`forward` over a prompt, and the state to continue from."""
        memory_state = self._absorb_memory(memory, memory_keys)
        return self._with_state(
            x, lambda h: self.attention.prefill(h, mask), memory_state, mask.start
        )

    def prefill_last(
        self,
        x: Tensor,
        mask: Mask,
        lengths: Tensor,
        memory: Tensor | None = None,
        memory_keys: Tensor | None = None,
    ) -> tuple[Tensor, BlockState]:
        """`prefill` that returns only the last real token of each row: (B, 1, W).

        For a model's last block, where the other outputs are not needed.
        """
        normed = self.attention_norm(x) if self.norm_first else x
        out, state = self.attention.prefill_last(normed, mask, lengths)
        last = select_last_token(x, lengths)[:, None]  # (B, 1, W)
        memory_state = self._absorb_memory(memory, memory_keys)
        return self._with_state(last, lambda _: (out, state), memory_state, lengths - 1)

    def _absorb_memory(self, memory: Tensor | None, keys: Tensor | None) -> State | None:
        if self.cross is None:
            return None
        assert memory is not None
        return self.cross.absorb_memory(memory, keys)

    def step(self, x: Tensor, state: BlockState, start: int | Tensor) -> tuple[Tensor, BlockState]:
        return self._with_state(
            x, lambda h: self.attention.step(h, state.attention, start), state.memory, start
        )

    def _with_state(
        self,
        x: Tensor,
        attend: Callable[[Tensor], tuple[Tensor, LayerState]],
        memory: State | None,
        start: int | Tensor,
    ) -> tuple[Tensor, BlockState]:
        states: list[LayerState] = []

        def attention(h: Tensor) -> Tensor:
            out, state = attend(h)
            states.append(state)
            return out

        x = self._residual(x, self.attention_norm, attention)
        if self.cross is not None and memory is not None:
            cross = self.cross
            x = self._residual(x, self.cross_norm, lambda h: cross.read_memory(h, memory, start))
        return self._residual(x, self.feed_norm, self.feed_forward), BlockState(states[0], memory)

    def _residual(self, x: Tensor, norm: nn.Module, layer: Callable[[Tensor], Tensor]) -> Tensor:
        change = layer(norm(x) if self.norm_first else x)
        x = x + (self.dropout(change) if self.training else change)
        return x if self.norm_first else norm(x)


class Dropout(nn.Dropout):
    """nn.Dropout with cheaper random numbers: on a CPU they cost more than the arithmetic."""

    def forward(self, x: Tensor) -> Tensor:
        return fast_dropout(x, self.p if self.training else 0.0)


def initialize(module: nn.Module, std: float = 0.02) -> None:
    """Matrices and embeddings ~ N(0, std), biases 0; mechanisms and norms initialize themselves.

    The projection before a short convolution keeps the size of its inputs, and output gates start
    open, at 1. Otherwise `delta` and `gated_delta` hardly begin to learn to recall (docs/log.md).
    """
    if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
        nn.init.normal_(module.weight, std=std)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    elif isinstance(module, MultiHead):  # after its parts
        if module.convolution is not None:
            nn.init.normal_(module.project.weight, std=module.project.in_features**-0.5)
        gate = module.output_gate
        if gate is not None and gate.bias is None:
            nn.init.normal_(gate.weight, std=gate.in_features**-0.5)
        elif gate is not None and module.gate_function is F.silu:
            nn.init.constant_(gate.bias, 1.2785)  # silu(1.2785) = 1


def attention_per_layer(attention: str | list[str], layers: int) -> list[str]:
    """One mechanism spec for each layer, from one for all layers or a list."""
    if isinstance(attention, str):
        return [attention] * layers
    if len(attention) != layers:
        raise ValueError(
            f"attention lists {len(attention)} layers ({', '.join(attention)}), the model has "
            f"{layers}; give one mechanism for all layers, or one for each"
        )
    return list(attention)


def select_last_token(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, ...) -> (B, ...): the entry of each row's last real token."""
    return x[torch.arange(len(x), device=x.device), lengths.to(x.device) - 1]
