"""The body of every text model: embedding, positions, blocks.

Letters: B batch, T tokens, W width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from attnlab._create_mechanism import resolve_all
from attnlab._help_groups import ATTENTION_HELP, COMMON, MODEL
from attnlab.feed_forward import create_norm
from attnlab.layers import Block, BlockState, Dropout, MultiHead, attention_per_layer
from attnlab.mask import Mask
from attnlab.models._memory_check import block_weights, check_counts, check_memory
from attnlab.position import (
    POSITIONS,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    parse_scaling,
)


@dataclass(frozen=True)
class StackConfig:
    """The settings of any stack of blocks."""

    vocabulary: Annotated[int, "Number of token ids.", MODEL]
    context: Annotated[
        int,
        "Longest text in training, in tokens. With learned positions, the model reads no longer "
        "text later.",
        MODEL,
        COMMON,
    ]
    width: Annotated[int, "Size of each token's vector.", MODEL, COMMON] = 128
    layers: Annotated[int, "Number of transformer blocks.", MODEL, COMMON] = 4
    heads: Annotated[int, "Number of attention heads in each block.", MODEL] = 4
    key_heads: Annotated[
        int | None,
        "Number of key and value heads. If there are fewer than --heads, several query heads share "
        "one of them.",
        MODEL,
    ] = None
    head_dim: Annotated[
        int | None, "Size of each head. Without it, the width divided by the heads.", MODEL
    ] = None
    attention: Annotated[
        str | list[str],
        ATTENTION_HELP,
        MODEL,
        COMMON,
    ] = "softmax"
    convolution: Annotated[
        int | None,
        "Length of a short causal convolution over queries, keys and values, for all mechanisms of "
        "a decoder; 0 turns it off. Without it, each mechanism has its own.",
        MODEL,
    ] = None
    position: Annotated[str, "Position encoding: learned, sinusoidal, rotary or none.", MODEL] = (
        "learned"
    )
    rotary_base: Annotated[float, "Base of the wavelengths of rotary positions.", MODEL] = 1e4
    rotary_scaling: Annotated[
        str | None,
        "How a model reads texts longer than rotary positions were trained for: "
        "linear:factor=2 stretches all wavelengths; llama3 and yarn stretch only the long ones.",
        MODEL,
    ] = None
    embedding_scale: Annotated[
        float | None, "Number to multiply the embeddings by. Without it, 1.", MODEL
    ] = None
    embedding_norm: Annotated[
        str | None, "Normalize the embeddings: layer or rms. Without it, they are not.", MODEL
    ] = None
    feed_forward: Annotated[
        str,
        "Feed-forward layers: gelu, gelu_tanh, relu, relu2, or gated ones: swiglu, geglu, "
        "geglu_tanh.",
        MODEL,
    ] = "gelu"
    feed_width: Annotated[
        int | None,
        "Inner size of the feed-forward layers. Without it, four times the width, or 8/3 for "
        "gated ones.",
        MODEL,
    ] = None
    norm: Annotated[str, "Normalization: layer (LayerNorm) or rms (RMSNorm).", MODEL] = "layer"
    norm_epsilon: Annotated[
        float | None, "Number that keeps norms from dividing by 0. Without it, PyTorch's.", MODEL
    ] = None
    norm_first: Annotated[
        bool, "Normalize before each layer (pre-norm) instead of after it.", MODEL
    ] = True
    normalize_queries: Annotated[
        bool, "Apply RMSNorm to the queries and keys of each head.", MODEL
    ] = False
    dropout: Annotated[
        float, "Dropout of embeddings, residual connections and attention weights.", MODEL
    ] = 0.0
    bias: Annotated[bool, "Give the linear layers a bias.", MODEL] = True
    qkv_bias: Annotated[
        bool | None, "Give queries, keys and values a bias. Without it, as --bias.", MODEL
    ] = None
    out_bias: Annotated[
        bool | None, "Give the output of attention a bias. Without it, as --bias.", MODEL
    ] = None
    tie: Annotated[bool, "Use one matrix for both the embedding and the output layer.", MODEL] = (
        False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "attention", resolve_all(self.attention))
        check_counts(self, "vocabulary", "context", "width", "layers", "heads", "key_heads")
        check_counts(self, "feed_width", "head_dim")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; give a fraction from 0 to below 1")
        if not 1 < self.rotary_base < math.inf:
            raise ValueError(f"rotary_base is {self.rotary_base}; give a number above 1")
        for name in ("norm_epsilon", "embedding_scale"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; give a number above 0")
        if self.rotary_scaling is not None:
            parse_scaling(self.rotary_scaling)
        if self.position not in POSITIONS:
            raise ValueError(f"position is {self.position!r}; choose from {', '.join(POSITIONS)}")


def _check_memory(config: StackConfig) -> None:
    head_dim = config.head_dim or config.width // config.heads
    by_position = {"learned": config.width, "rotary": head_dim}
    weights = config.vocabulary * config.width
    weights += config.context * by_position.get(config.position, 0)
    weights += block_weights(config.width, config.layers, config.feed_width)
    names = ("vocabulary", "context", "width", "layers")
    check_memory(weights, {name: getattr(config, name) for name in names})


@dataclass(frozen=True, eq=False)
class StackState:
    """The decoding state of a stack: the states of its blocks, and each row's length."""

    blocks: tuple[BlockState, ...]
    lengths: Tensor | int
    """Tokens so far: one number if all rows are equally long, which is faster, or (B,)."""

    def select(self, rows: Tensor) -> StackState:
        lengths = self.lengths[rows] if isinstance(self.lengths, Tensor) else self.lengths
        return StackState(tuple(block.select(rows) for block in self.blocks), lengths)

    def overwritable(self) -> StackState:
        """A copy for a loop that keeps only the newest state: each step may overwrite the blocks'
        self-attention states."""
        return StackState(tuple(block.overwritable() for block in self.blocks), self.lengths)


class Stack(nn.Module):
    """Embedding, positions, blocks and a last norm: the body of every text model."""

    def __init__(
        self, config: StackConfig, *, causal: bool, token_types: int | None = None, **cross: Any
    ) -> None:
        super().__init__()
        _check_memory(config)
        self.causal, self.embedding_scale = causal, config.embedding_scale
        width, context = config.width, config.context
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.types = nn.Embedding(token_types, width) if token_types else None
        self.embedding_norm: nn.Module | None = None
        if config.embedding_norm is not None:
            self.embedding_norm = create_norm(config.embedding_norm, width, config.norm_epsilon)
        self.position: nn.Module | None = None
        rotary = None
        if config.position == "learned":
            self.position = LearnedPositions(context, width)
        elif config.position == "sinusoidal":
            self.position = SinusoidalPositions(width)
        elif config.position == "rotary":
            head_dim = config.head_dim or width // config.heads
            scaling = config.rotary_scaling
            rotary = RotaryPositions(head_dim, config.rotary_base, context, scaling)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                attention,
                feed_forward=config.feed_forward,
                feed_width=config.feed_width,
                norm=config.norm,
                norm_epsilon=config.norm_epsilon,
                norm_first=config.norm_first,
                dropout=config.dropout,
                bias=config.bias,
                qkv_bias=config.qkv_bias,
                out_bias=config.out_bias,
                key_heads=config.key_heads,
                head_dim=config.head_dim,
                causal=causal,
                max_length=context,
                rotary=rotary,
                normalize=config.normalize_queries,
                convolution=config.convolution,
                **cross,
            )
            for attention in attention_per_layer(config.attention, config.layers)
        )
        # post-norm blocks already end with a norm
        self.norm: nn.Module = nn.Identity()
        if config.norm_first:
            self.norm = create_norm(config.norm, width, config.norm_epsilon)

    @property
    def max_length(self) -> int | None:
        """The longest text that positions and mechanisms allow; None if there is no limit."""
        limits = [
            layer.mechanism.max_length
            for block in self.blocks
            for layer in [block.attention]
            if isinstance(layer, MultiHead)
        ]
        if isinstance(self.position, LearnedPositions):
            limits.append(len(self.position.table))
        return min((limit for limit in limits if limit is not None), default=None)

    def embed(self, ids: Tensor, mask: Mask, types: Tensor | None = None) -> Tensor:
        limit = self.max_length if not torch.compiler.is_compiling() else None
        if limit is not None:
            position = mask.positions(ids.shape[1], torch.device("cpu"))
            last = int(position.max()) + 1 if position.numel() else 0
            if last > limit:
                raise ValueError(f"{last} tokens are too many; this model reads at most {limit}")
        x = self.embedding(ids)  # (B, T, W)
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        if self.position is not None:
            x = x + self.position(mask.positions(ids.shape[1], ids.device)).to(x.dtype)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        return self.dropout(x)

    def forward(
        self,
        ids: Tensor,
        keys: Tensor | None = None,
        memory: Tensor | None = None,
        memory_keys: Tensor | None = None,
        segments: Tensor | None = None,
        types: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> (B, T, W)"""
        mask = Mask(self.causal, keys, segments=segments)
        mask.check_tokens(*ids.shape)
        x = self.embed(ids, mask, types)
        for block in self.blocks:
            x = block(x, mask, memory, Mask(keys=memory_keys))
        return self.norm(x)

    def prefill(
        self,
        ids: Tensor,
        lengths: Tensor,
        memory: Tensor | None = None,
        memory_keys: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Right-padded prompts -> the vector of each row's last token (B, W), and the state."""
        same_length = bool((lengths == ids.shape[1]).all())
        keys = (
            None
            if same_length
            else torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        )
        mask = Mask(True, keys)
        x, states = self.embed(ids, mask), []
        *first, last = self.blocks
        for block in first:
            assert isinstance(block, Block)
            x, state = block.prefill(x, mask, memory, memory_keys)
            states.append(state if same_length else state.trim(lengths))
        assert isinstance(last, Block)
        x, state = last.prefill_last(x, mask, lengths, memory, memory_keys)  # (B, 1, W)
        tokens = ids.shape[1] if same_length else lengths
        return self.norm(x)[:, 0], StackState((*states, state), tokens)

    def step(self, ids: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """The next token of each row (B,) -> its vector (B, W), and the state after it."""
        start = state.lengths
        x, states = self.embed(ids[:, None], Mask(True, start=start)), []
        for block, old in zip(self.blocks, state.blocks, strict=True):
            assert isinstance(block, Block)
            x, new = block.step(x, old, start)
            states.append(new)
        return self.norm(x)[:, 0], StackState(tuple(states), start + 1)
