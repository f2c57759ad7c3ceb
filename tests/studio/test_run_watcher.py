"""Many clients cost little more than one: they share what is read, and still see every change."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.run_folder import _metrics as metrics
from attnlab.studio import _run_watcher as run_watcher
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._http_errors import RequestError
from attnlab.studio._run_list import RunList
from attnlab.studio._run_watcher import RunWatcher
from tests.support.studio_servers import append_text, make_run, metric_rows, parse_events

CLIENTS = 30


def test_requests_at_the_same_time_share_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "a")
    read_all, allowed, started = RunList.entries, threading.Event(), threading.Event()
    reads: list[int] = []

    def wait_and_read(self: RunList) -> Any:
        entries = read_all(self)
        reads.append(len(entries))
        started.set()
        allowed.wait(300)
        return entries

    monkeypatch.setattr(RunList, "entries", wait_and_read)

    async def request() -> list[list[Any]]:
        watcher = RunWatcher(AllowedFolders.resolve(tmp_path))
        first = asyncio.create_task(watcher.read_entries())
        await asyncio.to_thread(started.wait, 300)
        make_run(tmp_path / "b")  # after the first has read
        others = [asyncio.create_task(watcher.read_entries()) for _ in range(CLIENTS)]
        await asyncio.sleep(0)
        others.pop().cancel()  # it takes no result from the others
        allowed.set()
        return [await each for each in (first, *others)]

    first, *others = asyncio.run(request())
    assert [entry["id"] for entry in first] == ["a"]
    assert all([entry["id"] for entry in each] == ["a", "b"] for each in others)
    assert reads == [1, 2]


def test_clients_at_the_same_position_share_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And clients at other positions get their own."""
    make_run(tmp_path / "a", metric_rows(1, 2, 3))
    monkeypatch.setattr(run_watcher, "POLL_SECONDS", 0.01)
    reads: list[str] = []
    read_metrics = RunWatcher.read_metrics

    async def recorded(self: RunWatcher, run: str, mark: str) -> Any:
        reads.append(mark)
        return await read_metrics(self, run, mark)

    monkeypatch.setattr(RunWatcher, "read_metrics", recorded)

    async def read_steps(stream: Any, last: int) -> list[int]:
        steps: list[int] = []
        while steps[-1:] != [last]:
            lines = (await anext(stream)).splitlines(keepends=True)
            for event in parse_events(iter(lines)):
                steps += [row["step"] for row in event.data.get("rows", ())]
        return steps

    async def follow() -> None:
        watcher = RunWatcher(AllowedFolders.resolve(tmp_path))
        streams = [watcher.follow({"a": "0"}) for _ in range(CLIENTS)]
        late = watcher.follow({"a": "2"})
        for last in (3, 4, 5):
            received = await asyncio.gather(*(read_steps(stream, last) for stream in streams))
            assert received == [[1, 2, 3] if last == 3 else [last]] * CLIENTS
            assert await read_steps(late, last) == [last]
            append_text(tmp_path / "a" / "metrics.jsonl", f'{{"step": {last + 1}}}\n')
        watcher.close()
        for stream in (*streams, late):
            await stream.aclose()  # type: ignore[attr-defined]
        assert watcher.listeners == 0

    asyncio.run(follow())
    assert reads.count("2") == 1
    assert len(reads) < CLIENTS


def test_shared_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "a", metric_rows(*range(1, 20)))
    monkeypatch.setattr(run_watcher, "MAX_SHARED", 3)

    async def follow() -> None:
        watcher = RunWatcher(AllowedFolders.resolve(tmp_path))
        for line in range(10):
            assert (await watcher._shared_rows("a", str(line))).event
            assert len(watcher.shared) <= 3

    asyncio.run(follow())


def test_one_run_is_read_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = make_run(tmp_path / "a", metric_rows(1, 2)) / "checkpoints" / "step-000000001"
    make_run(checkpoint)  # not a run of its own
    make_run(tmp_path / "checkpoints")  # a folder may have this name
    runs = RunList(AllowedFolders.resolve(tmp_path))
    entries = {entry["id"]: entry for entry in runs.entries()}
    assert list(entries) == ["a", "checkpoints"]
    monkeypatch.setattr(RunList, "entries", None)
    assert {name: runs.entry(name) for name in entries} == entries
    for name in ("b", "a/checkpoints/step-000000001"):
        with pytest.raises(RequestError, match="There is no run"):
            runs.entry(name)


LINES = st.sampled_from(
    [
        b'{"step": 1, "loss": 2}',
        b'{"step": 2, "validation": {"loss": 1}}',
        b'{"validation": 3}',
        b'"validation"',
        b"{",
        b"",
    ]
)


@given(content=st.lists(LINES, max_size=8).map(b"\n".join), end_bytes=st.integers(1, 200))
def test_the_last_row_is_that_of_all_lines(
    content: bytes, end_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "metrics.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "END_BYTES", end_bytes)
        rows = [metrics.parse_row(line) or {} for line in content[-end_bytes:].split(b"\n")[:-1]]
        expected: dict[str, Any] = next((row for row in reversed(rows) if row), {})
        validations = [row["validation"] for row in rows if isinstance(row.get("validation"), dict)]
        if validations:
            expected = {**expected, "validation": validations[-1]}
        assert metrics.last_row(path) == expected
