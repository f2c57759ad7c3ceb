"""Workers keep models loaded, and a model that fails does not end the server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError
from attnlab.studio._loaded_models import LoadedModels
from tests.support.processes import children_of, wait_until_ended
from tests.support.studio_client import QUESTION, post, studio_behind
from tests.support.studio_servers import start_studio


def test_a_model_is_loaded_once_and_again_after_a_change(tmp_path: Path) -> None:
    loaded: list[str] = []

    def load(folder: Path) -> str:
        loaded.append(folder.name)
        return folder.name

    models = LoadedModels(capacity=2)
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    for name in "abab":
        assert models.get("ask", str(tmp_path / name), load) == name
    assert loaded == ["a", "b"]
    (tmp_path / "a" / "config.json").write_text("{ }")
    models.get("ask", str(tmp_path / "a"), load)
    models.get("ask", str(tmp_path / "c"), load)  # drops b, the least recently used
    assert loaded == ["a", "b", "a", "c"]
    models.get("ask", str(tmp_path / "a"), load)
    models.get("ask", str(tmp_path / "b"), load)
    assert loaded == ["a", "b", "a", "c", "b"]


def test_loading_is_retried_if_the_files_change_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    attempts: list[int] = []

    def load(folder: Path) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            (folder / "checkpoints").mkdir()
            raise ValueError("the checkpoint is gone")
        return "open"

    assert LoadedModels().get("look", str(tmp_path), load) == "open"

    def fail(_: Path) -> str:
        raise ValueError("has no weights")

    with pytest.raises(RequestError, match="has no weights") as raised:
        LoadedModels().get("look", str(tmp_path), fail)
    assert raised.value.status == 409


def test_a_tokenizer_of_another_model_gives_a_message(client: TestClient) -> None:
    error = post(client, "look", 409, target="run:mismatched", text="Where?")
    assert error["error"].startswith("mismatched: its tokenizer has 300 ids, but its model knows")
    post(client, "look", target="run:language", text="to be")


def test_weights_that_do_not_fit_the_configuration_give_a_message(
    client: TestClient, all_runs: Path
) -> None:
    other = shutil.copytree(all_runs / "language", all_runs / "other")
    config = json.loads((other / "config.json").read_text())
    config["model"]["layers"] += 1
    (other / "config.json").write_text(json.dumps(config))
    message = post(client, "look", 409, target="run:other", text="to be")["error"]
    assert message == (
        "other/model.safetensors: these weights do not fit the configuration in config.json: "
        f"stack.blocks.{config['model']['layers'] - 1}.attention.project.weight is not in the file"
    )
    shutil.rmtree(other)


def test_a_slow_worker_blocks_no_other_and_a_killed_one_is_replaced(client: TestClient) -> None:
    """A stopped worker never starts its call; other workers answer meanwhile."""
    post(client, "ask", run="learned", questions=[QUESTION])
    pool = studio_behind(client).pool
    with ThreadPoolExecutor(1) as executor:
        slow_worker = next(each for each in pool.idle if any("ask" in k for k in each.models))
        pid = slow_worker.process.pid
        os.kill(pid, signal.SIGSTOP)
        slow = executor.submit(
            client.post, "/api/ask", json={"run": "learned", "questions": [QUESTION]}
        )
        while slow_worker in pool.idle:
            time.sleep(0.02)
        assert client.get("/api/runs").status_code == 200
        look = post(client, "look", target="run:language", text="to be")
        assert client.get(f"/api/captures/{look['capture']}").status_code == 200
        # the same model too: another worker loads it
        assert post(client, "ask", run="learned", questions=[QUESTION])["answers"]
        assert not slow.done()
        os.kill(pid, signal.SIGKILL)
        response = slow.result(300)
    assert response.status_code == 200
    assert response.json() == post(client, "ask", run="learned", questions=[QUESTION])
    assert len(pool.workers) <= limits.WORKERS


def test_too_many_waiting_requests_are_rejected(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = studio_behind(client).pool
    monkeypatch.setattr(limits, "WAITING_REQUESTS", 0)
    error = post(client, "ask", 429, run="learned", questions=[QUESTION])
    assert "wait for a model" in error["error"]
    assert len(pool.workers) <= limits.WORKERS


def test_a_client_that_disconnects_frees_the_worker(client: TestClient) -> None:
    """The client disconnects during a stream: its worker stops and is used again."""
    studio = studio_behind(client)
    arguments = {
        "folder": str(studio.folders.runs / "language"),
        "text": "to",
        "count": 8,
        "temperature": 1.0,
        "top_k": None,
        "top_p": None,
        "beams": None,
        "seed": 0,
        "block": 0,
        "tokens": 256,
    }

    async def disconnect() -> None:
        async with studio.pool.stream("generate", arguments) as frames:
            message, _ = await anext(frames)
            assert message["event"] == "token"
            workers = [each for each in studio.pool.workers if each not in studio.pool.idle]
            assert len(workers) == 1
        while studio.pool.releases:
            await asyncio.sleep(0.02)
        assert workers[0] in studio.pool.idle
        value, _ = await studio.pool.call("generate", arguments)
        assert value == {}

    assert client.portal is not None
    client.portal.call(disconnect)


def test_workers_end_with_the_server(all_runs: Path) -> None:
    """Even after SIGKILL, which the server cannot handle."""
    with start_studio(all_runs) as server:
        body = json.dumps({"run": "learned", "questions": [QUESTION]})
        kind = {"content-type": "application/json"}
        with server.request("POST", "/api/ask", kind, body) as response:
            assert response.status == 200, response.read()
        if not Path("/proc/self/stat").exists():
            pytest.skip("only Linux lists the children of a process")
        workers = children_of(server.process.pid)
        assert workers
        server.process.kill()
        server.process.wait()
        wait_until_ended(workers)
