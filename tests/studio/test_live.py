"""A run that trains while it is watched: by many, by one that comes back, through a resume."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.training import Run
from tests.support.studio_servers import Served, append, make_run, rows, served
from tests.support.training_process import STEPS, training

READERS, FIRST = 50, 5


def wait_for_run(server: Served, run: str) -> str:
    """The state in which it was seen first."""
    while True:
        for each in server.json("/api/runs")["runs"]:
            if each["id"] == run:
                return str(each["state"])
        time.sleep(0.1)


def follow(server: Served, run: str, found: list[dict[str, Any]], last: list[int]) -> None:
    """Rows as a page keeps them, until the step in `last`, which may be told later."""
    for event in server.events(f"/api/events?run={run}:0"):
        if event.name == "metrics":
            assert event.data["run"] == run
            if event.data.get("again"):
                found.clear()
            assert event.data["after"] == len(found)
            found += event.data["rows"]
            assert event.data["next"] == len(found)
            if found and last and found[-1]["step"] >= last[0]:
                return


@contextmanager
def paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """However slow this machine is, it does not end meanwhile."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_fifty_readers_of_a_run_that_trains_lose_nothing(tmp_path: Path) -> None:
    """All of them are connected and have rows when most of the training is still to come."""
    run = Run(tmp_path / "runs" / "live")
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs") as server, training(run.folder) as trainer:
        wait_until(lambda: len(run.metrics()) >= FIRST)
        found: list[list[dict[str, Any]]] = [[] for _ in range(READERS)]
        readers = [
            threading.Thread(target=follow, args=(server, "live", each, [STEPS]), daemon=True)
            for each in found
        ]
        with paused(trainer):
            for reader in readers:
                reader.start()
            wait_until(lambda: all(len(each) >= FIRST for each in found))
            assert max(len(each) for each in found) < STEPS
            assert trainer.poll() is None
        states = set()
        while trainer.poll() is None:  # the list goes on too
            states.add(server.json("/api/runs")["runs"][0]["state"])
            time.sleep(0.2)
        assert trainer.returncode == 0
        for reader in readers:
            reader.join(300)
            assert not reader.is_alive()
        wanted = run.metrics()
        assert [row["step"] for row in wanted] == list(range(1, STEPS + 1))
        assert all(each == wanted for each in found)
        assert "training" in states
        (entry,) = server.json("/api/runs")["runs"]
        assert (entry["state"], entry["step"]) == ("finished", STEPS)
        assert "look" in entry["can"]
        assert server.interrupt() == 0


def test_a_reader_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one", rows(1, 2, 3))
    path = tmp_path / "runs" / "one" / "metrics.jsonl"
    with served(tmp_path / "runs") as server:
        stream = server.events("/api/events?run=one:0")
        last = next(event for event in stream if event.name == "metrics")
        stream.close()
        append(path, '{"step": 4}\n')
        header = {"last-event-id": last.id}  # as a browser sends it, to the old address
        stream = server.events("/api/events?run=one:0", header)
        event = next(event for event in stream if event.name == "metrics")
        assert [row["step"] for row in event.data["rows"]] == [4]
        stream.close()
        path.write_text('{"step": 1, "loss": 9}\n' * 5)  # another run, begun anew
        stream = server.events("/api/events?run=one:0", {"last-event-id": event.id})
        event = next(event for event in stream if event.name == "metrics")
        assert event.data["again"] is True
        assert len(event.data["rows"]) == 5
        stream.close()


def test_a_run_that_is_not_there_ends_nothing_for_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    make_run(folder / "other", rows(1, 2))
    make_run(folder / "link").joinpath("config.json").rename(tmp_path / "config.json")
    (folder / "link" / "config.json").symlink_to(tmp_path / "config.json")
    with served(folder) as server:
        stream = server.events("/api/events?run=doomed:0&run=link:0&run=other:1")

        def steps() -> tuple[str, list[int]]:
            event = next(event for event in stream if event.name == "metrics")
            return event.data["run"], [row["step"] for row in event.data["rows"]]

        first = next(stream)
        assert {each["id"]: each["state"] for each in first.data["runs"]} == {
            "link": "broken",
            "other": "stopped",
        }
        assert steps() == ("other", [2])
        make_run(folder / "doomed", rows(5))
        assert steps() == ("doomed", [5])
        shutil.rmtree(folder / "doomed")
        assert next(each.data["gone"] for each in stream if each.data.get("gone")) == ["doomed"]
        append(folder / "other" / "metrics.jsonl", '{"step": 3}\n')
        assert steps() == ("other", [3])
        stream.close()


def test_a_run_is_followed_through_its_death_and_resume(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "live"
    (tmp_path / "runs").mkdir()
    found: list[dict[str, Any]] = []
    last: list[int] = []
    with served(tmp_path / "runs") as server:
        with training(run, "--save-every", "7", steps=10_000) as trainer:
            wait_for_run(server, "live")
            wanted = (server, "live", found, last)
            reader = threading.Thread(target=follow, args=wanted, daemon=True)
            reader.start()
            while len(found) < 12:
                time.sleep(0.05)
            trainer.kill()  # in the middle of anything
            trainer.wait()
        assert server.json("/api/runs")["runs"][0]["state"] == "stopped"
        last.append(len(Run(run).metrics()) + 10)
        with training(run, "--save-every", "7", "--resume", steps=last[0]) as trainer:
            assert trainer.wait(600) == 0, trainer.stderr.read() if trainer.stderr else ""
        reader.join(300)
        assert not reader.is_alive()
    written = Run(run).metrics()
    assert [row["step"] for row in written] == list(range(1, last[0] + 1))
    assert found == written
