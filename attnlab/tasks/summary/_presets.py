"""The default model and training settings for summaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import nn

from attnlab._help_groups import HelpGroup
from attnlab.models import Seq2Seq, Seq2SeqConfig, StackConfig
from attnlab.training import Settings

LAYERS = ("encoder", "all")
ATTENTION = ("attention", "decoder_attention", "cross_attention")


@dataclass(frozen=True)
class SummaryModel:
    """An encoder-decoder for texts. The command line's help is made from this."""

    attention: Annotated[
        str | list[str],
        "Attention mechanism of the encoder, or one name per layer. Options follow a colon, as in "
        "favor:features=64.",
        HelpGroup.MODEL,
        HelpGroup.COMMON,
    ] = "softmax"
    decoder_attention: Annotated[
        str | list[str],
        "Attention mechanism of the decoder's self-attention, or one name per layer.",
        HelpGroup.MODEL,
    ] = "softmax"
    cross_attention: Annotated[
        str, "Attention mechanism with which the decoder reads the text.", HelpGroup.MODEL
    ] = "softmax"
    copy: Annotated[
        bool, "Let the decoder copy words of the text (a pointer-generator).", HelpGroup.MODEL
    ] = True
    vocabulary: Annotated[
        int, "Number of token ids of the byte-pair tokenizer.", HelpGroup.MODEL
    ] = 8000
    text_tokens: Annotated[
        int, "Number of tokens to read of each text. The rest is cut off.", HelpGroup.MODEL
    ] = 96
    summary_tokens: Annotated[
        int, "Longest summary in tokens, with its end token.", HelpGroup.MODEL
    ] = 40
    width: Annotated[int, "Size of each token's vector.", HelpGroup.MODEL, HelpGroup.COMMON] = 192
    encoder_layers: Annotated[
        int, "Number of transformer blocks in the encoder.", HelpGroup.MODEL
    ] = 2
    decoder_layers: Annotated[
        int, "Number of transformer blocks in the decoder.", HelpGroup.MODEL
    ] = 2
    heads: Annotated[int, "Number of attention heads in each block.", HelpGroup.MODEL] = 4
    position: Annotated[
        str, "Position encoding: learned, sinusoidal, rotary or none.", HelpGroup.MODEL
    ] = "sinusoidal"
    feed_forward: Annotated[str, "Feed-forward layers: gelu, relu2 or swiglu.", HelpGroup.MODEL] = (
        "relu2"
    )
    norm: Annotated[str, "Normalization: layer (LayerNorm) or rms (RMSNorm).", HelpGroup.MODEL] = (
        "rms"
    )
    dropout: Annotated[
        float, "Dropout of embeddings, residual connections and attention weights.", HelpGroup.MODEL
    ] = 0.1
    smoothing: Annotated[
        float,
        "Label smoothing: the fraction of each target that is spread over all tokens.",
        HelpGroup.TRAINING,
    ] = 0.1

    def __post_init__(self) -> None:
        for name, least in (("text_tokens", 8), ("summary_tokens", 4)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is {self.smoothing}; give a fraction from 0 to below 1")

    def with_attention(self, spec: str, where: str = "encoder") -> SummaryModel:
        """A copy with this mechanism in the encoder or in all layers."""
        if where not in LAYERS:
            raise ValueError(f"where is {where!r}; choose {' or '.join(LAYERS)}")
        if where == "encoder":
            return replace(self, attention=spec)
        return replace(self, attention=spec, decoder_attention=spec, cross_attention=spec)

    def build(self, vocabulary: int, seed: int) -> Seq2Seq:
        """The untrained model."""
        shared = {
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
                    **shared,  # type: ignore[arg-type]
                ),
                decoder=StackConfig(
                    context=self.summary_tokens,
                    layers=self.decoder_layers,
                    attention=self.decoder_attention,
                    **shared,  # type: ignore[arg-type]
                ),
                cross_attention=self.cross_attention,
                share=True,
                copy=self.copy,
            )
        )
        # As large as sines and cosines; smaller embeddings would drown in the position.
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
