"""One connection to the studio. It ends slow clients, so that they cannot use up all connections.

uvicorn waits without limit for the headers of a request, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, cast

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from attnlab.studio import _request_limits as limits
from attnlab.studio._request_guard import add_security_headers, error_content, send_error

BUSY = "The studio has no free connection; close some pages or try again."
GRACE_SECONDS = 5.0  # after BODY_SECONDS, for the endpoint to answer first


class LingeringTransport:
    """A transport that closes once the client has sent its request, or after some seconds.

    If a connection closes while the client still sends, the client may lose the response, which
    says what is wrong with the request.
    """

    def __init__(self, transport: asyncio.Transport, connection: StudioConnection) -> None:
        self.transport, self.connection, self.lingers = transport, connection, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self.transport.is_closing()

    def close(self) -> None:
        unfinished = self.connection.conn.their_state is h11.SEND_BODY
        if self.is_closing() or not unfinished or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.lingers = True
        self.transport.write_eof()
        self.transport.resume_reading()
        self.connection.set_read_deadline(limits.LINGER_SECONDS)


class StudioConnection(H11Protocol):
    """Sets a deadline for what the client must send next, and for the client to read."""

    awaited: Any = None
    """What the deadline is for: `h11.IDLE` (the headers of a request) or `h11.SEND_BODY`."""
    awaited_since = 0.0
    read_deadline: asyncio.TimerHandle | None = None
    write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, LingeringTransport(transport, self)))
        self._update_read_deadline()
        if len(self.connections) > connection_limit():
            self._take_place_of_waiting_client()

    def connection_lost(self, exc: Exception | None) -> None:
        for deadline in (self.read_deadline, self.write_deadline):
            if deadline is not None:
                deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._update_read_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.write_deadline = self.loop.call_later(limits.WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.write_deadline is not None:
            self.write_deadline.cancel()

    def _update_read_deadline(self) -> None:
        if self.conn.their_state is self.awaited:
            return  # a byte now and then does not extend the deadline
        self.awaited, self.awaited_since = self.conn.their_state, self.loop.time()
        if self.awaited is h11.IDLE:
            self.set_read_deadline(limits.HEADER_SECONDS)
        elif self.awaited is h11.SEND_BODY:
            self.set_read_deadline(limits.BODY_SECONDS + GRACE_SECONDS)
        else:
            self.set_read_deadline(None)

    def set_read_deadline(self, seconds: float | None) -> None:
        if self.read_deadline is not None:
            self.read_deadline.cancel()
        self.read_deadline = (
            None if seconds is None else self.loop.call_later(seconds, self._end_slow_request)
        )

    def _end_slow_request(self) -> None:
        received, _ = self.conn.trailing_data
        if self.awaited is h11.IDLE and received:
            self._send_error(408, f"The headers took more than {limits.HEADER_SECONDS:g} seconds.")
        else:
            self.transport.abort()

    def _take_place_of_waiting_client(self) -> None:
        """Ends the connection that has waited longest for a request; without one, answers 503."""
        connections = cast(set[StudioConnection], self.connections)
        open_ones = [each for each in connections if not each.transport.is_closing()]
        if len(open_ones) <= connection_limit():
            return
        waiting = [each for each in open_ones if each.awaited is h11.IDLE and each is not self]
        if waiting:
            min(waiting, key=lambda each: each.awaited_since).transport.close()
        else:
            self.app = answer_busy

    def send_400_response(self, msg: str) -> None:
        del msg
        self._send_error(400, "The request is not valid HTTP.")

    def _send_error(self, status: int, message: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # a response has begun
            return
        headers, content = error_content(message, page=False)
        start = h11.Response(
            status_code=status,
            headers=add_security_headers(headers),
            reason=STATUS_PHRASES[status],
        )
        for event in (start, h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


async def answer_busy(scope: Scope, receive: Receive, send: Send) -> None:
    """Takes the place of the studio for a connection above the limit."""
    del scope, receive
    await send_error(send, 503, BUSY, page=False)


def connection_limit() -> int:
    """The number of connections, with fewer where the system allows fewer open files."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.CONNECTIONS, max(1, open_files - limits.OTHER_FILES))


def raise_open_file_limit() -> None:
    """Many systems allow 1024 open files, or 256, but let a process raise that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.CONNECTIONS + limits.OTHER_FILES
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
