"""What takes minutes is a job: audits, claims, benches; and the playground's page."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.studio import limits
from tests.studio_kinds import finished, inside, posted


def test_an_audit_is_a_job(client: TestClient, kinds: Path) -> None:
    answer = client.get("/api/audit?run=learned")
    assert answer.status_code == 404
    assert "attnlab knowledge audit" in answer.json()["error"]
    assert "cannot answer" in posted(client, "audit", 409, run="language")["error"]
    job = posted(client, "audit", 202, run="learned")["job"]
    last = finished(client, job)
    # it learned from files of its own, so it must be told what to ask: as on the command line
    assert last["state"] == "failed"
    assert "--pairs" in last["message"]
    (kinds / "learned" / "audit.json").write_text('{"accuracy": NaN, "run": "learned"}')
    assert client.get("/api/audit?run=learned").json() == {"accuracy": "nan", "run": "learned"}
    (kinds / "learned" / "audit.json").write_text("[")
    assert client.get("/api/audit?run=learned").status_code == 409
    (kinds / "learned" / "audit.json").unlink()


def rows_of(client: TestClient) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in client.get("/api/claims").json()["ledger"]["claims"]}


def test_claims_are_run_and_joined(client: TestClient, kinds: Path) -> None:
    before = client.get("/api/claims").json()
    assert before["ledger"] is None
    ids = [each["id"] for each in before["registry"]]
    assert "copy" in ids
    assert {each["topic"] for each in before["registry"]} <= set(before["topics"])
    old = {"format": "attnlab-claims", "version": 1, "seed": 0, "size": "small", "claims": [
        {"id": "copy", "outcome": "old"}, {"id": "beta-hard", "outcome": "kept"}, {"id": "gone"},
    ]}  # fmt: skip
    own = inside(client).results.own
    own.mkdir(parents=True, exist_ok=True)
    (own / "claims-small.json").write_text(json.dumps(old))
    told = {**old, "seed": 7, "size": "full", "claims": [
        {"id": "copy", "outcome": "told"}, {"id": "low-rank", "outcome": "told"},
        {"id": "beta-hard", "outcome": "told", "time": 5},
    ]}  # fmt: skip
    (kinds / "claims.json").write_text(json.dumps(told))
    os.utime(kinds / "claims.json", (100, 100))  # long before
    last = finished(client, posted(client, "claims", 202, ids=["copy"])["job"])
    assert (last["state"], last["done"], last["of"]) == ("done", 1, 1)
    found = rows_of(client)
    said = {name: (row["outcome"], row["size"], row["seed"]) for name, row in found.items()}
    assert said == {
        "copy": ("holds", "small", 0),
        "beta-hard": ("kept", "small", 0),
        "low-rank": ("told", "full", 7),  # what was not run now is still there
    }
    assert (found["low-rank"]["time"], found["low-rank"]["file"]) == (100, "claims.json")
    assert found["copy"]["file"] == "studio:claims-small.json"
    written = json.loads((own / "claims-small.json").read_text())["claims"]
    assert [row["id"] for row in written] == ["copy", "beta-hard"]  # the registry's order
    # a row that was measured before another file was written is older, whatever its file is
    later = written[0]["time"] + 50
    os.utime(kinds / "claims.json", (later, later))
    os.utime(own / "claims-small.json", (later + 50, later + 50))
    assert rows_of(client)["copy"]["outcome"] == "told"
    (kinds / "claims.json").unlink()
    wrong = posted(client, "claims", 400, ids=["nonsense"])
    assert "no claim 'nonsense'" in wrong["error"]


def test_a_bench_is_a_job_and_a_file(client: TestClient, kinds: Path) -> None:
    assert client.get("/api/bench").json() == {"files": []}
    job = posted(client, "bench", 202, part="decode")["job"]
    last = finished(client, job)
    assert last["state"] == "done", last
    name = last["result"]["file"]
    (file,) = client.get("/api/bench").json()["files"]
    assert (file["file"], file["sections"]) == (name, ["decode"])
    report = client.get("/api/bench", params={"file": name}).json()
    assert report["format"] == "attnlab-bench"
    assert "measurements" not in report["sections"][0]
    for wrong in ("../x.json", "/etc/passwd", name.replace("studio:", "")):
        assert client.get("/api/bench", params={"file": wrong}).status_code == 404
    (kinds / "broken.json").write_text('{"format": "attnlab-bench", "version": 1}')
    (kinds / "other.json").write_text("[1, 2]")
    (kinds / "link.json").symlink_to(inside(client).results.own / name.removeprefix("studio:"))
    assert len(client.get("/api/bench").json()["files"]) == 1
    shutil.copy(inside(client).results.own / name.removeprefix("studio:"), kinds / "mine.json")
    files = client.get("/api/bench").json()["files"]
    assert {each["file"] for each in files} == {name, "mine.json"}
    for each in ("broken.json", "other.json", "link.json", "mine.json"):
        (kinds / each).unlink()


def test_jobs_wait_and_can_be_cancelled(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = posted(client, "bench", 202, part="speed", quick=False)["job"]
    second = posted(client, "bench", 202, part="speed", quick=False)["job"]
    assert client.get(f"/api/jobs/{second}").json()["state"] == "waiting"
    while client.get(f"/api/jobs/{first}").json()["of"] == 0:
        time.sleep(0.05)
    states = {each["id"]: each["state"] for each in client.get("/api/jobs").json()["jobs"]}
    assert (states[first], states[second]) == ("running", "waiting")
    monkeypatch.setattr(limits, "JOBS", 2)
    assert "jobs wait or run" in posted(client, "bench", 429, part="speed")["error"]
    worker = inside(client).jobs.worker
    assert worker is not None
    for job in (second, first):
        assert client.delete(f"/api/jobs/{job}").json()["state"] == "cancelled"
        assert finished(client, job)["state"] == "cancelled"
    end = time.monotonic() + 60
    while worker.alive and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.alive
    assert client.delete(f"/api/jobs/{first}").json()["state"] == "cancelled"  # still
    assert client.get("/api/jobs/none").status_code == 404
    assert client.delete("/api/jobs/none").status_code == 404


def test_the_playground_has_a_policy_of_its_own(client: TestClient) -> None:
    answer = client.get("/playground")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert "Attention playground" in answer.text
