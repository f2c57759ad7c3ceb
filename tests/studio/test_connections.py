"""Slow clients are disconnected, and many clients at once are all answered."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnlab.studio import _connection as connection
from attnlab.studio import _request_limits as limits
from attnlab.studio._event_stream import EventStreams
from attnlab.studio._http_errors import RequestError
from attnlab.studio._request_guard import HEADERS
from tests.support.studio_servers import (
    StudioThread,
    make_run,
    metric_rows,
    start_studio,
    start_studio_thread,
)

HANG = 300  # seconds until a test fails because nothing arrives


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StudioThread]:
    make_run(tmp_path / "one", metric_rows(1, 2, 3))
    with start_studio_thread(tmp_path) as studio:
        yield studio


@contextmanager
def connect(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=HANG) as client:
        yield client


def request_head(port: int, headers: dict[str, str], path: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def read_until_closed(client: socket.socket) -> bytes:
    content = b""
    try:
        while chunk := client.recv(2**16):
            content += chunk
    except ConnectionResetError:  # closed while our last bytes were on their way
        pass
    return content


def read_head(client: socket.socket) -> bytes:
    content = b""
    while b"\r\n\r\n" not in content:
        chunk = client.recv(1)
        assert chunk, content
        content += chunk
    return content


def send_slowly(client: socket.socket, content: bytes) -> bytes:
    """Sends a byte now and then until the server closes. Returns what the server sent."""
    client.settimeout(0.02)
    received = b""
    try:
        for index in range(len(content)):
            client.send(content[index : index + 1])
            try:
                chunk = client.recv(2**16)
                received += chunk
                if not chunk:
                    return received
            except TimeoutError:
                continue
    except (BrokenPipeError, ConnectionResetError):
        return received
    raise AssertionError("the server has read all")


def send_forever(client: socket.socket) -> None:
    while True:
        client.sendall(bytes(2**16))


def error_of(response: bytes, status: int) -> str:
    """The message of a JSON error with the security headers."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first.split()[1] == str(status), response
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert headers["content-type"] == "application/json"
    assert headers.items() >= {name: value.lower() for name, value in HEADERS.items()}.items()
    message = json.loads(body)["error"]
    assert "\n" not in message
    return str(message)


# Slow clients


def test_slow_headers_end_with_408(server: StudioThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first request of a connection and in a later one."""
    monkeypatch.setattr(limits, "HEADER_SECONDS", 2)
    head = request_head(server.keys.port, server.headers, "/api/info")
    for requests in range(2):
        with connect(server.keys.port) as client:
            for _ in range(requests):
                client.sendall(head)
                length = int(read_head(client).lower().split(b"content-length: ")[1].split()[0])
                while length:
                    length -= len(client.recv(length))
            response = send_slowly(client, head[:-2] + b"X-More: " + b"x" * 100_000)
            assert error_of(response, 408) == "The headers took more than 2 seconds."
    assert server.json("/api/runs")["runs"]


def test_a_silent_connection_is_closed(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.1)
    with connect(server.keys.port) as client:
        assert read_until_closed(client) == b""


def test_a_slow_body_that_nobody_needs_is_ended(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GET is answered before its body has arrived."""
    monkeypatch.setattr(limits, "BODY_SECONDS", 2)
    monkeypatch.setattr(connection, "GRACE_SECONDS", 0.0)
    headers = {**server.headers, "content-length": "100000"}
    with connect(server.keys.port) as client:
        client.sendall(request_head(server.keys.port, headers, "/api/info"))
        assert b"200 OK" in read_head(client)
        send_slowly(client, b"x" * 100_000)


def test_a_slow_body_ends_with_408(server: StudioThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    more = {"content-type": "application/json", "content-length": "100000"}
    head = request_head(server.keys.port, {**server.headers, **more}, "/api/ask", "POST")
    with connect(server.keys.port) as client:
        client.sendall(head)
        response = send_slowly(client, b" " * 100_000)
    assert error_of(response, 408) == "The body took more than 0.5 seconds."


def test_a_client_that_does_not_read_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WRITE_SECONDS", 0.2)
    row = {f"metric {index}": "x" * 200 for index in range(60)}
    make_run(tmp_path / "large", [{"step": step, **row} for step in range(2000)])
    with start_studio_thread(tmp_path) as server, connect(server.keys.port) as client:
        path = "/api/metrics?run=large"
        client.sendall(request_head(server.keys.port, server.headers, path))
        length = int(read_head(client).lower().split(b"content-length: ")[1].split()[0])
        while server.open_connections():
            time.sleep(0.01)
        assert len(read_until_closed(client)) < length


@pytest.mark.parametrize("path", ["/api/ask", "/api/see?run=one", "/api/nothing"])
def test_the_response_is_not_lost_if_the_body_is_sent_later(
    path: str, server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to the headers arrives, although the client sends megabytes after it."""
    monkeypatch.setattr(limits, "LINGER_SECONDS", HANG)
    more = {"content-type": "text/plain", "content-length": str(2**24)}
    head = request_head(server.keys.port, {**server.headers, **more}, path, "POST")
    for pause in (0, 0.1):  # the body arrives before or after the response
        with connect(server.keys.port) as client:
            client.sendall(head)
            time.sleep(pause)
            client.sendall(bytes(2**24))
            status = 415 if path == "/api/ask" else 413 if "see" in path else 404
            assert error_of(read_until_closed(client), status)


def test_a_client_that_never_stops_sending_is_disconnected(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.3)
    more = {"content-type": "text/plain", "content-length": "100000000000"}
    with connect(server.keys.port) as client:
        client.sendall(
            request_head(server.keys.port, {**server.headers, **more}, "/api/ask", "POST")
        )
        with pytest.raises(OSError):  # noqa: PT011 (of several kinds)
            send_forever(client)


def test_what_is_not_http_is_an_error_in_json(server: StudioThread) -> None:
    with connect(server.keys.port) as client:
        client.sendall(b"\x00\x01 nothing\r\n\r\n")
        assert error_of(read_until_closed(client), 400) == "The request is not valid HTTP."
    more = {"content-type": "application/json", "transfer-encoding": "chunked"}
    with connect(server.keys.port) as client:
        headers = {**server.headers, **more}
        client.sendall(request_head(server.keys.port, headers, "/api/ask", "POST") + b"zz\r\n")
        assert error_of(read_until_closed(client), 400) == "The request is not valid HTTP."


# Many clients


def test_a_new_client_takes_the_place_of_the_longest_waiting(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 5)
    monkeypatch.setattr(limits, "HEADER_SECONDS", 3600)
    waiting: list[socket.socket] = []
    with ExitStack() as stack:

        def start_waiting() -> None:
            waiting.append(stack.enter_context(connect(server.keys.port)))
            waiting[-1].sendall(b"GET /api/info HTTP/1.1\r\nX: ")  # never complete

        for _ in range(5):
            start_waiting()
        for index in range(3):
            assert server.json("/api/info")["version"]
            assert read_until_closed(waiting[index]) == b""
            while len(server.open_connections()) > 4:  # it has not seen yet that we closed ours
                time.sleep(0.01)
            start_waiting()
        for client in waiting[3:]:
            client.settimeout(0.05)
            with pytest.raises(TimeoutError):  # still open
                client.recv(1)


def test_a_client_without_a_place_gets_503(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 3)
    head = request_head(server.keys.port, server.headers, "/api/info")
    stream = request_head(server.keys.port, server.headers, "/api/events")
    with ExitStack() as stack:
        streams = [stack.enter_context(connect(server.keys.port)) for _ in range(3)]
        for client in streams:
            client.sendall(stream)
            assert b"200 OK" in read_head(client)
        for _ in range(2):
            with connect(server.keys.port) as client:
                client.sendall(head)
                assert error_of(read_until_closed(client), 503) == connection.BUSY
    while server.open_connections():
        time.sleep(0.01)
    assert server.json("/api/info")["version"]


def test_the_limit_leaves_files_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    open_files = (300, 1000)

    def set_limit(_: int, values: tuple[int, int]) -> None:
        nonlocal open_files
        open_files = values

    monkeypatch.setattr("resource.getrlimit", lambda _: open_files)
    monkeypatch.setattr("resource.setrlimit", set_limit)
    assert connection.connection_limit() == 300 - limits.OTHER_FILES
    connection.raise_open_file_limit()
    assert open_files == (1000, 1000)
    assert connection.connection_limit() == 1000 - limits.OTHER_FILES
    open_files = (2**20, 2**20)
    connection.raise_open_file_limit()
    assert open_files == (2**20, 2**20)
    assert connection.connection_limit() == limits.CONNECTIONS


def test_500_readers_at_once(tmp_path: Path) -> None:
    """All of them stay connected, beside clients whose requests are never complete."""
    make_run(tmp_path / "one", metric_rows(1, 2, 3))
    with start_studio(tmp_path) as studio, ExitStack() as stack:
        clients = [stack.enter_context(connect(studio.port)) for _ in range(550)]
        head = request_head(studio.port, {"cookie": studio.cookie}, "/api/events?run=one:0")
        for client in clients[:50]:
            client.sendall(head[:40])
        for client in clients[50:]:
            client.sendall(head)
        for client in clients[50:]:
            received = b""
            while b'"total":3' not in received:
                chunk = client.recv(2**16)
                assert chunk, received
                received += chunk
            assert received.startswith(b"HTTP/1.1 200 OK")
        assert [run["id"] for run in studio.json("/api/runs")["runs"]] == ["one"]


async def no_events() -> AsyncIterator[bytes]:
    for _ in range(0):
        yield b""


def test_event_streams_count_from_their_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are admitted before the first one starts."""
    monkeypatch.setattr(limits, "EVENT_STREAMS", 7)
    streams = EventStreams()
    admitted: list[Any] = [streams.respond(no_events()) for _ in range(7)]
    with pytest.raises(RequestError, match="All 7 event streams are in use") as raised:
        streams.respond(no_events())
    assert raised.value.status == 429
    admitted.pop()  # its client has gone before it started
    admitted.append(streams.respond(no_events()))
    with pytest.raises(RequestError):
        streams.respond(no_events())


def test_a_burst_of_event_streams_does_not_pass_the_limit(
    server: StudioThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENT_STREAMS", 7)
    head = request_head(server.keys.port, server.headers, "/api/events?run=one:0")
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server.keys.port)) for _ in range(30)]
        for client in clients:
            client.sendall(head)
        statuses = [int(read_head(client).split()[1]) for client in clients]
    assert sorted(statuses) == [200] * 7 + [429] * 23
