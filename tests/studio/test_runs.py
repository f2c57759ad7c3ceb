"""What the studio tells of runs: the list, settings, and metrics that lose and double nothing."""

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
from attnlab.run_folder._metrics_tail import MARK, Tail
from attnlab.studio._allowed_folders import Places
from attnlab.studio._api_runs import known_of
from attnlab.studio._change_events import Hub
from attnlab.training import Run
from tests.support.small_training import run_tiny
from tests.support.studio_servers import append, make_run, rows, studio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    folder.mkdir()
    with studio(folder) as made:
        yield made


TOKENS = ["tokenizer.json"]


def listed(client: TestClient) -> dict[str, Any]:
    return {each["id"]: each for each in client.get("/api/runs").json()["runs"]}


# The list


def test_the_list_tells_of_each_run(client: TestClient, folder: Path) -> None:
    made = make_run(folder / "a" / "one", [*rows(1, 2), {"step": 3, "validation": {"bits": 2.5}}])
    append(made / "metrics.jsonl", '{"step": 4, "loss": 0.25, "seconds": 2}\n{"st')
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    found = listed(client)
    assert list(found) == ["a/one", "broken"]
    one = found["a/one"]
    assert one["name"] == "one"
    assert (one["step"], one["steps"], one["parameters"]) == (4, 8, 3_312_345)
    assert one["attention"] == "softmax"
    assert one["last"] == {"loss": 0.25, "seconds": 2, "validation bits": 2.5}
    assert (one["headline"], one["better"]) == ("bits", "lower")
    assert one["state"] == "stopped"
    assert one["can"] == []
    assert one["updated"] >= one["created"] > 1.7e9
    assert found["broken"]["state"] == "broken"
    assert found["broken"]["problem"] == "config.json is not JSON"


def test_states_follow_the_lock_and_the_weights(client: TestClient, folder: Path) -> None:
    made = make_run(folder / "one")
    with Run(made).locked():
        assert listed(client)["one"]["state"] == "training"
    assert listed(client)["one"]["state"] == "stopped"
    (made / "model.safetensors").write_bytes(b"x")
    assert listed(client)["one"]["state"] == "finished"


def test_looking_at_a_lock_never_keeps_a_run_from_it(folder: Path) -> None:
    made = make_run(folder / "one")
    (made / ".lock").touch()
    with (made / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(ValueError, match="another run is writing"), Run(made).locked():
            pass
        import threading

        threading.Timer(0.05, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        with Run(made).locked():  # waits a moment
            pass


def test_a_run_can_what_its_files_tell(client: TestClient, folder: Path) -> None:
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
        made = make_run(folder / name, task=task, model={"model": kind})
        for file in (*files, "model.safetensors"):
            (made / file).write_text("{}")
        assert listed(client)[name]["can"] == can, name
    made = make_run(folder / "trains", task={"name": "vision"})
    assert listed(client)["trains"]["can"] == []
    (made / "checkpoints" / "step-000000001").mkdir(parents=True)
    assert listed(client)["trains"]["can"] == ["classify"]


def test_only_what_changed_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlab.studio import _run_list as runs

    for name in "abc":
        make_run(folder / name, rows(1))
    read: list[str] = []
    entry_of = runs.entry_of

    def heard(name: str, folder: Path) -> Any:
        read.append(name)
        return entry_of(name, folder)

    monkeypatch.setattr(runs, "entry_of", heard)
    kept = runs.RunList(Places.of(folder))
    assert len(kept.entries()) == 3
    append(folder / "b" / "metrics.jsonl", '{"step": 2}\n')
    assert kept.entries()[1]["step"] == 2
    assert read == ["a", "b", "c", "b"]


def test_one_run_with_files_checkpoints_and_settings(client: TestClient, folder: Path) -> None:
    made = make_run(folder / "one", training={"steps": 8, "rates": [1, 2], "inner": {"a": None}})
    for step in (3, 12):
        path = made / "checkpoints" / f"step-{step:09d}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(bytes(100 * step))
    found = client.get("/api/run?run=one").json()
    assert found["config"]["training"]["rates"] == [1, 2]
    assert found["settings"]["training.inner.a"] is None
    assert found["settings"]["training.learning_rates"] == [1, 2]
    assert [each["name"] for each in found["files"]] == ["config.json", "metrics.jsonl"]
    steps = [(each["step"], each["bytes"]) for each in found["checkpoints"]]
    assert steps == [(3, 300), (12, 1200)]
    assert found["audited"] is False
    assert client.get("/api/run?run=two").status_code == 404


def test_the_folder_itself_may_be_a_run(tmp_path: Path) -> None:
    made = make_run(tmp_path / "one", rows(1, 2))
    with studio(made) as client:
        assert [each["id"] for each in client.get("/api/runs").json()["runs"]] == ["."]
        assert client.get("/api/metrics?run=.").json()["next"] == 2


def test_differences_of_settings(client: TestClient, folder: Path) -> None:
    make_run(folder / "a")
    make_run(folder / "b", training={"steps": 8, "learning_rate": 0.01, "warmup_steps": 5})
    make_run(folder / "c", training={"steps": 8, "learning_rate": 0.003})
    found = client.get("/api/diff?run=a&run=b&run=c").json()
    assert found["rows"] == [
        {"setting": "training.learning_rate", "values": [0.003, 0.01, 0.003]},
        {"setting": "training.warmup", "values": [None, 5, None]},
    ]
    assert found["same"] == 9
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
    """In a run's name, its settings, its metrics: one event stays one event, JSON stays JSON."""
    row = {"step": 1, name: 1.5, "text": name, "validation": {name: 2.5}}
    try:
        make_run(folder / name, [row], task={"name": name}, model={"attention": name})
    except (OSError, UnicodeError):
        pytest.skip("no file system here has such a name")
    found = client.get("/api/runs")
    assert [each["id"] for each in found.json()["runs"]] == [name.replace("\udcff", "\ufffd")]
    if "\udcff" in name:  # bytes that are no text: shown, and not to be asked for
        return
    one = client.get("/api/metrics", params={"run": name})
    assert one.status_code == 200
    assert one.json()["rows"][0]["validation"] == {name: 2.5}
    assert client.get("/api/run", params={"run": name}).status_code == 200


def test_numbers_that_json_lacks_are_names(client: TestClient, folder: Path) -> None:
    made = make_run(folder / "one")
    text = '{"step": 1, "loss": NaN, "a": Infinity, "b": -Infinity, "c": 1e999, "d": %s}\n' % (
        "9" * 400
    )
    (made / "metrics.jsonl").write_text(text)
    row = client.get("/api/metrics?run=one").json()["rows"][0]
    assert row == {"step": 1, "loss": "nan", "a": "inf", "b": "-inf", "c": "inf", "d": "inf"}
    config = {"task": {}, "model": {}, "training": {"learning_rate": math.inf}}
    (made / "config.json").write_text(json.dumps(config))
    assert client.get("/api/run?run=one").json()["config"]["training"]["learning_rate"] == "inf"


# Metrics


def test_only_whole_lines_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path)
    assert tail.read().json() == {"after": 0, "rows": [], "next": 0, "mark": "0", "total": 0}
    path.write_text('{"step": 1}\n{"step"')
    part = tail.read()
    assert (part.rows, part.next) == ([{"step": 1}], 1)
    append(path, ": 2}")
    assert tail.read(part.mark).rows == []
    append(path, "\n")
    again = tail.read(part.mark)
    assert (again.rows, again.after, again.next) == ([{"step": 2}], 1, 2)


def test_lines_that_are_no_rows_count_but_give_none(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = ['{"step": 1}', "{", "[1]", "", '{"step": 2}', "\x00\xff", "[" * 5000]
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    part = Tail(path).read()
    assert [row["step"] for row in part.rows] == [1, 2]
    assert part.next == part.total == 7


def test_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + "x" * (3 * LINE_BYTES + 5) + '\n{"step": 2}\n')
    part = Tail(path).read()
    assert [row["step"] for row in part.rows] == [1, 2]


def test_answers_are_bounded_and_go_on(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", rows(*range(1, 12_002)))
    seen, after = [], "0"
    while True:
        part = client.get(f"/api/metrics?run=one&after={after}").json()
        assert len(part["rows"]) <= 5000
        seen += [row["step"] for row in part["rows"]]
        after = part["mark"]
        if part["next"] == part["total"]:
            break
    assert seen == list(range(1, 12_002))


def test_a_plain_number_is_a_place_too(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", rows(1, 2, 3))
    part = client.get("/api/metrics?run=one&after=2").json()
    assert [row["step"] for row in part["rows"]] == [3]
    part = client.get("/api/metrics?run=one&after=4").json()  # the file was cut meanwhile
    assert part["again"] is True
    assert (part["after"], len(part["rows"])) == (0, 3)
    for wrong in ("-1", "x", "1-", "1-xyz", "1e3", ""):
        assert client.get(f"/api/metrics?run=one&after={wrong}").status_code == 400


def test_what_was_replaced_is_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"

    def write(*steps: int, loss: float = 1.0) -> None:
        path.unlink(missing_ok=True)
        path.write_text("".join(f'{{"step": {s}, "loss": {loss}}}\n' for s in steps))

    tail = Tail(path)
    write(1, 2, 3, 4)
    mark = tail.read().mark
    write(1, 2, 3, 4, 5)  # the same and more: nothing is sent twice
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
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**7))  # a clock may tick too seldom
    assert tail.read(other.mark).again
    path.unlink()
    assert tail.read(tail.read("0").mark).rows == []
    assert tail.read(other.mark).again


class Growing(RuleBasedStateMachine):
    """Whatever happens to the file, a reader that follows the rules has its rows."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "metrics.jsonl"
        self.tail = Tail(self.path)
        self.seen: list[Any] = []
        self.mark = "0"
        self.count = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(size=st.integers(1, 40))
    def append(self, size: int) -> None:
        """Some bytes of rows: often only a part of a line."""
        self.count += 1
        line = json.dumps({"step": self.count, "loss": 1 / self.count}) + "\n"
        with self.path.open("a") as file:
            file.write(line[:size])
            if size < len(line) and size % 2:
                file.write("\n")

    @rule(lines=st.integers(0, 5))
    def resume(self, lines: int) -> None:
        """As `RunFolder.rewind` does it: a new file in the place of the old one."""
        text = self.path.read_text() if self.path.exists() else ""
        whole = text.splitlines(keepends=True)
        part = self.path.with_name(".part")
        part.write_text("".join(each for each in whole[:lines] if each.endswith("\n")))
        part.replace(self.path)

    @rule()
    def overwrite(self) -> None:
        self.path.unlink(missing_ok=True)

    @rule(most=st.integers(1, 3))
    def read(self, most: int) -> None:
        part = self.tail.read(self.mark, most)
        if part.again:
            assert part.after == 0
            self.seen = []
        self.seen += part.rows
        self.mark = part.mark
        assert part.next - part.after <= most

    @invariant()
    def a_reader_that_reads_to_the_end_has_it_all(self) -> None:
        seen, mark = list(self.seen), self.mark
        while True:
            part = self.tail.read(mark, 2)
            seen = part.rows if part.again else seen + part.rows
            mark = part.mark
            if part.next == part.total:
                break
        text = self.path.read_text() if self.path.exists() else ""
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        wanted = []
        for line in whole:
            try:
                wanted.append(clean_row(json.loads(line)))
            except (ValueError, AttributeError):
                continue
        assert seen == [row for row in wanted if row]


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(
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
def test_any_last_event_id_is_read(text: str) -> None:
    assert all(MARK.fullmatch(place) for place in known_of(text).values())


def test_a_known_last_event_id() -> None:
    assert known_of('{"a":"3-0a1b2c3d","b":"x","c":4}') == {"a": "3-0a1b2c3d"}


def test_a_run_that_was_resumed_is_followed(tmp_path: Path) -> None:
    """By the trainer itself: what came after its checkpoint goes, and comes again."""
    run = tmp_path / "one"
    run_tiny(run, steps=6, save_every=4)
    tail = Tail(run / "metrics.jsonl")
    first = tail.read()
    assert [row["step"] for row in first.rows] == list(range(1, 7))
    whole = (run / "metrics.jsonl").read_text()
    Run(run).rewind(4, Run(run).config(), unfinished=True)
    cut = tail.read(first.mark)
    assert cut.again
    assert cut.rows == first.rows[:4]
    (run / "metrics.jsonl").write_text(whole)
    assert tail.read(cut.mark).rows == first.rows[4:]


def test_events_begin_with_all_and_then_tell_changes(folder: Path) -> None:
    import asyncio

    make_run(folder / "a", rows(1, 2))
    make_run(folder / "b")

    async def follow() -> list[bytes]:
        hub = Hub(Places.of(folder))
        stream = hub.follow({"a": "1"})
        found = [await anext(stream), await anext(stream)]
        append(folder / "a" / "metrics.jsonl", '{"step": 3}\n')
        found += [await anext(stream), await anext(stream)]
        for each in (folder / "b").iterdir():
            each.unlink()
        found.append(await anext(stream))
        hub.close()
        assert [chunk async for chunk in stream] == []
        assert hub.listeners == 0
        return found

    def data(chunk: bytes) -> Any:
        return json.loads(chunk.decode().split("data: ")[1])

    everything, part, changed, more, gone = asyncio.run(follow())
    assert [each["id"] for each in data(everything)["runs"]] == ["a", "b"]
    assert [row["step"] for row in data(part)["rows"]] == [2]
    assert [each["id"] for each in data(changed)["runs"]] == ["a"]
    assert [row["step"] for row in data(more)["rows"]] == [3]
    assert more.decode().startswith('id: {"a":"3-')
    assert data(gone) == {"runs": [], "gone": ["b"]}


def test_wrong_events_are_refused(client: TestClient, folder: Path) -> None:
    make_run(folder / "one", rows(1))
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


def test_too_many_readers_are_told_so(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(folder / "one")
    monkeypatch.setattr("attnlab.studio._request_limits.STREAMS", 0)
    answer = client.get("/api/events?run=one:0")
    assert answer.status_code == 429
