"""The studio lets in its own pages alone."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._request_guard import HEADERS, Guard, Keys
from tests.support.studio_servers import KEYS, ORIGIN, served, studio
from tests.support.studio_traps import error_of, with_traps


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_traps(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with studio(runs) as made:
        yield made


# Who asks


def test_the_address_gives_the_cookie_and_forgets_the_token(runs: Path) -> None:
    with studio(runs) as client:
        client.cookies.clear()
        assert client.get("/api/runs").status_code == 403
        answer = client.get(f"/?token={KEYS.token}")
        assert answer.status_code == 200
        assert 'http-equiv="refresh" content="0; url=/"' in answer.text
        assert KEYS.token not in answer.text
        cookie = answer.headers["set-cookie"]
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
    answer = client.get(f"/?{query}", headers={"cookie": ""})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "terminal" in answer.text


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
def test_without_the_cookie_nothing_is_read(client: TestClient, cookie: str) -> None:
    client_cookies = dict(client.cookies)
    client.cookies.clear()
    try:
        for path in ("/api/runs", "/api/openapi.json", "/", "/static/studio.js"):
            answer = client.get(path, headers={"cookie": cookie} if cookie else {})
            assert answer.status_code == 403, (path, cookie)
            assert "first" not in answer.text
        error_of(client.get("/api/runs", headers={"cookie": cookie} if cookie else {}))
    finally:
        client.cookies.update(client_cookies)


def test_the_cookie_may_stand_beside_others(client: TestClient) -> None:
    mine = f"{KEYS.cookie_name}={KEYS.cookie}"
    for cookie in (
        f"a=b; {mine}",
        f"{mine}; z",
        f"{KEYS.cookie_name}=wrong; {mine}",
        f'a="; {mine}',
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
def test_a_name_that_was_pointed_here_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 403
    assert "Host" in error_of(answer)
    # not even the right token helps
    answer = client.get(f"/?token={KEYS.token}", headers={"host": host})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "LOCALHOST:8642"])
def test_this_machine_may_be_named_so(client: TestClient, host: str) -> None:
    origin = f"http://{host.lower()}"
    assert client.get("/api/runs", headers={"host": host, "origin": origin}).status_code == 200


def test_port_80_is_left_out_of_names() -> None:
    assert "localhost" in Keys("t", "c", 80).hosts
    assert "localhost" not in Keys("t", "c", 8642).hosts


@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example",
        "null",
        "http://127.0.0.1:8643",
        "https://127.0.0.1:8642",
        "http://127.0.0.1:8642.attacker.example",
        "http://localhost:8642",  # ours, but not of this Host
        "",
    ],
)
def test_another_origin_is_refused(client: TestClient, origin: str) -> None:
    asked = {"run": "first", "questions": ["who?"]}
    for answer in (
        client.post("/api/ask", json=asked, headers={"origin": origin}),
        client.get("/api/events?run=first:0", headers={"origin": origin}),
        client.get("/api/runs", headers={"origin": origin}),
        client.delete("/api/jobs/x", headers={"origin": origin}),
    ):
        assert answer.status_code == 403, origin
        assert "Origin" in error_of(answer)


def test_what_changes_something_needs_an_origin(client: TestClient) -> None:
    del client.headers["origin"]
    try:
        assert client.get("/api/runs").status_code == 200  # browsers send none when they only read
        answer = client.post("/api/ask", json={"run": "first", "questions": ["who?"]})
        assert answer.status_code == 403
        assert client.delete("/api/jobs/x").status_code == 403
    finally:
        client.headers["origin"] = ORIGIN


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_not_even_read(client: TestClient, site: str) -> None:
    """Pages on another port of this machine are of the same site, so the cookie comes along."""
    assert client.get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
    for own in ("same-origin", "none"):
        assert client.get("/api/runs", headers={"sec-fetch-site": own}).status_code == 200


def test_secrets_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the function whose time tells nothing."""
    seen: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        seen.append((one, other))
        return one == other

    monkeypatch.setattr("attnlab.studio._request_guard.hmac.compare_digest", compare)

    async def nothing(*_: Any) -> None:
        raise AssertionError("passed")

    guard = TestClient(Guard(nothing, KEYS), base_url=ORIGIN, follow_redirects=False)
    guard.get("/?token=guess")
    guard.get("/api/runs", headers={"cookie": f"{KEYS.cookie_name}=guess"})
    assert seen == [(b"guess", b"right-token"), (b"guess", b"right-cookie")]


def test_every_answer_has_the_headers(client: TestClient) -> None:
    for answer in (
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
            if name == "cache-control" and str(answer.url).endswith("/static/studio.js"):
                assert answer.headers[name] in ("no-store", "no-cache")
            else:
                assert answer.headers[name] == value, (answer.url, name)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("given", ["bytes=0-3", "bytes=9-2", "bytes=99999999999-", "x", "bytes=a-"])
def test_a_file_is_served_whole_whatever_part_is_asked_for(client: TestClient, given: str) -> None:
    for path in ("/", "/static/studio.js"):
        wanted = client.get(path)
        assert wanted.status_code == 200
        answer = client.get(path, headers={"range": given, "if-range": "x"})
        assert (answer.status_code, answer.content) == (200, wanted.content)


def test_unknown_addresses_and_methods_are_sentences(client: TestClient) -> None:
    for method, path, status in (
        ("GET", "/api/nothing", 404),
        ("GET", "/etc/passwd", 404),
        ("POST", "/api/runs", 405),
        ("PUT", "/api/ask", 405),
        ("HEAD", "/api/events", 405),
        ("OPTIONS", "/api/ask", 405),
        ("TRACE", "/api/ask", 405),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status, (method, path)
        if method != "HEAD":
            error_of(answer)


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


def test_it_listens_to_this_machine_alone_and_ends_with_control_c(runs: Path) -> None:
    with served(runs) as server:
        addresses = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)]
        for address in {str(each) for each in addresses} - {"127.0.0.1"}:
            with pytest.raises(OSError):  # noqa: PT011 (of several kinds)
                socket.create_connection((address, server.port), timeout=5).close()
        stream = server.events("/api/events?run=first:0")
        assert next(stream).name == "runs"  # a reader that stays
        assert server.interrupt() == 0
        list(stream)  # it ends: the reader was let go
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
        with pytest.raises(ConnectionError), server.ask("GET", "/"):
            pass


def test_the_longest_address_that_may_be_is_answered_by_us(runs: Path) -> None:
    longest = quote("\U0001f600" * limits.NAME)
    query = "&".join([f"run={longest}"] * limits.RUNS)
    with served(runs) as server, server.ask("GET", f"/api/diff?{query}") as answer:
        assert answer.status == 404
        assert "There is no run" in json.loads(answer.read())["error"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_help_and_the_server_do_not_import_torch(runs: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from attnlab.studio._app import App; "
        "from attnlab.studio._server import serve; "
        "import attnlab.cli.studio; assert 'torch' not in sys.modules; "
        "assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with served(runs) as server:
        server.json("/api/runs")
        libraries = Path(f"/proc/{server.process.pid}/maps")
        if libraries.exists():
            assert "libtorch" not in libraries.read_text()
