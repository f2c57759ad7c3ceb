"""The studio accepts requests of its own pages only."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import pytest
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._app import create_api
from attnlab.studio._request_guard import HEADERS, AccessKeys, RequestGuard
from tests.support.studio_secret_files import error_message, make_runs_and_secrets
from tests.support.studio_servers import (
    KEYS,
    ORIGIN,
    run_studio_command,
    start_studio,
    studio_client,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs_and_secrets(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with studio_client(runs) as started:
        yield started


# Access


def test_the_address_sets_the_cookie_and_drops_the_token(runs: Path) -> None:
    with studio_client(runs) as client:
        client.cookies.clear()
        assert client.get("/api/runs").status_code == 403
        response = client.get(f"/?token={KEYS.token}")
        assert response.status_code == 200
        assert 'http-equiv="refresh" content="0; url=/"' in response.text
        assert KEYS.token not in response.text
        cookie = response.headers["set-cookie"]
        assert cookie.startswith(f"{KEYS.cookie_name}={KEYS.cookie};")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert client.get("/api/runs").status_code == 200  # the client kept it


@pytest.mark.parametrize(
    "query",
    [
        "token=wrong",
        "token=",
        f"token={KEYS.token}x",
        f"token={KEYS.token[:-1]}",
        f"token={KEYS.cookie}",
        f"token=wrong&token={KEYS.token}",
        "token=%ff%fe",
        "token=é",
    ],
)
def test_a_wrong_token_opens_nothing(client: TestClient, query: str) -> None:
    response = client.get(f"/?{query}", headers={"cookie": ""})
    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert "terminal" in response.text


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "right-cookie",
        f"{KEYS.cookie_name}=",
        f"{KEYS.cookie_name}=wrong",
        f"{KEYS.cookie_name}={KEYS.cookie}x",
        f"{KEYS.cookie_name}={KEYS.token}",
        f"attnlab-studio-1={KEYS.cookie}",
        f"{KEYS.cookie_name}",
        "a=b; c",
        f'{KEYS.cookie_name}="',
        "\x01=\x02",
    ],
)
def test_every_page_needs_the_cookie(client: TestClient, cookie: str) -> None:
    client_cookies = dict(client.cookies)
    client.cookies.clear()
    try:
        for path in ("/api/runs", "/api/openapi.json", "/", "/static/studio.js"):
            response = client.get(path, headers={"cookie": cookie} if cookie else {})
            assert response.status_code == 403, (path, cookie)
            assert "first" not in response.text
        error_message(client.get("/api/runs", headers={"cookie": cookie} if cookie else {}))
    finally:
        client.cookies.update(client_cookies)


def test_the_cookie_may_stand_beside_others(client: TestClient) -> None:
    valid = f"{KEYS.cookie_name}={KEYS.cookie}"
    for cookie in (
        f"a=b; {valid}",
        f"{valid}; z",
        f"{KEYS.cookie_name}=wrong; {valid}",
        f'a="; {valid}',
    ):
        assert client.get("/api/info", headers={"cookie": cookie}).status_code == 200, cookie


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:8642",
        "127.0.0.1",
        "127.0.0.1:8643",
        "127.0.0.1.attacker.example:8642",
        "localhost.attacker.example:8642",
        "0.0.0.0:8642",
        "[::1]:8642",
        "",
    ],
)
def test_a_foreign_host_is_rejected(client: TestClient, host: str) -> None:
    response = client.get("/api/runs", headers={"host": host, "origin": f"http://{host}"})
    assert response.status_code == 403
    assert "Host" in error_message(response)
    # not even the right token helps
    response = client.get(f"/?token={KEYS.token}", headers={"host": host})
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "LOCALHOST:8642"])
def test_local_host_names_are_accepted(client: TestClient, host: str) -> None:
    origin = f"http://{host.lower()}"
    assert client.get("/api/runs", headers={"host": host, "origin": origin}).status_code == 200


def test_port_80_may_be_omitted_from_the_host() -> None:
    assert "localhost" in AccessKeys("t", "c", 80).hosts
    assert "localhost" not in AccessKeys("t", "c", 8642).hosts


@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example",
        "null",
        "http://127.0.0.1:8643",
        "https://127.0.0.1:8642",
        "http://127.0.0.1:8642.attacker.example",
        "http://localhost:8642",  # a name of this machine, but not the Host of the request
        "",
    ],
)
def test_a_foreign_origin_is_rejected(client: TestClient, origin: str) -> None:
    body = {"run": "first", "questions": ["who?"]}
    for response in (
        client.post("/api/ask", json=body, headers={"origin": origin}),
        client.get("/api/events?run=first:0", headers={"origin": origin}),
        client.get("/api/runs", headers={"origin": origin}),
        client.post("/api/jobs/x/cancel", headers={"origin": origin}),
    ):
        assert response.status_code == 403, origin
        assert "Origin" in error_message(response)


def test_requests_that_change_something_need_an_origin(client: TestClient) -> None:
    del client.headers["origin"]
    try:
        assert client.get("/api/runs").status_code == 200  # browsers send none when they only read
        response = client.post("/api/ask", json={"run": "first", "questions": ["who?"]})
        assert response.status_code == 403
        assert client.post("/api/jobs/x/cancel").status_code == 403
    finally:
        client.headers["origin"] = ORIGIN


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_cannot_read(client: TestClient, site: str) -> None:
    """Pages on another port of this machine are of the same site, so the cookie comes along."""
    assert client.get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
    for own in ("same-origin", "none"):
        assert client.get("/api/runs", headers={"sec-fetch-site": own}).status_code == 200


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `hmac.compare_digest`."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("attnlab.studio._request_guard.hmac.compare_digest", compare)

    async def nothing(*_: Any) -> None:
        raise AssertionError("passed")

    guard = TestClient(RequestGuard(nothing, KEYS), base_url=ORIGIN, follow_redirects=False)
    guard.get("/?token=guess")
    guard.get("/api/runs", headers={"cookie": f"{KEYS.cookie_name}=guess"})
    assert compared == [(b"guess", b"right-token"), (b"guess", b"right-cookie")]


def test_every_response_has_the_security_headers(client: TestClient) -> None:
    for response in (
        client.get("/"),
        client.get("/nothing"),
        client.get("/api/nothing"),
        client.get("/static/studio.js"),
        client.get("/api/runs"),
        client.post("/api/runs"),
        client.get("/api/run?run=none"),
        client.get("/api/runs", headers={"host": "attacker.example"}),
        client.get(f"/?token={KEYS.token}"),
        client.get("/?token=wrong"),
    ):
        for name, value in HEADERS.items():
            if name == "cache-control" and str(response.url).endswith("/static/studio.js"):
                assert response.headers[name] in ("no-store", "no-cache")
            else:
                assert response.headers[name] == value, (response.url, name)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "range_header", ["bytes=0-3", "bytes=9-2", "bytes=99999999999-", "x", "bytes=a-"]
)
def test_range_requests_get_the_whole_file(client: TestClient, range_header: str) -> None:
    for path in ("/", "/static/studio.js"):
        expected = client.get(path)
        assert expected.status_code == 200
        response = client.get(path, headers={"range": range_header, "if-range": "x"})
        assert (response.status_code, response.content) == (200, expected.content)


def test_unknown_addresses_and_methods_are_reported(client: TestClient) -> None:
    for method, path, status in (
        ("GET", "/api/nothing", 404),
        ("GET", "/etc/passwd", 404),
        ("POST", "/api/runs", 405),
        ("PUT", "/api/ask", 405),
        ("HEAD", "/api/events", 405),
        ("OPTIONS", "/api/ask", 405),
        ("TRACE", "/api/ask", 405),
    ):
        response = client.request(method, path)
        assert response.status_code == status, (method, path)
        if method != "HEAD":
            error_message(response)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PATCH"])
def test_a_wrong_method_lists_all_right_ones(client: TestClient, method: str) -> None:
    """Each method has a route of its own; the header names them all."""
    paths = {
        path: {m.upper() for m in each} for path, each in create_api().openapi()["paths"].items()
    }
    assert {"GET", "POST"} in paths.values()
    for path, methods in {**paths, "/": {"GET", "HEAD"}, "/static/x": {"GET", "HEAD"}}.items():
        response = client.request(method, path.replace("{id}", "x"))
        assert response.status_code == 405, path
        assert set(response.headers["allow"].split(", ")) == methods, path


# The command


def test_a_used_port_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.support.command_line import run

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, out, err = run(f"studio --runs {runs} --port {port} --no-browser", capsys)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert f"--port {port}" in err
    for wrong in ("--port 70000", "--runs nowhere", f"--runs {runs} --model {runs}"):
        code, _, err = run(f"studio --no-browser {wrong}", capsys)
        assert code == 2, wrong
        assert err.count("\n") == 1, wrong


def test_it_listens_on_this_machine_only_and_ends_with_control_c(runs: Path) -> None:
    with start_studio(runs) as server:
        addresses = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)]
        for address in {str(each) for each in addresses} - {"127.0.0.1"}:
            with pytest.raises(OSError):  # noqa: PT011 (of several kinds)
                socket.create_connection((address, server.port), timeout=5).close()
        stream = server.events("/api/events?run=first:0")
        assert next(stream).name == "runs"  # a client that stays connected
        assert server.interrupt() == 0
        list(stream)  # it ends: the client was disconnected
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
        with pytest.raises(ConnectionError), server.request("GET", "/"):
            pass


def test_the_token_is_not_in_the_arguments_of_the_browser(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users of the machine can see the arguments, but cannot read the file that they name."""
    browser, record = tmp_path / "browser", tmp_path / "record"
    lines = ["#!/bin/sh", f'echo "$@" > {record}.part', f"mv {record}.part {record}"]
    browser.write_text("\n".join(lines) + "\n")
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with run_studio_command("--runs", str(runs), "--port", "0") as server:
        while not record.exists():
            time.sleep(0.01)
        arguments = record.read_text()
        assert server.token not in arguments
        page = Path(url2pathname(urlsplit(arguments.strip()).path))
        assert page.stat().st_mode & 0o777 == 0o600
        assert page.parent.stat().st_mode & 0o777 == 0o700
        assert f'content="0; url={server.origin}/?token={server.token}"' in page.read_text()
        assert server.interrupt() == 0
        assert not page.parent.exists()


def test_the_longest_allowed_address_is_answered(runs: Path) -> None:
    longest = quote("\U0001f600" * limits.NAME_CHARACTERS)
    query = "&".join([f"run={longest}"] * limits.COMPARED_RUNS)
    with start_studio(runs) as server, server.request("GET", f"/api/diff?{query}") as response:
        assert response.status == 404
        assert "There is no run" in json.loads(response.read())["error"]
        assert response.headers["x-content-type-options"] == "nosniff"


def test_help_and_the_server_do_not_import_torch(runs: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from attnlab.studio._app import StudioApp; "
        "from attnlab.studio._server import serve; "
        "import attnlab.cli.studio; assert 'torch' not in sys.modules; "
        "assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with start_studio(runs) as server:
        server.json("/api/runs")
        libraries = Path(f"/proc/{server.process.pid}/maps")
        if libraries.exists():
            assert "libtorch" not in libraries.read_text()
