"""A decoder-only language model like GPT.

Letters: B batch, T tokens, W width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from attnlab._create_mechanism import find_mechanism
from attnlab.layers import initialize
from attnlab.models._model import Model
from attnlab.models._stack import Stack, StackConfig, StackState


class Decoder(Model):
    """Reads text from left to right; the logits at each token predict the next one."""

    kind = "decoder"
    config_class = StackConfig
    config: StackConfig

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=True)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(initialize)
        if config.tie:
            self.head.weight = self.stack.embedding.weight

    @classmethod
    def depth(cls, config: StackConfig) -> int:
        return config.layers

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Decoder:
        """A model by name: `course`, the classic character GPT."""
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; choose from {', '.join(PRESETS)}")
        config = replace(PRESETS[name], **changes)
        if name == "course":
            # The course's synthesizer has a table one column smaller than the context.
            config = replace(config, attention=_course_attention(config))
        return cls(config)

    @property
    def max_length(self) -> int | None:
        return self.stack.max_length

    def forward(
        self,
        ids: Tensor,
        keys: Tensor | None = None,
        at: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> logits (B, T, V); `keys` (B, T) is False for padding.

        With `at` (B, T), which has n True entries, only those logits are computed: (n, V).
        `segments` (B, T) has the number of each token's document where a row packs several: they
        give the same logits as documents in rows of their own.
        """
        x = self.stack(ids, keys, segments=segments)  # (B, T, W)
        return self.head(x if at is None else x[at])

    def prefill(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, StackState]:
        """Right-padded prompts (B, T) -> logits of the next token (B, V), and a state."""
        x, state = self.stack.prefill(ids, lengths)
        return self.head(x), state

    def step(self, ids: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """The next token of each row (B,) -> logits (B, V), and the new state."""
        x, state = self.stack.step(ids, state)
        return self.head(x), state


PRESETS = {
    "course": StackConfig(vocabulary=256, context=128, width=256, layers=4, heads=8, dropout=0.1),
}


def _course_attention(config: StackConfig) -> str | list[str]:
    def with_length(attention: str) -> str:
        is_name = not set(attention) & set(":+*")
        has_table = is_name and find_mechanism(attention).card.needs_length
        return f"{attention}:max_length={config.context - 1}" if has_table else attention

    if isinstance(config.attention, str):
        return with_length(config.attention)
    return [with_length(attention) for attention in config.attention]
