"""Small encoder-decoders and image models for tests of `attnlab heads`."""

from __future__ import annotations

import torch

from attnlab.heads._encoder_decoder_models import (
    AttnlabPairReader,
    HuggingFacePairReader,
    PairReader,
)
from attnlab.heads._image_models import AttnlabImageReader, HuggingFaceImageReader
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.models import create
from attnlab.tokenizer import Characters
from tests.support.head_models import TEXT, sharpen_attention, transformers
from tests.support.transformers_with_tokenizers import byte_pairs

CLASS_NAMES = [str(digit) for digit in range(10)]


def bart(head: bool = True) -> PairReader:
    model_class = transformers.BartForConditionalGeneration if head else transformers.BartModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BartConfig(
            vocab_size=320, d_model=24, encoder_layers=2, decoder_layers=1,
            max_position_embeddings=64, encoder_attention_heads=3, decoder_attention_heads=3,
            forced_eos_token_id=None,
        )  # fmt: skip
        model = sharpen_attention(model_class(config).eval())
    return HuggingFacePairReader(InspectedHuggingFaceModel(model, byte_pairs(), "bart"))


def attnlab_seq2seq() -> PairReader:
    tokens = Characters.train(TEXT)
    stack = {"width": 24, "heads": 3, "layers": 1, "vocabulary": tokens.vocabulary, "context": 64}
    config = {"model": "seq2seq", "encoder": {**stack, "layers": 2}, "decoder": stack}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = sharpen_attention(create({**config, "copy": True}).eval())
    return AttnlabPairReader(InspectedAttnlabModel(model, tokens, "own"))


def attnlab_vit() -> AttnlabImageReader:
    sizes = {"image_size": 8, "channels": 1, "patch": 1, "width": 24, "layers": 2, "heads": 3}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = sharpen_attention(create({"model": "vit", "classes": 10, **sizes}).eval())
    return AttnlabImageReader(InspectedAttnlabModel(model, None, "own vit", classes=CLASS_NAMES))


def vit(head: bool = True) -> HuggingFaceImageReader:
    model_class = transformers.ViTForImageClassification if head else transformers.ViTModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32,
            image_size=16, patch_size=2, num_labels=10, id2label=dict(enumerate(CLASS_NAMES)),
        )  # fmt: skip
        model = sharpen_attention(model_class(config).eval())
    size = {"height": 16, "width": 16}
    return HuggingFaceImageReader(
        InspectedHuggingFaceModel(model, transformers.ViTImageProcessor(size=size), "vit")
    )
