"""Layers have one number everywhere, also where layers between them have no attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

import attnlab
from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._look import look
from attnlab.interpret._records import HeadPattern
from attnlab.interpret._terminal_summary import print_summary
from tests.support.command_line import run
from tests.support.small_transformers import transformers
from tests.support.text_models import TOKENS, both_stacks
from tests.support.transformers_with_tokenizers import word_tokenizer

TEXT, IDS = "w7 w8 w9 w7 w8", torch.tensor([[7, 8, 9, 7, 8]])
LAST = "model.layers.2.self_attn"


def hybrid() -> Any:
    """A convolution in layer 0, attention in layers 1 and 2."""
    config = transformers.Lfm2Config(
        vocab_size=30, hidden_size=24, intermediate_size=40, num_attention_heads=3,
        num_key_value_heads=1, num_hidden_layers=3, block_multiple_of=8,
        layer_types=["conv", "full_attention", "full_attention"],
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Lfm2ForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def test_interventions_and_their_results() -> None:
    model, ids = hybrid(), IDS[0].tolist()
    with attnlab.intervene(model).ablate(LAST, 1):
        expected = model(IDS).logits
    with attnlab.intervene(model).ablate(2, 1):
        assert torch.equal(model(IDS).logits, expected)
    with pytest.raises(ValueError, match=r"no layer 0; give one of 1, 2 or a name"):
        attnlab.intervene(model).ablate(0)
    importance = attnlab.head_importance(model, [ids], metric="distance", heads=[(2, 1)])
    assert (importance.heads[0].layer, importance.numbers) == (2, [1, 2])
    assert importance.effects[1] == [None, importance.heads[0].effect, None]
    whole = model(IDS).logits
    assert importance.heads[0].effect == pytest.approx(
        float((expected - whole).norm() / whole.norm())
    )
    assert "2.1" in str(importance.report().sections[0].blocks)
    with pytest.raises(ValueError, match=r"no layer 0; give one of 1, 2"):
        attnlab.head_importance(model, [ids], heads=[(0, 1)])
    cache = attnlab.record(model, ids)
    assert "2.heads" in cache.names()
    with attnlab.intervene(model).ablate(2, 1):
        assert not cache["2.heads"][1].equal(attnlab.record(model, ids)["2.heads"][1])
    with pytest.raises(ValueError, match=r"'0.heads'; give LAYER.PART with one of 1, 2 for"):
        cache["0.heads"]
    scored = attnlab.find_heads(model, "previous", [ids], threshold=1e-6)
    assert scored.numbers == [1, 2]
    assert {head.layer for head in scored.heads} <= {1, 2}
    assert attnlab.average(model, [ids], 2, 0).layer_name == LAST
    terms = attnlab.attribute(model, ids, 5).terms
    assert {term.layer for term in terms if term.kind == "head"} == {1, 2}


def test_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = hybrid(), word_tokenizer(30)
    seen = look(model, TEXT, tokenizer=tokenizer, walkthrough="2.1.3")
    walk = seen.panels[0].walkthrough
    assert walk is not None
    assert seen.panels[0].layers[walk.layer].name == LAST
    assert seen.data(layer=2, head=1) == seen.data(layer=LAST, head=1)
    with pytest.raises(ValueError, match=r"no layer 0; give one of 1, 2, or a name"):
        seen.data(layer=0)
    seen.panels[0].patterns[1][0] = HeadPattern("previous token", {"previous token": 0.9})
    print_summary(seen, seen.save(tmp_path / "seen.html"))
    assert "2.0 0.90" in capsys.readouterr().out
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    command = f"look {tmp_path}/model --text '{TEXT}' --without 2.1 --out {tmp_path}/a.html"
    code, printed, _ = run(command, capsys)
    assert code == 0
    assert "without 2.1" in printed
    (tmp_path / "text.txt").write_text(f"{TEXT} " * 40)
    options = f"--importance --text {tmp_path}/text.txt --tokens 16 --windows 1"
    code, printed, errors = run(f"heads {tmp_path}/model {options}", capsys)
    assert (code, errors) == (0, "")
    assert "Head 1." in printed or "Head 2." in printed
    assert all(f" 2.{head} " in printed for head in range(3))


def test_an_encoder_and_a_decoder_are_counted_through() -> None:
    model, pairs = both_stacks(), [("the dog", "I am")]
    scored = attnlab.find_heads(model, "first", cast(Any, pairs), tokenizer=TOKENS)
    names = [site.name for site in attention_sites(model)]
    assert [names[number] for number in scored.numbers] == scored.layers
    assert scored.numbers[0] > 0
