"""Server-sent events: their text, and a response that stops when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar
from weakref import WeakSet

from fastapi import Response
from starlette.types import Receive, Scope, Send

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError
from attnlab.studio._responses import EVENTS

T = TypeVar("T")
KEEP_ALIVE = b": still here\n\n"


def format_event(name: str, data: Any) -> bytes:
    """The text of an event. ASCII JSON has no line breaks, so no user text can end an event."""
    text = EVENTS[name].from_content(data).model_dump_json(ensure_ascii=True)
    return f"event: {name}\ndata: {text}\n\n".encode("ascii")


def id_line(event_id: str) -> bytes:
    """The line before an event that gives it an id."""
    return f"id: {event_id}\n".encode("ascii")


class EventStreams:
    """Limits the open streams. One counts from its admission: many may be admitted at once."""

    def __init__(self) -> None:
        self.open = WeakSet[EventStream]()  # one that is dropped before it starts frees its place

    def respond(self, source: AsyncIterator[bytes]) -> EventStream:
        count = len(self.open)
        if count >= limits.EVENT_STREAMS:
            raise RequestError(429, f"All {count} event streams are in use; close some pages.")
        stream = EventStream(self, source)
        self.open.add(stream)
        return stream


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, streams: EventStreams, source: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.streams, self.source = streams, source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        try:
            with suppress(ClientGoneError):
                await run_while_connected(receive, self._send(send))
        finally:
            self.streams.open.discard(self)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self.source) as source:  # type: ignore[type-var]
            async for chunk in source:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class ClientGoneError(Exception):
    """The client disconnected before the response was complete."""


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled if the client disconnects.

    Call it after the request body was read.
    """
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((work_task, disconnect_task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnect_task.cancel()
        if not work_task.done():
            work_task.cancel()
        await asyncio.wait((work_task, disconnect_task))
    if work_task.cancelled():
        raise ClientGoneError
    return work_task.result()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
