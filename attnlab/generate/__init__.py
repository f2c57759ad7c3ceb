"""Writes on from prompts with any model: greedy, sampled or by beam search, many rows at once."""

from __future__ import annotations

from attnlab.generate._beam_search import beam_search
from attnlab.generate._decoding import Decodable, DecodingState, Generated
from attnlab.generate._sampling import Sampling, generate
from attnlab.generate._text_stream import Pieces

__all__ = [
    "Decodable",
    "DecodingState",
    "Generated",
    "Pieces",
    "Sampling",
    "beam_search",
    "generate",
]
