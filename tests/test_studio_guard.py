"""The studio lets in its own pages alone, and reads no path but those that it was given."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from attnlab.studio import app, endpoint, limits
from attnlab.studio.endpoint import Endpoint
from attnlab.studio.guard import HEADERS, Guard, Keys
from attnlab.studio.places import Places
from attnlab.studio.schema import Refused
from tests.studios import KEYS, ORIGIN, make_run, rows, served, studio

SECRET = "nobody may read this"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beside the runs lies what must not be read, and links lead to it."""
    base = tmp_path_factory.mktemp("studio")
    folder = base / "runs"
    make_run(folder / "first", rows(1, 2, 3))
    make_run(folder / "deep" / "er" / "one", rows(1))
    outside = make_run(base / "outside", rows(9), task={"name": SECRET})
    (outside / "audit.json").write_text(json.dumps({"secret": SECRET}))
    (folder / "link").symlink_to(outside)
    (folder / "deep" / "link").symlink_to(outside)
    linked = make_run(folder / "linked")
    (linked / "audit.json").symlink_to(outside / "audit.json")
    (linked / "metrics.jsonl").unlink()
    (linked / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    (linked / "model.safetensors").symlink_to(outside / "config.json")
    kept = make_run(folder / "kept") / "checkpoints" / "step-000000001"
    kept.parent.mkdir()
    kept.symlink_to(outside)
    hidden = make_run(folder / ".hidden")
    assert hidden.exists()
    bad = folder / "config-link"
    bad.mkdir()
    (bad / "config.json").symlink_to(outside / "config.json")
    return folder


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with studio(runs) as made:
        yield made


def error_of(answer: Any) -> str:
    found = answer.json()
    assert set(found) == {"error"}
    assert found["error"]
    assert "\n" not in found["error"]
    return str(found["error"])


# Who asks


def test_the_address_gives_the_cookie_and_forgets_the_token(runs: Path) -> None:
    with studio(runs) as client:
        client.cookies.clear()
        assert client.get("/api/runs").status_code == 403
        answer = client.get(f"/?token={KEYS.token}")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
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
        for path in ("/api/runs", "/api/openapi.json", "/", "/static/studio.js", "/playground"):
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

    monkeypatch.setattr("attnlab.studio.guard.hmac.compare_digest", compare)

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


# What is read

OUTSIDE = [
    "../outside",
    "..",
    "/",
    "",
    "./first",
    "first/.",
    "first/",
    "first/../first",
    "deep/../../outside",
    "link",
    "deep/link",
    "config-link",
    ".hidden",
    "first\0",
    "first\0/../outside",
    "..\\outside",
    "~",
    "%2e%2e/outside",
    "a/b/c/d/e/f",
    "x" * 1000,
    "deep//er/one",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "<script>alert(1)</script>",
    "\u202egnp.exe",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_path_leads_outside(client: TestClient, runs: Path, name: str) -> None:
    absolute = str(runs.parent / "outside")
    for run in (name, absolute, str(runs / "first")):
        for encoded in (quote(run, safe=""), quote(quote(run, safe=""), safe="")):
            for path in ("run", "metrics", "diff", "audit"):
                answer = client.get(f"/api/{path}?run={encoded}")
                assert answer.status_code in (400, 404), (path, run)
                assert SECRET not in answer.text
                error_of(answer)
        for path, body in (
            ("ask", {"run": run, "questions": ["who?"]}),
            ("write", {"run": run, "text": "a text"}),
            ("look", {"subject": run, "text": "a text"}),
            ("look", {"subject": {"model": run}, "text": "a text"}),
            ("audit", {"run": run}),
        ):
            answer = client.post(f"/api/{path}", json=body)
            assert answer.status_code in (400, 404), (path, run)
            assert SECRET not in answer.text


def test_links_are_not_followed(client: TestClient) -> None:
    names = {each["id"]: each for each in client.get("/api/runs").json()["runs"]}
    assert set(names) == {"first", "deep/er/one", "linked", "kept", "config-link"}
    assert names["config-link"]["state"] == "broken"
    for path in ("run", "metrics", "audit", "diff"):
        answer = client.get(f"/api/{path}?run=linked")
        assert SECRET not in answer.text
        assert '"step":9' not in answer.text
    assert client.get("/api/audit?run=linked").status_code == 409
    for run in ("linked", "kept"):
        answer = client.post("/api/look", json={"subject": run, "text": "a"})
        assert answer.status_code == 409
        assert "link" in error_of(answer)


def test_static_files_are_those_of_the_folder(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "STATIC", tmp_path / "static")
    assert "make web" in client.get("/").text
    assert client.get("/").status_code == 404
    assert client.get("/static/studio.js").status_code == 404
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "index.html").write_text("<!doctype html><title>studio</title>")
    (tmp_path / "static" / "studio.js").write_text("export {};")
    (tmp_path / "secret.js").write_text(SECRET)
    (tmp_path / "static" / "link.js").symlink_to(tmp_path / "secret.js")
    answer = client.get("/")
    assert "<title>studio" in answer.text
    assert answer.headers["content-type"].startswith("text/html")
    answer = client.get("/static/studio.js")
    assert answer.text == "export {};"
    assert "javascript" in answer.headers["content-type"]
    for path in (
        "../secret.js",
        "%2e%2e/secret.js",
        "..%2fsecret.js",
        "link.js",
        "",
        "/etc/passwd",
    ):
        answer = client.get(f"/static/{path}")
        assert answer.status_code == 404, path
        assert SECRET not in answer.text


@given(st.text())
def test_any_name_is_a_run_or_a_refusal(name: str) -> None:
    places = Places(Path(__file__).parent)
    with pytest.raises(Refused) as told:
        places.run(name)
    assert told.value.status == 404
    assert "\n" not in told.value.sentence


def test_a_model_is_known_by_its_id_alone(tmp_path: Path) -> None:
    for folder in ("a/model", "b/model", "c"):
        make_run(tmp_path / folder)
    models = [tmp_path / "a/model", tmp_path / "b/model", tmp_path / "c"]
    places = Places.of(tmp_path, models)
    assert list(places.models) == ["model", "model-2", "c"]
    assert places.model("model-2") == (tmp_path / "b/model").resolve()
    with pytest.raises(Refused, match="There is no model"):
        places.model("a/model")
    with pytest.raises(ValueError, match="no model here"):
        Places.of(tmp_path, [tmp_path])


# How much is read


def test_bodies_are_bounded_whatever_their_length_says(client: TestClient) -> None:
    large = b'{"run":"first","questions":["' + b"x" * limits.JSON_BYTES + b'"]}'
    kind = {"content-type": "application/json"}
    assert client.post("/api/ask", content=large, headers=kind).status_code == 413

    def parts() -> Iterator[bytes]:
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    answer = client.post("/api/ask", content=parts(), headers=kind)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 413
    image = bytes(limits.IMAGE_BYTES + 1)
    assert client.post("/api/see?run=first", content=image).status_code == 413


def test_a_body_without_end_is_cut_off_while_it_comes(runs: Path) -> None:
    """On a real socket: the answer comes before all of the body does."""
    with served(runs) as server, socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.settimeout(120)
        head = (
            f"POST /api/ask HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Origin: {server.origin}\r\nCookie: {server.cookie}\r\n"
            "Content-Type: application/json\r\n"
        )
        raw.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        sent = 0
        try:
            for _ in range(64):
                raw.sendall(chunk)
                sent += 0x10000
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert b" 413 " in raw.recv(1000)
        with socket.create_connection(("127.0.0.1", server.port)) as other:
            other.settimeout(120)
            other.sendall((head + f"Content-Length: {10**12}\r\n\r\n").encode())
            assert b" 413 " in other.recv(1000)  # without a byte of it


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(limits, "BODY_SECONDS", 0.01)

    class Slow:
        headers: dict[str, str] = {}  # noqa: RUF012

        async def stream(self) -> Any:
            yield b"{"
            await asyncio.sleep(60)

    with pytest.raises(Refused) as told:
        asyncio.run(endpoint.body_of(Slow(), 100))  # type: ignore[arg-type]
    assert told.value.status == 408


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "give an object"),
        (b"null", "give an object"),
        (b"{}", "has no run"),
        (b'{"run":"first"}', "has no questions"),
        (b'{"run":1,"questions":["a"]}', "run: is a number"),
        (b'{"run":"first","questions":[]}', "0 items"),
        (b'{"run":"first","questions":"a"}', "give a list"),
        (b'{"run":"first","questions":[1]}', "item 1"),
        (b'{"run":"first","questions":["' + b"x" * 501 + b'"]}', "501 characters"),
        (b'{"run":"first","questions":["\\ud800"]}', "half a character"),
        (b'{"run":"first","questions":["a"],"more":1}', "'more' is not known"),
        (b'{"run":"first","questions":NaN}', "not JSON"),
    ],
)
def test_wrong_bodies_are_told_what_is_wrong(client: TestClient, body: bytes, words: str) -> None:
    kind = {"content-type": "application/json"}
    answer = client.post("/api/ask", content=body, headers=kind)
    assert answer.status_code == 400
    assert words in error_of(answer)


def test_only_json_is_json(client: TestClient) -> None:
    body = b'{"run":"first","questions":["a"]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post("/api/ask", content=body, headers={"content-type": kind})
        assert answer.status_code == 415, kind


def test_an_accident_is_a_sentence_and_no_end(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Any) -> None:
        raise RuntimeError("by accident")

    broken = Endpoint("GET", "/api/broken", "", fail, {})
    monkeypatch.setattr(app, "ENDPOINTS", [*app.ENDPOINTS, broken])
    with studio(runs) as client:
        answer = client.get("/api/broken")
        assert answer.status_code == 500
        assert "RuntimeError" in error_of(answer)
        assert client.get("/api/runs").status_code == 200
    assert "by accident" in capsys.readouterr().err


# The command


def test_a_used_port_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.commands import run

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
        assert list(stream) is not None  # it was let go
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
        with pytest.raises(ConnectionError), server.ask("GET", "/"):
            pass


def test_help_and_the_server_do_not_import_torch(runs: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from attnlab.studio.app import App; from attnlab.studio.server import serve; "
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
