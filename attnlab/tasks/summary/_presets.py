"""The model and the training that summaries are learned with by default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import nn

from attnlab.models import Seq2Seq, Seq2SeqConfig, StackConfig
from attnlab.training import Settings

LAYERS = ("encoder", "all")
ATTENTION = ("attention", "decoder_attention", "cross_attention")


@dataclass(frozen=True)
class SummaryModel:
    """An encoder-decoder for texts. The command line's help is made from this."""

    attention: Annotated[str | list[str], "mechanism of the encoder, or one for each layer"] = (
        "softmax"
    )
    decoder_attention: Annotated[str | list[str], "mechanism of the decoder's own layers"] = (
        "softmax"
    )
    cross_attention: Annotated[str, "mechanism by which the decoder reads the text"] = "softmax"
    copy: Annotated[bool, "words of the text may be copied (a pointer-generator)"] = True
    vocabulary: Annotated[int, "byte pairs, learned from the training texts"] = 8000
    text_tokens: Annotated[int, "tokens of a text that are read; the rest is cut off"] = 96
    summary_tokens: Annotated[int, "longest summary, with its end"] = 40
    width: Annotated[int, "size of a token's vector"] = 192
    encoder_layers: Annotated[int, "blocks that read the text"] = 2
    decoder_layers: Annotated[int, "blocks that write"] = 2
    heads: Annotated[int, "attention heads of a block"] = 4
    position: Annotated[str, "learned, sinusoidal, rotary or none"] = "sinusoidal"
    feed_forward: Annotated[str, "gelu, relu2 or swiglu"] = "relu2"
    norm: Annotated[str, "layer or rms"] = "rms"
    dropout: Annotated[float, "on embeddings, residual paths and attention weights"] = 0.1
    smoothing: Annotated[float, "share of each target that is spread over all tokens"] = 0.1

    def __post_init__(self) -> None:
        for name, least in (("text_tokens", 8), ("summary_tokens", 4)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is {self.smoothing}; give a share from 0 to below 1")

    def with_attention(self, spec: str, where: str = "encoder") -> SummaryModel:
        """The same with this mechanism in the encoder, or in all layers."""
        if where not in LAYERS:
            raise ValueError(f"where {where!r}; there are {', '.join(LAYERS)}")
        if where == "encoder":
            return replace(self, attention=spec)
        return replace(self, attention=spec, decoder_attention=spec, cross_attention=spec)

    def build(self, vocabulary: int, seed: int) -> Seq2Seq:
        """The model, untrained."""
        both = {
            "vocabulary": vocabulary,
            "width": self.width,
            "heads": self.heads,
            "position": self.position,
            "feed_forward": self.feed_forward,
            "norm": self.norm,
            "dropout": self.dropout,
            "bias": False,
        }
        torch.manual_seed(seed)
        model = Seq2Seq(
            Seq2SeqConfig(
                encoder=StackConfig(
                    context=self.text_tokens,
                    layers=self.encoder_layers,
                    attention=self.attention,
                    **both,  # type: ignore[arg-type]
                ),
                decoder=StackConfig(
                    context=self.summary_tokens,
                    layers=self.decoder_layers,
                    attention=self.decoder_attention,
                    **both,  # type: ignore[arg-type]
                ),
                cross_attention=self.cross_attention,
                share=True,
                copy=self.copy,
            )
        )
        # As large as sines and cosines: smaller, a token would drown in its position.
        nn.init.normal_(model.encoder.embedding.weight, std=1.0)
        return model


MODEL = SummaryModel()
TRAINING = Settings(
    minutes=30.0,
    batch_tokens=4096,
    optimizer="muon",
    learning_rate=4e-3,
    muon_learning_rate=0.02,
    weight_decay=0.0,
    schedule="wsd",
    decay_fraction=0.5,
    warmup_steps=50,
    evaluations=8,
)
