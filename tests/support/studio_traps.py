"""A studio's folder beside which lies what must not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.studio_servers import make_run, rows

SECRET = "nobody may read this"


def with_traps(base: Path) -> Path:
    """Runs; beside them lies what must not be read, and links lead to it."""
    folder = base / "runs"
    make_run(folder / "first", rows(1, 2, 3))
    make_run(folder / "deep" / "er" / "one", rows(1))
    outside = make_run(base / "outside", rows(9), task={"name": SECRET})
    (outside / "audit.json").write_text(json.dumps({"secret": SECRET}))
    (folder / "link").symlink_to(outside)
    (folder / "deep" / "link").symlink_to(outside)
    linked = make_run(folder / "linked", task={"name": "knowledge"})
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


def error_of(answer: Any) -> str:
    found = answer.json()
    assert set(found) == {"error"}
    assert found["error"]
    assert "\n" not in found["error"]
    return str(found["error"])
