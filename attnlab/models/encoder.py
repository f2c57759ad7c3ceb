"""An encoder like BERT: every token attends to every other.

Letters: B batch, T tokens, W width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._help_groups import MODEL
from attnlab._notes import warn_caller
from attnlab.feed_forward import create_norm
from attnlab.layers import initialize
from attnlab.models._memory_check import check_counts
from attnlab.models._model import IMPORT, Model
from attnlab.models._stack import Stack, StackConfig
from attnlab.tasks.kind import load_reference


@dataclass(frozen=True)
class EncoderConfig(StackConfig):
    pooling: Annotated[
        str,
        "Vector for the whole text: its first token (first) or the mean of all tokens (mean).",
        MODEL,
    ] = "first"
    token_types: Annotated[
        int | None,
        "Number of token types, as BERT has for the first and second text. Without it, none.",
        MODEL,
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "token_types")
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
        self.stack = Stack(config, causal=False, token_types=config.token_types)
        self.transform = nn.Linear(config.width, config.width)
        self.transform_norm = create_norm(config.norm, config.width, config.norm_epsilon)
        self.head = nn.Linear(config.width, config.vocabulary)
        self.pooler = nn.Linear(config.width, config.width)
        self.apply(initialize)
        if config.tie:
            self.head.weight = self.stack.embedding.weight

    @classmethod
    def depth(cls, config: EncoderConfig) -> int:
        return config.layers

    @classmethod
    def from_huggingface(
        cls,
        folder: str | Path,
        *,
        attention: str | list[str] | None = None,
    ) -> Encoder:
        """A BERT model as a model of attnlab.

        `folder` has config.json and safetensors. `attention` replaces softmax.

        >>> import torch
        >>> from attnlab.models import Encoder
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=32, vocab_size=50)
        >>> original = BertForMaskedLM(config).eval()
        >>> original.save_pretrained("small-bert")
        >>> import warnings; warnings.simplefilter("ignore")  # it has no pooler
        >>> model = Encoder.from_huggingface("small-bert")
        >>> ids = torch.randint(50, (1, 7))
        >>> torch.allclose(model(ids), original(ids).logits, atol=1e-5)
        True
        """
        model, notes = load_reference(IMPORT)(folder, cls, attention=attention)
        for note in notes:
            warn_caller(f"{folder}: {note}")
        return cast(Encoder, model)

    @property
    def max_length(self) -> int | None:
        return self.stack.max_length

    def encode(
        self,
        ids: Tensor,
        keys: Tensor | None = None,
        segments: Tensor | None = None,
        types: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> (B, T, W); `keys` (B, T) is False for padding.

        `segments` (B, T) has the number of each token's document where a row packs several,
        `types` (B, T) each token's type if the model has any; without it, all are 0.
        """
        if types is not None and self.stack.types is None:
            raise ValueError("this model has no token types; leave out `types`")
        return self.stack(ids, keys, segments=segments, types=types)

    def forward(
        self,
        ids: Tensor,
        keys: Tensor | None = None,
        segments: Tensor | None = None,
        types: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> logits (B, T, V) of the token at each position."""
        x = self.encode(ids, keys, segments, types)
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
