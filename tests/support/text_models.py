"""Small attnlab models with a tokenizer, and an image file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.models import (
    Decoder,
    Encoder,
    EncoderConfig,
    Seq2Seq,
    Seq2SeqConfig,
    StackConfig,
)
from attnlab.tokenizer import Characters
from tests.support.small_training import attention

TEXT = "the dog ran in the park"
TOKENS = Characters.train([TEXT, "I am not happy."])
SIZES: dict[str, Any] = {"width": 24, "layers": 2, "heads": 3}


def decoder(name: str = "softmax", seed: int = 0, **changes: Any) -> Decoder:
    torch.manual_seed(seed)
    settings = {"vocabulary": TOKENS.vocabulary, "context": 40, "attention": attention(name)}
    return Decoder(StackConfig(**{**settings, **SIZES, **changes})).eval()


def encoder(name: str = "softmax") -> Encoder:
    torch.manual_seed(0)
    settings = {"vocabulary": TOKENS.vocabulary, "context": 40, "attention": attention(name)}
    return Encoder(EncoderConfig(**{**settings, **SIZES})).eval()


def both_stacks() -> Seq2Seq:
    torch.manual_seed(0)
    stack = StackConfig(vocabulary=TOKENS.vocabulary, context=40, **SIZES)
    return Seq2Seq(Seq2SeqConfig(encoder=stack, decoder=stack)).eval()


def saved(model: Any, folder: Path, tokens: Any = TOKENS) -> Path:
    model.save_pretrained(folder)
    if tokens is not None:
        tokens.save(folder / "tokenizer.json")
    return folder


def write_image(path: Path, size: int = 12) -> Path:
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image = images.new("RGB", (size + 6, size))
    image.putdata([(x * 9 % 256, y * 17 % 256, 40) for y in range(size) for x in range(size + 6)])
    image.save(path)
    return path
