"""Captures in memory, for the page to fetch: the newest few, and not too many bytes."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import Refused


class Captures:
    def __init__(self) -> None:
        self.kept: OrderedDict[str, bytes] = OrderedDict()

    def add(self, content: bytes) -> str:
        """Its id, which nobody can guess."""
        name = secrets.token_urlsafe(12)
        self.kept[name] = content
        while len(self.kept) > limits.CAPTURES or self._bytes() > limits.CAPTURE_BYTES:
            self.kept.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        if name not in self.kept:
            raise Refused(404, "This capture is no longer kept; look again.")
        return self.kept[name]

    def _bytes(self) -> int:
        return sum(map(len, self.kept.values()))
