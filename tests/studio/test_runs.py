"""The list of runs, their settings, and metrics without lost or repeated rows."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from starlette.testclient import TestClient

from attnlab.run_folder._metrics import LINE_BYTES, clean_row
from attnlab.run_folder._metrics_tail import MARK, MetricsTail
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._api_runs import marks_in_event_id
from attnlab.studio._run_watcher import RunWatcher
from attnlab.training import Run
from tests.support.small_training import run_tiny
from tests.support.studio_servers import (
    Event,
    append_text,
    make_run,
    metric_rows,
    parse_events,
    studio_client,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    folder.mkdir()
    with studio_client(folder) as started:
        yield started


TOKENS = ["tokenizer.json"]


def list_runs(client: TestClient) -> dict[str, Any]:
    return {each["id"]: each for each in client.get("/api/runs").json()["runs"]}


# The list


def test_the_list_describes_each_run(client: TestClient, folder: Path) -> None:
    run = make_run(
        folder / "a" / "one", [*metric_rows(1, 2), {"step": 3, "validation": {"bits": 2.5}}]
    )
    append_text(run / "metrics.jsonl", '{"step": 4, "loss": 0.25, "seconds": 2}\n{"st')
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    runs = list_runs(client)
    assert list(runs) == ["a/one", "broken"]
    one = runs["a/one"]
    assert one["name"] == "one"
    assert (one["step"], one["steps"], one["parameters"]) == (4, 8, 3_312_345)
    assert one["attention"] == "softmax"
    assert one["last"] == {"loss": 0.25, "seconds": 2, "validation bits": 2.5}
    assert (one["headline"], one["better"]) == ("bits", "lower")
    assert one["state"] == "stopped"
    assert one["can"] == []
    assert one["updated"] >= one["created"] > 1.7e9
    assert runs["broken"]["state"] == "broken"
    assert runs["broken"]["problem"] == "config.json is not JSON"


def test_the_state_follows_from_lock_and_weights(client: TestClient, folder: Path) -> None:
    run = make_run(folder / "one")
    with Run(run).locked():
        assert list_runs(client)["one"]["state"] == "training"
    assert list_runs(client)["one"]["state"] == "stopped"
    (run / "model.safetensors").write_bytes(b"x")
    assert list_runs(client)["one"]["state"] == "finished"


def test_reading_a_lock_does_not_block_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(folder / "one")
    (run / ".lock").touch()
    with (run / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(ValueError, match="another process is training"), Run(run).locked():
            pass
        # the reader has finished when the run tries again
        monkeypatch.setattr("time.sleep", lambda _: fcntl.flock(file, fcntl.LOCK_UN))
        with Run(run).locked():
            pass


def test_capabilities_follow_from_the_files(client: TestClient, folder: Path) -> None:
    for name, task, kind, files, can in (
        ("language", {"name": "language"}, "decoder", TOKENS, ["generate", "look"]),
        ("no-tokens", {"name": "language"}, "decoder", [], []),
        ("masked", {"name": "language"}, "encoder", TOKENS, ["look"]),
        ("summary", {"name": "summary"}, "seq2seq", TOKENS, ["write", "look"]),
        ("vision", {"name": "vision"}, "vit", [], ["classify", "look"]),
        (
            "knows",
            {"name": "knowledge"},
            "decoder",
            ["tokenizer.json", "known.json"],
            ["ask", "audit", "look"],
        ),
        ("pretrained", {"name": "knowledge"}, "decoder", TOKENS, ["look"]),
    ):
        run = make_run(folder / name, task=task, model={"model": kind})
        for file in (*files, "model.safetensors"):
            (run / file).write_text("{}")
        assert list_runs(client)[name]["can"] == can, name
    run = make_run(folder / "trains", task={"name": "vision"})
    assert list_runs(client)["trains"]["can"] == []
    (run / "checkpoints" / "step-000000001").mkdir(parents=True)
    assert list_runs(client)["trains"]["can"] == ["classify"]


def test_only_changed_runs_are_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlab.studio import _run_list as runs

    for name in "abc":
        make_run(folder / name, metric_rows(1))
    read_names: list[str] = []
    read_entry = runs.read_entry

    def recorded_read_entry(name: str, folder: Path) -> Any:
        read_names.append(name)
        return read_entry(name, folder)

    monkeypatch.setattr(runs, "read_entry", recorded_read_entry)
    run_list = runs.RunList(AllowedFolders.resolve(folder))
    assert len(run_list.entries()) == 3
    append_text(folder / "b" / "metrics.jsonl", '{"step": 2}\n')
    assert run_list.entries()[1]["step"] == 2
    assert read_names == ["a", "b", "c", "b"]


def test_details_of_one_run(client: TestClient, folder: Path) -> None:
    run = make_run(folder / "one", training={"steps": 8, "rates": [1, 2], "inner": {"a": None}})
    for step in (3, 12):
        path = run / "checkpoints" / f"step-{step:09d}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(bytes(100 * step))
    details = client.get("/api/run?run=one").json()
    assert details["config"]["training"]["rates"] == [1, 2]
    assert details["settings"]["training.inner.a"] is None
    assert details["settings"]["training.rates"] == [1, 2]
    assert [each["name"] for each in details["files"]] == ["config.json", "metrics.jsonl"]
    steps = [(each["step"], each["bytes"]) for each in details["checkpoints"]]
    assert steps == [(3, 300), (12, 1200)]
    assert details["audited"] is False
    assert client.get("/api/run?run=two").status_code == 404


def test_the_folder_itself_may_be_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", metric_rows(1, 2))
    with studio_client(run) as client:
        assert [each["id"] for each in client.get("/api/runs").json()["runs"]] == ["."]
        assert client.get("/api/metrics?run=.").json()["next"] == 2


def test_settings_are_compared(client: TestClient, folder: Path) -> None:
    make_run(folder / "a")
    make_run(folder / "b", training={"steps": 8, "learning_rate": 0.01, "warmup_steps": 5})
    make_run(folder / "c", training={"steps": 8, "learning_rate": 0.003})
    comparison = client.get("/api/diff?run=a&run=b&run=c").json()
    assert comparison["rows"] == [
        {"setting": "training.learning_rate", "values": [0.003, 0.01, 0.003]},
        {"setting": "training.warmup_steps", "values": [None, 5, None]},
    ]
    assert comparison["same"] == 9
    assert client.get("/api/diff?run=a&run=c").json()["rows"] == []
    assert client.get("/api/diff?run=a&run=no").status_code == 404
    assert client.get("/api/diff").status_code == 400
    many = "&".join(["run=a"] * 33)
    assert client.get(f"/api/diff?{many}").status_code == 400
    (folder / "c" / "config.json").write_text("{}")
    assert client.get("/api/diff?run=a&run=c").status_code == 409


HOSTILE = [
    "<script>alert(1)</script>",
    "a\nb",
    "a\r\nevent: x\ndata: {}",
    "\u202e",
    "'\"`${x}",
    "a:5",
    "a&run=b",
    "%2e%2e",
    "\udcff",
    " ",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_settings_are_only_text(
    client: TestClient, folder: Path, name: str
) -> None:
    """In a run's name, settings and metrics: they break neither events nor JSON."""
    row = {"step": 1, name: 1.5, "text": name, "validation": {name: 2.5}}
    try:
        make_run(folder / name, [row], task={"name": name}, model={"attention": name})
    except (OSError, UnicodeError):
        pytest.skip("the file system cannot store this name")
    response = client.get("/api/runs")
    assert [each["id"] for each in response.json()["runs"]] == [name.replace("\udcff", "\ufffd")]
    if "\udcff" in name:  # not valid text: listed, but no request can name it
        return
    metrics = client.get("/api/metrics", params={"run": name})
    assert metrics.status_code == 200
    assert metrics.json()["rows"][0]["validation"] == {name: 2.5}
    assert client.get("/api/run", params={"run": name}).status_code == 200


def test_nan_and_infinity_become_names(client: TestClient, folder: Path) -> None:
    run = make_run(folder / "one")
    text = '{"step": 1, "loss": NaN, "a": Infinity, "b": -Infinity, "c": 1e999, "d": %s}\n' % (
        "9" * 400
    )
    (run / "metrics.jsonl").write_text(text)
    row = client.get("/api/metrics?run=one").json()["rows"][0]
    assert row == {"step": 1, "loss": "nan", "a": "inf", "b": "-inf", "c": "inf", "d": "inf"}
    config = {"task": {}, "model": {}, "training": {"learning_rate": math.inf}}
    (run / "config.json").write_text(json.dumps(config))
    assert client.get("/api/run?run=one").json()["config"]["training"]["learning_rate"] == "inf"


# Metrics


def test_only_whole_lines_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert tail.read().json() == {"after": 0, "rows": [], "next": 0, "mark": "0", "total": 0}
    path.write_text('{"step": 1}\n{"step"')
    part = tail.read()
    assert (part.rows, part.next) == ([{"step": 1}], 1)
    append_text(path, ": 2}")
    assert tail.read(part.mark).rows == []
    append_text(path, "\n")
    again = tail.read(part.mark)
    assert (again.rows, again.after, again.next) == ([{"step": 2}], 1, 2)


def test_invalid_lines_are_counted_but_give_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = ['{"step": 1}', "{", "[1]", "", '{"step": 2}', "\x00\xff", "[" * 5000]
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    part = MetricsTail(path).read()
    assert [row["step"] for row in part.rows] == [1, 2]
    assert part.next == part.total == 7


def test_very_long_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + "x" * (3 * LINE_BYTES + 5) + '\n{"step": 2}\n')
    part = MetricsTail(path).read()
    assert [row["step"] for row in part.rows] == [1, 2]


def test_responses_are_limited_and_continue(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", metric_rows(*range(1, 12_002)))
    steps, after = [], "0"
    while True:
        part = client.get(f"/api/metrics?run=one&after={after}").json()
        assert len(part["rows"]) <= 5000
        steps += [row["step"] for row in part["rows"]]
        after = part["mark"]
        if part["next"] == part["total"]:
            break
    assert steps == list(range(1, 12_002))


def test_a_line_number_is_a_valid_mark(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", metric_rows(1, 2, 3))
    part = client.get("/api/metrics?run=one&after=2").json()
    assert [row["step"] for row in part["rows"]] == [3]
    part = client.get("/api/metrics?run=one&after=4").json()  # the file was truncated meanwhile
    assert part["again"] is True
    assert (part["after"], len(part["rows"])) == (0, 3)
    for wrong in ("-1", "x", "1-", "1-xyz", "1e3", ""):
        assert client.get(f"/api/metrics?run=one&after={wrong}").status_code == 400


def test_a_replaced_file_is_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"

    def write(*steps: int, loss: float = 1.0) -> None:
        path.unlink(missing_ok=True)
        path.write_text("".join(f'{{"step": {s}, "loss": {loss}}}\n' for s in steps))

    tail = MetricsTail(path)
    write(1, 2, 3, 4)
    mark = tail.read().mark
    write(1, 2, 3, 4, 5)  # the same and more: no row is sent twice
    part = tail.read(mark)
    assert ([row["step"] for row in part.rows], part.again) == ([5], False)
    write(1, 2)
    short = tail.read(part.mark)
    assert ([row["step"] for row in short.rows], short.again) == ([1, 2], True)
    write(1, 2, 3, loss=7.0)  # another run, as long or longer
    other = tail.read(short.mark)
    assert (other.again, other.after, len(other.rows)) == (True, 0, 3)
    text = path.read_text().replace("7.0", "8.0")
    path.write_text(text)  # in place: the same inode and the same size
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**7))  # the clock may be too coarse
    assert tail.read(other.mark).again
    path.unlink()
    assert tail.read(tail.read("0").mark).rows == []
    assert tail.read(other.mark).again


class GrowingMetricsFile(RuleBasedStateMachine):
    """Whatever happens to the file, a client that follows the marks has all its rows."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "metrics.jsonl"
        self.tail = MetricsTail(self.path)
        self.rows: list[Any] = []
        self.mark = "0"
        self.count = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(size=st.integers(1, 40))
    def append_text(self, size: int) -> None:
        """Appends some bytes, often only a part of a line."""
        self.count += 1
        line = json.dumps({"step": self.count, "loss": 1 / self.count}) + "\n"
        with self.path.open("a") as file:
            file.write(line[:size])
            if size < len(line) and size % 2:
                file.write("\n")

    @rule(lines=st.integers(0, 5))
    def resume(self, lines: int) -> None:
        """As `Run.rewind` does it: replaces the file by a new one."""
        text = self.path.read_text() if self.path.exists() else ""
        whole = text.splitlines(keepends=True)
        part = self.path.with_name(".part")
        part.write_text("".join(each for each in whole[:lines] if each.endswith("\n")))
        part.replace(self.path)

    @rule()
    def overwrite(self) -> None:
        self.path.unlink(missing_ok=True)

    @rule(limit=st.integers(1, 3))
    def read(self, limit: int) -> None:
        part = self.tail.read(self.mark, limit)
        if part.again:
            assert part.after == 0
            self.rows = []
        self.rows += part.rows
        self.mark = part.mark
        assert part.next - part.after <= limit

    @invariant()
    def reading_to_the_end_gives_all_rows(self) -> None:
        rows, mark = list(self.rows), self.mark
        while True:
            part = self.tail.read(mark, 2)
            rows = part.rows if part.again else rows + part.rows
            mark = part.mark
            if part.next == part.total:
                break
        text = self.path.read_text() if self.path.exists() else ""
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        expected = []
        for line in whole:
            try:
                expected.append(clean_row(json.loads(line)))
            except (ValueError, AttributeError):
                continue
        assert rows == [row for row in expected if row]


TestGrowingMetricsFile = GrowingMetricsFile.TestCase
TestGrowingMetricsFile.settings = settings(
    max_examples=60, stateful_step_count=15, suppress_health_check=[HealthCheck.too_slow]
)


@given(st.dictionaries(st.text(), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
), max_size=4))  # fmt: skip
def test_any_row_becomes_json(row: dict[str, Any]) -> None:
    json.dumps(clean_row(row), allow_nan=False)


@given(st.text())
def test_any_last_event_id_is_parsed(text: str) -> None:
    assert all(MARK.fullmatch(mark) for mark in marks_in_event_id(text).values())


def test_a_valid_last_event_id() -> None:
    assert marks_in_event_id('{"a":"3-0a1b2c3d","b":"x","c":4}') == {"a": "3-0a1b2c3d"}


def test_a_run_that_was_resumed_is_followed(tmp_path: Path) -> None:
    """`Run.rewind` removes the rows after the checkpoint, and they come again."""
    run = tmp_path / "one"
    run_tiny(run, steps=6, save_every=4)
    tail = MetricsTail(run / "metrics.jsonl")
    first = tail.read()
    assert [row["step"] for row in first.rows] == list(range(1, 7))
    whole = (run / "metrics.jsonl").read_text()
    Run(run).rewind(4, Run(run).config(), unfinished=True)
    cut = tail.read(first.mark)
    assert cut.again
    assert cut.rows == first.rows[:4]
    (run / "metrics.jsonl").write_text(whole)
    assert tail.read(cut.mark).rows == first.rows[4:]


def test_events_start_with_all_runs_and_continue_with_changes(folder: Path) -> None:
    import asyncio

    make_run(folder / "a", metric_rows(1, 2))
    make_run(folder / "b")

    async def follow() -> bytes:
        watcher = RunWatcher(AllowedFolders.resolve(folder))
        stream = watcher.follow({"a": "1"})
        content = await anext(stream)
        append_text(folder / "a" / "metrics.jsonl", '{"step": 3}\n')
        while not (b'"step":3,' in content and b'{"step":3}' in content):  # the list, and the row
            content += await anext(stream)
        for each in (folder / "b").iterdir():
            each.unlink()
        while b'"gone":["b"]' not in content:
            content += await anext(stream)
        watcher.close()
        assert [chunk async for chunk in stream] == []
        assert watcher.listeners == 0
        return content

    events = parse_events(iter(asyncio.run(follow()).splitlines(keepends=True)))
    by_name: dict[str, list[Event]] = {"runs": [], "metrics": []}
    for event in events:
        by_name[event.name].append(event)
    everything, changed, gone = by_name["runs"]
    part, more = by_name["metrics"]
    assert [each["id"] for each in everything.data["runs"]] == ["a", "b"]
    assert [row["step"] for row in part.data["rows"]] == [2]
    assert [each["id"] for each in changed.data["runs"]] == ["a"]
    assert [row["step"] for row in more.data["rows"]] == [3]
    assert more.id.startswith('{"a":"3-')
    assert gone.data == {"runs": [], "gone": ["b"]}


def test_wrong_event_queries_are_rejected(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", metric_rows(1))
    for query, status in (
        ("run=one", 400),
        ("run=one:", 400),
        ("run=:0", 400),
        ("run=one:x", 400),
        ("run=../one:0", 400),
        ("run=one:0&run=a//b:0", 400),
        ("run=one:0&run=a%00:0", 400),
        ("run=one:0&run=two", 400),
        ("walk=one:0", 400),
        ("&".join(["run=one:0"] * 33), 400),
    ):
        assert client.get(f"/api/events?{query}").status_code == status, query


def test_too_many_event_streams_are_rejected(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(folder / "one")
    monkeypatch.setattr("attnlab.studio._request_limits.EVENT_STREAMS", 0)
    response = client.get("/api/events?run=one:0")
    assert response.status_code == 429
