"""A capture whose every text tries to break the page."""

from __future__ import annotations

from attnlab.interpret._look import LookResult, look
from tests.support.text_models import TOKENS, decoder

VIEWS = {
    "e": "heads",
    "x": "matrix",
    "m": "model",
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


def hostile() -> LookResult:
    result = look(
        decoder(), "the dog ran in the park"[: len(HOSTILE)], tokenizer=TOKENS, neurons=True,
        untrained=True, generate=2,
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
    result.capture.title = HOSTILE[0]
    result.capture.notes = [HOSTILE[1]]
    return result
