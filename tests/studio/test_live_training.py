"""Clients follow a run while it trains, across reconnects, crashes and resumes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.training import Run
from tests.support.processes import wait_until
from tests.support.studio_servers import (
    StudioProcess,
    append_text,
    make_run,
    metric_rows,
    start_studio,
)
from tests.support.training_process import STEPS, training

CLIENTS, FIRST_ROWS = 50, 5


def wait_for_run(server: StudioProcess, run: str) -> str:
    """Waits until the run is listed and returns its state."""
    while True:
        for each in server.json("/api/runs")["runs"]:
            if each["id"] == run:
                return str(each["state"])
        time.sleep(0.1)


def follow(
    server: StudioProcess, run: str, received: list[dict[str, Any]], last_step: list[int]
) -> None:
    """Collects rows as a page does, up to the step in `last_step`, which may be set later."""
    for event in server.events(f"/api/events?run={run}:0"):
        if event.name == "metrics":
            assert event.data["run"] == run
            if event.data.get("again"):
                received.clear()
            assert event.data["after"] == len(received)
            received += event.data["rows"]
            assert event.data["next"] == len(received)
            if received and last_step and received[-1]["step"] >= last_step[0]:
                return


@contextmanager
def paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pauses a process, so that it cannot end meanwhile."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_fifty_clients_of_a_run_in_training_miss_nothing(tmp_path: Path) -> None:
    """All clients connect and have rows before most of the training."""
    run = Run(tmp_path / "runs" / "live")
    (tmp_path / "runs").mkdir()
    with start_studio(tmp_path / "runs") as server, training(run.folder) as trainer:
        wait_until(lambda: len(run.metrics()) >= FIRST_ROWS)
        received: list[list[dict[str, Any]]] = [[] for _ in range(CLIENTS)]
        threads = [
            threading.Thread(target=follow, args=(server, "live", each, [STEPS]), daemon=True)
            for each in received
        ]
        with paused(trainer):
            for thread in threads:
                thread.start()
            wait_until(lambda: all(len(each) >= FIRST_ROWS for each in received))
            assert max(len(each) for each in received) < STEPS
            assert trainer.poll() is None
            assert server.json("/api/runs")["runs"][0]["state"] == "training"
        while trainer.poll() is None:  # the list is served meanwhile
            server.json("/api/runs")
            time.sleep(0.2)
        assert trainer.returncode == 0
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()
        expected = run.metrics()
        assert [row["step"] for row in expected] == list(range(1, STEPS + 1))
        assert all(each == expected for each in received)
        (entry,) = server.json("/api/runs")["runs"]
        assert (entry["state"], entry["step"]) == ("finished", STEPS)
        assert "look" in entry["can"]
        assert server.interrupt() == 0


def test_a_client_that_reconnects_continues_where_it_was(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one", metric_rows(1, 2, 3))
    path = tmp_path / "runs" / "one" / "metrics.jsonl"
    with start_studio(tmp_path / "runs") as server:
        stream = server.events("/api/events?run=one:0")
        last = next(event for event in stream if event.name == "metrics")
        stream.close()
        append_text(path, '{"step": 4}\n')
        header = {"last-event-id": last.id}  # as a browser sends it, to the old address
        stream = server.events("/api/events?run=one:0", header)
        event = next(event for event in stream if event.name == "metrics")
        assert [row["step"] for row in event.data["rows"]] == [4]
        stream.close()
        path.write_text('{"step": 1, "loss": 9}\n' * 5)  # another run, from the start
        stream = server.events("/api/events?run=one:0", {"last-event-id": event.id})
        event = next(event for event in stream if event.name == "metrics")
        assert event.data["again"] is True
        assert len(event.data["rows"]) == 5
        stream.close()


def test_a_missing_run_does_not_end_the_stream_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    make_run(folder / "other", metric_rows(1, 2))
    make_run(folder / "link").joinpath("config.json").rename(tmp_path / "config.json")
    (folder / "link" / "config.json").symlink_to(tmp_path / "config.json")
    with start_studio(folder) as server:
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
        make_run(folder / "doomed", metric_rows(5))
        assert steps() == ("doomed", [5])
        shutil.rmtree(folder / "doomed")
        assert next(each.data["gone"] for each in stream if each.data.get("gone")) == ["doomed"]
        append_text(folder / "other" / "metrics.jsonl", '{"step": 3}\n')
        assert steps() == ("other", [3])
        stream.close()


def test_a_run_is_followed_through_a_crash_and_resume(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "live"
    (tmp_path / "runs").mkdir()
    received: list[dict[str, Any]] = []
    last_step: list[int] = []
    with start_studio(tmp_path / "runs") as server:
        with training(run, "--save-every", "7", steps=10_000) as trainer:
            wait_for_run(server, "live")
            arguments = (server, "live", received, last_step)
            reader = threading.Thread(target=follow, args=arguments, daemon=True)
            reader.start()
            wait_until(lambda: len(received) >= 12)
            trainer.kill()  # in the middle of anything
            trainer.wait()
        assert server.json("/api/runs")["runs"][0]["state"] == "stopped"
        last_step.append(len(Run(run).metrics()) + 10)
        with training(run, "--save-every", "7", "--resume", steps=last_step[0]) as trainer:
            assert trainer.wait(600) == 0, trainer.stderr.read() if trainer.stderr else ""
        reader.join(300)
        assert not reader.is_alive()
    written = Run(run).metrics()
    assert [row["step"] for row in written] == list(range(1, last_step[0] + 1))
    assert received == written
