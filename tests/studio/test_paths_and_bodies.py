"""The studio reads only allowed paths, and only bodies within the limits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import attnlab
from attnlab.studio import _app as app
from attnlab.studio import _request_limits as limits
from attnlab.studio import _routing as routing
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._http_errors import RequestError
from attnlab.studio._run_watcher import RunWatcher
from tests.support.studio_secret_files import SECRET, error_message, make_runs_and_secrets
from tests.support.studio_servers import make_run, start_studio, studio_client


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs_and_secrets(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with studio_client(runs) as started:
        yield started


# Paths

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
def test_no_run_id_leads_outside(client: TestClient, runs: Path, name: str) -> None:
    absolute = str(runs.parent / "outside")
    for run in (name, absolute, str(runs / "first")):
        for encoded in (quote(run, safe=""), quote(quote(run, safe=""), safe="")):
            for path in ("run", "metrics", "diff", "audit"):
                response = client.get(f"/api/{path}?run={encoded}")
                assert response.status_code in (400, 404), (path, run)
                assert SECRET not in response.text
                error_message(response)
        for path, body in (
            ("ask", {"run": run, "questions": ["who?"]}),
            ("write", {"run": run, "text": "a text"}),
            ("look", {"target": f"run:{run}", "text": "a text"}),
            ("look", {"target": f"model:{run}", "text": "a text"}),
            ("audit", {"run": run}),
        ):
            response = client.post(f"/api/{path}", json=body)
            assert response.status_code in (400, 404), (path, run)
            assert SECRET not in response.text


def test_links_are_not_followed(client: TestClient) -> None:
    names = {each["id"]: each for each in client.get("/api/runs").json()["runs"]}
    assert set(names) == {"first", "deep/er/one", "linked", "kept", "config-link"}
    assert names["config-link"]["state"] == "broken"
    for path in ("run", "metrics", "audit", "diff"):
        response = client.get(f"/api/{path}?run=linked")
        assert SECRET not in response.text
        assert '"step":9' not in response.text
    assert client.get("/api/audit?run=linked").status_code == 409
    for run in ("linked", "kept"):
        response = client.post("/api/look", json={"target": f"run:{run}", "text": "a"})
        assert response.status_code == 409
        assert "link" in error_message(response)


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
    response = client.get("/")
    assert "<title>studio" in response.text
    assert response.headers["content-type"].startswith("text/html")
    response = client.get("/static/studio.js")
    assert response.text == "export {};"
    assert "javascript" in response.headers["content-type"]
    for path in (
        "../secret.js",
        "%2e%2e/secret.js",
        "..%2fsecret.js",
        "link.js",
        "",
        "/etc/passwd",
    ):
        response = client.get(f"/static/{path}")
        assert response.status_code == 404, path
        assert SECRET not in response.text


@given(st.text())
def test_any_unknown_run_id_is_rejected(name: str) -> None:
    folders = AllowedFolders(Path(__file__).parent)
    with pytest.raises(RequestError) as raised:
        folders.run_folder(name)
    assert raised.value.status == 404
    assert "\n" not in raised.value.message


def test_models_are_addressed_by_id_only(tmp_path: Path) -> None:
    for folder in ("a/model", "b/model", "c"):
        make_run(tmp_path / folder)
    models = [tmp_path / "a/model", tmp_path / "b/model", tmp_path / "c"]
    folders = AllowedFolders.resolve(tmp_path, models)
    assert list(folders.models) == ["model", "model-2", "c"]
    assert folders.model_folder("model-2") == (tmp_path / "b/model").resolve()
    with pytest.raises(RequestError, match="There is no model"):
        folders.model_folder("a/model")
    with pytest.raises(ValueError, match="has no model"):
        AllowedFolders.resolve(tmp_path, [tmp_path])


# Bodies


def test_bodies_are_limited_despite_their_header(client: TestClient) -> None:
    large = b'{"run":"first","questions":["' + b"x" * limits.JSON_BYTES + b'"]}'
    kind = {"content-type": "application/json"}
    assert client.post("/api/ask", content=large, headers=kind).status_code == 413

    def parts() -> Iterator[bytes]:
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    response = client.post("/api/ask", content=parts(), headers=kind)
    assert "content-length" not in response.request.headers
    assert response.status_code == 413
    image = bytes(limits.IMAGE_BYTES + 1)
    assert client.post("/api/see?run=first", content=image).status_code == 413


def test_an_endless_body_is_rejected_early(runs: Path) -> None:
    """On a real socket: the response comes before the end of the body."""
    with start_studio(runs) as server, socket.create_connection(("127.0.0.1", server.port)) as raw:
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
            assert b" 413 " in other.recv(1000)  # before any byte of the body


def test_a_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(limits, "BODY_SECONDS", 0.01)

    class Slow:
        headers: dict[str, str] = {}  # noqa: RUF012

        async def stream(self) -> Any:
            yield b"{"
            await asyncio.sleep(60)

    with pytest.raises(RequestError) as raised:
        asyncio.run(routing.read_limited_body(Slow(), 100))  # type: ignore[arg-type]
    assert raised.value.status == 408


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
        (b'{"run":1,"questions":["a"]}', "run: is 1; give a text"),
        (b'{"run":"first","questions":[]}', "0 items"),
        (b'{"run":"first","questions":"a"}', "give a list"),
        (b'{"run":"first","questions":[1]}', "item 1"),
        (b'{"run":"first","questions":["' + b"x" * 501 + b'"]}', "501 characters"),
        (b'{"run":"first","questions":["\\ud800"]}', "half a character"),
        (b'{"run":"first","questions":["a"],"more":1}', "unknown field 'more'"),
        (b'{"run":"first","questions":NaN}', "not JSON"),
    ],
)
def test_a_wrong_body_gives_a_message(client: TestClient, body: bytes, words: str) -> None:
    kind = {"content-type": "application/json"}
    response = client.post("/api/ask", content=body, headers=kind)
    assert response.status_code == 400
    assert words in error_message(response)


def test_other_content_types_are_rejected(client: TestClient) -> None:
    body = b'{"run":"first","questions":["a"]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post("/api/ask", content=body, headers={"content-type": kind})
        assert response.status_code == 415, kind


def test_an_internal_error_gives_a_message_and_the_server_continues(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Any) -> None:
        raise RuntimeError("by accident")

    with studio_client(runs) as client:
        with monkeypatch.context() as patch:
            patch.setattr(RunWatcher, "read_entries", fail)
            response = client.get("/api/runs")
        assert response.status_code == 500
        assert "RuntimeError" in error_message(response)
        with monkeypatch.context() as patch:
            patch.setattr(attnlab, "__version__", 7)  # an invalid response
            response = client.get("/api/info")
        assert response.status_code == 500
        assert "ValidationError" in error_message(response)
        assert client.get("/api/runs").status_code == 200
    assert "by accident" in capsys.readouterr().err
