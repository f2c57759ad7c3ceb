"""A reader who leaves: what was asked for is cancelled, and the worker is free for the next."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.studio import _request_limits as limits
from attnlab.studio import _worker_pool as pool
from attnlab.studio._worker_pool import Pool, Worker
from tests.support.studio_servers import Threaded, asked, make_run, threaded

FOREVER = "sleep 3600"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PROGRAM", "tests.support.studio_worker")
    monkeypatch.setattr(limits, "WORKERS", 1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Threaded]:
    make_run(tmp_path / "one")
    with threaded(tmp_path) as found:
        yield found


def left(server: Threaded, path: str, body: dict[str, Any], begun: Path) -> None:
    """A request whose socket is closed once its work has begun."""
    content = json.dumps({"run": "one", **body}).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{server.keys.port}"]
    lines += [f"{name}: {value}" for name, value in server.headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
    with socket.create_connection(("127.0.0.1", server.keys.port), timeout=60) as reader:
        reader.sendall("\r\n".join(lines).encode() + content)
        while not begun.exists():
            time.sleep(0.01)
    begun.unlink()


@pytest.mark.parametrize("path", ["/api/ask", "/api/write"])
def test_the_worker_of_a_reader_who_left_is_free(
    path: str, server: Threaded, tmp_path: Path
) -> None:
    """Over a real socket, with the only worker at work for an hour."""
    begun = tmp_path / "begun"
    orders = [f"touch {begun}", FOREVER]
    body = {"questions": orders} if path == "/api/ask" else {"text": "\n".join(orders)}
    headers = {**server.headers, "content-type": "application/json"}
    for _ in range(2):
        left(server, path, body, begun)
        given = json.dumps({"run": "one", "questions": ["sleep 0"]})
        with asked(server.keys.port, "POST", "/api/ask", headers, given) as answer:
            assert answer.status == 200
            assert json.loads(answer.read())["answers"] == []


def test_who_leaves_while_a_worker_is_given_back_takes_none_along() -> None:
    """The pool is busy with the start of another just then."""

    async def run() -> None:
        made = Pool()
        await made.ask("ask", {"questions": []})
        asking = asyncio.create_task(made.ask("ask", {"questions": ["sleep 0.2"]}))
        while made.idle:
            await asyncio.sleep(0.01)
        async with made.changed:
            await asyncio.sleep(0.5)  # it has its answer, and waits to give the worker back
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        while made.leaving:
            await asyncio.sleep(0.01)
        assert made.idle == made.workers
        assert isinstance(made.idle[0], Worker)
        await made.close()

    asyncio.run(run())
