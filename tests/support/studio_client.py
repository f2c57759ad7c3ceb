"""A run of each kind, and requests to a studio without a browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from attnlab.studio._app import StudioApp
from attnlab.studio._app_state import Studio
from tests.support import summary_runs as summaries
from tests.support import vision_runs
from tests.support.studio_servers import Event, make_run, parse_events

QUESTION = "Where was Nobody Atall born?"


def make_runs_of_each_kind(folder: Path, made: Path) -> Path:
    """One run of each kind, and one whose tokenizer does not fit its model."""
    folder.mkdir()
    for name in ("pretrained", "learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(summaries.trained(), folder / "summary")
    vision_runs.trained(folder, "vit")
    vision_runs.trained(folder, "convnet")
    mismatched = shutil.copytree(folder / "language", folder / "mismatched")
    shutil.copy(
        folder / "learned" / "tokenizer.json", mismatched
    )  # it has more tokens than the model
    make_run(folder / "untrained", task={"name": "knowledge"})
    return folder


def studio_behind(client: TestClient) -> Studio:
    """The studio behind a client."""
    app = client.app
    assert isinstance(app, StudioApp)
    assert app.studio is not None
    return app.studio


def post(client: TestClient, path: str, status: int = 200, **body: Any) -> Any:
    response = client.post(f"/api/{path}", json=body)
    assert response.status_code == status, response.text
    return response.json()


def generation_events(client: TestClient, **body: Any) -> list[Event]:
    response = client.post("/api/write", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return list(parse_events(iter(response.content.splitlines(keepends=True))))


def wait_for_job(client: TestClient, job: str) -> Any:
    """The final state of a job, read from its events."""
    response = client.get(f"/api/jobs/{job}/events")
    states = [e.data for e in parse_events(iter(response.content.splitlines(keepends=True)))]
    assert all(state["id"] == job for state in states)
    assert client.get(f"/api/jobs/{job}").json() == states[-1]
    return states[-1]
