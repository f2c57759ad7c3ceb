"""The error that ends a request: an HTTP status and one sentence.

Workers raise it too, so this file imports nothing.
"""

from __future__ import annotations

STATUS_DESCRIPTIONS = {
    400: "The request is wrong; the message says what would be right.",
    403: "Host, Origin or cookie are not those of the studio.",
    404: "The requested item does not exist.",
    408: "The headers or the body arrived too slowly.",
    409: "The run cannot do this, or not yet.",
    413: "The body is too long.",
    415: "The body has the wrong content type.",
    422: "The model cannot process this input.",
    429: "Too many requests at once; try again.",
    500: "The model failed; the server keeps running.",
    503: "The process of the model ended, or no connection is free; try again.",
}


class RequestError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
