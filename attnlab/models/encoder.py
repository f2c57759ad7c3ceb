"""An encoder like BERT: every token attends to every other.

Letters: B batch, T tokens, W width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._help_groups import MODEL
from attnlab.layers import NORMS, initialize
from attnlab.models._model import Model
from attnlab.models._stack import Stack, StackConfig


@dataclass(frozen=True)
class EncoderConfig(StackConfig):
    pooling: Annotated[
        str,
        "Vector for the whole text: its first token (first) or the mean of all tokens (mean).",
        MODEL,
    ] = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in ("first", "mean"):
            raise ValueError(f"pooling is {self.pooling!r}; choose from first, mean")


class Encoder(Model):
    """`forward` gives masked-language logits, `encode` a vector per token, `pool` one per text."""

    kind = "encoder"
    config_class = EncoderConfig
    config: EncoderConfig
    has_idle_parameters = True  # the pooler

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=False)
        self.transform = nn.Linear(config.width, config.width)
        self.transform_norm = NORMS[config.norm](config.width)
        self.head = nn.Linear(config.width, config.vocabulary)
        self.pooler = nn.Linear(config.width, config.width)
        self.apply(initialize)
        if config.tie:
            self.head.weight = self.stack.embedding.weight

    @classmethod
    def depth(cls, config: EncoderConfig) -> int:
        return config.layers

    @property
    def max_length(self) -> int | None:
        return self.stack.max_length

    def encode(
        self, ids: Tensor, keys: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> (B, T, W); `keys` (B, T) is False for padding.

        `segments` (B, T) has the number of each token's document where a row packs several.
        """
        return self.stack(ids, keys, segments=segments)

    def forward(
        self, ids: Tensor, keys: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> logits (B, T, V) of the token at each position."""
        x = self.encode(ids, keys, segments)
        return self.head(self.transform_norm(F.gelu(self.transform(x))))

    def pool(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Vectors (B, T, W) -> one per text (B, W)."""
        if self.config.pooling == "first":
            pooled = x[:, 0]
        elif keys is None:
            pooled = x.mean(1)
        else:
            real = keys[..., None]
            pooled = x.masked_fill(~real, 0).sum(1) / real.sum(1).clamp(min=1)
        return self.pooler(pooled).tanh()
