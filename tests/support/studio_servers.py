"""Studios to test: in this process, or as people start them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.studio._allowed_folders import Places
from attnlab.studio._app import App
from attnlab.studio._request_guard import Keys
from attnlab.studio._server import Server, bind, configured

KEYS = Keys(token="right-token", cookie="right-cookie", port=8642)
ORIGIN = f"http://127.0.0.1:{KEYS.port}"
MODEL = {"model": "decoder", "attention": "softmax", "width": 48}


@contextmanager
def studio(runs: Path, models: Sequence[Path] = ()) -> Iterator[TestClient]:
    """The application with a client that has the cookie and our Origin."""
    app = App(Places.of(runs, models), KEYS)
    with TestClient(
        app,
        base_url=ORIGIN,
        headers={"origin": ORIGIN},
        cookies={KEYS.cookie_name: KEYS.cookie},
        follow_redirects=False,
    ) as client:
        yield client


def make_run(folder: Path, rows: Sequence[dict[str, Any]] = (), **changes: Any) -> Path:
    """A run folder as far as the list reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "task": {"name": "language", "headline": "bits"},
        "model": MODEL,
        "training": {"steps": 8, "learning_rate": 0.003},
        "parameters": 3_312_345,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rows(*steps: int) -> list[dict[str, Any]]:
    return [{"step": step, "loss": 1 / step, "seconds": 0.5 * step} for step in steps]


@contextmanager
def asked(
    port: int, method: str, path: str, headers: dict[str, str], body: Any = None
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, body, headers)
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


class Served:
    """A studio in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        found = re.fullmatch(r"http://127\.0\.0\.1:([0-9]+)/\?token=(.+)", address)
        assert found is not None, address
        self.port, self.token = int(found[1]), found[2]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.cookie = ""
        with self.ask("GET", f"/?token={self.token}") as answer:
            assert answer.status == 200
            self.cookie = answer.headers["set-cookie"].split(";")[0]

    @contextmanager
    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own."""
        given = {"origin": self.origin, "cookie": self.cookie, **(headers or {})}
        with asked(self.port, method, path, given, body) as answer:
            yield answer

    def json(self, path: str) -> Any:
        with self.ask("GET", path) as answer:
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())

    def events(
        self, path: str, headers: dict[str, str] | None = None
    ) -> Generator[Event, None, None]:
        """As they come."""
        with self.ask("GET", path, headers) as answer:
            assert answer.status == 200, answer.read()
            yield from events_of(iter(answer.readline, b""))

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(300)


class Event:
    def __init__(self, fields: dict[str, str]) -> None:
        self.name, self.id = fields.get("event", "message"), fields.get("id", "")
        self.data = json.loads(fields["data"])


def events_of(lines: Iterator[bytes]) -> Iterator[Event]:
    """Server-sent events as the specification reads them: a comment is no event."""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode("utf-8").rstrip("\n")
        if not text:
            if "data" in fields:
                yield Event(fields)
            fields = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(": ")
            fields[name] = value


class Threaded:
    """A studio in a thread of this process, on a real socket: tests can change its limits."""

    def __init__(self, port: int) -> None:
        self.keys = Keys("right-token", "right-cookie", port)
        self.origin = f"http://127.0.0.1:{port}"
        cookie = f"{self.keys.cookie_name}={self.keys.cookie}"
        self.headers = {"origin": self.origin, "cookie": cookie}

    def json(self, path: str) -> Any:
        with asked(self.keys.port, "GET", path, self.headers) as answer:
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())


@contextmanager
def threaded(runs: Path) -> Iterator[Threaded]:
    bound = bind(0)
    found = Threaded(bound.getsockname()[1])
    app = App(Places.of(runs), found.keys)
    server = Server(configured(app), app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield found
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


@contextmanager
def served(runs: Path, *options: str) -> Iterator[Served]:
    """A studio over these runs, at any free port."""
    with serving("--runs", str(runs), "--port", "0", "--no-browser", *options) as found:
        yield found


@contextmanager
def served_alone(runs: Path, cache: Path, *options: str) -> Iterator[Served]:
    """With results of its own: others' claims and benches are not seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        with served(runs, *options) as found:
            yield found


@contextmanager
def serving(*options: str) -> Iterator[Served]:
    """`attnlab studio` as a person starts it."""
    command = [sys.executable, "-m", "attnlab", "studio", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("attnlab studio: "), line + process.stderr.read()
        yield Served(process, line.split()[2])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
