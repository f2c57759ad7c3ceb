"""Jobs, which take minutes: audits, claims, benches."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._result_files import check_ledger
from attnlab.tasks.knowledge._data import hold_out, read_pairs
from tests.support.processes import wait_until
from tests.support.studio_client import post, studio_behind, wait_for_job


def test_an_audit_is_a_job(client: TestClient, all_runs: Path) -> None:
    response = client.get("/api/audit?run=learned")
    assert response.status_code == 404
    assert "attnlab knowledge audit" in response.json()["error"]
    assert "cannot answer" in post(client, "audit", 409, run="language")["error"]
    error = post(client, "audit", 409, run="learned")["error"]
    assert "was trained on world/train.tsv, which is not below the runs folder" in error
    (all_runs / "learned" / "audit.json").write_text('{"accuracy": NaN, "run": "learned"}')
    assert client.get("/api/audit?run=learned").json() == {"accuracy": "nan", "run": "learned"}
    (all_runs / "learned" / "audit.json").write_text("[")
    assert client.get("/api/audit?run=learned").status_code == 409
    (all_runs / "learned" / "audit.json").unlink()


def run_audit(client: TestClient, all_runs: Path, **body: Any) -> Any:
    last = wait_for_job(client, post(client, "audit", 202, run="learned", **body)["job"])
    path = all_runs / "learned" / "audit.json"
    if last["state"] == "done":
        report = json.loads(path.read_text())
        path.unlink()
        return report
    return last["message"]


def test_an_audit_uses_your_questions_or_those_of_the_run(
    client: TestClient, all_runs: Path, made: Path
) -> None:
    pairs = (made / "world" / "train.tsv").read_text()
    pairs += pairs.replace("Where", "there")  # enough to hold out some
    first = "\n".join(pairs.splitlines()[:3])
    report = run_audit(client, all_runs, pairs=first)
    assert (report["pairs"], report["asked"]) == (3, "your questions")
    assert "your questions" in (all_runs / "learned" / "audit.html").read_text()
    (all_runs / "world").mkdir()
    (all_runs / "world" / "train.tsv").write_text(pairs)
    try:
        report = run_audit(client, all_runs)
        assert report["pairs"] == len(pairs.splitlines())
        assert report["asked"] == "all questions of train.tsv, most of which it was trained on"
        config = json.loads((all_runs / "learned" / "config.json").read_text())
        split = hold_out(
            read_pairs(all_runs / "world" / "train.tsv"), 0.8, config["training"]["seed"]
        )
        config["task"]["held_out"] = 0.8
        (all_runs / "learned" / "config.json").write_text(json.dumps(config))
        report = run_audit(client, all_runs)
        assert [each["question"] for each in report["answers"]] == [q for q, _ in split[1]]
        assert report["asked"] == "held-out questions of train.tsv"
        for outside in (str(made / "world" / "train.tsv"), "../secret", "\0", 7):
            config["task"]["pairs"] = outside
            (all_runs / "learned" / "config.json").write_text(json.dumps(config))
            assert "not below the runs folder" in post(client, "audit", 409, run="learned")["error"]
    finally:
        shutil.rmtree(all_runs / "world")
        shutil.copy(made / "learned" / "config.json", all_runs / "learned")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            "\nno question here\nWhere was Bob born",
            "has questions without answers, the first in line 2; put a tab and the answer after "
            "each question",
        ),
        ("Who?\tMe\n\nWhy?", "line 3 has no tab; each line is question, tab, answer"),
        ("Who?\tMe\nWhy?\t", "line 2 has no answer; each line is question, tab, answer"),
        ("a\tb\tc", "line 1 has more than one tab; each line is question, tab, answer"),
        (" \n", "has no questions; give lines of question, tab, answer"),
    ],
)
def test_an_invalid_audit_starts_no_job(
    client: TestClient, all_runs: Path, pairs: str, message: str
) -> None:
    path, before = all_runs / "learned" / "audit.json", len(studio_behind(client).jobs.jobs)
    path.write_text('{"pairs": 500}')
    response = post(client, "audit", 400, run="learned", pairs=pairs)
    assert response["error"] == f"the questions: {message}"
    assert len(studio_behind(client).jobs.jobs) == before
    assert path.read_text() == '{"pairs": 500}'
    path.unlink()


def claim_rows(client: TestClient) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in client.get("/api/claims").json()["ledger"]["claims"]}


def test_ledgers_of_version_1_are_upgraded() -> None:
    bars = {"kind": "bars", "y": "y", "values": [{"name": "a", "value": "inf", "low": 1}]}
    figure = {"value": "nan", "low": None, "high": None}
    row = {"id": "copy", "figure": figure, "plot": bars, "control": {"plot": bars}}
    old = {"format": "attnlab-claims", "version": 1, "claims": [row]}
    new = check_ledger(old)
    expected = {**bars, "values": [["a", {"value": "Infinity", "low": 1}]]}
    assert new["version"] == 2
    assert new["claims"][0]["plot"] == new["claims"][0]["control"]["plot"] == expected
    assert new["claims"][0]["figure"]["value"] == "NaN"
    assert check_ledger(new) == new
    with pytest.raises(ValueError, match="unknown version"):
        check_ledger({**old, "version": 3})


def test_claims_are_run_and_merged(client: TestClient, all_runs: Path) -> None:
    before = client.get("/api/claims").json()
    assert before["ledger"] is None
    ids = [each["id"] for each in before["registry"]]
    assert "copy" in ids
    assert {each["topic"] for each in before["registry"]} <= set(before["topics"])
    old = {"format": "attnlab-claims", "version": 1, "seed": 0, "size": "small", "claims": [
        {"id": "copy", "outcome": "old"}, {"id": "beta-hard", "outcome": "kept"}, {"id": "gone"},
    ]}  # fmt: skip
    own = studio_behind(client).results.own
    own.mkdir(parents=True, exist_ok=True)
    (own / "claims-small.json").write_text(json.dumps(old))
    other = {**old, "seed": 7, "size": "full", "claims": [
        {"id": "copy", "outcome": "other"}, {"id": "low-rank", "outcome": "other"},
        {"id": "beta-hard", "outcome": "other", "time": 5},
    ]}  # fmt: skip
    (all_runs / "claims.json").write_text(json.dumps(other))
    os.utime(all_runs / "claims.json", (100, 100))  # long before
    last = wait_for_job(client, post(client, "claims", 202, ids=["copy"])["job"])
    assert (last["state"], last["done"], last["total"]) == ("done", 1, 1)
    rows = claim_rows(client)
    outcomes = {name: (row["outcome"], row["size"], row["seed"]) for name, row in rows.items()}
    assert outcomes == {
        "copy": ("holds", "small", 0),
        "beta-hard": ("kept", "small", 0),
        "low-rank": ("other", "full", 7),  # not run now, so its row stays
    }
    assert (rows["low-rank"]["time"], rows["low-rank"]["file"]) == (100, "claims.json")
    assert rows["copy"]["file"] == "studio:claims-small.json"
    written = json.loads((own / "claims-small.json").read_text())["claims"]
    assert [row["id"] for row in written] == ["copy", "beta-hard"]  # the registry's order
    # a row is older if it was measured before the other file was written, whatever its own file
    later = written[0]["time"] + 50
    os.utime(all_runs / "claims.json", (later, later))
    os.utime(own / "claims-small.json", (later + 50, later + 50))
    assert claim_rows(client)["copy"]["outcome"] == "other"
    (all_runs / "claims.json").unlink()
    wrong = post(client, "claims", 404, ids=["nonsense"])
    assert "no claim nonsense" in wrong["error"]


def test_a_cancelled_job_keeps_finished_claims(client: TestClient) -> None:
    """The slow claims measure time, so they start when the first has ended."""
    path = studio_behind(client).results.own / "claims-small.json"
    path.unlink(missing_ok=True)
    job = post(client, "claims", 202, ids=["copy", "linear-cost", "longer-free"])["job"]
    wait_until(lambda: client.get(f"/api/jobs/{job}").json()["done"] > 0)
    assert client.post(f"/api/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert claim_rows(client)["copy"]["outcome"] == "holds"
    assert [row["id"] for row in json.loads(path.read_text())["claims"]] == ["copy"]


def test_a_bench_job_writes_a_report(client: TestClient, all_runs: Path) -> None:
    assert client.get("/api/bench").json() == {"files": []}
    job = post(client, "bench", 202, part="decode")["job"]
    last = wait_for_job(client, job)
    assert last["state"] == "done", last
    name = last["result"]["file"]
    (file,) = client.get("/api/bench").json()["files"]
    assert (file["file"], file["sections"]) == (name, ["decode"])
    report = client.get("/api/bench", params={"file": name}).json()
    assert report["format"] == "attnlab-report"
    assert "measurements" not in report["sections"][0]
    for wrong in ("../x.json", "/etc/passwd", name.replace("studio:", "")):
        assert client.get("/api/bench", params={"file": wrong}).status_code == 404
    (all_runs / "broken.json").write_text('{"format": "attnlab-bench", "version": 1}')
    (all_runs / "other.json").write_text("[1, 2]")
    (all_runs / "link.json").symlink_to(
        studio_behind(client).results.own / name.removeprefix("studio:")
    )
    assert len(client.get("/api/bench").json()["files"]) == 1
    shutil.copy(
        studio_behind(client).results.own / name.removeprefix("studio:"), all_runs / "copy.json"
    )
    files = client.get("/api/bench").json()["files"]
    assert {each["file"] for each in files} == {name, "copy.json"}
    for each in ("broken.json", "other.json", "link.json", "copy.json"):
        (all_runs / each).unlink()


def test_jobs_wait_and_can_be_cancelled(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = post(client, "bench", 202, part="speed", quick=False)["job"]
    second = post(client, "bench", 202, part="speed", quick=False)["job"]
    assert client.get(f"/api/jobs/{second}").json()["state"] == "waiting"
    wait_until(lambda: client.get(f"/api/jobs/{first}").json()["total"] > 0)
    states = {each["id"]: each["state"] for each in client.get("/api/jobs").json()["jobs"]}
    assert (states[first], states[second]) == ("running", "waiting")
    monkeypatch.setattr(limits, "JOBS", 2)
    assert "jobs wait or run" in post(client, "bench", 429, part="speed")["error"]
    worker = studio_behind(client).jobs.worker
    assert worker is not None
    for job in (second, first):
        assert client.post(f"/api/jobs/{job}/cancel").json()["state"] == "cancelled"
        assert wait_for_job(client, job)["state"] == "cancelled"
    wait_until(lambda: not worker.alive)
    assert client.post(f"/api/jobs/{first}/cancel").json()["state"] == "cancelled"  # still
    assert client.get("/api/jobs/none").status_code == 404
    assert client.post("/api/jobs/none/cancel").status_code == 404
