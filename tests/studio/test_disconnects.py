"""If the client disconnects, its call is cancelled and the worker is free for the next."""

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
from attnlab.studio import _worker_pool as worker_pool
from attnlab.studio._worker_pool import Worker, WorkerPool
from tests.support.studio_servers import StudioThread, make_run, send_request, start_studio_thread

WORK = "sleep 3600"


@pytest.fixture(autouse=True)
def _fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PROGRAM", "tests.support.studio_fake_worker")
    monkeypatch.setattr(limits, "WORKERS", 1)
    monkeypatch.setattr(worker_pool, "CANCEL_SECONDS", 0.1)  # a call that sleeps does not stop


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StudioThread]:
    make_run(tmp_path / "one")
    with start_studio_thread(tmp_path) as studio:
        yield studio


def disconnect_during_work(
    server: StudioThread, path: str, body: dict[str, Any], started: Path
) -> None:
    """Sends a request and closes its socket once the work has started."""
    content = json.dumps({"run": "one", **body}).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{server.keys.port}"]
    lines += [f"{name}: {value}" for name, value in server.headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
    with socket.create_connection(("127.0.0.1", server.keys.port), timeout=60) as reader:
        reader.sendall("\r\n".join(lines).encode() + content)
        while not started.exists():
            time.sleep(0.01)
    started.unlink()


@pytest.mark.parametrize("path", ["/api/ask", "/api/write"])
def test_a_disconnect_frees_the_worker(path: str, server: StudioThread, tmp_path: Path) -> None:
    """Over a real socket; the only worker would work for an hour."""
    started = tmp_path / "begun"
    commands = [f"touch {started}", WORK]
    body = {"questions": commands} if path == "/api/ask" else {"text": "\n".join(commands)}
    headers = {**server.headers, "content-type": "application/json"}
    for _ in range(2):
        disconnect_during_work(server, path, body, started)
        next_body = json.dumps({"run": "one", "questions": ["sleep 0"]})
        with send_request(server.keys.port, "POST", "/api/ask", headers, next_body) as response:
            assert response.status == 200
            assert json.loads(response.read())["answers"] == []


def test_a_disconnect_during_the_release_loses_no_worker(tmp_path: Path) -> None:
    """The pool is locked at that moment, as while it starts a worker."""

    async def run() -> None:
        pool = WorkerPool()
        await pool.call("ask", {"questions": []})
        go = tmp_path / "go"
        call = asyncio.create_task(pool.call("ask", {"questions": [f"wait {go}"]}))
        while pool.idle:
            await asyncio.sleep(0.01)
        async with pool.changed:
            go.touch()
            while not pool.releases:  # the result is there, and the release waits
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        while pool.releases:
            await asyncio.sleep(0.01)
        assert pool.idle == pool.workers
        assert isinstance(pool.idle[0], Worker)
        await pool.close()

    asyncio.run(run())
