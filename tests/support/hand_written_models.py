"""Forward passes of small models in plain torch, with a place for every intervention.

`Edits` are called with the number of the attention layer: on its weights (B, H, T, S), on the
heads' outputs (B, H, T, M) before the output projection, and on the stream (B, T, W) after its
block. They return what they get, or something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.layers import Block, MultiHead
from attnlab.mask import Mask
from attnlab.mechanism import repeat_heads
from attnlab.models import Decoder, Encoder, Seq2Seq, ViT

Edit = Callable[[int, Tensor], Tensor]


def unchanged(layer: int, x: Tensor) -> Tensor:
    del layer
    return x


@dataclass
class Edits:
    weights: Edit = unchanged
    heads: Edit = unchanged
    stream: Edit = unchanged


@dataclass
class HandWritten:
    """What a forward pass computed: of the last stack of blocks, embedding first."""

    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    weights: list[Tensor] = field(default_factory=list)
    heads: list[Tensor] = field(default_factory=list)
    projections: list[Any] = field(default_factory=list)
    streams: list[Tensor] = field(default_factory=list)
    feeds: list[Tensor] = field(default_factory=list)


class Passes:
    def __init__(self, edits: Edits) -> None:
        self.edits, self.out = edits, HandWritten()

    def attend(self, A: Tensor, v: Tensor) -> Tensor:
        """(B, H, T, S) and (B, G, S, M) -> (B, H, T, M), the weights edited."""
        A = self.edits.weights(len(self.out.weights), A)
        self.out.weights.append(A)
        return A @ repeat_heads(v, A.shape[1])

    def project(self, z: Tensor, projection: Any) -> Tensor:
        z = self.edits.heads(len(self.out.heads), z)
        self.out.heads.append(z)
        self.out.projections.append(projection)
        joined: Tensor = projection(z.transpose(1, 2).flatten(2))
        return joined

    def multi_head(self, layer: MultiHead, x: Tensor, mask: Mask, memory: Tensor | None) -> Tensor:
        (q, k, v), gates, _ = layer._split(x, mask, memory)
        define: Any = layer.mechanism.weights
        z = self.attend(define(q, k, mask, **gates), v)
        z = z if layer.head_norm is None else layer.head_norm(z)
        if layer.output_gate is not None:
            gate = layer.gate_function(layer.output_gate(x))
            z = z * gate.unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        return self.project(z, layer.out)

    def block(self, block: Block, x: Tensor, mask: Mask, memory: Tensor | None = None) -> Tensor:
        x = x + self.multi_head(block.attention, block.attention_norm(x), mask, None)
        if block.cross is not None:
            x = x + self.multi_head(block.cross, block.cross_norm(x), Mask(), memory)
        feed = block.feed_forward(block.feed_norm(x))
        self.out.feeds.append(feed)
        return self.edits.stream(len(self.out.heads) - 1, x + feed)

    def stack(self, stack: Any, ids: Tensor, memory: Tensor | None = None) -> Tensor:
        mask = Mask(stack.causal)
        x = stack.embed(ids, mask)
        self.out.streams = [x]
        self.out.feeds = []
        for block in stack.blocks:
            x = self.block(block, x, mask, memory)
            self.out.streams.append(x)
        normed: Tensor = stack.norm(x)
        return normed


def run(model: Any, *inputs: Tensor, edits: Edits | None = None) -> HandWritten:
    """The forward pass of one of attnlab's models, a GPT-2 or a Llama."""
    passes = Passes(edits or Edits())
    with torch.no_grad():
        if isinstance(model, Decoder):
            passes.out.logits = model.head(passes.stack(model.stack, *inputs))
        elif isinstance(model, Encoder):
            x = passes.stack(model.stack, *inputs)
            passes.out.logits = model.head(model.transform_norm(F.gelu(model.transform(x))))
        elif isinstance(model, Seq2Seq):
            memory = passes.stack(model.encoder, inputs[0])
            passes.out.logits = model.head(passes.stack(model.decoder, inputs[1], memory))
        elif isinstance(model, ViT):
            passes.out.logits = _vit(model, inputs[0], passes)
        elif type(model).__name__ == "GPT2LMHeadModel":
            passes.out.logits = _gpt2(model, inputs[0], passes)
        else:
            passes.out.logits = _llama(model, inputs[0], passes)
    return passes.out


def _vit(model: ViT, images: Tensor, passes: Passes) -> Tensor:
    images = (images - model.config.mean) / model.config.deviation
    x = model.patches(images).flatten(2).transpose(1, 2)
    assert model.class_token is not None
    x = torch.cat([model.class_token.expand(len(x), -1, -1), x], dim=1) + model.position()
    passes.out.streams = [x]
    for block in model.blocks:
        assert isinstance(block, Block)
        x = passes.block(block, x, Mask())
        passes.out.streams.append(x)
    logits: Tensor = model.head(model.norm(x)[:, 0])
    return logits


def causal_softmax(scores: Tensor) -> Tensor:
    T = scores.shape[-1]
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def _gpt2(model: Any, ids: Tensor, passes: Passes) -> Tensor:
    body, H = model.transformer, model.config.n_head
    x = body.wte(ids) + body.wpe(torch.arange(ids.shape[1]))
    passes.out.streams = [x]
    for block in body.h:
        h = block.ln_1(x)
        q, k, v = (
            part.unflatten(-1, (H, -1)).transpose(1, 2)
            for part in (h @ block.attn.c_attn.weight + block.attn.c_attn.bias).chunk(3, -1)
        )
        z = passes.attend(causal_softmax(q @ k.mT / q.shape[-1] ** 0.5), v)
        x = x + passes.project(z, block.attn.c_proj)
        feed = block.mlp(block.ln_2(x))
        passes.out.feeds.append(feed)
        x = passes.edits.stream(len(passes.out.heads) - 1, x + feed)
        passes.out.streams.append(x)
    logits: Tensor = body.ln_f(x) @ model.lm_head.weight.T
    return logits


def _llama(model: Any, ids: Tensor, passes: Passes) -> Tensor:
    body, H, G = model.model, model.config.num_attention_heads, model.config.num_key_value_heads
    x = body.embed_tokens(ids)
    D = body.layers[0].self_attn.head_dim
    angle = torch.arange(ids.shape[1])[:, None] / 1e4 ** (torch.arange(0, D, 2) / D)  # (T, D/2)
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)

    def rotate(u: Tensor) -> Tensor:
        one, other = u.chunk(2, -1)
        return u * cos + torch.cat([-other, one], -1) * sin

    passes.out.streams = [x]
    for block in body.layers:
        h, own = block.input_layernorm(x), block.self_attn
        q = rotate(own.q_proj(h).unflatten(-1, (H, D)).transpose(1, 2))
        k = rotate(own.k_proj(h).unflatten(-1, (G, D)).transpose(1, 2))
        v = own.v_proj(h).unflatten(-1, (G, D)).transpose(1, 2)
        scores = q @ repeat_heads(k, H).mT / D**0.5
        x = x + passes.project(passes.attend(causal_softmax(scores), v), own.o_proj)
        feed = block.mlp(block.post_attention_layernorm(x))
        passes.out.feeds.append(feed)
        x = passes.edits.stream(len(passes.out.heads) - 1, x + feed)
        passes.out.streams.append(x)
    logits: Tensor = model.lm_head(body.norm(x))
    return logits
