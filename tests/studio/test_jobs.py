"""What takes minutes is a job: audits, claims, benches."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._result_files import claims
from attnlab.tasks.knowledge._data import hold_out, read_pairs
from tests.support.studio_runs import finished, inside, posted


def test_an_audit_is_a_job(client: TestClient, kinds: Path) -> None:
    answer = client.get("/api/audit?run=learned")
    assert answer.status_code == 404
    assert "attnlab knowledge audit" in answer.json()["error"]
    assert "cannot answer" in posted(client, "audit", 409, run="language")["error"]
    told = posted(client, "audit", 409, run="learned")["error"]
    assert "learned from world/train.tsv, which is not found below the runs folder" in told
    (kinds / "learned" / "audit.json").write_text('{"accuracy": NaN, "run": "learned"}')
    assert client.get("/api/audit?run=learned").json() == {"accuracy": "nan", "run": "learned"}
    (kinds / "learned" / "audit.json").write_text("[")
    assert client.get("/api/audit?run=learned").status_code == 409
    (kinds / "learned" / "audit.json").unlink()


def audited(client: TestClient, kinds: Path, **body: Any) -> Any:
    last = finished(client, posted(client, "audit", 202, run="learned", **body)["job"])
    path = kinds / "learned" / "audit.json"
    if last["state"] == "done":
        report = json.loads(path.read_text())
        path.unlink()
        return report
    return last["message"]


def test_an_audit_asks_what_is_given_or_what_the_run_was_measured_on(
    client: TestClient, kinds: Path, made: Path
) -> None:
    pairs = (made / "world" / "train.tsv").read_text()
    pairs += pairs.replace("Where", "there")  # so many that some may be held out
    first = "\n".join(pairs.splitlines()[:3])
    report = audited(client, kinds, pairs=first)
    assert (report["pairs"], report["asked"]) == (3, "the questions that were given")
    assert "the questions that were given" in (kinds / "learned" / "audit.html").read_text()
    (kinds / "world").mkdir()
    (kinds / "world" / "train.tsv").write_text(pairs)
    try:
        report = audited(client, kinds)
        assert report["pairs"] == len(pairs.splitlines())
        assert report["asked"] == "all of train.tsv, most of which it learned"
        config = json.loads((kinds / "learned" / "config.json").read_text())
        kept = hold_out(read_pairs(kinds / "world" / "train.tsv"), 0.8, config["training"]["seed"])
        config["task"]["held_out"] = 0.8
        (kinds / "learned" / "config.json").write_text(json.dumps(config))
        report = audited(client, kinds)
        assert [each["question"] for each in report["answers"]] == [q for q, _ in kept[1]]
        assert report["asked"] == "the held out of train.tsv"
        for outside in (str(made / "world" / "train.tsv"), "../secret", "\0", 7):
            config["task"]["pairs"] = outside
            (kinds / "learned" / "config.json").write_text(json.dumps(config))
            assert "not found" in posted(client, "audit", 409, run="learned")["error"]
    finally:
        shutil.rmtree(kinds / "world")
        shutil.copy(made / "learned" / "config.json", kinds / "learned")


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (
            "\nno question here\nWhere was Bob born",
            "has questions without answers, the first in line 2; put a tab and the answer behind "
            "each question",
        ),
        ("Who?\tMe\n\nWhy?", "line 3 has no tab; each line is question, tab, answer"),
        ("Who?\tMe\nWhy?\t", "line 2 has no answer; each line is question, tab, answer"),
        ("a\tb\tc", "line 1 has more than one tab; each line is question, tab, answer"),
        (" \n", "holds no question; give lines of question, tab, answer"),
    ],
)
def test_an_audit_without_answers_replaces_none(
    client: TestClient, kinds: Path, pairs: str, told: str
) -> None:
    path, before = kinds / "learned" / "audit.json", len(inside(client).jobs.jobs)
    path.write_text('{"pairs": 500}')
    answer = posted(client, "audit", 400, run="learned", pairs=pairs)
    assert answer["error"] == f"the questions: {told}"
    assert len(inside(client).jobs.jobs) == before
    assert path.read_text() == '{"pairs": 500}'
    path.unlink()


def rows_of(client: TestClient) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in client.get("/api/claims").json()["ledger"]["claims"]}


def test_ledgers_of_version_1_are_upgraded() -> None:
    bars = {"kind": "bars", "y": "y", "values": [{"name": "a", "value": "inf", "low": 1}]}
    figure = {"value": "nan", "low": None, "high": None}
    row = {"id": "copy", "figure": figure, "plot": bars, "control": {"plot": bars}}
    old = {"format": "attnlab-claims", "version": 1, "claims": [row]}
    new = claims(old)
    wanted = {**bars, "values": [["a", {"value": "Infinity", "low": 1}]]}
    assert new["version"] == 2
    assert new["claims"][0]["plot"] == new["claims"][0]["control"]["plot"] == wanted
    assert new["claims"][0]["figure"]["value"] == "NaN"
    assert claims(new) == new
    with pytest.raises(ValueError, match="another kind"):
        claims({**old, "version": 3})


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


def test_claims_that_ended_before_their_job_are_kept(client: TestClient) -> None:
    """The slow ones measure time, so they begin when the first has ended."""
    path = inside(client).results.own / "claims-small.json"
    path.unlink(missing_ok=True)
    job = posted(client, "claims", 202, ids=["copy", "linear-cost", "longer-free"])["job"]
    while client.get(f"/api/jobs/{job}").json()["done"] == 0:
        time.sleep(0.05)
    assert client.delete(f"/api/jobs/{job}").json()["state"] == "cancelled"
    assert rows_of(client)["copy"]["outcome"] == "holds"
    assert [row["id"] for row in json.loads(path.read_text())["claims"]] == ["copy"]


def test_a_bench_is_a_job_and_a_file(client: TestClient, kinds: Path) -> None:
    assert client.get("/api/bench").json() == {"files": []}
    job = posted(client, "bench", 202, part="decode")["job"]
    last = finished(client, job)
    assert last["state"] == "done", last
    name = last["result"]["file"]
    (file,) = client.get("/api/bench").json()["files"]
    assert (file["file"], file["sections"]) == (name, ["decode"])
    report = client.get("/api/bench", params={"file": name}).json()
    assert report["format"] == "attnlab-report"
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
