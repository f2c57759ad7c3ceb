"""The body of every text model: embedding, positions, blocks.

Letters: B batch, T tokens, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from attnlab.layers import NORMS, Block, BlockState, Dropout, MultiHead, every_layer
from attnlab.mask import Mask
from attnlab.position import POSITIONS, Learned, Rotary, Sinusoidal


@dataclass(frozen=True)
class StackConfig:
    """The settings of any stack of blocks."""

    vocabulary: Annotated[int, "number of token ids"]
    context: Annotated[int, "longest text in training; with learned positions the longest at all"]
    width: Annotated[int, "size of a token's vector"] = 128
    layers: Annotated[int, "number of blocks"] = 4
    heads: Annotated[int, "attention heads of a block"] = 4
    key_heads: Annotated[int | None, "heads of keys and values; fewer are shared"] = None
    attention: Annotated[str | list[str], "mechanism of all layers, or one for each"] = "softmax"
    position: Annotated[str, "learned, sinusoidal, rotary or none"] = "learned"
    rotary_base: Annotated[float, "longest wavelength of rotary positions, in 2 pi tokens"] = 1e4
    feed_forward: Annotated[str, "gelu, relu2 or swiglu"] = "gelu"
    feed_width: Annotated[int | None, "inner size of the feed-forward layers"] = None
    norm: Annotated[str, "layer or rms"] = "layer"
    norm_first: Annotated[bool, "normalize before each layer (pre-norm), not after"] = True
    normalize_queries: Annotated[bool, "RMS-normalize q and k of each head"] = False
    dropout: Annotated[float, "on embeddings, residual paths and attention weights"] = 0.0
    bias: Annotated[bool, "linear layers have a bias"] = True
    tie: Annotated[bool, "embedding and output share one matrix"] = False

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "context", "width", "layers", "heads", "key_heads", "feed_width")
        for name in sizes:
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ValueError(f"{name} is {size}; give a whole number above 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; give a share from 0 to below 1")
        if not self.rotary_base > 1:
            raise ValueError(f"rotary_base is {self.rotary_base}; give a number above 1")
        if self.position not in POSITIONS:
            raise ValueError(f"position {self.position!r}; there are {', '.join(POSITIONS)}")


@dataclass(frozen=True, eq=False)
class DecodingState:
    """What a model remembers while decoding: of each block, and each row's length."""

    blocks: tuple[BlockState, ...]
    lengths: Tensor | int
    """Positions taken: one number while all rows are equally long, which is faster, or (B,)."""

    def select(self, rows: Tensor) -> DecodingState:
        lengths = self.lengths[rows] if isinstance(self.lengths, Tensor) else self.lengths
        return DecodingState(tuple(block.select(rows) for block in self.blocks), lengths)

    def overwritable(self) -> DecodingState:
        """For a loop that keeps only the newest state: each step may write over what the blocks
        remember of the text itself."""
        return DecodingState(tuple(block.overwritable() for block in self.blocks), self.lengths)


class Stack(nn.Module):
    """Embedding, positions, blocks and a last norm: the body of every text model."""

    def __init__(self, config: StackConfig, *, causal: bool, **cross: Any) -> None:
        super().__init__()
        self.causal = causal
        width, context = config.width, config.context
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.position: nn.Module | None = None
        rotary = None
        if config.position == "learned":
            self.position = Learned(context, width)
        elif config.position == "sinusoidal":
            self.position = Sinusoidal(width)
        elif config.position == "rotary":
            rotary = Rotary(width // config.heads, config.rotary_base, context)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                attention,
                feed_forward=config.feed_forward,
                feed_width=config.feed_width,
                norm=config.norm,
                norm_first=config.norm_first,
                dropout=config.dropout,
                bias=config.bias,
                key_heads=config.key_heads,
                causal=causal,
                max_length=context,
                rotary=rotary,
                normalize=config.normalize_queries,
                **cross,
            )
            for attention in every_layer(config.attention, config.layers)
        )
        # post-norm blocks end with a norm of their own
        self.norm = NORMS[config.norm](width) if config.norm_first else nn.Identity()

    @property
    def max_length(self) -> int | None:
        """The longest text that positions and mechanisms can take; None: any."""
        limits = [
            layer.mechanism.max_length
            for block in self.blocks
            for layer in [block.attention]
            if isinstance(layer, MultiHead)
        ]
        if isinstance(self.position, Learned):
            limits.append(len(self.position.table))
        return min((limit for limit in limits if limit is not None), default=None)

    def embed(self, ids: Tensor, mask: Mask) -> Tensor:
        limit = self.max_length if not torch.compiler.is_compiling() else None
        if limit is not None:
            last = int(mask.positions(ids.shape[1], torch.device("cpu")).max()) + 1
            if last > limit:
                raise ValueError(f"{last} tokens; this model reads at most {limit}")
        x = self.embedding(ids)  # (B, T, W)
        if self.position is not None:
            x = x + self.position(mask.positions(ids.shape[1], ids.device)).to(x.dtype)
        return self.dropout(x)

    def forward(
        self,
        ids: Tensor,
        keys: Tensor | None = None,
        memory: Tensor | None = None,
        memory_keys: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> (B, T, W)"""
        mask = Mask(self.causal, keys)
        x = self.embed(ids, mask)
        for block in self.blocks:
            x = block(x, mask, memory, Mask(keys=memory_keys))
        return self.norm(x)

    def prefill(
        self,
        ids: Tensor,
        lengths: Tensor,
        memory: Tensor | None = None,
        memory_keys: Tensor | None = None,
    ) -> tuple[Tensor, DecodingState]:
        """Right-padded prompts -> the vector at each row's end (B, W), and the state after it."""
        even = bool((lengths == ids.shape[1]).all())
        keys = None if even else torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        mask = Mask(True, keys)
        x, states = self.embed(ids, mask), []
        *first, last = self.blocks
        for block in first:
            assert isinstance(block, Block)
            x, state = block.prefill(x, mask, memory, memory_keys)
            states.append(state if even else state.trim(lengths))
        assert isinstance(last, Block)
        x, state = last.prefill_last(x, mask, lengths, memory, memory_keys)  # (B, 1, W)
        taken = ids.shape[1] if even else lengths
        return self.norm(x)[:, 0], DecodingState((*states, state), taken)

    def step(self, ids: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """The next token of each row (B,) -> its vector (B, W), and the state after it."""
        start = state.lengths
        x, states = self.embed(ids[:, None], Mask(True, start=start)), []
        for block, old in zip(self.blocks, state.blocks, strict=True):
            assert isinstance(block, Block)
            x, new = block.step(x, old, start)
            states.append(new)
        return self.norm(x)[:, 0], DecodingState(tuple(states), start + 1)
