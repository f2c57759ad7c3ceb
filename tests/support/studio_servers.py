"""Studios to test: in this process, or started by the command."""

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

from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._app import StudioApp
from attnlab.studio._request_guard import AccessKeys
from attnlab.studio._server import StudioServer, bind_socket, server_config
from tests.support.private_cache import private_cache

KEYS = AccessKeys(token="right-token", cookie="right-cookie", port=8642)
ORIGIN = f"http://127.0.0.1:{KEYS.port}"
MODEL = {"model": "decoder", "attention": "softmax", "width": 48}


@contextmanager
def studio_client(runs: Path, models: Sequence[Path] = ()) -> Iterator[TestClient]:
    """A client of a studio in this process. It sends the cookie and the right Origin."""
    app = StudioApp(AllowedFolders.resolve(runs, models), KEYS)
    with TestClient(
        app,
        base_url=ORIGIN,
        headers={"origin": ORIGIN},
        cookies={KEYS.cookie_name: KEYS.cookie},
        follow_redirects=False,
    ) as client:
        yield client


def make_run(folder: Path, rows: Sequence[dict[str, Any]] = (), **changes: Any) -> Path:
    """Writes the files of a run folder that the list of runs reads."""
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


def append_text(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def metric_rows(*steps: int) -> list[dict[str, Any]]:
    return [{"step": step, "loss": 1 / step, "seconds": 0.5 * step} for step in steps]


@contextmanager
def send_request(
    port: int, method: str, path: str, headers: dict[str, str], body: Any = None
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, body, headers)
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


class StudioProcess:
    """A studio in its own process."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        match = re.fullmatch(r"http://127\.0\.0\.1:([0-9]+)/\?token=(.+)", address)
        assert match is not None, address
        self.port, self.token = int(match[1]), match[2]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.cookie = ""
        with self.request("GET", f"/?token={self.token}") as response:
            assert response.status == 200
            self.cookie = response.headers["set-cookie"].split(";")[0]

    @contextmanager
    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a new connection."""
        all_headers = {"origin": self.origin, "cookie": self.cookie, **(headers or {})}
        with send_request(self.port, method, path, all_headers, body) as response:
            yield response

    def json(self, path: str) -> Any:
        with self.request("GET", path) as response:
            assert response.status == 200, response.read()
            return json.loads(response.read())

    def events(
        self, path: str, headers: dict[str, str] | None = None
    ) -> Generator[Event, None, None]:
        """Events as they arrive."""
        with self.request("GET", path, headers) as response:
            assert response.status == 200, response.read()
            yield from parse_events(iter(response.readline, b""))

    def interrupt(self) -> int:
        """Sends Ctrl-C and returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(300)


class Event:
    def __init__(self, fields: dict[str, str]) -> None:
        self.name, self.id = fields.get("event", "message"), fields.get("id", "")
        self.data = json.loads(fields["data"])


def parse_events(lines: Iterator[bytes]) -> Iterator[Event]:
    """Parses server-sent events by the specification, which ignores comments."""
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


class StudioThread:
    """A studio in a thread of this process, on a real socket: tests can change its limits."""

    def __init__(self, port: int) -> None:
        self.server: StudioServer | None = None
        self.keys = AccessKeys("right-token", "right-cookie", port)
        self.origin = f"http://127.0.0.1:{port}"
        cookie = f"{self.keys.cookie_name}={self.keys.cookie}"
        self.headers = {"origin": self.origin, "cookie": cookie}

    def json(self, path: str) -> Any:
        with send_request(self.keys.port, "GET", path, self.headers) as response:
            assert response.status == 200, response.read()
            return json.loads(response.read())

    def open_connections(self) -> list[Any]:
        """The connections that the server has not closed."""
        assert self.server is not None
        return list(self.server.server_state.connections)


@contextmanager
def start_studio_thread(runs: Path) -> Iterator[StudioThread]:
    listener = bind_socket(0)
    studio = StudioThread(listener.getsockname()[1])
    app = StudioApp(AllowedFolders.resolve(runs), studio.keys)
    server = studio.server = StudioServer(server_config(app), app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield studio
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def start_studio(runs: Path, *options: str) -> Iterator[StudioProcess]:
    """Starts a studio over these runs on any free port."""
    with run_studio_command("--runs", str(runs), "--port", "0", "--no-browser", *options) as studio:
        yield studio


@contextmanager
def start_isolated_studio(runs: Path, cache: Path, *options: str) -> Iterator[StudioProcess]:
    """Starts a studio with its own cache, so that it sees no other claims and benches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", private_cache(cache))
        with start_studio(runs, *options) as studio:
            yield studio


@contextmanager
def run_studio_command(*options: str) -> Iterator[StudioProcess]:
    """Runs `attnlab studio` with these options."""
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
        yield StudioProcess(process, line.split()[2])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
