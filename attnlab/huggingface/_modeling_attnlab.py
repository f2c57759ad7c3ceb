"""A model of attnlab for transformers. Needs attnlab: pip install attnlab.

    AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

`attnlab export` writes this file beside the weights of models that transformers has no class for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import (
    CausalLMOutput,
    ImageClassifierOutput,
    MaskedLMOutput,
    Seq2SeqLMOutput,
)

from attnlab.models import create

IGNORED = -100  # a label that has no loss


class AttnlabConfig(PretrainedConfig):
    """`attnlab` describes the model, as in the config.json of attnlab's own folders."""

    model_type = "attnlab"

    def __init__(self, attnlab: dict[str, Any] | None = None, **settings: Any) -> None:
        self.attnlab = attnlab or {}
        super().__init__(**settings)


class AttnlabModel(PreTrainedModel):
    """An attnlab model inside a transformers model."""

    config_class = AttnlabConfig
    base_model_prefix = "model"
    model: nn.Module

    def __init__(self, config: AttnlabConfig) -> None:
        super().__init__(config)
        self.model = _build(config)
        first: dict[int, str] = {}
        self._tied_weights_keys = {}
        for name, parameter in self.named_parameters(remove_duplicate=False):
            if first.setdefault(id(parameter), name) != name:
                self._tied_weights_keys[name] = first[id(parameter)]
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """transformers empties the tables that no file has, such as rotary angles: fill them."""
        tables = module._non_persistent_buffers_set & module._buffers.keys()
        if tables:
            name = next(name for name, own in self.model.named_modules() if own is module)
            fresh = _build(self.config).get_submodule(name)
            for key in tables:
                module._buffers[key] = fresh._buffers[key]


def _build(config: Any) -> nn.Module:
    with torch.device("cpu"):  # not without memory: some tables are in no file
        return create(config.attnlab, "config.json")


def _keys(mask: Tensor | None) -> Tensor | None:
    """True for real tokens; None if all are."""
    if mask is None or bool(mask.all()):
        return None
    if not bool(mask[:, 0].all()):
        raise ValueError("attention_mask: the texts are padded on the left; pad them on the right")
    return mask.bool()


def _loss(logits: Tensor, labels: Tensor | None) -> Any:
    if labels is None:
        return None
    return nn.functional.cross_entropy(
        logits.flatten(0, -2).float(), labels.flatten(), ignore_index=IGNORED
    )


class AttnlabForCausalLM(AttnlabModel, GenerationMixin):
    """A decoder. It has no cache here, so `generate` reads the whole text for each token."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        logits = self.model(input_ids, _keys(attention_mask))
        loss = None if labels is None else _loss(logits[:, :-1], labels[:, 1:])
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class AttnlabForMaskedLM(AttnlabModel):
    """An encoder."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> MaskedLMOutput:
        has_types = self.config.attnlab.get("token_types") is not None
        types = {"types": token_type_ids} if has_types else {}
        logits = self.model(input_ids, _keys(attention_mask), **types)
        return MaskedLMOutput(loss=_loss(logits, labels), logits=logits)


class AttnlabForSeq2SeqLM(AttnlabModel):
    """An encoder-decoder. With a copy head, its logits are log-probabilities."""

    def forward(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput:
        keys = _keys(attention_mask), _keys(decoder_attention_mask)
        logits = self.model(input_ids, decoder_input_ids, *keys)
        return Seq2SeqLMOutput(loss=_loss(logits, labels), logits=logits)


class AttnlabForImageClassification(AttnlabModel):
    """An image model. Pixels are between 0 and 1."""

    main_input_name = "pixel_values"

    def forward(
        self, pixel_values: Tensor, labels: Tensor | None = None, **_: Any
    ) -> ImageClassifierOutput:
        logits = self.model(pixel_values)
        return ImageClassifierOutput(loss=_loss(logits, labels), logits=logits)
