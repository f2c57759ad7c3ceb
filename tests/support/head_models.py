"""Small models of text for tests of `attnlab heads`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnlab.heads._inputs import HeadInputs
from attnlab.heads._mechanism_errors import (
    candidate_specs,
)
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import AttnlabTextReader, HuggingFaceTextReader, TextModelReader
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.models import create
from attnlab.tokenizer import Characters
from tests.support.transformers_with_tokenizers import byte_pairs, word_pieces

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")

TEXT = "I wanted to have a party, and bought a cake for it. Happy are those who have a cake. " * 12
INPUTS = HeadInputs(TEXT)
SMALL = HeadSettings(
    tokens=48, windows=2, features=(8,), window=(4, 16), block=(4,), ranks=(2, 200), tolerance=0.3
)
SPECS = candidate_specs((), SMALL, 48)


def language_model(**changes: Any) -> TextModelReader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 320}
        config = transformers.LlamaConfig(**sizes, **heads, **changes)
        model = sharpen_attention(transformers.LlamaForCausalLM(config).eval())
    return HuggingFaceTextReader(InspectedHuggingFaceModel(model, byte_pairs(), "llama"))


def encoder(head: bool) -> TextModelReader:
    model_class = transformers.BertForMaskedLM if head else transformers.BertModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=18, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=30, max_position_embeddings=64,
        )  # fmt: skip
        return HuggingFaceTextReader(
            InspectedHuggingFaceModel(
                sharpen_attention(model_class(config).eval()), word_pieces(), "bert"
            )
        )


def sharpen_attention(model: Any) -> Any:
    """Scales the parameters, so that attention weights are far from uniform."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def attnlab_decoder() -> AttnlabTextReader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokens = Characters.train(TEXT)
        config = {"width": 24, "heads": 3, "layers": 2, "vocabulary": tokens.vocabulary}
        model = create({"model": "decoder", **config, "context": 64}).eval()
        sharpen_attention(model)
    return AttnlabTextReader(InspectedAttnlabModel(model, tokens, "own"))


READERS: dict[str, Callable[[], TextModelReader]] = {
    "llama": language_model,
    "own": attnlab_decoder,
    "bert": lambda: encoder(False),
}
