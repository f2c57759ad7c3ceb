"""Small models whose heads are compared with mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnlab.heads._inputs import Material
from attnlab.heads._mechanism_errors import (
    candidates,
)
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import HuggingFaceTexts, OwnTexts, TextReader
from attnlab.huggingface._inspected_models import HuggingFaceSubject
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.models import create
from attnlab.tokenizer import Characters
from tests.support.transformers_with_tokenizers import byte_pairs, word_pieces

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")

TEXT = "I wanted to have a party, and bought a cake for it. Happy are those who have a cake. " * 12
READ = Material(TEXT)
SMALL = HeadSettings(
    tokens=48, windows=2, features=(8,), window=(4, 16), block=(4,), ranks=(2, 200), tolerance=0.3
)
SPECS = candidates((), SMALL, 48)


def language_model(**changes: Any) -> TextReader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 320}
        config = transformers.LlamaConfig(**sizes, **heads, **changes)
        model = peaked(transformers.LlamaForCausalLM(config).eval())
    return HuggingFaceTexts(HuggingFaceSubject(model, byte_pairs(), "llama"))


def encoder(head: bool) -> TextReader:
    kind = transformers.BertForMaskedLM if head else transformers.BertModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=18, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=30, max_position_embeddings=64,
        )  # fmt: skip
        return HuggingFaceTexts(
            HuggingFaceSubject(peaked(kind(config).eval()), word_pieces(), "bert")
        )


def peaked(model: Any) -> Any:
    """With weights far from even."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def own_model() -> OwnTexts:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokens = Characters.train(TEXT)
        config = {"width": 24, "heads": 3, "layers": 2, "vocabulary": tokens.vocabulary}
        model = create({"model": "decoder", **config, "context": 64}).eval()
        peaked(model)
    return OwnTexts(OwnSubject(model, tokens, "own"))


READERS: dict[str, Callable[[], TextReader]] = {
    "llama": language_model,
    "own": own_model,
    "bert": lambda: encoder(False),
}
