"""What a replacement leaves on a model and on its copies, and what an interruption leaves."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack

import attnlab
from attnlab.huggingface import attend_with, register
from tests.support.small_transformers import BOTH, WORDS, inputs, small, transformers

register()
IDS = torch.tensor([[5, 6, 7, 8, 9]])


def eager_only() -> Any:
    """NLLB's mixture of experts supports only eager attention."""
    torch.manual_seed(0)
    experts = {"num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
    config = transformers.NllbMoeConfig(**{**WORDS, **BOTH, **experts})
    model = transformers.NllbMoeModel(config).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model


def output(model: Any) -> Tensor:
    with torch.no_grad():
        x: Tensor = model(input_ids=IDS, decoder_input_ids=IDS).last_hidden_state
    return x


def test_copies_of_an_eager_only_model_compute_the_same(tmp_path: Path) -> None:
    """A copy forgot that without a mask its layers see every key."""
    model = eager_only()
    plain = output(model)
    model.set_attn_implementation("attnlab-softmax")
    replaced = output(model)
    assert torch.allclose(replaced, plain, atol=1e-5)
    assert torch.equal(output(copy.deepcopy(model)), replaced)
    assert torch.equal(output(pickle.loads(pickle.dumps(model))), replaced)
    model.config.save_pretrained(tmp_path)
    assert "attnlab" not in (tmp_path / "config.json").read_text()
    assert "attnlab" not in str(model.config.to_dict())


@pytest.mark.parametrize("implementation", ["eager", "attnlab-softmax"])
def test_an_interruption_turns_the_tracer_off(implementation: str) -> None:
    """Ctrl-C inside a layer left every later product and softmax of the process traced."""
    model = small("bloom", implementation)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    model.transformer.h[0].self_attention.dense.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt), attnlab.capture(model):
        model(IDS)
    assert not _get_current_function_mode_stack()


def test_nothing_is_left_on_a_model() -> None:
    model = small("bloom")
    before = [set(vars(module)) for module in model.modules()]
    with attend_with(model, "softmax"), attnlab.capture(model), torch.no_grad():
        model(IDS)
    model.set_attn_implementation("attnlab-softmax")
    model.set_attn_implementation("eager")
    assert [set(vars(module)) for module in model.modules()] == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_replacement_in_a_capture_outlasts_it() -> None:
    """The capture removed the hooks that it shared with the replacement."""
    model, ids = small("gptj"), inputs("gptj")["input_ids"]
    with torch.no_grad():
        expected = small("gptj", "attnlab-elu")(ids).logits
        with attnlab.capture(model):
            model(ids)
            model.set_attn_implementation("attnlab-elu")
        assert torch.equal(model(ids).logits, expected)


def test_a_forward_of_somebody_else_stays() -> None:
    model = small("bloom")
    layer, count = model.transformer.h[0].self_attention, 0

    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return type(layer).forward(layer, *args, **kwargs)

    layer.forward = forward
    with attend_with(model, "softmax"):
        model(IDS)
    assert count == 1
    assert layer.forward is forward
    del layer.forward
    model.set_attn_implementation("attnlab-softmax")
    inner = layer.forward
    layer.forward = lambda *args, **kwargs: inner(*args, **kwargs)  # accelerate does it
    with attnlab.capture(model) as captured:
        model(IDS)
    assert len(captured.layers) == len(model.transformer.h)


def test_a_dictionary_sets_the_implementation_too() -> None:
    """It changed nothing in layers that compute their attention themselves, and raised nothing."""
    model, ids = small("gptj"), inputs("gptj")["input_ids"]
    with torch.no_grad():
        expected = small("gptj", "attnlab-elu")(ids).logits
        model.set_attn_implementation({"": "attnlab-elu"})
        assert torch.equal(model(ids).logits, expected)
        model.set_attn_implementation({"": "eager"})
        assert torch.equal(model(ids).logits, small("gptj")(ids).logits)
    with pytest.raises(ValueError, match="LongformerModel: computes a band around the diagonal"):
        small("longformer").set_attn_implementation({"": "attnlab-softmax"})
    with pytest.raises(ValueError, match=r"computes its attention itself.*give one name"):
        model.set_attn_implementation({"": "eager", "text_config": {"": "attnlab-elu"}})
