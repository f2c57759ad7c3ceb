"""Server-sent events: the text, and an answer that ends when its reader goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from fastapi import Response
from starlette.types import Receive, Scope, Send

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import Refused
from attnlab.studio._responses import EVENTS

T = TypeVar("T")
KEEP_ALIVE = b": still here\n\n"


def event(name: str, data: Any, identity: str | None = None) -> bytes:
    """JSON in ASCII holds no line end, so no text of a user can end an event."""
    text = EVENTS[name].checked(data).model_dump_json(ensure_ascii=True)
    first = "" if identity is None else f"id: {identity}\n"
    return f"{first}event: {name}\ndata: {text}\n\n".encode("ascii")


class Streams:
    """How many are open."""

    def __init__(self) -> None:
        self.open = 0

    def answer(self, source: AsyncIterator[bytes]) -> EventStream:
        if self.open >= limits.STREAMS:
            raise Refused(429, f"{self.open} readers are connected, the most; close some pages.")
        return EventStream(self, source)


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, streams: Streams, source: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.streams, self.source = streams, source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        self.streams.open += 1
        try:
            with suppress(Gone):
                await while_heard(receive, self._send(send))
        finally:
            self.streams.open -= 1

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self.source) as source:  # type: ignore[type-var]
            async for chunk in source:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Gone(Exception):  # noqa: N818 (a reader's right)
    """The reader left before the end."""


async def while_heard(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, once the body was read; cancelled when the reader goes."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait((working, leaving))
    if working.cancelled():
        raise Gone
    return working.result()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
