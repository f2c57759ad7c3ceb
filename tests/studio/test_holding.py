"""The studio's workers hold models: each opened once, none takes the server down."""

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
from attnlab.studio._http_errors import Refused
from attnlab.studio._loaded_models import Models
from tests.support.studio_runs import QUESTION, inside, posted
from tests.support.studio_servers import served


def test_a_model_is_opened_once_and_again_when_it_changes(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_one(folder: Path) -> str:
        opened.append(folder.name)
        return folder.name

    models = Models(most=2)
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    for name in "abab":
        assert models.get("ask", str(tmp_path / name), open_one) == name
    assert opened == ["a", "b"]
    (tmp_path / "a" / "config.json").write_text("{ }")
    models.get("ask", str(tmp_path / "a"), open_one)
    models.get("ask", str(tmp_path / "c"), open_one)  # now b goes, the one not used for longest
    assert opened == ["a", "b", "a", "c"]
    models.get("ask", str(tmp_path / "a"), open_one)
    models.get("ask", str(tmp_path / "b"), open_one)
    assert opened == ["a", "b", "a", "c", "b"]


def test_a_model_that_changes_while_it_is_opened_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    tries: list[int] = []

    def open_one(folder: Path) -> str:
        tries.append(1)
        if len(tries) == 1:
            (folder / "checkpoints").mkdir()
            raise ValueError("the checkpoint is gone")
        return "open"

    assert Models().get("look", str(tmp_path), open_one) == "open"

    def fail(_: Path) -> str:
        raise ValueError("has no weights")

    with pytest.raises(Refused, match="has no weights") as told:
        Models().get("look", str(tmp_path), fail)
    assert told.value.status == 409


def test_a_model_that_breaks_is_a_sentence(client: TestClient) -> None:
    said = posted(client, "look", 500, subject="liar", text="Where?")
    assert said["error"].startswith("The model broke: IndexError")
    posted(client, "look", subject="language", text="to be")


def test_weights_of_another_configuration_are_a_whole_sentence(
    client: TestClient, kinds: Path
) -> None:
    other = shutil.copytree(kinds / "language", kinds / "other")
    config = json.loads((other / "config.json").read_text())
    config["model"]["layers"] += 1
    (other / "config.json").write_text(json.dumps(config))
    said = posted(client, "look", 409, subject="other", text="to be")["error"]
    assert said == (
        "other/model.safetensors: these weights do not fit the configuration in config.json: "
        f"stack.blocks.{config['model']['layers'] - 1}.attention.project.weight is not in the file"
    )
    shutil.rmtree(other)


def test_a_slow_model_holds_up_nobody_and_a_killed_one_is_replaced(client: TestClient) -> None:
    """Stopped before it begins, one worker is as slow as can be; others answer meanwhile."""
    posted(client, "ask", run="learned", questions=[QUESTION])
    pool = inside(client).pool
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
        found = posted(client, "look", subject="language", text="to be")
        assert client.get(f"/api/captures/{found['capture']}").status_code == 200
        # the same model too: another worker opens it
        assert posted(client, "ask", run="learned", questions=[QUESTION])["answers"]
        assert not slow.done()
        os.kill(pid, signal.SIGKILL)
        answer = slow.result(120)
    assert answer.status_code == 200
    assert answer.json() == posted(client, "ask", run="learned", questions=[QUESTION])
    assert len(pool.workers) <= limits.WORKERS


def test_workers_are_few_and_who_waits_too_long_is_told(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = inside(client).pool
    monkeypatch.setattr(limits, "WAITING", 0)
    found = posted(client, "ask", 429, run="learned", questions=[QUESTION])
    assert "wait for a model" in found["error"]
    assert len(pool.workers) <= limits.WORKERS


def test_who_leaves_early_frees_the_worker(client: TestClient) -> None:
    """A reader that goes in the middle of a stream: its worker stops and is used again."""
    studio = inside(client)
    given = {
        "folder": str(studio.places.runs / "language"),
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

    async def leave() -> None:
        async with studio.pool.call("generate", given) as frames:
            message, _ = await anext(frames)
            assert message["tell"] == "token"
            workers = [each for each in studio.pool.workers if each not in studio.pool.idle]
            assert len(workers) == 1
        while studio.pool.leaving:
            await asyncio.sleep(0.02)
        assert workers[0] in studio.pool.idle
        value, _ = await studio.pool.ask("generate", given)
        assert value == {}

    assert client.portal is not None
    client.portal.call(leave)


def test_workers_end_with_the_server(kinds: Path) -> None:
    """However it ends: here by a signal that nobody can handle."""
    with served(kinds) as server:
        body = json.dumps({"run": "learned", "questions": [QUESTION]})
        kind = {"content-type": "application/json"}
        with server.ask("POST", "/api/ask", kind, body) as answer:
            assert answer.status == 200, answer.read()
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        if not children.exists():
            pytest.skip("only Linux tells a process's children")
        workers = [int(each) for each in children.read_text().split()]
        assert workers
        server.process.kill()
        server.process.wait()
        end = time.monotonic() + 60
        while any(running(pid) for pid in workers) and time.monotonic() < end:
            time.sleep(0.1)
        assert not any(running(pid) for pid in workers)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
