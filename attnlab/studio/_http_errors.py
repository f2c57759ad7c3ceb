"""Refusals: a request that gets no result, with its HTTP status and one sentence.

Workers raise them too, so this file imports nothing.
"""

from __future__ import annotations

REASONS = {
    400: "The request is wrong; the sentence says what would be right.",
    403: "Host, Origin or cookie are not those of the studio.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "The run cannot do this, or not yet.",
    413: "The body is too long.",
    415: "The body is of another type.",
    422: "The model cannot take this input.",
    429: "Too much at once; try again.",
    500: "The model broke; the server goes on.",
}


class Refused(Exception):  # noqa: N818 (a response, not an accident)
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
