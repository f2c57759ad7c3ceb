"""Example pages with made-up weights, to develop the front end.

.venv/bin/python web/fixture.py web/fixture-out
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from attnlab.interpret._capture_file import save
from attnlab.interpret._capture_packing import pack
from attnlab.interpret._page import render
from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Flow,
    HeadPattern,
    Layer,
    ModelInfo,
    NextTokens,
    PatchedImage,
    Sequence,
)

HOSTILE = [
    "<s>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--",
    "a\u0000b\u0007", "\ud83d", "x" * 10_000, " play", "ing", "\n", "\t", "\u200b",
    "\u202eevil\u202c", "שלום", "مرحبا", "日本語", "e\u0301", "\u0301", "", "👩\u200d🚀",
    "&lt;b&gt;", "=1+1", "'\"`${x}", "</s>",
]  # fmt: skip
SENTENCE = "The dog that sat in the car wanted to play at the park , because it was bored ."
LABELS = [
    "previous token",
    "next token",
    "first token",
    "",
    "local",
    "uniform",
    "same word",
    "induction",
]


def weights(heads: int, queries: int, keys: int, causal: bool, seed: int) -> torch.Tensor:
    """Each head has a pattern: the previous token, the first, near ones, or none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(heads, queries, keys, generator=generator) * 1.5
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None]
    for head in range(heads):
        kind = (head + seed) % 4
        if kind == 0:
            scores[head] += 6.0 * (j == i - 1)
        if kind == 1:
            scores[head] += 5.0 * (j == 0)
        if kind == 2:
            scores[head] -= 0.4 * (i - j).abs()
    if causal:
        scores = scores.masked_fill(j > i, float("-inf"))
    return torch.softmax(scores, -1)


def layer(
    name: str, heads: int, queries: int, keys: int, seed: int, causal: bool = False, size: int = 0,
    signed: bool = False, kind: str = "self", stack: str = "decoder",
) -> Layer:  # fmt: skip
    generator = torch.Generator().manual_seed(seed + 1000)
    head_weights = weights(heads, queries, keys, causal, seed)
    if signed:
        head_weights = head_weights * torch.where(
            torch.rand(head_weights.shape, generator=generator) < 0.3, -1.0, 1.0
        )
    groups = max(1, heads // 2)
    vectors = [
        torch.randn(n, t, size, generator=generator) for n, t in ((heads, queries), (groups, keys))
    ]
    return Layer(
        name=name, stack=stack, kind=kind, heads=list(range(heads)), all_heads=heads,
        mechanism="polynomial" if signed else "softmax", signed=signed, normalised=not signed,
        scale=size**-0.5 if size else None, weights=head_weights,
        q=vectors[0] if size else None, k=vectors[1] if size else None,
        v=vectors[1] * 0.5 if size else None,
        groups=[h * groups // heads for h in range(heads)] if size else [],
        allowed=torch.ones(queries, keys).tril().bool() if causal else None, causal=causal,
        norms=torch.rand(heads, keys, generator=generator) + 0.5, difference=3.1e-7,
        note="" if seed % 2 else "recomputed from q and k",
    )  # fmt: skip


def sequence(texts: list[str], name: str = "text", words: list[int] | None = None) -> Sequence:
    special = [text in ("<s>", "</s>", "[CLS]", "[SEP]") for text in texts]
    return Sequence(name, texts, words or list(range(len(texts))), special)


def patterns(layers: list[Layer], seed: int) -> list[list[HeadPattern]]:
    generator = torch.Generator().manual_seed(seed)
    all_patterns = []
    for layer in layers:
        scores = torch.rand(len(layer.heads), len(LABELS), generator=generator)
        all_patterns.append([
            HeadPattern(LABELS[(head + seed) % len(LABELS)],
                    {name: float(x) for name, x in zip(LABELS, row, strict=True) if name})
            for head, row in enumerate(scores)
        ])  # fmt: skip
    return all_patterns


def side(
    label: str, kind: str, sequences: list[Sequence], layers: list[Layer], positions=None, **more
) -> CapturePanel:  # type: ignore[no-untyped-def]
    model = ModelInfo(label, kind, "huggingface", 22_713_216)
    return CapturePanel(label, model, sequences, layers, positions or [(0, 0)] * len(layers),
                patterns=patterns(layers, 1), control=patterns(layers, 2), **more)  # fmt: skip


def causal(
    texts: list[str], layers: int, heads: int, size: int = 0, signed: bool = False, title: str = ""
) -> Capture:
    n = len(texts)
    causal_layers = [
        layer(f"model.layers.{i}.self_attn", heads, n, n, i, True, size, signed)
        for i in range(layers)
    ]
    rollout = [weights(1, n, n, True, i)[0] for i in range(layers)]
    flow = Flow(rollout, rollout, "the next token", {}, list(range(layers)))
    if signed:
        flow = Flow(
            None, None, "", {"rollout": "weights can be negative", "gradient": "not asked for"}, []
        )
    top = [[("play", 0.31), ("<b>", 0.2), ("\n", 0.1)] for _ in range(n)]
    text = sequence(texts)
    text.prompt = n // 2
    following = NextTokens(0, top, [0.3] * (n - 1) + [None])
    one = side("made-up", "decoder", [text], causal_layers, next_tokens=following, flow=flow)
    return Capture(
        title or "made-up decoder: hostile tokens",
        [one],
        ["Weights are made up.", "For looking at."],
        {"attnlab": "0"},
    )


def crossing() -> Capture:
    read, written = (
        sequence(SENTENCE.split(), "read"),
        sequence(["<s>", "Der", "Hund", "wollte", "spielen", "."], "written"),
    )
    s, t = len(read.texts), len(written.texts)
    layers, positions = [], []
    for i in range(2):
        layers.append(layer(f"encoder.{i}", 4, s, s, i, stack="encoder"))
        positions.append((0, 0))
    for i in range(2):
        layers += [
            layer(f"decoder.{i}", 4, t, t, i, True),
            layer(f"decoder.{i}.cross", 4, t, s, i + 5, kind="cross"),
        ]
        positions += [(1, 1), (1, 0)]
    one = side(
        "made-up",
        "encoder-decoder",
        [read, written],
        layers,
        positions,
        flow=Flow(reasons={"rollout": "two stacks", "gradient": "two stacks"}),
    )
    return Capture("made-up encoder and decoder", [one], [], {})


def picture() -> Capture:
    rows = columns = 7
    texts = ["[CLS]"] + [f"{r},{c}" for r in range(rows) for c in range(columns)]
    generator = torch.Generator().manual_seed(1)
    pixels = (
        torch.rand(7, 7, 3, generator=generator).repeat_interleave(16, 0).repeat_interleave(16, 1)
        * 255
    ).byte()
    text = sequence(texts, "image")
    text.image = PatchedImage(pixels, rows, columns, 1)
    layers = [layer(f"vit.{i}", 4, 50, 50, i, stack="encoder") for i in range(3)]
    flow = Flow(
        [weights(1, 50, 50, False, i)[0] for i in range(3)],
        None,
        "",
        {"gradient": "not asked for"},
        [0, 1, 2],
    )
    return Capture(
        "made-up vision transformer", [side("made-up", "vision", [text], layers, flow=flow)], [], {}
    )


def two() -> Capture:
    texts = [
        "[CLS]",
        "I",
        "wan",
        "##ted",
        "to",
        "have",
        "a",
        "party",
        "[SEP]",
        "I",
        "bought",
        "a",
        "cake",
        "for",
        "it",
        ".",
        "[SEP]",
    ]
    words = [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    n = len(texts)
    panels = []
    for number, label in enumerate(("trained", "untrained")):
        text = sequence(texts, "pair", words)
        text.segments = [0] * 9 + [1] * 8
        layers = [
            layer(f"encoder.layer.{i}", 12, n, n, i + 7 * number, stack="encoder", size=8)
            for i in range(3)
        ]
        panels.append(side(label, "encoder", [text], layers))
    return Capture(
        "made-up encoder: I wanted to have a party / I bought a cake for it.", panels, [], {}
    )


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    long = [SENTENCE.split()[i % 19] + ("" if i % 5 else "ly") for i in range(512)]
    captures = {
        "hostile": causal(HOSTILE, 4, 8, size=16),
        "signed": causal(SENTENCE.split(), 2, 4, signed=True, title="made-up signed weights"),
        "large": causal(long, 6, 12, title="512 tokens of 12 heads " + "and a long title " * 12),
        "cross": crossing(),
        "picture": picture(),
        "two": two(),
        "plain": causal(["<s>", *SENTENCE.split()], 6, 12, 32, title="made-up: " + SENTENCE),
    }
    for name, capture in captures.items():
        (out / f"{name}.html").write_text(render(*pack(capture)), encoding="utf-8")
    save(captures["plain"], out / "plain.attnlab")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
