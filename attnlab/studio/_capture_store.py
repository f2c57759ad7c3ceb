"""The newest captures, kept in memory for the page to fetch, up to a limit of bytes."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError


class CaptureStore:
    def __init__(self) -> None:
        self.captures: OrderedDict[str, bytes] = OrderedDict()

    def add(self, content: bytes) -> str:
        """Stores a capture and returns its id, which cannot be guessed."""
        name = secrets.token_urlsafe(12)
        self.captures[name] = content
        while len(self.captures) > limits.CAPTURES or self._bytes() > limits.CAPTURE_BYTES:
            self.captures.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        if name not in self.captures:
            raise RequestError(404, "This capture is no longer kept; look again.")
        return self.captures[name]

    def _bytes(self) -> int:
        return sum(map(len, self.captures.values()))
