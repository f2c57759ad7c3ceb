"""The newest captures, kept in memory for the page to fetch, up to a limit of bytes."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError


@dataclass(frozen=True)
class CaptureSource:
    """What a capture was made from: the arguments of a worker's `look`, and the image."""

    arguments: dict[str, Any]
    image: bytes = b""


class CaptureStore:
    def __init__(self) -> None:
        self.captures: OrderedDict[str, bytes] = OrderedDict()
        self.sources: dict[str, CaptureSource] = {}

    def add(self, content: bytes, source: CaptureSource | None = None) -> str:
        """Stores a capture and returns its id, which cannot be guessed."""
        name = secrets.token_urlsafe(12)
        self.captures[name] = content
        if source is not None:
            self.sources[name] = source
        while len(self.captures) > limits.CAPTURES or self._bytes() > limits.CAPTURE_BYTES:
            oldest, _ = self.captures.popitem(last=False)
            self.sources.pop(oldest, None)
        return name

    def get_source(self, name: str) -> CaptureSource:
        self.get(name)
        if name not in self.sources:
            raise RequestError(409, "The model of this capture is not known; look again.")
        return self.sources[name]

    def get(self, name: str) -> bytes:
        if name not in self.captures:
            raise RequestError(404, "This capture is no longer kept; look again.")
        return self.captures[name]

    def _bytes(self) -> int:
        images = (source.image for source in self.sources.values())
        return sum(map(len, self.captures.values())) + sum(map(len, images))
