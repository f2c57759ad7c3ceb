"""Generate continuations of prompts with any model: greedy, by sampling or by beam search."""

from __future__ import annotations

from attnlab.generate._beam_search import beam_search
from attnlab.generate._generation_base import Decodable, DecodingState, Generated
from attnlab.generate._sampling import Sampling, generate
from attnlab.generate._text_stream import TextStreamer

__all__ = [
    "Decodable",
    "DecodingState",
    "Generated",
    "Sampling",
    "TextStreamer",
    "beam_search",
    "generate",
]
