"""Your own mechanism: registered by class or file, and checked by the laws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import (
    MECHANISMS,
    Card,
    Mask,
    Mechanism,
    check_laws,
    load_extension,
    register_mechanism,
)
from attnlab._create_mechanism import mechanism_options
from attnlab._mechanism_table import mechanism_to_dict
from attnlab.laws import LAWS
from attnlab.mechanism import repeat_heads
from attnlab.mechanism_pictures import COLORS, panels_of, plot_matrices
from attnlab.mechanisms.softmax import Softmax, masked_softmax
from attnlab.models import Decoder, StackConfig
from tests.support.command_line import run
from tests.support.registries import restored_registries

EXAMPLE = Path(__file__).parents[2] / "examples" / "squared_relu_attention.py"
CARD = Card(summary="a test", paper="none", arxiv="0", time="N^2 D", memory="N^2")


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with restored_registries():
        yield


class Plain(Mechanism):
    """Exact attention, with only `weights` defined."""

    name = "plain"
    card = CARD

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.head_dim**-0.5) @ repeat_heads(k, self.heads).mT

    def allowed(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor | None:
        return mask.allowed(q.shape[2], k.shape[2], q.device)

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        return masked_softmax(self.scores(q, k), self.allowed(q, k, mask))


def broken(kind: str | type[Mechanism], examples: int = 4) -> set[str]:
    return {result.law for result in check_laws(kind, examples=examples) if not result.holds}


# Registering


def test_a_registered_mechanism_works_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    register_mechanism(Plain)
    q, k, v = (torch.randn(2, 4, 9, 8) for _ in "qkv")
    out = attnlab.attention(q, k, v, "plain", causal=True)
    assert torch.allclose(out, attnlab.attention(q, k, v, causal=True), atol=1e-6)
    mixed = ["2*plain+2*softmax", "plain"]
    model = Decoder(StackConfig(vocabulary=11, context=16, width=32, layers=2, attention=mixed))
    assert model(torch.randint(0, 11, (1, 7))).shape == (1, 7, 11)
    assert mechanism_to_dict("plain")["summary"] == "a test"
    code, out_text, _ = run("tour --tokens 40", capsys)
    assert code == 0
    assert "\nplain" in out_text


def test_the_newest_class_of_a_name_counts() -> None:
    """As when a cell of a notebook is run again; `attention` keeps mechanisms between calls."""
    q, k, v = (torch.randn(1, 1, 5, 4) for _ in "qkv")
    register_mechanism(Plain)
    first = attnlab.attention(q, k, v, "plain")

    class Other(Plain):
        def scores(self, q: Tensor, k: Tensor) -> Tensor:
            return 0 * super().scores(q, k)

    register_mechanism(Other)
    assert not torch.allclose(attnlab.attention(q, k, v, "plain"), first)
    assert torch.allclose(attnlab.attention(q, k, v, "plain"), v.mean(2, keepdim=True))


def subclass(**changes: Any) -> Any:
    return type("Mine", (Plain,), {"name": "mine", **changes})


def test_what_is_wrong_with_a_class_is_one_sentence() -> None:
    def without_help(
        self: Any, *, head_dim: int, heads: int, max_length: Any = None, x: int = 1
    ) -> None:
        del self, head_dim, heads, max_length, x

    def required(
        self: Any, *, head_dim: int, heads: int, max_length: Any = None, x: Annotated[int, "some"]
    ) -> None:
        del self, head_dim, heads, max_length, x

    wrong: list[tuple[Any, list[str]]] = [
        (3, ["3", "subclass of attnlab.Mechanism"]),
        (subclass(name="My Own"), ["'My Own'", "lowercase letters"]),
        (subclass(name="a+b"), ["'a+b'"]),
        (subclass(name=None), ["None"]),
        (subclass(card=None), ["no card", "attnlab.Card("]),
        (subclass(weights=Mechanism.weights), ["does not define weights"]),
        (subclass(name="softmax"), ["'softmax'", "choose another name"]),
        (subclass(__init__=without_help), ["'x'", 'Annotated[float, "what it does"]']),
        (subclass(__init__=required), ["'x'", "no default"]),
    ]
    for kind, words in wrong:
        with pytest.raises(ValueError, match=r".+") as caught:
            register_mechanism(kind)
        message = str(caught.value)
        assert "\n" not in message
        assert all(word in message for word in words), message
    assert "mine" not in MECHANISMS
    assert MECHANISMS["softmax"] is Softmax


# Files


def test_a_file_is_loaded() -> None:
    assert [kind.name for kind in load_extension(EXAMPLE)] == ["squared_relu"]
    assert [option.name for option in mechanism_options("squared_relu")] == ["bias"]
    q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    mechanism = attnlab.create_mechanism("squared_relu", head_dim=2, heads=1, bias=-2.5)
    weights = mechanism.weights(q, k, Mask())
    expected = [max(0, score / math.sqrt(2) - 2.5) ** 2 for score in (3, 4)]
    assert weights.flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["does not exist"]),
        ("x = 1", ["defines no extension"]),
        ("1 / 0", ["cannot be imported", "ZeroDivisionError"]),
        ("def", ["cannot be imported", "SyntaxError"]),
        ("from attnlab.mechanisms.softmax import Softmax", ["defines no extension"]),
    ],
)
def test_a_file_that_is_wrong(
    text: str | None, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    code, out, err = run(f"mechanisms check {path}", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert all(word in err for word in ["mine.py", *words]), err


# The laws


def test_the_example_obeys_the_laws(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(f"mechanisms check {EXAMPLE} --examples 3", capsys)
    assert code == 0
    assert out.count("  ok ") == len(LAWS)
    assert not broken(Plain)


@pytest.mark.parametrize("name", ["hard", "linformer"])
def test_attnlab_s_own_obey_them(name: str) -> None:
    assert not broken(name, examples=1)


def test_examples_are_counted_and_what_cannot_be_is_not_tried() -> None:
    results = {result.law: result for result in check_laws("linformer", examples=2)}
    assert set(results) == {law.text for law in LAWS}
    assert results["1 forward equals weights @ v"].tried == 2
    assert results["4 decoding equals one forward"].tried == 0
    with pytest.raises(ValueError, match="examples is 0"):
        check_laws("softmax", examples=0)


class NextToo(Plain):
    """Attends one token ahead."""

    def allowed(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor | None:
        return super().allowed(q, k, Mask(mask.causal, mask.keys, mask.start + 1))


class NoPadding(Plain):
    """Ignores the mask's keys."""

    def allowed(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor | None:
        return super().allowed(q, k, Mask(mask.causal, None, mask.start))


class OtherForward(Plain):
    """Its fast path has another temperature."""

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return super().compute(1.001 * q, k, v, mask)


class OtherGradient(Plain):
    """The correct output, but without a gradient for the queries."""

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return super().compute(q.detach(), k, v, mask)


class Unstable(Plain):
    """Without subtracting the largest score."""

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        sizes, allowed = self.scores(q, k).exp(), self.allowed(q, k, mask)
        sizes = sizes if allowed is None else sizes.masked_fill(~allowed, 0)
        return sizes / sizes.sum(-1, keepdim=True)


class Forgets(Plain):
    """Its state keeps only the newest keys."""

    def absorb(self, k: Tensor, v: Tensor, keys: Any = None, state: Any = None) -> Any:
        del state
        return super().absorb(k, v, keys)


class Unchecked(Plain):
    """Attends only within one sequence, but its read does not call check_read."""

    card = Card(**{**vars(CARD), "cross": False})

    def read(self, q: Tensor, state: Any, start: int | Tensor) -> Tensor:
        del start
        return masked_softmax(self.scores(q, state.k), None) @ repeat_heads(state.v, self.heads)


class Boasts(Plain):
    card = Card(**{**vars(CARD), "signed": True, "constant_state": True})


@pytest.mark.parametrize(
    ("kind", "laws"),
    [
        (NextToo, {"3 the future changes nothing", "4 decoding equals one forward"}),
        (NoPadding, {"2 padding changes nothing"}),
        (OtherForward, {"1 forward equals weights @ v"}),
        (OtherGradient, {"1 forward equals weights @ v"}),
        (Unstable, {"7 extreme scores in float32", "7 nothing to look at gives zeros"}),
        (Forgets, {"4 decoding equals one forward", "6 splitting an absorb changes nothing"}),
        (Unchecked, {"8 what it cannot do is refused"}),
        (Boasts, {"the card is true"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_mistake_breaks_its_law(kind: type[Mechanism], laws: set[str]) -> None:
    assert laws <= broken(kind, examples=4)


def test_a_broken_law_ends_the_command_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "peeking.py"
    text = EXAMPLE.read_text().replace("(~allowed, 0)", "(~allowed, 0.1)")
    assert text != EXAMPLE.read_text()
    path.write_text(text)
    code, out, _ = run(f"mechanisms check {path} --examples 3", capsys)
    assert code == 1
    assert "broken 3 the future changes nothing: the output differs by" in out


# Pictures


def test_the_picture_shows_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    softmax, window, causal = panels_of("window")
    assert float(softmax.weights.sum(-1).sub(1).abs().max()) < 1e-5
    near = torch.ones(30, 30).tril(3).triu(-3) > 0
    assert torch.equal(window.weights > 0, near)
    assert torch.equal(causal.weights > 0, near.tril())
    assert len(panels_of("linformer")) == 2  # no causal form
    figure = plot_matrices("window")
    assert "with window=4" in figure.get_supxlabel()
    assert len(figure.axes) == 3
    pixels: Any = figure.axes[1].images[0].get_array()
    scale = softmax.weights.max()
    assert torch.allclose(torch.as_tensor(pixels), (window.weights / scale).sqrt())
    path = tmp_path / "w.svg"
    code, out, _ = run(f"mechanisms window --picture {path}", capsys)
    assert (code, out.strip()) == (0, str(path))
    assert "<title>The weights of window</title>" in path.read_text()
    for wrong, word in ((path, "already exists"), (tmp_path / "w.gif", "NAME.svg")):
        code, _, err = run(f"mechanisms window --picture {wrong}", capsys)
        assert code == 2
        assert word in err
    code, _, err = run(f"mechanisms --picture {tmp_path / 'all.svg'}", capsys)
    assert code == 2
    assert "needs the name of a mechanism" in err


def test_negative_weights_have_another_color() -> None:
    below, none, above = (COLORS(value) for value in (0.0, 0.5, 1.0))
    assert below[0] > below[2]
    assert min(none[:3]) > 0.9
    assert above[2] > above[0]
