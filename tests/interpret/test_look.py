"""Look as a person uses it: a model, a text, a page."""

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
from attnlab.interpret._look import Looked, look
from attnlab.interpret._options import LookOptions
from attnlab.interpret._page import render
from attnlab.interpret._records import Opening, View
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
def test_a_decoder_of_every_mechanism(name: str) -> None:
    found = look(decoder(name), TEXT, tokenizer=TOKENS, neurons=True, control=False)
    (side,) = found.sides
    assert [len(layer.heads) for layer in side.layers] == [3, 3]
    for layer in side.layers:
        assert layer.weights is not None
        assert layer.weights.shape == (3, len(TEXT), len(TEXT))
        assert layer.weights.triu(1).abs().max() == 0
        assert layer.difference is not None
        assert layer.difference < 1e-4
    header, blocks = found.packed
    assert len(header["blocks"]) == len(blocks)
    assert len(render(header, blocks)) > 1000


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_an_encoder_of_every_mechanism(name: str) -> None:
    found = look(encoder(name), TEXT, tokenizer=TOKENS, control=False)
    assert all(layer.kind == "self" for layer in found.sides[0].layers)
    reason = found.sides[0].flow.reasons.get("rollout", "")
    card = MECHANISMS[name].card
    if card.signed or not card.rows_sum_to_one:
        assert name in reason
    else:
        assert reason == ""


def test_what_is_shown_is_what_the_model_does() -> None:
    model = decoder()
    found = look(model, TEXT, tokenizer=TOKENS, generate=6)
    side = found.sides[0]
    (sequence,) = side.sequences
    assert sequence.prompt == len(TEXT)
    assert "".join(sequence.texts[: len(TEXT)]) == TEXT
    ids = TOKENS.encode("".join(sequence.texts))
    likely = model(torch.tensor([ids]))[0].softmax(-1).detach()
    assert side.next is not None
    for place, best in enumerate(side.next.top):
        assert best[0][1] == pytest.approx(float(likely[place].max()), abs=1e-6)
        assert best == sorted(best, key=lambda pair: -pair[1])
    for place in range(len(TEXT) - 1, len(ids) - 1):  # greedy: the likeliest token came
        assert side.next.actual[place] == pytest.approx(side.next.top[place][0][1])
    assert side.next.actual[-1] is None
    assert side.control is not None
    assert [len(each) for each in side.control] == [3, 3]


def test_nothing_is_left_behind_in_the_model() -> None:
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


def test_gradient_weighted_attention_is_of_the_last_prediction() -> None:
    found = look(decoder(), TEXT, tokenizer=TOKENS, control=False)
    flow = found.sides[0].flow
    assert flow.gradient is not None
    assert re.fullmatch(r"the logit of '.' after the last token", flow.target)
    without = look(decoder(), TEXT, tokenizer=TOKENS, control=False, gradients=False)
    assert without.sides[0].flow.gradient is None
    assert "gradient" in without.sides[0].flow.reasons


def test_pairs_and_segments() -> None:
    found = look(encoder(), "I am happy", pair="I am not", tokenizer=TOKENS)
    (sequence,) = found.sides[0].sequences
    assert sequence.segments is not None
    assert len(sequence.segments) == len(sequence.texts) == len("I am happy") + 1 + len("I am not")
    assert sequence.segments == sorted(sequence.segments)
    assert sequence.special.index(True) == len("I am happy")


def test_an_encoder_decoder_has_three_kinds_of_layers() -> None:
    found = look(both_stacks(), TEXT, tokenizer=TOKENS, pair="I am")
    side = found.sides[0]
    kinds = [(layer.stack, layer.kind) for layer in side.layers]
    assert kinds.count(("encoder", "self")) == kinds.count(("decoder", "self")) == 2
    assert kinds.count(("decoder", "cross")) == 2
    for layer, (queries, keys) in zip(side.layers, side.places, strict=True):
        assert layer.weights is not None
        T, S = (len(side.sequences[place].texts) for place in (queries, keys))
        assert layer.weights.shape == (3, T, S)
    written = look(both_stacks(), TEXT, tokenizer=TOKENS, generate=4)
    assert written.sides[0].sequences[1].prompt == 1


def test_images(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=2, heads=3))
    found = look(model, image=write_image(tmp_path / "a.png"))
    (sequence,) = found.sides[0].sequences
    assert sequence.picture is not None
    assert sequence.picture.pixels.shape == (12, 12, 3)
    assert sequence.texts == ["[class]", *(f"{r},{c}" for r in (1, 2, 3) for c in (1, 2, 3))]
    gray = ViT(ViTConfig(classes=5, image_size=12, channels=1, patch=4, width=24, heads=3))
    assert look(gray, image=tmp_path / "a.png").difference is not None


def test_comparisons() -> None:
    trained = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, generate=3)
    assert len(trained.sides) == 2
    assert trained.sides[0].sequences[0].texts == trained.sides[1].sequences[0].texts
    texts = look(decoder(), TEXT, tokenizer=TOKENS, compare_text="I am happy")
    assert "".join(texts.sides[1].sequences[0].texts) == "I am happy"
    models = look(decoder(), TEXT, tokenizer=TOKENS, compare=decoder("favor", layers=3))
    assert [len(side.layers) for side in models.sides] == [2, 3]
    with pytest.raises(ValueError, match="one of them"):
        look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, compare_text="b")


@pytest.mark.parametrize("make", [decoder, encoder])
def test_one_token(make: Any) -> None:
    found = look(make(), "t", tokenizer=TOKENS)
    assert found.packed[0]["sides"][0]["sequences"][0]["tokens"][0]["text"] == "t"


def test_fewer_layers_and_heads() -> None:
    found = look(decoder(), TEXT, tokenizer=TOKENS, layers=[1], heads=[2, 0])
    (layer,) = found.sides[0].layers
    assert (layer.name, layer.heads, layer.all_heads) == ("stack.blocks.1.attention", [2, 0], 3)
    assert "rollout" in found.sides[0].flow.reasons


def test_saved_and_opened_again(tmp_path: Path) -> None:
    found = look(decoder(), TEXT, tokenizer=TOKENS, neurons=True)
    found.save(tmp_path / "x.attnlab")
    again = look(tmp_path / "x.attnlab")
    assert again.capture.title == found.capture.title
    mine, theirs = found.sides[0].layers[0].weights, again.sides[0].layers[0].weights
    assert mine is not None
    assert theirs is not None
    assert (mine - theirs).abs().max() < 2e-5
    renamed = attnlab.look(tmp_path / "x.attnlab", title="another")
    assert isinstance(renamed, Looked)
    renamed.save(tmp_path / "y.attnlab")
    assert renamed.packed[1] == found.packed[1]  # nothing was rounded twice
    assert read(tmp_path / "y.attnlab").title == "another"
    with pytest.raises(ValueError, match="shown as it is"):
        look(tmp_path / "x.attnlab", "a text")


def test_what_a_page_opens_on(tmp_path: Path) -> None:
    seen = look(both_stacks(), TEXT, tokenizer=TOKENS, pair="I am")
    names = [layer.name for layer in seen.sides[0].layers]
    chosen = seen.opening("cross", names[-1])
    assert seen.capture.opening is None
    assert chosen.capture.opening == Opening("cross", len(names) - 1)
    chosen.save(tmp_path / "one.attnlab")
    again = look(tmp_path / "one.attnlab")
    assert again.capture.opening == chosen.capture.opening
    assert again.opening("matrix").packed[0]["opening"] == {"view": "matrix", "layer": 0}
    with pytest.raises(ValueError, match=r"no view 'crosses'; there are heads, "):
        seen.opening("crosses")
    with pytest.raises(ValueError, match=r"no layer 'copy'; there are "):
        seen.opening("cross", "copy")


def test_views_are_those_of_the_page() -> None:
    sources = Path(__file__).parents[2] / "web" / "src" / "look" / "views"
    text = "".join(path.read_text() for path in sources.glob("*.ts"))
    assert sorted(re.findall(r"^  id: '(\w+)',$", text, re.M)) == sorted(get_args(View))


def test_a_page_holds_no_code_of_a_token() -> None:
    found = look(decoder(), TEXT, tokenizer=TOKENS)
    found.sides[0].sequences[0].texts[0] = "</script><script>alert(1)</script>"
    found.sides[0].sequences[0].texts[1] = "<!--<img src=x onerror=alert(1)>\ud800\x00"
    found.capture.title = "</title><script>alert(2)</script>"
    page = render(*found.packed)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    inline = re.search(r'id="attnlab-header">(.*?)</script>', page, re.S)
    assert inline is not None
    texts = [token["text"] for token in json.loads(inline[1])["sides"][0]["sequences"][0]["tokens"]]
    assert texts[:2] == found.sides[0].sequences[0].texts[:2]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org)", page.replace("http-equiv", ""))


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(decoder(), tmp_path / "gpt")
    code, out, error = run(f'look gpt --text "{TEXT}" --generate 3 --out a.html', capsys)
    assert (code, error) == (0, "")
    assert "2 layers, 6 heads" in out
    assert "at most, which rounding explains" in " ".join(out.split())
    assert "a.html" in out
    assert (tmp_path / "a.html").stat().st_size > 10_000
    code, out, error = run(f'look gpt --text "{TEXT}" --out a.html', capsys)
    assert code == 2
    assert "--overwrite" in error
    assert run(f'look gpt --text "{TEXT}" --neurons --out a.attnlab', capsys)[0] == 0
    assert len(read(tmp_path / "a.attnlab").sides) == 1
    assert run("look a.attnlab --out b.html", capsys)[0] == 0
    assert (tmp_path / "b.html").exists()


def test_the_summary_warns_of_what_rounding_does_not_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a capture file, and not because of a larger difference that is explained."""
    found = look(decoder(), TEXT, tokenizer=TOKENS)
    first, second = found.sides[0].layers
    first.difference, first.excess = 0.03, 0.5
    second.difference, second.excess, second.name = 0.0052, 1.5, "block \x1b[31m1"
    found.save(tmp_path / "a.attnlab")
    code, out, error = run(f"look {tmp_path}/a.attnlab --out {tmp_path}/a.html", capsys)
    assert (code, error) == (0, "")
    said = "differ from what block \ufffd[31m1 gave by 5.2e-03, more than rounding explains"
    assert said in " ".join(out.split())
    assert "which rounding explains" not in out


def test_a_run_that_answers_questions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its text is read as in training: a question, then the mask."""
    code, _, error = run(
        'look learned --text "Where was Ada born?" --generate 4 --out a.attnlab', capsys
    )
    assert (code, error) == (0, "")
    (sequence,) = read(here / "a.attnlab").sides[0].sequences
    assert sequence.prompt is not None
    assert sequence.texts[sequence.prompt - 1] == "⁇"


MISTAKES = [
    ("look nowhere --text a", ["nowhere", "not there"]),
    ("look gpt", ["gpt", "--text"]),
    ("look gpt --text ''", ["no token"]),
    ("look gpt --text a --image a.png", ["reads a text"]),
    ("look gpt --text a --pair b", ["second text"]),
    ("look gpt --text a --generate -1", ["--generate -1"]),
    ("look gpt --text aaaa --generate 37", ["--generate up to 36"]),
    ("look gpt --text a --generate 1000000000", ["--max-tokens is 2048"]),
    ("look gpt --text a --out a.txt", ["a.txt", ".html"]),
    ("look gpt --text a --out missing/a.html", ["no folder missing"]),
    ("look gpt --text a --out gpt", ["is a folder"]),
    ("look gpt --text a --layers 7", ["layers=[7]"]),
    ("look gpt --text a --heads 9", ["heads=[9]"]),
    ("look gpt --text aaaaaaaa --max-tokens 5", ["8 tokens", "--max-tokens"]),
    ("look gpt --text aaaa --memory 0.0000001", ["2 layers (3 heads, 4 queries", "memory=1e-07"]),
    ("look gpt --text aaaa --memory -1", ["memory=-1", "above 0"]),
    (f"look gpt --text {'a' * 41}", ["41 tokens", "at most 40"]),
    ("look bert --text a --generate 3", ["writes nothing"]),
    ("look vit --text a", ["--image"]),
    ("look vit --image broken.png", ["broken.png", "no image"]),
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
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "broken.attnlab").write_bytes(b"attnlab-capture 1\n\xff\xff\xff")
    return folder


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[a for a, _ in MISTAKES])
def test_mistakes_are_one_line(
    arguments: str,
    said: list[str],
    models: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(models)
    before = sorted(models.iterdir())
    code, _, error = run(arguments, capsys)
    assert code == 2, error
    assert error.count("\n") == 1
    for part in said:
        assert part in error
    assert sorted(models.iterdir()) == before


# Options


def test_the_signature_names_every_option() -> None:
    names = list(inspect.signature(attnlab.look).parameters)
    assert names[:2] == ["model", "text"]
    assert sorted(names[1:]) == sorted(each.name for each in fields(LookOptions))
    with pytest.raises(TypeError, match="neuron"):
        attnlab.look(decoder(), TEXT, tokenizer=TOKENS, neuron=True)


def test_a_capture_of_another_version_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "new.attnlab").write_bytes(b"attnlab-capture 2\n" + bytes(99))
    with pytest.raises(ValueError, match=r"new.attnlab: is a capture of another version; this att"):
        look(tmp_path / "new.attnlab")


def test_a_capture_takes_only_a_title(tmp_path: Path) -> None:
    path = look(decoder(), TEXT, tokenizer=TOKENS).save(tmp_path / "a.attnlab")
    assert look(path, title="mine").capture.title == "mine"
    for options in ({"layers": [0]}, {"generate": 1}, {"text": "a"}, {"compare": path}):
        with pytest.raises(ValueError, match="give only a title"):
            look(path, **options)


def test_what_no_library_knows() -> None:
    for model in (3, torch.nn.Linear(2, 2)):
        with pytest.raises(ValueError, match=f"cannot look at {type(model).__name__}; give a fol"):
            look(model, TEXT)
