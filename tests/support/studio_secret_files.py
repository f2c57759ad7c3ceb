"""A runs folder, and secret files outside it that the studio must not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.studio_servers import make_run, metric_rows

SECRET = "nobody may read this"


def make_runs_and_secrets(base: Path) -> Path:
    """Makes runs, a secret run beside their folder, and links to it. Returns the runs folder."""
    folder = base / "runs"
    make_run(folder / "first", metric_rows(1, 2, 3))
    make_run(folder / "deep" / "er" / "one", metric_rows(1))
    outside = make_run(base / "outside", metric_rows(9), task={"name": SECRET})
    (outside / "audit.json").write_text(json.dumps({"secret": SECRET}))
    (folder / "link").symlink_to(outside)
    (folder / "deep" / "link").symlink_to(outside)
    linked = make_run(folder / "linked", task={"name": "knowledge"})
    (linked / "audit.json").symlink_to(outside / "audit.json")
    (linked / "metrics.jsonl").unlink()
    (linked / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    (linked / "model.safetensors").symlink_to(outside / "config.json")
    checkpoint = make_run(folder / "kept") / "checkpoints" / "step-000000001"
    checkpoint.parent.mkdir()
    checkpoint.symlink_to(outside)
    hidden = make_run(folder / ".hidden")
    assert hidden.exists()
    bad = folder / "config-link"
    bad.mkdir()
    (bad / "config.json").symlink_to(outside / "config.json")
    return folder


def error_message(response: Any) -> str:
    content = response.json()
    assert set(content) == {"error"}
    assert content["error"]
    assert "\n" not in content["error"]
    return str(content["error"])
