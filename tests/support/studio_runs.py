"""A studio with a run of each kind, and how to talk to it without a browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from attnlab.studio._app import App
from attnlab.studio._app_state import Studio
from tests.support import summary_runs as summaries
from tests.support import vision_runs
from tests.support.studio_servers import Event, events_of, make_run

QUESTION = "Where was Nobody Atall born?"


def every_kind(folder: Path, made: Path) -> Path:
    """One run of each kind, and one that lies about itself."""
    folder.mkdir()
    for name in ("pretrained", "learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(summaries.trained(), folder / "summary")
    vision_runs.trained(folder, "vit")
    vision_runs.trained(folder, "convnet")
    liar = shutil.copytree(folder / "language", folder / "liar")
    shutil.copy(folder / "learned" / "tokenizer.json", liar)  # more of them than its model knows
    make_run(folder / "untrained", task={"name": "knowledge"})
    return folder


def inside(client: TestClient) -> Studio:
    """The studio behind a client."""
    app = client.app
    assert isinstance(app, App)
    assert app.studio is not None
    return app.studio


def posted(client: TestClient, path: str, status: int = 200, **body: Any) -> Any:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def written(client: TestClient, **body: Any) -> list[Event]:
    answer = client.post("/api/write", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return list(events_of(iter(answer.content.splitlines(keepends=True))))


def finished(client: TestClient, job: str) -> Any:
    """The job once it has ended, by its events; each of them is a state of it."""
    answer = client.get(f"/api/jobs/{job}/events")
    states = [e.data for e in events_of(iter(answer.content.splitlines(keepends=True)))]
    assert all(each["id"] == job for each in states)
    assert client.get(f"/api/jobs/{job}").json() == states[-1]
    return states[-1]
