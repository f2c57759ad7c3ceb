"""Errors that a sweep over all families of models found, each with the smallest model."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnlab
from attnlab.huggingface._attention_settings import FIELD, configs_of, restoring_implementations
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel
from attnlab.huggingface._layer_mechanisms import layer_number
from attnlab.interpret._look import look
from attnlab.interpret._loss_check import frequency_loss, loss_note
from tests.support.small_transformers import inputs, small, transformers
from tests.support.text_models import write_image
from tests.support.transformers_with_tokenizers import TEXT, byte_pairs, llama

BaseModelOutput: Any = transformers.modeling_outputs.BaseModelOutput
VISION = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 12,
    "patch_size": 4,
}  # fmt: skip


# A capture leaves the model as it was


def two_towers() -> Any:
    """Its configuration holds two others; changing it changes them."""
    config = transformers.CLIPConfig(
        text_config={"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3,
                     "intermediate_size": 30, "vocab_size": 60},
        vision_config={**VISION, "intermediate_size": 30}, projection_dim=8,
    )  # fmt: skip
    return transformers.CLIPModel(config).eval()


def test_implementations_are_restored_one_by_one() -> None:
    model = two_towers()
    setattr(model.config.text_config, FIELD, "eager")
    before = [getattr(config, FIELD) for config in configs_of(model)]
    assert sorted(before) == ["eager", "sdpa", "sdpa"]
    with restoring_implementations(model) as configs:
        model.config._attn_implementation = "eager"  # cascades
        assert {getattr(config, FIELD) for config in configs} == {"eager"}
    assert [getattr(config, FIELD) for config in configs_of(model)] == before


class OwnModel(transformers.PreTrainedModel):
    """Computes its attention itself; a configuration inside its own belongs to no module."""

    config_class = transformers.CLIPConfig
    main_input_name = "x"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.attention = ReturningAttention()

    def forward(self, x: Tensor, output_attentions: bool = False, return_dict: bool = True) -> Any:
        del return_dict
        out, weights = self.attention(x)
        attentions = (weights,) if output_attentions else None
        return BaseModelOutput(last_hidden_state=out, attentions=attentions)


class ReturningAttention(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = (x @ x.mT).softmax(-1)
        return weights @ x, weights


def test_capture_restores_a_configuration_that_no_module_holds() -> None:
    """In DETR-like models; restoring the outer configuration changed the inner ones."""
    config = transformers.CLIPConfig()
    model = OwnModel(config).eval()
    setattr(config, FIELD, "eager")
    setattr(config.text_config, FIELD, "sdpa")
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(torch.randn(1, 3, 5, 7))
    assert len(captured.layers) == 1
    assert (getattr(config, FIELD), getattr(config.text_config, FIELD)) == ("eager", "sdpa")


# Backbones and other outputs


@pytest.mark.parametrize("kind", ["Dinov2", "Beit"])
def test_backbones_return_feature_maps(kind: str, tmp_path: Path) -> None:
    options = {"out_features": ["stage1"]} if kind == "Dinov2" else {"out_indices": [1]}
    config = getattr(transformers, f"{kind}Config")(**VISION, intermediate_size=30, **options)
    model = getattr(transformers, f"{kind}Backbone")(config).eval()
    processor = transformers.ViTImageProcessor(size={"height": 12, "width": 12})
    result = look(
        model, image=write_image(tmp_path / "image.png"), tokenizer=processor, control=False
    )
    assert len(result.panels[0].layers) == 2
    assert result.difference is not None
    assert result.difference < 1e-5


def test_logits_in_a_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in MGP-STR, which has logits for characters, byte pairs and word pieces."""
    model = llama()
    forward = model.forward

    @functools.wraps(forward)
    def in_tuple(*args: Any, **options: Any) -> Any:
        out = forward(*args, **options)
        return type(out)(logits=(out.logits, out.logits))

    monkeypatch.setattr(model, "forward", in_tuple)
    inspected = InspectedHuggingFaceModel(model, byte_pairs(), "llama")
    result = look(inspected, TEXT, control=False)
    assert result.panels[0].next_tokens is not None


def test_model_that_allows_no_gradient() -> None:
    """RWKV changes its state in place: the page has no gradients, and says why."""
    model = llama()

    def change_in_place(*arguments: Any) -> Any:
        output = arguments[-1]
        squared = output.square()
        output.mul_(2)
        return squared

    model.model.norm.register_forward_hook(change_in_place)
    result = look(model, TEXT, tokenizer=byte_pairs(), control=False)
    assert result.panels[0].flow.gradient is None
    assert any(note.startswith("No gradients: ") for note in result.capture.notes)
    assert not any("call backward" in note for note in result.capture.notes)


# Layers


def test_layer_number_below_zero() -> None:
    """Zamba 2's shared layer: a seed must not be negative."""
    layer = nn.Linear(2, 2)
    layer.layer_idx = -1  # type: ignore[assignment]
    assert layer_number(layer) >= 0


def test_self_and_cross_attention_of_a_perceiver() -> None:
    config = transformers.PerceiverConfig(
        num_latents=3, d_latents=16, d_model=8, num_blocks=1, num_self_attends_per_block=2,
        num_self_attention_heads=2, num_cross_attention_heads=2, vocab_size=60,
        max_position_embeddings=7,
    )  # fmt: skip
    model = transformers.PerceiverForMaskedLM(config).eval()
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(inputs=torch.randint(0, 60, (1, 7)))
    for layer in captured.layers:
        assert layer.kind == ("cross" if "cross" in layer.name else "self")
        assert layer.weights is not None
        if layer.kind == "self":
            assert layer.weights.shape[1:] == torch.Size([3, 3])
    assert [layer.kind for layer in captured.layers] == ["cross", "self", "self", "cross"]
    assert captured.layers[0].weights is not None
    assert captured.layers[0].weights.shape[1:] == (3, 7)


class TimmTower(transformers.PreTrainedModel):
    """As transformers' wrapper of timm: it refuses to return attentions."""

    config_class = transformers.BertConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.attention = TowerAttention()

    def forward(self, x: Tensor, output_attentions: bool = False) -> Any:
        if output_attentions:
            raise ValueError("Cannot set `output_attentions` for timm models.")
        return self.attention(x)


class TowerAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


class TwoModels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower, self.bert = TimmTower(transformers.BertConfig()), small("bert")

    def forward(self, **batch: Any) -> Any:
        self.tower(torch.randn(2, 3, 5, 7))
        return self.bert(**batch)


def test_a_timm_tower_is_captured_beside_the_rest() -> None:
    model = TwoModels().eval()
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(**inputs("bert"))
    names = [layer.name for layer in captured.layers]
    assert names[0] == "tower.attention"
    assert len(names) == 3
    assert captured.difference is not None
    assert captured.difference < 1e-5


def test_layers_of_a_hybrid_keep_their_places() -> None:
    """test_recurrent_layers.py has layers of neither kind, which a note names."""
    config = transformers.JambaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=24, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, attn_layer_period=2, attn_layer_offset=1,
        expert_layer_period=2, expert_layer_offset=1, num_experts=2, use_mamba_kernels=False,
        mamba_d_state=4, mamba_dt_rank=4,
    )  # fmt: skip
    model = transformers.JambaForCausalLM(config).eval()
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(torch.randint(0, 60, (1, 5)), use_cache=False)
    assert [(layer.name, layer.mechanism) for layer in captured.layers] == [
        ("model.layers.0.mamba", "mamba"), ("model.layers.1.self_attn", "softmax"),
        ("model.layers.2.mamba", "mamba"), ("model.layers.3.self_attn", "softmax"),
    ]  # fmt: skip
    assert not captured.notes


def test_rows_of_a_tower_that_packs_the_batch() -> None:
    """One image for two texts: the second row's tower is that of the first."""
    model = two_towers()
    batch = {"input_ids": torch.randint(0, 60, (2, 5)), "pixel_values": torch.randn(1, 3, 12, 12)}
    with torch.no_grad(), attnlab.capture(model, row=1) as captured:
        model(**batch)
    towers = [layer for layer in captured.layers if "vision" in layer.name]
    assert len(towers) == 2
    assert all(layer.weights is not None and "of 2 inputs" in layer.note for layer in towers)


# The loss is far above what frequencies give


def test_loss_note() -> None:
    ids = tuple(range(5, 14))
    good = torch.zeros(9, 50)
    good[torch.arange(8), torch.tensor(ids[1:])] = 5.0
    assert loss_note("m", good, ids) == []
    assert loss_note("m", torch.zeros(9, 50), ids) == []  # as good as no knowledge
    wrong = torch.zeros(9, 50)
    wrong[:, 40] = 20.0  # sure of something else
    (note,) = loss_note("m", wrong, ids)
    assert note.startswith("m: its loss on this text is 20.0")
    assert loss_note("m", wrong, ids[:4]) == []


def test_frequency_loss_is_a_mean_over_a_distribution() -> None:
    """The probabilities by Zipf's law sum to 1."""
    losses = [frequency_loss(torch.tensor([index]), 30) for index in range(30)]
    assert float((-torch.tensor(losses)).exp().sum()) == pytest.approx(1)
    assert losses == sorted(losses)
