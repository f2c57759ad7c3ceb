"""An encoder-decoder: reads one text, writes another.

Letters: B batch, S source tokens, T target tokens, W width, V vocabulary, n targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab._create_mechanism import resolve_aliases
from attnlab.layers import Block, initialize
from attnlab.models._model import Model, attention_flops, count_multiplied_weights
from attnlab.models._pointer_generator import CopyHead, CopyingState
from attnlab.models._stack import Stack, StackConfig, StackState


@dataclass(frozen=True)
class Seq2SeqConfig:
    encoder: Annotated[
        StackConfig, "Settings of the encoder. Its width and depth may differ from the decoder's."
    ]
    decoder: Annotated[StackConfig, "Settings of the decoder."]
    cross_attention: Annotated[
        str, "Attention mechanism with which the decoder reads the source."
    ] = "softmax"
    share: Annotated[bool, "Use one embedding for both the encoder and the decoder."] = False
    copy: Annotated[bool, "Let the decoder copy source tokens (a pointer-generator)."] = False

    nested: ClassVar[dict[str, type[Any]]] = {"encoder": StackConfig, "decoder": StackConfig}

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross_attention", resolve_aliases(self.cross_attention))
        encoder, decoder = self.encoder, self.decoder
        if self.share and (encoder.vocabulary, encoder.width) != (
            decoder.vocabulary,
            decoder.width,
        ):
            raise ValueError(
                f"share: the encoder has vocabulary {encoder.vocabulary} and width {encoder.width}"
                f", the decoder {decoder.vocabulary} and {decoder.width}; make them equal"
            )
        if self.copy and encoder.vocabulary != decoder.vocabulary:
            raise ValueError(
                f"copy: the encoder has vocabulary {encoder.vocabulary}, the decoder "
                f"{decoder.vocabulary}; make them equal, because copied ids must mean the same"
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
        self.copy: CopyHead | None = None
        if config.copy:
            self.copy = CopyHead(
                config.decoder.width,
                config.encoder.width,
                config.decoder.heads,
                config.cross_attention,
                config.encoder.context,
            )
        self.apply(initialize)
        if config.share:
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if config.decoder.tie:
            self.head.weight = self.decoder.embedding.weight

    @classmethod
    def depth(cls, config: Seq2SeqConfig) -> int:
        return config.encoder.layers + config.decoder.layers

    @property
    def vocabulary(self) -> int:
        return min(self.config.encoder.vocabulary, self.config.decoder.vocabulary)

    @property
    def max_length(self) -> int | None:
        """The limit of the target; the limit of the source is `encoder.max_length`."""
        return self.decoder.max_length

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keys: Tensor | None = None,
        target_keys: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) -> logits (B, T, V) of the token after each target token.

        With a copy head these are log-probabilities. With `labels` (B, T), of which n are not
        negative, it computes only what a loss needs, (n, 2): the log-probability of each label, and
        for label smoothing the mean log-probability of all tokens (without copying).
        """
        memory = self.encoder(source, source_keys)  # (B, S, W)
        x = self.decoder(target, target_keys, memory, source_keys)  # (B, T, W)
        copy = self.copy
        if labels is None:
            logits = self.head(x)
            if copy is None:
                return logits
            return copy.log_probabilities(x, logits, copy.absorb(memory, source, source_keys))
        logits = self.head(x[labels >= 0])  # (n, V)
        total = logits.logsumexp(1)  # (n,)
        chosen = logits.gather(1, labels[labels >= 0][:, None])[:, 0] - total  # (n,)
        if copy is not None:
            chosen = copy.label_log_probabilities(
                x, chosen, copy.absorb(memory, source, source_keys), labels
            )
        return torch.stack([chosen, logits.mean(1) - total], dim=1)

    def flops(self, read: int, written: int, source: int, target: int) -> float:
        """Operations of a training step, forward and backward: `read` source and `written` target
        tokens in all, in rows of `source` and `target` tokens."""
        blocks = [layer for layer in self.decoder.modules() if isinstance(layer, Block)]
        crosses = [block.cross for block in blocks if block.cross is not None]
        keys = sum(count_multiplied_weights(cross.project) for cross in crosses)  # of source tokens
        rest = count_multiplied_weights(self.decoder) - keys + count_multiplied_weights(self.head)
        attention = attention_flops(self.decoder, target)
        attention += sum(attention_flops(cross, source - target) for cross in crosses)
        if self.copy is not None:
            keys += count_multiplied_weights(self.copy.key)
            rest += count_multiplied_weights(self.copy.query) + count_multiplied_weights(
                self.copy.gate
            )
            attention += (
                6.0 * self.copy.heads * self.copy.head_dim * source
            )  # a copy head has no values
        reading = 6.0 * (count_multiplied_weights(self.encoder) + keys) + attention_flops(
            self.encoder, source
        )
        return read * reading + written * (6.0 * rest + attention)

    def prefill(
        self, ids: Tensor, lengths: Tensor, source: Tensor, source_keys: Tensor | None = None
    ) -> tuple[Tensor, StackState | CopyingState]:
        """Read the source, then the first target tokens (B, T) -> logits (B, V), and a state."""
        memory = self.encoder(source, source_keys)
        x, state = self.decoder.prefill(ids, lengths, memory, source_keys)
        if self.copy is None:
            return self.head(x), state
        copying = CopyingState(state, self.copy.absorb(memory, source, source_keys))
        return self._next(x, copying), copying

    def step(
        self, ids: Tensor, state: StackState | CopyingState
    ) -> tuple[Tensor, StackState | CopyingState]:
        if isinstance(state, StackState):
            x, state = self.decoder.step(ids, state)
            return self.head(x), state
        x, inner = self.decoder.step(ids, state.decoder)
        copying = CopyingState(inner, state.memory)
        return self._next(x, copying), copying

    def _next(self, x: Tensor, state: CopyingState) -> Tensor:
        """(B, W) -> log-probabilities (B, V)"""
        assert self.copy is not None
        x = x[:, None]  # (B, 1, W)
        return self.copy.log_probabilities(x, self.head(x), state.memory)[:, 0]
