"""Writes on from prompts with any model: greedy, sampled or by beam search, many rows at once."""

from __future__ import annotations

from attnlab.generate.beams import beam_search
from attnlab.generate.common import Decodable, DecodingState, Generated
from attnlab.generate.pieces import Pieces
from attnlab.generate.sampling import Sampling, generate

__all__ = [
    "Decodable",
    "DecodingState",
    "Generated",
    "Pieces",
    "Sampling",
    "beam_search",
    "generate",
]
