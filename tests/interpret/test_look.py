"""look, as you use it: a model, a text, a page."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import attnlab
from attnlab.interpret._capture_file import read
from attnlab.interpret._look import LookResult, look
from attnlab.interpret._options import LookOptions
from attnlab.interpret._page import render
from attnlab.interpret._records import InitialView, View
from attnlab.mechanisms import MECHANISMS
from attnlab.models import (
    ConvNet,
    ConvNetConfig,
    ViT,
    ViTConfig,
)
from tests.support.command_line import run
from tests.support.text_models import (
    TEXT,
    TOKENS,
    both_stacks,
    decoder,
    encoder,
    saved,
    write_image,
)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if MECHANISMS[name].card.causal])
def test_decoder_with_every_mechanism(name: str) -> None:
    result = look(decoder(name), TEXT, tokenizer=TOKENS, neurons=True, control=False)
    (panel,) = result.panels
    assert [len(layer.heads) for layer in panel.layers] == [3, 3]
    for layer in panel.layers:
        assert layer.weights is not None
        assert layer.weights.shape == (3, len(TEXT), len(TEXT))
        assert layer.weights.triu(1).abs().max() == 0
        assert layer.difference is not None
        assert layer.difference < 1e-4
    header, blocks = result.packed
    assert len(header["blocks"]) == len(blocks)
    assert len(render(header, blocks)) > 1000


@pytest.mark.parametrize("name", [n for n in MECHANISMS if MECHANISMS[n].card.bidirectional])
def test_encoder_with_every_mechanism(name: str) -> None:
    result = look(encoder(name), TEXT, tokenizer=TOKENS, control=False)
    assert all(layer.kind == "self" for layer in result.panels[0].layers)
    reason = result.panels[0].flow.reasons.get("rollout", "")
    card = MECHANISMS[name].card
    if card.signed or not card.rows_sum_to_one:
        assert name in reason
    else:
        assert reason == ""


def test_next_tokens_are_the_predictions_of_the_model() -> None:
    model = decoder()
    result = look(model, TEXT, tokenizer=TOKENS, generate=6)
    panel = result.panels[0]
    (sequence,) = panel.sequences
    assert sequence.prompt == len(TEXT)
    assert "".join(sequence.texts[: len(TEXT)]) == TEXT
    ids = TOKENS.encode("".join(sequence.texts))
    probabilities = model(torch.tensor([ids]))[0].softmax(-1).detach()
    assert panel.next_tokens is not None
    for position, best in enumerate(panel.next_tokens.top):
        assert best[0][1] == pytest.approx(float(probabilities[position].max()), abs=1e-6)
        assert best == sorted(best, key=lambda pair: -pair[1])
    for position in range(
        len(TEXT) - 1, len(ids) - 1
    ):  # greedy generation takes the likeliest token
        assert panel.next_tokens.actual[position] == pytest.approx(
            panel.next_tokens.top[position][0][1]
        )
    assert panel.next_tokens.actual[-1] is None
    assert panel.control is not None
    assert [len(patterns) for patterns in panel.control] == [3, 3]


def test_model_is_unchanged() -> None:
    model = decoder().train()
    model.head.eval()
    weight = next(model.parameters())
    weight.grad = torch.ones_like(weight)
    frozen = model.head.weight
    frozen.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    look(model, TEXT, tokenizer=TOKENS)
    assert torch.equal(weight.grad, torch.ones_like(weight))
    assert all(p.grad is None for p in model.parameters() if p is not weight)
    assert [p.requires_grad for p in model.parameters()].count(False) == 1
    assert not frozen.requires_grad
    assert [module for module in model.modules() if not module.training] == [model.head]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_gradient_target_is_the_last_prediction() -> None:
    result = look(decoder(), TEXT, tokenizer=TOKENS, control=False)
    flow = result.panels[0].flow
    assert flow.gradient is not None
    assert re.fullmatch(r"the logit of '.' after the last token", flow.target)
    without = look(decoder(), TEXT, tokenizer=TOKENS, control=False, gradients=False)
    assert without.panels[0].flow.gradient is None
    assert "gradient" in without.panels[0].flow.reasons


def test_pairs_and_segments() -> None:
    result = look(encoder(), "I am happy", pair="I am not", tokenizer=TOKENS)
    (sequence,) = result.panels[0].sequences
    assert sequence.segments is not None
    assert len(sequence.segments) == len(sequence.texts) == len("I am happy") + 1 + len("I am not")
    assert sequence.segments == sorted(sequence.segments)
    assert sequence.special.index(True) == len("I am happy")


def test_encoder_decoder_has_three_kinds_of_layers() -> None:
    result = look(both_stacks(), TEXT, tokenizer=TOKENS, pair="I am")
    panel = result.panels[0]
    kinds = [(layer.stack, layer.kind) for layer in panel.layers]
    assert kinds.count(("encoder", "self")) == kinds.count(("decoder", "self")) == 2
    assert kinds.count(("decoder", "cross")) == 2
    for layer, (queries, keys) in zip(panel.layers, panel.sequence_indices, strict=True):
        assert layer.weights is not None
        T, S = (len(panel.sequences[index].texts) for index in (queries, keys))
        assert layer.weights.shape == (3, T, S)
    generated = look(both_stacks(), TEXT, tokenizer=TOKENS, generate=4)
    assert generated.panels[0].sequences[1].prompt == 1


def test_images(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=2, heads=3))
    result = look(model, image=write_image(tmp_path / "a.png"))
    (sequence,) = result.panels[0].sequences
    assert sequence.image is not None
    assert sequence.image.pixels.shape == (12, 12, 3)
    assert sequence.texts == ["[class]", *(f"{r},{c}" for r in (1, 2, 3) for c in (1, 2, 3))]
    gray = ViT(ViTConfig(classes=5, image_size=12, channels=1, patch=4, width=24, heads=3))
    assert look(gray, image=tmp_path / "a.png").difference is not None


def test_comparisons() -> None:
    trained = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, generate=3)
    assert len(trained.panels) == 2
    assert trained.panels[0].sequences[0].texts == trained.panels[1].sequences[0].texts
    texts = look(decoder(), TEXT, tokenizer=TOKENS, compare_text="I am happy")
    assert "".join(texts.panels[1].sequences[0].texts) == "I am happy"
    models = look(decoder(), TEXT, tokenizer=TOKENS, compare=decoder("favor", layers=3))
    assert [len(panel.layers) for panel in models.panels] == [2, 3]
    with pytest.raises(ValueError, match="one of them"):
        look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, compare_text="b")


@pytest.mark.parametrize("make", [decoder, encoder])
def test_one_token(make: Any) -> None:
    result = look(make(), "t", tokenizer=TOKENS)
    assert result.packed[0]["sides"][0]["sequences"][0]["tokens"][0]["text"] == "t"


def test_fewer_layers_and_heads() -> None:
    result = look(decoder(), TEXT, tokenizer=TOKENS, layers=[1], heads=[2, 0])
    (layer,) = result.panels[0].layers
    assert (layer.name, layer.heads, layer.all_heads) == ("stack.blocks.1.attention", [2, 0], 3)
    assert "rollout" in result.panels[0].flow.reasons


def test_save_and_open_again(tmp_path: Path) -> None:
    result = look(decoder(), TEXT, tokenizer=TOKENS, neurons=True)
    result.save(tmp_path / "x.attnlab")
    again = look(tmp_path / "x.attnlab")
    assert again.capture.title == result.capture.title
    weights, saved_weights = (x.panels[0].layers[0].weights for x in (result, again))
    assert weights is not None
    assert saved_weights is not None
    assert (weights - saved_weights).abs().max() < 2e-5
    renamed = attnlab.look(tmp_path / "x.attnlab", title="another")
    assert isinstance(renamed, LookResult)
    renamed.save(tmp_path / "y.attnlab")
    assert renamed.packed[1] == result.packed[1]  # nothing was rounded twice
    assert read(tmp_path / "y.attnlab").title == "another"
    with pytest.raises(ValueError, match="takes no options besides title"):
        look(tmp_path / "x.attnlab", "a text")


def test_initial_view(tmp_path: Path) -> None:
    result = look(both_stacks(), TEXT, tokenizer=TOKENS, pair="I am")
    names = [layer.name for layer in result.panels[0].layers]
    opened = result.open_at("cross", names[-1])
    assert opened.capture.initial_view == InitialView("cross", len(names) - 1)
    opened.save(tmp_path / "one.attnlab")
    again = look(tmp_path / "one.attnlab")
    assert again.capture.initial_view == opened.capture.initial_view
    assert again.open_at("matrix").packed[0]["opening"] == {
        "view": "matrix", "layer": len(names) - 1, "head": None, "query": None,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"no view 'crosses'; give one of heads, "):
        result.open_at("crosses")
    with pytest.raises(ValueError, match=r"no layer 'copy'; give one of "):
        result.open_at("cross", "copy")


def test_views_match_the_front_end() -> None:
    sources = Path(__file__).parents[2] / "web" / "src" / "look" / "views"
    text = "".join(path.read_text() for path in sources.glob("*.ts"))
    assert sorted(re.findall(r"^  id: '(\w+)',$", text, re.M)) == sorted(get_args(View))


def test_page_escapes_tokens() -> None:
    result = look(decoder(), TEXT, tokenizer=TOKENS)
    result.panels[0].sequences[0].texts[0] = "</script><script>alert(1)</script>"
    result.panels[0].sequences[0].texts[1] = "<!--<img src=x onerror=alert(1)>\ud800\x00"
    result.capture.title = "</title><script>alert(2)</script>"
    page = render(*result.packed)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    inline = re.search(r'id="attnlab-header">(.*?)</script>', page, re.S)
    assert inline is not None
    texts = [token["text"] for token in json.loads(inline[1])["sides"][0]["sequences"][0]["tokens"]]
    assert texts[:2] == result.panels[0].sequences[0].texts[:2]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org)", page.replace("http-equiv", ""))


def test_look_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(decoder(), tmp_path / "gpt")
    code, out, error = run(f'look gpt --text "{TEXT}" --generate 3 --out a.html', capsys)
    assert (code, error) == (0, "")
    assert "2 layers, 6 heads" in out
    assert ", which rounding explains" in " ".join(out.split())
    assert "a.html" in out
    assert (tmp_path / "a.html").stat().st_size > 10_000
    code, out, error = run(f'look gpt --text "{TEXT}" --out a.html', capsys)
    assert code == 2
    assert "--overwrite" in error
    assert run(f'look gpt --text "{TEXT}" --neurons --out a.attnlab', capsys)[0] == 0
    assert len(read(tmp_path / "a.attnlab").panels) == 1
    assert run("look a.attnlab --out b.html", capsys)[0] == 0
    assert (tmp_path / "b.html").exists()


def test_summary_warns_of_differences_beyond_rounding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a capture file, and not because of a larger difference that rounding explains."""
    result = look(decoder(), TEXT, tokenizer=TOKENS)
    first, second = result.panels[0].layers
    first.difference, first.excess = 0.03, 0.5
    second.difference, second.excess, second.name = 0.0052, 1.5, "block \x1b[31m1"
    result.save(tmp_path / "a.attnlab")
    code, out, error = run(f"look {tmp_path}/a.attnlab --out {tmp_path}/a.html", capsys)
    assert (code, error) == (0, "")
    warning = "differ from the output of block \ufffd[31m1 by 5.2e-03, more than rounding explains"
    assert warning in " ".join(out.split())
    assert "which rounding explains" not in out


def test_run_that_answers_questions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It encodes the text as in training: a question, then the mask."""
    code, _, error = run(
        'look learned --text "Where was Ada born?" --generate 4 --out a.attnlab', capsys
    )
    assert (code, error) == (0, "")
    (sequence,) = read(here / "a.attnlab").panels[0].sequences
    assert sequence.prompt is not None
    assert sequence.texts[sequence.prompt - 1] == "⁇"


MISTAKES = [
    ("look nowhere --text a", ["nowhere", "does not exist"]),
    ("look gpt", ["gpt", "--text"]),
    ("look gpt --text ''", ["no tokens"]),
    ("look gpt --text a --image a.png", ["reads a text"]),
    ("look gpt --text a --pair b", ["second text"]),
    ("look gpt --text a --generate -1", ["--generate -1"]),
    ("look gpt --text aaaa --generate 37", ["--generate up to 36"]),
    ("look gpt --text a --generate 1000000000", ["exceeds --max-tokens 2048"]),
    ("look gpt --text a --out a.txt", ["a.txt", ".html"]),
    ("look gpt --text a --out missing/a.html", ["no folder missing"]),
    ("look gpt --text a --out gpt", ["is a folder"]),
    ("look gpt --text a --layers 7", ["layers=[7]"]),
    ("look gpt --text a --heads 9", ["heads=[9]"]),
    ("look gpt --text aaaaaaaa --max-tokens 5", ["8 tokens", "--max-tokens"]),
    ("look gpt --text aaaa --memory 0.0000001", ["2 layers (3 heads, 4 queries", "memory=1e-07"]),
    ("look gpt --text aaaa --memory -1", ["memory=-1", "above 0"]),
    (f"look gpt --text {'a' * 41}", ["41 tokens", "at most 40"]),
    ("look bert --text a --generate 3", ["generates no text"]),
    ("look vit --text a", ["--image"]),
    ("look vit --image broken.png", ["broken.png", "cannot be read as an image"]),
    ("look vit --image none.png", ["none.png"]),
    ("look conv --text a", ["no attention"]),
    ("look silent --text a", ["tokenizer.json"]),
    ("look empty --text a", ["empty"]),
    ("look broken.attnlab", ["broken.attnlab"]),
    ("look gpt --text a --untrained --compare-text b", ["one of them"]),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    saved(decoder(), folder / "gpt")
    saved(decoder(), folder / "silent", None)
    saved(encoder(), folder / "bert")
    saved(ViT(ViTConfig(classes=5, image_size=12, width=24, heads=3)), folder / "vit", None)
    saved(ConvNet(ConvNetConfig(classes=5)), folder / "conv", None)
    (folder / "empty").mkdir()
    (folder / "broken.png").write_bytes(b"no image")
    (folder / "broken.attnlab").write_bytes(b"attnlab-capture 1\n\xff\xff\xff")
    return folder


@pytest.mark.parametrize(("arguments", "messages"), MISTAKES, ids=[a for a, _ in MISTAKES])
def test_mistakes_print_one_line(
    arguments: str,
    messages: list[str],
    models: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(models)
    before = sorted(models.iterdir())
    code, _, error = run(arguments, capsys)
    assert code == 2, error
    assert error.count("\n") == 1
    for part in messages:
        assert part in error
    assert sorted(models.iterdir()) == before


# Options


def test_signature_lists_every_option() -> None:
    names = list(inspect.signature(attnlab.look).parameters)
    assert names[:2] == ["model", "text"]
    assert sorted(names[1:]) == sorted(field.name for field in fields(LookOptions))
    with pytest.raises(TypeError, match="neuron"):
        attnlab.look(decoder(), TEXT, tokenizer=TOKENS, neuron=True)


def test_capture_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "new.attnlab").write_bytes(b"attnlab-capture 2\n" + bytes(99))
    with pytest.raises(ValueError, match=r"new.attnlab: is a capture of another version; this att"):
        look(tmp_path / "new.attnlab")


def test_capture_file_takes_only_a_title(tmp_path: Path) -> None:
    path = look(decoder(), TEXT, tokenizer=TOKENS).save(tmp_path / "a.attnlab")
    assert look(path, title="new").capture.title == "new"
    for options in ({"layers": [0]}, {"generate": 1}, {"text": "a"}, {"compare": path}):
        with pytest.raises(ValueError, match="no options besides title"):
            look(path, **options)


def test_unsupported_models() -> None:
    for model in (3, torch.nn.Linear(2, 2)):
        with pytest.raises(ValueError, match=f"cannot look at {type(model).__name__}; give a fol"):
            look(model, TEXT)
