"""schemathesis with all of its checks, over every endpoint of the API.

ATTNLAB_API_EXAMPLES sets the number of examples for each endpoint.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from attnlab.studio import _run_watcher as run_watcher
from attnlab.studio._app import create_api
from attnlab.studio._event_stream import KEEP_ALIVE
from attnlab.studio._jobs import Job, JobQueue
from attnlab.studio._request_guard import RequestGuard
from attnlab.studio._run_watcher import RunWatcher
from tests.support import summary_runs as summaries
from tests.support import vision_runs
from tests.support.private_cache import private_cache
from tests.support.studio_servers import (
    StudioThread,
    make_run,
    metric_rows,
    send_request,
    start_studio_thread,
)

EXAMPLES = os.environ.get("ATTNLAB_API_EXAMPLES", "10")
ROOT = Path(__file__).parents[2]
CAPABLE_RUNS = {
    "/api/write": "summary",
    "/api/see": "vit",
    "/api/see/examples": "vit",
    "/api/look/image": "vit",
}
"""The run to use for an endpoint, where it is not the one that answers questions."""
CONFIG = """
[auth.openapi.cookie]
api_key = "{cookie}"

[checks.positive_data_acceptance]
# the default, and 422: the model cannot process this input
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""
ORIGINAL_FOLLOW, ORIGINAL_CALL = RunWatcher.follow, RequestGuard.__call__


async def follow_until_keep_alive(self: RunWatcher, marks: dict[str, str]) -> AsyncIterator[bytes]:
    """Ends the stream at the first keep-alive: the folder does not change."""
    async with aclosing(ORIGINAL_FOLLOW(self, marks)) as events:  # type: ignore[type-var]
        async for chunk in events:
            if chunk == KEEP_ALIVE:
                return
            yield chunk


async def finish_at_once(_: JobQueue, job: Job) -> None:
    """Replaces the work of a job, which takes minutes and has its own tests."""
    job.update(state="done", result=job.make_result({"name": "none.json"}))


class AnsweredRequests:
    """Counts the responses of a studio by endpoint and status."""

    def __init__(self) -> None:
        self.statuses: dict[str, set[int]] = {}

    async def call(self, guard: RequestGuard, scope: Any, receive: Any, send: Any) -> None:
        async def recorded_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                path = re.sub("/(jobs|captures)/[^/]+", r"/\1/{id}", scope["path"])
                endpoint = f"{scope['method']} {path}"
                self.statuses.setdefault(endpoint, set()).add(message["status"])
            await send(message)

        await ORIGINAL_CALL(guard, scope, receive, recorded_send)


@pytest.fixture(scope="module")
def answered() -> AnsweredRequests:
    return AnsweredRequests()


@pytest.fixture(scope="module")
def server(
    made: Path, answered: AnsweredRequests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StudioThread]:
    if find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed")
    folder = tmp_path_factory.mktemp("studio") / "runs"
    make_run(folder / "plain", metric_rows(1, 2, 3))
    for name in ("learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(summaries.trained(), folder / "summary")
    vision_runs.trained(folder, "vit")
    (folder / "learned" / "audit.json").write_text('{"accuracy": 1}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", private_cache(tmp_path_factory.mktemp("cache")))
        patch.setattr(run_watcher, "KEEP_ALIVE_SECONDS", 0.05)
        patch.setattr(RunWatcher, "follow", follow_until_keep_alive)
        patch.setattr(JobQueue, "_work", finish_at_once)
        patch.setattr(RequestGuard, "__call__", lambda *arguments: answered.call(*arguments))
        with start_studio_thread(folder) as started:
            yield started


def post(server: StudioThread, path: str, body: dict[str, Any]) -> Any:
    headers = {**server.headers, "content-type": "application/json"}
    with send_request(server.keys.port, "POST", path, headers, json.dumps(body)) as response:
        return json.loads(response.read())


def description_with_names(server: StudioThread) -> dict[str, Any]:
    """The description with existing names and one missing name in place of any text."""
    description: dict[str, Any] = copy.deepcopy(create_api(server.keys.port).openapi())
    job = post(server, "/api/bench", {"part": "error"})["job"]
    capture = post(server, "/api/look", {"target": "run:language", "text": "a"})["capture"]
    schemas = description["components"]["schemas"]
    schemas["AuditRequest"]["required"].append("pairs")  # the run's own are not below the folder
    for address, path in description["paths"].items():
        names = [CAPABLE_RUNS.get(address, "learned"), "language", "nobody"]
        runs = {"enum": names}
        keys = {"enum": [f"run:{name}" for name in names]}
        compared = {"enum": [f"run:{names[0]}", "untrained", "model:nobody"]}
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                schema, name = parameter["schema"], parameter["name"]
                if name == "run" and schema.get("type") == "array":
                    followed = {"enum": ["plain:0", "learned:2", "nobody:0"]}
                    schema["items"] = followed if address == "/api/events" else runs
                elif name == "id":
                    parameter["schema"] = {"enum": [job, capture, "nobody"]}
                else:
                    choices = {"run": runs, "target": keys, "compare": compared}
                    parameter["schema"] = choices.get(name, schema)
            content = operation.get("requestBody", {}).get("content", {})
            reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            properties = schemas.get(reference.split("/")[-1], {}).get("properties", {})
            fields: dict[str, Any] = {
                "run": runs,
                "target": keys,
                "pairs": {"enum": ["Who?\tMe", "Where?\tHere"]},
                "capture": {"enum": [capture, "nobody"]},
                "heads": {"enum": [[], [{"layer": "0", "head": 0}], [{"layer": "0", "head": 99}]]},
                "position": {"enum": [0, 99]},
                "ids": {"type": "array", "minItems": 1, "items": {"enum": ["copy", "nobody"]}},
            }
            properties |= {name: each for name, each in fields.items() if name in properties}
    return description


def run_schemathesis(server: StudioThread, folder: Path, *arguments: str) -> str:
    """Returns what it prints; fails if it reports a failure."""
    (folder / "schemathesis.toml").write_text(CONFIG.format(cookie=server.keys.cookie))
    command = [sys.executable, "-m", "schemathesis.cli", "run", "--url", server.origin]
    command += ["--checks", "all", "--max-examples", EXAMPLES, "--no-color"]
    command += ["--generation-deterministic", "--suppress-health-check", "all"]
    command += ["--request-timeout", "300", "--max-response-time", "300"]  # machines may be busy
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks",
    }
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " generated, " in done.stdout
    return done.stdout


def test_any_request_passes_all_checks(server: StudioThread, tmp_path: Path) -> None:
    """With the description that the studio serves: most names do not exist."""
    (tmp_path / "openapi.json").write_text(json.dumps(server.json("/api/openapi.json")))
    run_schemathesis(server, tmp_path, "openapi.json")


def test_requests_with_existing_names_pass_all_checks(
    server: StudioThread, answered: AnsweredRequests, tmp_path: Path
) -> None:
    description = description_with_names(server)
    (tmp_path / "openapi.json").write_text(json.dumps(description))
    run_schemathesis(server, tmp_path, "openapi.json")
    for path, methods in description["paths"].items():
        for method in methods:
            assert answered.statuses[f"{method.upper()} {path}"] & {200, 202}, (method, path)
