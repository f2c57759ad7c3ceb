"""Workers: nothing is lost on the way, and none holds up, blocks or ends the server."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.studio import _request_limits as limits
from attnlab.studio import _worker_pool as pool
from attnlab.studio._http_errors import Refused
from attnlab.studio._jobs import Jobs
from attnlab.studio._worker_messages import packed, read_frame, receive_frame
from attnlab.studio._worker_pool import Pool, Worker
from tests.support.studio_servers import make_run, studio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PROGRAM", "tests.support.studio_worker")


def with_pool(act: Callable[[Pool], Awaitable[None]]) -> None:
    async def run() -> None:
        made = Pool()
        try:
            await act(made)
        finally:
            await made.close()

    asyncio.run(run())


async def asked(made: Pool, *questions: str, key: str = "") -> Any:
    return (await made.ask("ask", {"questions": list(questions)}, key=key))[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON, max_size=3), st.binary())
def test_frames_come_as_they_went(message: dict[str, Any], content: bytes) -> None:
    raw = packed(message, content)
    assert read_frame(io.BytesIO(raw + raw)) == (message, content)
    assert read_frame(io.BytesIO(raw[:3])) is None


def test_frames_are_received_as_they_went() -> None:
    sent: list[tuple[dict[str, Any], bytes]] = [
        ({"a": "\ud800\n"}, b""),
        ({}, bytes(300_000)),
        ({"b": [1, None]}, b"x"),
    ]

    async def received() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(packed(*each) for each in sent))
        reader.feed_eof()
        assert [await receive_frame(reader) for _ in sent] == sent
        with pytest.raises(asyncio.IncompleteReadError):
            await receive_frame(reader)

    asyncio.run(received())


def test_a_frame_that_is_too_large_is_not_read() -> None:
    with pytest.raises(ValueError, match="a frame of"):
        read_frame(io.BytesIO(b"\xff" * 100))


def test_an_answer_with_what_is_attached() -> None:
    async def act(made: Pool) -> None:
        value, attached = await made.ask("ask", {"questions": ["print not an answer"]})
        assert attached == b"attached"
        assert value["torch"] is False
        assert value["pid"] == made.workers[0].process.pid
        assert (await made.ask("ask", {"questions": ["forget 5000000"]}))[1] == bytes(5_000_000)

    with_pool(act)


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ("refuse", 422, "this question cannot be read"),
        ("break", 500, "The model broke: RuntimeError: weights of another shape"),
        ("end", 500, "ended with code 7"),
    ],
)
def test_what_fails_is_a_sentence_and_the_next_is_answered(
    order: str, status: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def act(made: Pool) -> None:
        for _ in range(2):
            with pytest.raises(Refused) as told:
                await asked(made, order)
            assert told.value.status == status
            assert words in told.value.sentence
            assert (await asked(made, "sleep 0"))["answers"] == []
        assert len(made.workers) == 1

    with_pool(act)
    assert ("Traceback" in capfd.readouterr().err) == (order == "break")


def test_workers_that_died_idle_cost_no_request() -> None:
    async def act(made: Pool) -> None:
        await asyncio.gather(*(asked(made, "sleep 0.3") for _ in range(2)))
        before = list(made.workers)
        assert len(before) == 2
        for worker in before:
            os.kill(worker.process.pid, signal.SIGKILL)
            await worker.process.wait()
        pid = (await asked(made, "sleep 0"))["pid"]
        assert pid not in [each.process.pid for each in before]
        assert [each.process.pid for each in made.workers] == [pid]
        assert made.idle == made.workers

    with_pool(act)


def test_a_worker_that_dies_before_it_took_the_request(tmp_path: Path) -> None:
    """Nobody can have noticed: it still stood when it was chosen."""

    async def act(made: Pool) -> None:
        await asked(made, "sleep 0")
        (worker,) = made.workers
        os.kill(worker.process.pid, signal.SIGSTOP)
        task = asyncio.create_task(asked(made, f"touch {tmp_path / 'done'}"))
        while made.idle:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # what was asked waits in the pipe
        os.kill(worker.process.pid, signal.SIGKILL)
        assert (await task)["pid"] != worker.process.pid
        assert (tmp_path / "done").exists()
        assert len(made.workers) == 1

    with_pool(act)


def test_a_worker_that_dies_at_work_is_told_of(tmp_path: Path) -> None:
    async def act(made: Pool) -> None:
        await asked(made, "sleep 0")
        (worker,) = made.workers
        task = asyncio.create_task(asked(made, f"touch {tmp_path / 'begun'}", "sleep 600"))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(Refused, match="its process ended with signal 9") as told:
            await task
        assert told.value.status == 500
        assert made.workers == []

    with_pool(act)


def test_slow_ones_hold_up_nobody_until_all_are_slow() -> None:
    async def act(made: Pool) -> None:
        await asked(made, "sleep 0")
        slow = [asyncio.create_task(asked(made, "sleep 600")) for _ in range(limits.WORKERS - 1)]
        while len(made.workers) < limits.WORKERS - 1 or made.idle:
            await asyncio.sleep(0.01)
        assert (await asked(made, "sleep 0"))["answers"] == []  # one is left
        last = asyncio.create_task(asked(made, "sleep 600"))
        while made.idle:
            await asyncio.sleep(0.01)
        waits = asyncio.create_task(asked(made, "sleep 0"))
        await asyncio.sleep(0.1)
        assert not waits.done()
        assert len(made.workers) == limits.WORKERS
        os.kill(made.workers[0].process.pid, signal.SIGKILL)  # one slow one breaks
        assert (await waits)["answers"] == []
        for task in (*slow, last):
            task.cancel()
        await asyncio.gather(*slow, last, return_exceptions=True)

    with_pool(act)


def test_who_waits_with_too_many_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKERS", 1)
    monkeypatch.setattr(limits, "WAITING", 2)

    async def act(made: Pool) -> None:
        slow = asyncio.create_task(asked(made, "sleep 600"))
        while not made.workers:
            await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(asked(made, "sleep 0")) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refused, match="2 requests wait") as told:
            await asked(made, "sleep 0")
        assert told.value.status == 429
        made.leave()  # Ctrl-C: nobody waits for ever
        await made.close()
        found = await asyncio.gather(slow, *waiting, return_exceptions=True)
        assert all(isinstance(each, Refused) for each in found)

    with_pool(act)


def test_a_model_is_asked_where_it_is_open() -> None:
    async def act(made: Pool) -> None:
        both = await asyncio.gather(
            asked(made, "sleep 0.3", key="a"), asked(made, "sleep 0.3", key="b")
        )
        homes = dict(zip("ab", (each["pid"] for each in both), strict=True))
        assert homes["a"] != homes["b"]
        for key in "abbaab":
            assert (await asked(made, "sleep 0", key=key))["pid"] == homes[key]
        await asked(made, "sleep 0", key="c")  # no third is started for it
        assert len(made.workers) == 2

    with_pool(act)


def test_whoever_leaves_at_any_time_leaves_a_worker_in_order() -> None:
    """Also in the middle of a frame: what comes next is still understood."""

    async def leave(made: Pool, after: float) -> None:
        async with made.call("ask", {"questions": ["count 2000"]}) as frames:
            async with asyncio.timeout(after):
                async for _ in frames:
                    pass

    async def act(made: Pool) -> None:
        await asked(made, "sleep 0")
        chance = random.Random(0)
        for _ in range(12):
            with pytest.raises(TimeoutError):
                await leave(made, 0.02 + 0.1 * chance.random())
            while made.leaving:
                await asyncio.sleep(0.005)
            assert (await asked(made, "sleep 0"))["answers"] == []
        assert len(made.workers) == 1

    with_pool(act)


def test_who_cannot_be_stopped_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LEAVING", 0.2)

    async def act(made: Pool) -> None:
        task = asyncio.create_task(asked(made, "sleep 600"))
        while not made.workers:
            await asyncio.sleep(0.01)
        worker = made.workers[0]
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while made.leaving:
            await asyncio.sleep(0.01)
        assert await worker.process.wait() == -signal.SIGKILL
        assert made.workers == []
        assert (await asked(made, "sleep 0"))["answers"] == []

    with_pool(act)


def test_what_takes_too_long_is_ended() -> None:
    async def act(made: Pool) -> None:
        worker = await Worker.start()
        with pytest.raises(Refused, match=r"more than 0\.2 seconds") as told:
            async for _ in worker.frames("ask", {"questions": ["sleep 600"]}, b"", seconds=0.2):
                pass
        assert told.value.status == 422
        assert await worker.process.wait() == -signal.SIGKILL
        assert made.workers == []

    with_pool(act)


def test_a_worker_ends_with_its_input() -> None:
    async def act(_: Pool) -> None:
        worker = await Worker.start()
        await worker.send({"call": "ask", "with": {"questions": ["sleep 600"]}})
        assert worker.process.stdin is not None
        worker.process.stdin.close()  # as when the server is gone
        assert await worker.process.wait() == -signal.SIGKILL

    with_pool(act)


def test_jobs_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(limits, "JOBS", 3)
        jobs = Jobs()
        orders = [["count 3"], ["break"], ["end"]]
        added = [jobs.add("ask", {"questions": each}, lambda _: {"file": "f"}) for each in orders]
        with pytest.raises(Refused, match="3 jobs wait or run"):
            jobs.add("ask", {"questions": []}, lambda _: {})
        assert [each.state for each in added] == ["waiting"] * 3
        chunks = [chunk async for chunk in jobs.follow(added[-1])]
        assert [each.state for each in added] == ["done", "failed", "failed"]
        assert added[0].json()["result"] == {"file": "f"}
        assert "weights of another shape" in added[1].message
        assert b'"state":"failed"' in chunks[-1]
        slow = jobs.add("ask", {"questions": ["sleep 600"]}, lambda _: {})
        later = jobs.add("ask", {"questions": ["sleep 0"]}, lambda _: {})
        while slow.state == "waiting":
            await asyncio.sleep(0.01)
        assert jobs.cancel(slow.id).state == "cancelled"
        assert [chunk async for chunk in jobs.follow(later)]
        assert (slow.state, later.state) == ("cancelled", "done")
        await jobs.close()
        assert jobs.worker is None

    asyncio.run(run())


def test_a_job_whose_worker_cannot_start_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def none() -> Worker:
        raise BlockingIOError("no process is left")

    async def run() -> None:
        jobs = Jobs()
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "start", none)
            first = jobs.add("ask", {"questions": []}, lambda _: {})
            assert [chunk async for chunk in jobs.follow(first)]
        assert (first.state, first.message.split(";")[0]) == (
            "failed",
            "The studio failed: BlockingIOError",
        )
        second = jobs.add("ask", {"questions": []}, lambda _: {})
        assert [chunk async for chunk in jobs.follow(second)]
        assert second.state == "done"
        await jobs.close()

    asyncio.run(run())
    assert "no process is left" in capsys.readouterr().err


def test_old_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEPT_JOBS", 2)

    async def run() -> None:
        jobs = Jobs()
        for _ in range(4):
            job = jobs.add("ask", {"questions": []}, lambda _: {})
            assert [chunk async for chunk in jobs.follow(job)]
        assert len(jobs.jobs) == 2
        assert job.id in jobs.jobs
        await jobs.close()

    asyncio.run(run())


def test_a_slow_request_holds_up_no_other(tmp_path: Path) -> None:
    """Through the whole studio."""
    from concurrent.futures import ThreadPoolExecutor

    make_run(tmp_path / "one")
    with studio(tmp_path) as client, ThreadPoolExecutor(1) as executor:

        def ask(*questions: str) -> Any:
            return client.post("/api/ask", json={"run": "one", "questions": list(questions)})

        begun = tmp_path / "begun"
        slow = executor.submit(ask, f"touch {begun}", "sleep 600")
        while not begun.exists():  # one that was not begun would be given to another worker
            time.sleep(0.02)
        for _ in range(5):
            assert client.get("/api/runs").status_code == 200
            assert ask("sleep 0").status_code == 200
        assert ask("refuse").status_code == 422
        assert ask("break").status_code == 500
        assert not slow.done()
        app: Any = client.app
        for worker in app.studio.pool.workers:
            if worker not in app.studio.pool.idle:
                worker.kill()
        assert slow.result(60).status_code == 500
        assert client.get("/api/runs").status_code == 200
