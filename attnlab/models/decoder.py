"""A decoder-only language model like GPT.

Letters: B batch, T tokens, W width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self, cast

from torch import Tensor, nn

from attnlab._create_mechanism import find_mechanism
from attnlab._notes import warn_caller
from attnlab.layers import initialize
from attnlab.models._model import IMPORT, Model
from attnlab.models._stack import Stack, StackConfig, StackState
from attnlab.tasks.kind import load_reference


class Decoder(Model):
    """Reads text from left to right; the logits at each token predict the next one."""

    kind = "decoder"
    config_class = StackConfig
    config: StackConfig

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = self.make_stack(config)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(initialize)
        if config.tie:
            self.head.weight = self.stack.embedding.weight

    @staticmethod
    def make_stack(config: StackConfig) -> Stack:
        return Stack(config, causal=True)

    @classmethod
    def depth(cls, config: StackConfig) -> int:
        return config.layers

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """A model by name: `course`, the classic character GPT."""
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; choose from {', '.join(PRESETS)}")
        config = cls.config_class(**{**asdict(PRESETS[name]), **changes})
        if name == "course":
            # The course's synthesizer has a table one column smaller than the context.
            config = replace(config, attention=_course_attention(config))
        return cls(config)

    @classmethod
    def from_huggingface(
        cls,
        folder: str | Path,
        *,
        attention: str | list[str] | None = None,
        context: int | None = None,
    ) -> Decoder:
        """A GPT-2, Llama, Mistral, Qwen 2 or 3 or Gemma model as a model of attnlab.

        `folder` has config.json and safetensors, or is a .gguf file. `attention` replaces the
        model's own mechanism, `context` the longest text in training. The tokenizer comes from
        `attnlab.huggingface.import_tokenizer`.

        >>> import torch
        >>> from attnlab.models import Decoder
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32,
        ...                     bos_token_id=0, eos_token_id=0)
        >>> original = GPT2LMHeadModel(config).eval()
        >>> original.save_pretrained("small-gpt2")
        >>> model = Decoder.from_huggingface("small-gpt2")
        >>> ids = torch.randint(50, (1, 7))
        >>> torch.allclose(model(ids), original(ids).logits, atol=1e-5)
        True
        """
        model, notes = load_reference(IMPORT)(folder, cls, attention=attention, context=context)
        for note in notes:
            warn_caller(f"{folder}: {note}")
        return cast(Decoder, model)

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
