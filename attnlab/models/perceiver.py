"""A decoder that reads through a bottleneck: a few learned latents instead of all tokens.

The first block lets the latents read the tokens, the blocks between let them read one another, and
the last block lets each token read the latents. Only the first and last block see the tokens, so N
tokens and M latents cost about N M + (layers - 2) M^2 instead of layers N^2.

No latent may carry a later token back to an earlier one. So latent m belongs to a place in the
text: it reads tokens up to that place, and only tokens from there on read it. Without this mask a
latent reads the whole text, and every token can see the future through it.

Letters: B batch, T tokens, M latents, W width, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from attnlab._help_groups import MODEL
from attnlab.feed_forward import FeedForward, create_norm
from attnlab.layers import Dropout, MultiHead, select_last_token
from attnlab.mask import Mask
from attnlab.models._memory_check import check_counts
from attnlab.models._model import count_multiplied_weights
from attnlab.models._stack import Stack, StackConfig
from attnlab.models.decoder import Decoder

FEWEST_LAYERS = 3  # down, at least one between, up


@dataclass(frozen=True)
class PerceiverConfig(StackConfig):
    """`attention` is that of the blocks between, among the latents."""

    latents: Annotated[
        int,
        "Number of learned latents between the first and the last block, which read and are read "
        "by cross-attention (a perceiver).",
        MODEL,
    ] = 64
    latent_stride: Annotated[
        int | None,
        "Number of tokens that each latent reads beyond the one before it. Without it, as many as "
        "the context needs. 1 is the mask of the classic assignment: no latent reads tokens after "
        "as many as there are latents.",
        MODEL,
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "latents", "latent_stride")
        if self.latents > self.context:
            raise ValueError(
                f"latents is {self.latents}, the context {self.context}; give at most one latent "
                "for each token"
            )
        if self.layers < FEWEST_LAYERS:
            raise ValueError(
                f"layers is {self.layers}; a perceiver needs {FEWEST_LAYERS} or more: the first "
                "reads the tokens, the last is read by them"
            )
        if self.position not in ("learned", "sinusoidal"):
            raise ValueError(
                f"position is {self.position!r}; a perceiver's latents read the tokens by "
                "cross-attention, which needs learned or sinusoidal positions"
            )

    @property
    def stride(self) -> int:
        return self.latent_stride or -(-self.context // self.latents)


@dataclass(frozen=True, eq=False)
class LatentMask(Mask):
    """Query i stands at the end of its stretch of `query_stride` tokens, key j at the end of its
    stretch of `key_stride`; a query may attend to the keys that do not end later.

    Only plain softmax attention reads a mask through `allowed` alone. Other mechanisms have paths
    of their own for `causal`, and would ignore the strides.
    """

    query_stride: int = 1
    key_stride: int = 1

    def allowed(self, T: int, S: int, device: torch.device) -> Tensor:
        """(B or 1, 1, T, S)"""
        queries = (torch.arange(T, device=device) + 1) * self.query_stride
        keys = (torch.arange(S, device=device) + 1) * self.key_stride
        earlier = (keys <= queries[:, None])[None, None]
        return earlier if self.keys is None else earlier & self.keys[:, None, None, :]


class CrossBlock(nn.Module):
    """Cross-attention and feed-forward, with as many parameters as a block of self-attention. One
    norm serves both the queries and what they read."""

    def __init__(self, config: PerceiverConfig) -> None:
        super().__init__()
        width = config.width
        self.norm_first = config.norm_first
        self.attention = MultiHead(
            width,
            config.heads,
            "softmax",
            memory_width=width,
            head_dim=config.head_dim,
            key_heads=config.key_heads,
            dropout=config.dropout,
            bias=config.bias,
            qkv_bias=config.qkv_bias,
            out_bias=config.out_bias,
            normalize=config.normalize_queries,
            norm_epsilon=config.norm_epsilon,
        )
        self.attention_norm = create_norm(config.norm, width, config.norm_epsilon)
        self.feed_forward = FeedForward(width, config.feed_forward, config.feed_width, config.bias)
        self.feed_norm = create_norm(config.norm, width, config.norm_epsilon)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: LatentMask) -> Tensor:
        """(B, T, W) and (B, S, W) -> (B, T, W)"""
        if not self.norm_first:
            x = self.attention_norm(x + self.dropout(self.attention(x, mask, memory)))
            return self.feed_norm(x + self.dropout(self.feed_forward(x)))
        queries, memory = self.attention_norm(x), self.attention_norm(memory)
        x = x + self.dropout(self.attention(queries, mask, memory))
        return x + self.dropout(self.feed_forward(self.feed_norm(x)))


@dataclass(frozen=True, eq=False)
class PerceiverState:
    """The tokens so far: a perceiver decodes by reading them again."""

    ids: Tensor  # (B, T), right-padded
    lengths: Tensor  # (B,)

    def select(self, rows: Tensor) -> PerceiverState:
        return PerceiverState(self.ids[rows], self.lengths[rows])


class LatentStack(Stack):
    """Embedding and positions, a block that reads the tokens into the latents, blocks among the
    latents, a block in which the tokens read the latents, and a last norm."""

    def __init__(self, config: PerceiverConfig) -> None:
        between = {field.name: getattr(config, field.name) for field in fields(StackConfig)}
        super().__init__(StackConfig(**{**between, "layers": config.layers - 2}), causal=True)
        self.stride = config.stride
        self.latents = nn.Parameter(0.02 * torch.randn(config.latents, config.width))
        self.down, self.up = CrossBlock(config), CrossBlock(config)

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
        del memory, memory_keys, types
        if segments is not None:
            raise ValueError(
                "a perceiver cannot pack documents, because its latents read across them; give "
                "each document a row of its own"
            )
        x = self.embed(ids, Mask(True, keys))
        # a latent whose last token is not there yet is read by no token
        count = min(len(self.latents), ids.shape[1] // self.stride)
        z = self.latents[:count].expand(len(ids), -1, -1)  # (B, M, W)
        if count:
            z = self.down(z, x, LatentMask(keys=keys, query_stride=self.stride))
            for block in self.blocks:
                z = block(z, Mask(True))
        return self.norm(self.up(x, z, LatentMask(key_stride=self.stride)))

    def prefill(  # type: ignore[override]
        self, ids: Tensor, lengths: Tensor, **_: Any
    ) -> tuple[Tensor, PerceiverState]:
        """Right-padded prompts -> the vector of each row's last token (B, W), and the state."""
        keys = torch.arange(ids.shape[1], device=ids.device) < lengths.to(ids.device)[:, None]
        x = self(ids, None if bool(keys.all()) else keys)
        return select_last_token(x, lengths), PerceiverState(ids, lengths)

    def step(  # type: ignore[override]
        self, ids: Tensor, state: PerceiverState
    ) -> tuple[Tensor, PerceiverState]:
        """The next token of each row (B,) -> its vector (B, W), and the state after it."""
        longer = nn.functional.pad(state.ids, (0, 1))
        longer[torch.arange(len(ids)), state.lengths] = ids
        lengths = state.lengths + 1
        return self.prefill(longer[:, : int(lengths.max()) if len(ids) else 0], lengths)


class Perceiver(Decoder):
    """A decoder with a bottleneck of latents. It generates without a cache: each new token reads
    the text again."""

    kind = "perceiver"
    config_class = PerceiverConfig
    config: PerceiverConfig
    stack: LatentStack

    @staticmethod
    def make_stack(config: StackConfig) -> Stack:
        assert isinstance(config, PerceiverConfig)
        return LatentStack(config)

    def flops_per_token(self, length: int) -> float:
        """Operations per token of a training step, forward and backward, for texts of `length`."""
        stack, config = self.stack, self.config
        latents = min(config.latents, length // stack.stride)
        down, up = stack.down.attention, stack.up.attention
        # what multiplies latents instead of tokens: all of `down` but its keys and values, those
        # of `up`, and the blocks between
        moved = count_multiplied_weights(stack.down) - count_multiplied_weights(down.project)
        moved += count_multiplied_weights(up.project) + count_multiplied_weights(stack.blocks)
        rest = count_multiplied_weights(self) - moved - stack.latents.numel()
        read = 2 * latents + len(stack.blocks) * latents * latents / length
        return 6.0 * (rest + moved * latents / length) + 12.0 * down.heads * down.head_dim * read
