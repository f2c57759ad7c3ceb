"""Small captures for tests: synthetic numbers, all sizes different."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Effects,
    EffectTarget,
    Flow,
    HeadPattern,
    Highlight,
    InitialView,
    KeyEffect,
    KeyEffects,
    Layer,
    LensTable,
    ModelInfo,
    NextTokens,
    PatchedImage,
    PatchingTable,
    Sequence,
)
from attnlab.interpret._walkthrough import BlockPart, Walkthrough


def softmax_weights(H: int, T: int, S: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn(H, T, S, generator=generator)).softmax(-1)


def make_layer(weights: Tensor | None, **changes: Any) -> Layer:
    heads = 1 if weights is None else weights.shape[0]
    settings: dict[str, Any] = {
        "name": "encoder.layer.0",
        "stack": "encoder",
        "kind": "self",
        "heads": list(range(heads)),
        "all_heads": heads,
        "mechanism": "softmax",
        "signed": False,
        "normalised": True,
        "scale": None,
        "groups": [],
        "difference": None,
        "note": "",
        "weights": weights,
    }
    return Layer(**settings | changes)


def make_sequence(texts: str | list[str], name: str = "text", **changes: Any) -> Sequence:
    """Tokens of a text, split at white space; those in brackets are special."""
    tokens = texts.split() if isinstance(texts, str) else texts
    settings: dict[str, Any] = {
        "name": name,
        "texts": tokens,
        "words": list(range(len(tokens))),
        "special": [token.startswith("[") and token.endswith("]") for token in tokens],
    }
    return Sequence(**settings | changes)


def full_panel(seed: int = 0) -> CapturePanel:
    """An encoder of 5 tokens and a decoder of 3 that looks at it, with all fields."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    source = make_sequence(["[CLS]", "a", "</script>", "\ud800", "[SEP]"], segments=[0, 0, 0, 1, 1])
    target = make_sequence(["x", "y\u202e", ""], name="target", prompt=2)
    pixels = torch.randint(0, 256, (7, 11, 3), generator=generator, dtype=torch.uint8)
    source.image = PatchedImage(pixels, rows=2, columns=2, first=1)
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    read = make_layer(
        softmax_weights(4, 5, 5, seed), scale=0.25, q=random(4, 5, 6), k=random(2, 5, 6),
        v=random(2, 5, 7), groups=[0, 0, 1, 1], norms=random(4, 5).abs(), bias=random(1, 5, 5),
        difference=3e-7, excess=2e-4,
    )  # fmt: skip
    write = make_layer(
        random(2, 3, 3).tril(), name="decoder.0", stack="decoder", signed=True, normalised=False,
        mechanism="fourier", heads=[1, 4], all_heads=6, allowed=causal, causal=True, note="noted",
    )  # fmt: skip
    again = make_layer(
        softmax_weights(1, 3, 3).tril(), name="decoder.1", stack="decoder", normalised=False,
        allowed=causal.clone(), causal=True,
    )  # fmt: skip
    cross = make_layer(
        softmax_weights(3, 3, 5, seed), name="decoder.0.cross", stack="decoder", kind="cross",
        allowed=torch.tensor([[True, True, True, True, False]]).expand(3, 5),
    )  # fmt: skip
    layers = [read, write, cross, again]
    patterns = [[HeadPattern("local", {"local": 0.75})] * len(layer.heads) for layer in layers]
    return CapturePanel(
        label="model",
        model=ModelInfo("m", "encoder-decoder", "attnlab", 12),
        sequences=[source, target],
        layers=layers,
        sequence_indices=[(0, 0), (1, 1), (1, 0), (1, 1)],
        patterns=patterns,
        control=[[HeadPattern("", {})] * len(layer.heads) for layer in layers],
        next_tokens=NextTokens(
            1, [[("<b>", 0.5), ("\udfff", 0.25)], [], [("y", 1.0)]], [None, 0.5, 0.0]
        ),
        flow=Flow(
            [softmax_weights(1, 5, 5)[0]], None, "the logit", {"gradient": "not captured"}, [0]
        ),
    )


def full_effects() -> Effects:
    """For the decoder of `full_panel`: 3 targets, layers of 4, 2, 3 and 1 heads."""
    generator = torch.Generator().manual_seed(3)
    heads = [torch.randn(count, 3, generator=generator) for count in (4, 2, 3)]
    shares = torch.rand(2, 2, 3, generator=generator)
    tokens = ["y\u202e", "", "</script>"]
    return Effects(
        kind="next",
        sequence=1,
        measured=2,
        targets=[EffectTarget(token, 0.25) for token in tokens],
        heads=[*heads, None],
        keys=KeyEffects([KeyEffect(0, 4, 0.5, -1.25), KeyEffect(1, 2, 0.0, 0.5)], 2, -1.0),
        lens=LensTable(
            ["embedding", "<b>"], [["a", "b", "a"], ["\ud800", "b", "c"]], shares[0],
            shares[1], [[("a", 0.5)], [("\ud800", 0.25), ("c", 0.0)]],
        ),
        patching=PatchingTable(
            ["embedding"], ["x", "y"], ["x", "<i>"], torch.tensor([[0.5, -2.0]]), 3.0, -1.0, "it",
        ),
        reasons={"heads": "not <all>"},
    )  # fmt: skip


def full_walkthrough() -> Walkthrough:
    """Of the cross-attention of `full_panel`: 3 heads, 5 keys."""
    generator = torch.Generator().manual_seed(5)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Walkthrough(
        layer=2, query=1, head=2, block=0, blocks=2, rotary=True, embedding=random(8),
        input=random(8), q=random(3, 6), dots=random(3, 5), bias=random(1, 5), key_heads=[0, 2],
        k=random(2, 5, 6), v=random(2, 5, 7), outputs=random(3, 7),
        parts=[BlockPart("self", random(8)), BlockPart("cross", random(8))], norm_first=False,
        hidden=random(11), stream=random(8), top=[("<b>", 3.5, 0.75), ("\ud800", -1.0, 0.25)],
        reasons={"output": "not <all>"},
    )  # fmt: skip


def full_capture() -> Capture:
    versions = {"attnlab": "0.1.0"}
    panels = [full_panel(1), full_panel(2)]
    panels[0].effects = full_effects()
    panels[0].walkthrough = full_walkthrough()
    return Capture(
        "title <b>", panels, ["one", "two"], versions, InitialView("cross", 3, 0, 1),
        [Highlight(0, 3, 4, 2, 0.5, "local"), Highlight(2, 1, 2, 1, 0.25, "<i>")],
    )  # fmt: skip
