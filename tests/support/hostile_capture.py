"""A capture whose every text tries to break the page."""

from __future__ import annotations

import torch

from attnlab.interpret._look import LookResult, look
from attnlab.interpret._records import PatchingTable
from tests.support.text_models import TOKENS, decoder

VIEWS = {
    "e": "heads",
    "x": "matrix",
    "m": "model",
    "o": "effect",
    "n": "neurons",
    "c": "compare",
    "g": "generation",
    "r": "cross",
    "f": "flow",
    "i": "image",
    "k": "mask",
}
HOSTILE = [
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    "<!--",
    "]]>",
    "\x00\x01\x1b[31m\x7f",
    "\ud800",
    "\u202e\u2066\u200b\ufeff",
    "=cmd|' /C calc'!A0",
    "عربي",
    "漢字",
    "e\u0301\u0301",
    "x" * 10_000,
    "${harmed}",
    "&lt;b&gt;",
    "\"'`",
    "\n\t ",
]


def _make_effects_hostile(result: LookResult) -> None:
    effects = result.panels[0].effects
    assert effects is not None
    assert effects.lens is not None
    for index, text in enumerate(HOSTILE):
        effects.targets[index].token = text
    effects.lens.layers = [HOSTILE[1]] * len(effects.lens.layers)
    effects.lens.best = [[HOSTILE[0]] * len(row) for row in effects.lens.best]
    effects.lens.top = [[(text, 0.1) for text in HOSTILE[:5]] for _ in effects.lens.top]
    effects.patching = PatchingTable(
        [HOSTILE[0]], list(HOSTILE), list(reversed(HOSTILE)), torch.rand(1, len(HOSTILE)), 1.0,
        0.0, HOSTILE[1],
    )  # fmt: skip
    effects.reasons = {"patching": HOSTILE[0]}


def _make_walkthrough_hostile(result: LookResult) -> None:
    walk = result.panels[0].walkthrough
    assert walk is not None
    walk.top = [(text, 1.0, 0.05) for text in HOSTILE]
    walk.outputs, walk.parts = None, []
    walk.reasons = {"heads": HOSTILE[0], "parts": HOSTILE[1]}


def hostile() -> LookResult:
    result = look(
        decoder(), "the dog ran in the park"[: len(HOSTILE)], tokenizer=TOKENS, neurons=True,
        untrained=True, generate=2, effects=True,
    )  # fmt: skip
    for panel in result.panels:
        panel.label = HOSTILE[0]
        for index, text in enumerate(HOSTILE):
            panel.sequences[0].texts[index] = text
        assert panel.next_tokens is not None
        panel.next_tokens.top = [
            [(HOSTILE[0], 0.5), (HOSTILE[1], 0.25)] for _ in panel.next_tokens.top
        ]
        for layer in panel.layers:
            layer.name, layer.note = HOSTILE[0], HOSTILE[1]
    _make_effects_hostile(result)
    _make_walkthrough_hostile(result)
    result.capture.title = HOSTILE[0]
    result.capture.notes = [HOSTILE[1]]
    return result
