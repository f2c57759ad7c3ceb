"""Effects in a capture: against ablations made by hand, through files, and when heads are off."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.interpret import _key_effects
from attnlab.interpret._capture_file import read
from attnlab.interpret._head_switches import SwitchRequest
from attnlab.interpret._key_effects import rank_correlation
from attnlab.interpret._look import look
from attnlab.interpret._records import Effects
from attnlab.models import ViT, ViTConfig
from tests.support.command_line import run
from tests.support.text_models import TOKENS, both_stacks, decoder, encoder, saved, write_image

TEXT = "the dog ran"
MODEL = decoder()


def effects_of(model: Any = MODEL, text: str | None = TEXT, **options: Any) -> Effects:
    settings = {"tokenizer": TOKENS, "effects": True, "control": False, **options}
    effects = look(model, text, **settings).panels[0].effects
    assert effects is not None
    return effects


def log_probabilities(ids: list[int]) -> Tensor:
    """(T,) of each next token; after the last one the likeliest of the whole model."""
    logits = MODEL(torch.tensor([ids]))[0].detach()
    with torch.no_grad():
        best = WHOLE.argmax(-1)[-1:]
    following = torch.cat([torch.tensor(ids[1:]), best])
    return logits.log_softmax(-1).gather(1, following[:, None])[:, 0]


IDS = TOKENS.encode(TEXT)
WHOLE = MODEL(torch.tensor([IDS]))[0].detach()
BEFORE = log_probabilities(IDS)
EFFECTS = effects_of()


@pytest.mark.parametrize(("layer", "head"), [(0, 2), (1, 1)])
def test_effects_of_heads_equal_ablations(layer: int, head: int) -> None:
    with attnlab.intervene(MODEL).ablate(layer, head):
        after = log_probabilities(IDS)
    rows = EFFECTS.heads[layer]
    assert rows is not None
    assert torch.allclose(rows[head], after - BEFORE, atol=1e-5)
    assert float(rows[head].abs().max()) > 1e-3
    probabilities = [target.probability for target in EFFECTS.targets]
    assert torch.allclose(torch.tensor(probabilities), BEFORE.exp(), atol=1e-5)
    assert torch.equal(MODEL(torch.tensor([IDS]))[0].detach(), WHOLE)  # no hook is left


@pytest.mark.parametrize("key", [0, 4, len(IDS) - 1])
def test_effects_of_keys_equal_cuts(key: int) -> None:
    def cut(A: Tensor) -> Tensor:
        A[:, -1, key] = 0
        A[:, -1] /= A[:, -1].sum(-1, keepdim=True)
        return A

    change = attnlab.intervene(MODEL)
    for layer in (0, 1):
        change = change.weights(layer, [0, 1, 2], cut)
    with change:
        after = log_probabilities(IDS)
    assert EFFECTS.keys is not None
    point = EFFECTS.keys.points[key]
    assert (point.sequence, point.position) == (0, key)
    assert point.effect == pytest.approx(float(after[-1] - BEFORE[-1]), abs=1e-5)
    with attnlab.capture(MODEL) as captured:
        MODEL(torch.tensor([IDS]))
    weights = [layer.weights for layer in captured.layers if layer.weights is not None]
    assert point.weight == pytest.approx(float(torch.cat(weights)[:, -1, key].mean()), abs=1e-6)


def test_few_of_many_keys_are_chosen_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_key_effects, "MAX_KEYS", 4)
    keys = effects_of().keys
    assert keys is not None
    assert (len(keys.points), keys.all_keys) == (4, len(IDS))
    weights = [point.weight for point in EFFECTS.keys.points] if EFFECTS.keys else []
    chosen = [point.weight for point in keys.points]
    assert {min(weights), max(weights)} <= set(chosen)


def test_rank_correlation() -> None:
    x = torch.tensor([0.1, 5.0, 2.0, 9.0])
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    assert rank_correlation(x, torch.tensor([1.0, 2.0, 2.0, 3.0])) == pytest.approx(0.9486833)
    assert rank_correlation(x, torch.ones(4)) is None
    assert rank_correlation(x[:1], x[:1]) is None


def test_the_lens_equals_that_of_the_function() -> None:
    lens = EFFECTS.lens
    assert lens is not None
    expected = attnlab.logit_lens(MODEL, IDS)
    assert expected.logits is not None
    p = expected.logits.softmax(-1)  # (L, T, V)
    assert lens.layers == expected.layers
    assert torch.allclose(lens.best_probability, p.amax(-1), atol=1e-6)
    assert torch.allclose(lens.target_probability[-1].log(), BEFORE, atol=1e-4)
    assert len(lens.top[0]) == 5


def test_patching_answer_and_position() -> None:
    effects = effects_of(corrupted="the dug ran", answer="h", position=7)
    assert (effects.measured, effects.targets[7].token) == (7, "h")
    patching = effects.patching
    assert patching is not None
    answer = TOKENS.encode("h")[0]
    expected = attnlab.patching_map(MODEL, IDS, TOKENS.encode("the dug ran"), answer, position=7)
    assert torch.allclose(patching.restored, expected.restored, atol=1e-4)
    assert effects.keys is not None
    assert max(point.position for point in effects.keys.points) == 7


def test_a_file_keeps_effects(tmp_path: Path) -> None:
    result = look(MODEL, TEXT, tokenizer=TOKENS, effects=True, corrupted="the dug ran")
    result.save(tmp_path / "a.attnlab")
    effects, expected = read(tmp_path / "a.attnlab").panels[0].effects, result.panels[0].effects
    assert effects is not None
    assert expected is not None
    for one, other in zip(effects.heads, expected.heads, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one, other, atol=1e-4 * float(other.abs().max()))
    assert effects.lens is not None
    assert expected.lens is not None
    assert effects.lens.best == expected.lens.best
    assert effects.patching is not None
    assert (effects.kind, effects.sequence, effects.measured) == ("next", 0, len(IDS) - 1)


def test_the_page_opens_on_the_largest_effect() -> None:
    result = look(MODEL, TEXT, tokenizer=TOKENS, effects=True, control=False)
    rows = torch.stack([x for x in EFFECTS.heads if x is not None])[:, :, -1].abs()  # (layers, H)
    view = result.capture.initial_view
    assert view is not None
    assert (view.view, view.query) == ("heads", len(IDS) - 1)
    assert view.head is not None
    assert float(rows[view.layer, view.head]) == pytest.approx(float(rows.max()), abs=1e-6)


def test_other_kinds_of_models(tmp_path: Path) -> None:
    both = effects_of(both_stacks(), pair="I am")
    assert (both.kind, both.sequence, len(both.targets)) == ("next", 1, 5)  # it starts with a mark
    assert both.keys is not None
    assert {point.sequence for point in both.keys.points} == {0, 1}
    masked = effects_of(encoder(), position=2)
    assert (masked.kind, masked.targets[2].token) == ("masked", "e")
    torch.manual_seed(0)
    vision = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=2, heads=3)).eval()
    classes = effects_of(vision, None, image=write_image(tmp_path / "a.png"), tokenizer=None)
    assert (classes.kind, classes.sequence, len(classes.targets)) == ("classes", None, 1)
    assert classes.keys is not None
    assert effects_of(decoder("delta")).reasons == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answer": "t"}, "--answer belongs to --effects"),
        ({"corrupted": "a"}, "--corrupted belongs to --effects"),
        ({"effects": True, "corrupted": "the", "generate": 2}, "without --generate"),
        ({"effects": True, "corrupted": "the"}, "equally many tokens"),
        ({"effects": True, "position": 99}, "no position 99"),
        ({"effects": True, "answer": "th"}, "is 2 tokens"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        look(MODEL, TEXT, tokenizer=TOKENS, control=False, **options)


def test_heads_are_switched_off() -> None:
    result = look(MODEL, TEXT, tokenizer=TOKENS, control=False)
    assert result.model is not None
    names = [layer.name for layer in result.panels[0].layers]
    for heads in ([], [(names[1], 0)], [(names[1], 0), (names[0], 2)]):
        changed = result.model.predict(SwitchRequest(heads))
        change = attnlab.intervene(MODEL)
        for layer, head in heads:
            change = change.ablate(layer, head)
        with change if heads else nullcontext():
            expected = MODEL(torch.tensor([IDS]))[0, -1].detach().softmax(-1)
        best = int(expected.argmax())
        assert changed.top[0].token == TOKENS.decode([best])
        assert changed.top[0].after == pytest.approx(float(expected[best]), abs=1e-6)
        assert changed.target.before == pytest.approx(float(BEFORE[-1].exp()), abs=1e-6)
    assert torch.equal(MODEL(torch.tensor([IDS]))[0].detach(), WHOLE)


def test_the_widget_answers() -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    widget = look(MODEL, TEXT, tokenizer=TOKENS, control=False).widget()
    sent: list[Any] = []
    widget.send = sent.append
    request = {"heads": [["stack.blocks.0.attention", 1]], "position": 3}
    for number, content in enumerate(
        [request, {"heads": [["nowhere", 1]]}, {"heads": [["x", -1]]}, "</script>", None]
    ):
        message = {"kind": "switch", "number": number, "request": content}
        widget._handle_custom_msg(message, [])
    widget._handle_custom_msg({"kind": "other"}, [])
    widget._handle_custom_msg("text", [])
    assert [each["number"] for each in sent] == [0, 1, 2, 3, 4]
    assert set(sent[0]["answer"]) == {"target", "top"}
    for each in sent[1:]:
        assert len(each["answer"]["error"].splitlines()) == 1
    assert json.dumps(sent)
    assert widget.live


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"look {saved(MODEL, tmp_path / 'model')} --text '{TEXT}' --out {tmp_path}/a.attnlab"
    options = "--effects --answer t --corrupted 'the dug ran'"
    code, _, error = run(f"{command} {options}", capsys)
    assert (code, error) == (0, "")
    effects = read(tmp_path / "a.attnlab").panels[0].effects
    assert effects is not None
    assert effects.targets[-1].token == "t"
    code, _, error = run(f"{command} --overwrite --position 2", capsys)
    assert code == 2
    assert "--position belongs to --effects" in error
