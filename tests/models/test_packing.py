"""Packed documents: a model gives the same logits as for documents in rows of their own."""

from __future__ import annotations

import pytest
import torch

from attnlab import Mask
from attnlab.mechanisms import MECHANISMS
from attnlab.models import Decoder, Encoder, EncoderConfig, StackConfig

LENGTHS = ((3, 1, 7), (5, 6))
VOCABULARY, CONTEXT = 13, 8
PACKS = [name for name, kind in MECHANISMS.items() if kind.card.packs]


def segments() -> torch.Tensor:
    return torch.tensor(
        [[n for n, length in enumerate(row) for _ in range(length)] for row in LENGTHS]
    )


def compare(model: Decoder | Encoder) -> float:
    """The largest difference between packed documents and documents alone."""
    model = model.double().eval()
    ids = torch.randint(0, VOCABULARY, (len(LENGTHS), 11))
    largest = 0.0
    with torch.no_grad():
        packed = model(ids, segments=segments())
        for row, lengths in enumerate(LENGTHS):
            first = 0
            for length in lengths:
                alone = model(ids[row : row + 1, first : first + length])
                here = packed[row : row + 1, first : first + length]
                largest = max(largest, float((here - alone).abs().max()))
                first += length
    return largest


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("attention", [name for name in PACKS if MECHANISMS[name].card.causal])
def test_decoder(attention: str, position: str) -> None:
    """The rows are longer than the context, the documents are not."""
    config = StackConfig(
        vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=2, heads=3, attention=attention,
        position=position,
    )  # fmt: skip
    torch.manual_seed(0)
    assert compare(Decoder(config)) < 1e-7


@pytest.mark.parametrize(
    "attention", [name for name in PACKS if MECHANISMS[name].card.bidirectional]
)
def test_encoder(attention: str) -> None:
    config = EncoderConfig(
        vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=2, heads=3, attention=attention
    )
    torch.manual_seed(0)
    assert compare(Encoder(config)) < 1e-7


@pytest.mark.parametrize(
    "attention",
    ["softmax:latent=5", "gla:convolution=3", "gated_delta:convolution=1", "1*gla+2*softmax"],
)
def test_layer_options(attention: str) -> None:
    config = StackConfig(
        vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=2, heads=3, attention=attention
    )
    torch.manual_seed(0)
    assert compare(Decoder(config)) < 1e-7


def test_a_document_longer_than_the_context() -> None:
    config = StackConfig(vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=1, heads=3)
    with pytest.raises(ValueError, match="11 tokens are too many; this model reads at most 8"):
        Decoder(config)(
            torch.zeros(1, 11, dtype=torch.long), segments=torch.zeros(1, 11, dtype=torch.long)
        )


@pytest.mark.parametrize("attention", [name for name in MECHANISMS if name not in PACKS])
def test_what_cannot_pack(attention: str) -> None:
    config = StackConfig(
        vocabulary=VOCABULARY, context=16, width=12, layers=1, heads=3, attention=attention
    )
    if not MECHANISMS[attention].card.causal:
        with pytest.raises(ValueError, match="packed documents"):
            Encoder(EncoderConfig(**vars(config)))(
                torch.zeros(2, 11, dtype=torch.long), segments=segments()
            )
        return
    with pytest.raises(ValueError, match="packed documents"):
        Decoder(config)(torch.zeros(2, 11, dtype=torch.long), segments=segments())


@pytest.mark.parametrize("position", ["learned", "rotary", "none"])
@pytest.mark.parametrize("attention", ["softmax", "gated_delta"])
def test_segments_of_other_tokens(attention: str, position: str) -> None:
    """Of one row for several, or of several for one: positions would spread over the others."""
    config = StackConfig(
        vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=1, heads=3, attention=attention,
        position=position,
    )  # fmt: skip
    model, layer_input = Decoder(config), torch.zeros(1, 6, 12)
    for shape in ((1, 3), (2, 6), (0, 6)):
        wrong = torch.zeros(shape, dtype=torch.long)
        words = rf"segments has shape \({shape[0]}, {shape[1]}\); give \(1, 6\)"
        with pytest.raises(ValueError, match=words):
            model(torch.zeros(1, 6, dtype=torch.long), segments=wrong)
        with pytest.raises(ValueError, match=words):
            model.stack.blocks[0].attention(layer_input, Mask(True, segments=wrong))  # type: ignore[operator]


@pytest.mark.parametrize("position", ["learned", "rotary"])
@pytest.mark.parametrize("shape", [(0, 6), (2, 0)])
def test_no_tokens(shape: tuple[int, int], position: str) -> None:
    config = StackConfig(
        vocabulary=VOCABULARY, context=CONTEXT, width=12, layers=1, heads=3, position=position
    )
    ids = torch.zeros(shape, dtype=torch.long)
    assert Decoder(config)(ids, segments=ids).shape == (*shape, VOCABULARY)
    assert Decoder(config)(ids).shape == (*shape, VOCABULARY)
