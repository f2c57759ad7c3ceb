"""An encoder-decoder: reads one text, writes another.

Letters: B batch, S source tokens, T target tokens, W width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor, nn

from attnlab.layers import initialise
from attnlab.models.base import Model
from attnlab.models.stack import DecodingState, Stack, StackConfig


@dataclass(frozen=True)
class Seq2SeqConfig:
    encoder: Annotated[StackConfig, "the reader; width and depth may differ from the writer's"]
    decoder: Annotated[StackConfig, "the writer"]
    cross_attention: Annotated[str, "mechanism by which the writer reads the source"] = "softmax"
    share: Annotated[bool, "reader and writer share one embedding"] = False

    nested: ClassVar[dict[str, type[Any]]] = {"encoder": StackConfig, "decoder": StackConfig}

    def __post_init__(self) -> None:
        one, other = self.encoder, self.decoder
        if self.share and (one.vocabulary, one.width) != (other.vocabulary, other.width):
            raise ValueError(
                f"share: the encoder has vocabulary {one.vocabulary} and width {one.width}, the "
                f"decoder {other.vocabulary} and {other.width}; a shared embedding needs them equal"
            )


class Seq2Seq(Model):
    kind = "seq2seq"
    config_class = Seq2SeqConfig
    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack(config.encoder, causal=False)
        self.decoder = Stack(
            config.decoder,
            causal=True,
            cross_attention=config.cross_attention,
            memory_width=config.encoder.width,
            memory_length=config.encoder.context,
        )
        self.head = nn.Linear(config.decoder.width, config.decoder.vocabulary, bias=False)
        self.apply(initialise)
        if config.share:
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if config.decoder.tie:
            self.head.weight = self.decoder.embedding.weight

    @property
    def max_length(self) -> int | None:
        """Of the target; the source may be as long as `encoder.max_length`."""
        return self.decoder.max_length

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keys: Tensor | None = None,
        target_keys: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) -> logits (B, T, V) of the token after each target token."""
        memory = self.encoder(source, source_keys)  # (B, S, W)
        return self.head(self.decoder(target, target_keys, memory, source_keys))

    def prefill(
        self, ids: Tensor, lengths: Tensor, source: Tensor, source_keys: Tensor | None = None
    ) -> tuple[Tensor, DecodingState]:
        """Read the source, then the first target tokens (B, T) -> logits (B, V), and a state."""
        memory = self.encoder(source, source_keys)
        x, state = self.decoder.prefill(ids, lengths, memory, source_keys)
        return self.head(x), state

    def step(self, ids: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        x, state = self.decoder.step(ids, state)
        return self.head(x), state
