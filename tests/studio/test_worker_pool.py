"""Workers: messages arrive complete, and no worker blocks or ends the server."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab._message_frames import pack_frame, read_frame, receive_frame
from attnlab.studio import _request_limits as limits
from attnlab.studio import _worker_pool as worker_pool
from attnlab.studio._http_errors import RequestError
from attnlab.studio._jobs import JobQueue
from attnlab.studio._worker_pool import Worker, WorkerPool
from tests.support.examples import examples
from tests.support.studio_client import studio_behind
from tests.support.studio_secret_files import error_message
from tests.support.studio_servers import make_run, studio_client


@pytest.fixture(autouse=True)
def _fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PROGRAM", "tests.support.studio_fake_worker")


def with_pool(act: Callable[[WorkerPool], Awaitable[None]]) -> None:
    async def run() -> None:
        pool = WorkerPool()
        try:
            await act(pool)
        finally:
            await pool.close()

    asyncio.run(run())


async def ask(pool: WorkerPool, *questions: str, key: str = "") -> Any:
    return (await pool.call("ask", {"questions": list(questions)}, key=key))[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@examples(40)
@given(st.dictionaries(st.text(), JSON, max_size=3), st.binary())
def test_frames_are_read_as_packed(message: dict[str, Any], content: bytes) -> None:
    raw = pack_frame(message, content)
    assert read_frame(io.BytesIO(raw + raw)) == (message, content)
    assert read_frame(io.BytesIO(raw[:3])) is None


def test_frames_are_received_as_packed() -> None:
    sent: list[tuple[dict[str, Any], bytes]] = [
        ({"a": "\ud800\n"}, b""),
        ({}, bytes(300_000)),
        ({"b": [1, None]}, b"x"),
    ]

    async def received() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(pack_frame(*each) for each in sent))
        reader.feed_eof()
        assert [await receive_frame(reader) for _ in sent] == sent
        with pytest.raises(asyncio.IncompleteReadError):
            await receive_frame(reader)

    asyncio.run(received())


def test_a_frame_that_is_too_large_is_not_read() -> None:
    with pytest.raises(ValueError, match="a frame of"):
        read_frame(io.BytesIO(b"\xff" * 100))


def test_a_result_with_attached_bytes() -> None:
    async def act(pool: WorkerPool) -> None:
        value, attached = await pool.call("ask", {"questions": ["print not an answer"]})
        assert attached == b"attached"
        assert value["torch"] is False
        assert value["pid"] == pool.workers[0].process.pid
        assert (await pool.call("ask", {"questions": ["forget 5000000"]}))[1] == bytes(5_000_000)

    with_pool(act)


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("refuse", 422, "this question cannot be read"),
        ("break", 500, "The model failed: RuntimeError: weights of another shape"),
        ("end", 503, "ended with code 7"),
    ],
)
def test_a_failed_call_gives_a_message_and_the_next_succeeds(
    command: str, status: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def act(pool: WorkerPool) -> None:
        for _ in range(2):
            with pytest.raises(RequestError) as raised:
                await ask(pool, command)
            assert raised.value.status == status
            assert words in raised.value.message
            assert (await ask(pool, "sleep 0"))["answers"] == []
        assert len(pool.workers) == 1

    with_pool(act)
    assert ("Traceback" in capfd.readouterr().err) == (command == "break")


def test_idle_workers_that_died_are_replaced() -> None:
    async def act(pool: WorkerPool) -> None:
        await asyncio.gather(*(ask(pool, "sleep 0.3") for _ in range(2)))
        before = list(pool.workers)
        assert len(before) == 2
        for worker in before:
            os.kill(worker.process.pid, signal.SIGKILL)
            await worker.process.wait()
        pid = (await ask(pool, "sleep 0"))["pid"]
        assert pid not in [each.process.pid for each in before]
        assert [each.process.pid for each in pool.workers] == [pid]
        assert pool.idle == pool.workers

    with_pool(act)


def test_a_call_is_retried_if_its_worker_dies_before_it_starts(tmp_path: Path) -> None:
    """The worker was still alive when the pool chose it."""

    async def act(pool: WorkerPool) -> None:
        await ask(pool, "sleep 0")
        (worker,) = pool.workers
        os.kill(worker.process.pid, signal.SIGSTOP)
        task = asyncio.create_task(ask(pool, f"touch {tmp_path / 'done'}"))
        while pool.idle:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # the call waits in the pipe
        os.kill(worker.process.pid, signal.SIGKILL)
        assert (await task)["pid"] != worker.process.pid
        assert (tmp_path / "done").exists()
        assert len(pool.workers) == 1

    with_pool(act)


def test_a_worker_that_dies_during_a_call_is_reported(tmp_path: Path) -> None:
    async def act(pool: WorkerPool) -> None:
        await ask(pool, "sleep 0")
        (worker,) = pool.workers
        task = asyncio.create_task(ask(pool, f"touch {tmp_path / 'started'}", "sleep 600"))
        while not (tmp_path / "started").exists():
            await asyncio.sleep(0.01)
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(RequestError, match="ended with signal 9; maybe it ran out") as raised:
            await task
        assert raised.value.status == 503
        assert pool.workers == []

    with_pool(act)


def test_workers_that_are_killed_while_they_start_answer_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests the whole studio. If only the first is killed, another one takes the call."""
    make_run(tmp_path / "one")
    original_start, kills = Worker.start, 0

    async def start_and_kill() -> Worker:
        nonlocal kills
        worker = await original_start()
        if kills:
            kills -= 1
            os.kill(worker.process.pid, signal.SIGKILL)
        return worker

    monkeypatch.setattr(Worker, "start", start_and_kill)
    body = {"run": "one", "questions": ["sleep 0"]}
    with studio_client(tmp_path) as client:
        for kills, status in ((1, 200), (2, 503), (0, 200)):  # noqa: B007 (it is nonlocal)
            response = client.post("/api/ask", json=body)
            assert response.status_code == status, response.text
            for worker in studio_behind(client).pool.workers:
                worker.kill()
            if status == 503:
                message = error_message(response)
                assert message.startswith("The process of the model ended with signal 9; ")


def test_a_worker_that_dies_in_its_imports_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing torch takes seconds, in which the call has not started."""
    monkeypatch.setenv("DYING_IMPORT_MARKER", str(tmp_path / "died"))

    async def act(pool: WorkerPool) -> None:
        assert await pool.call("dying_import", {}) == ("imported", b"")
        assert (tmp_path / "died").exists()

    with_pool(act)


def test_a_worker_that_cannot_start_answers_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    make_run(tmp_path / "one")
    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
    with studio_client(tmp_path) as client:
        response = client.post("/api/ask", json={"run": "one", "questions": ["sleep 0"]})
    assert response.status_code == 503
    expected = "No process for the model could be started (Resource temporarily unavailable)"
    assert error_message(response) == f"{expected}; try again."


def test_slow_workers_block_no_request_while_one_is_free(tmp_path: Path) -> None:
    def start_slow_call(pool: WorkerPool, number: int) -> asyncio.Task[Any]:
        return asyncio.create_task(ask(pool, f"touch {tmp_path / str(number)}", "sleep 600"))

    async def until_started(count: int) -> None:
        """A call that had not started would be repeated by another worker."""
        while len(list(tmp_path.iterdir())) < count:
            await asyncio.sleep(0.01)

    async def act(pool: WorkerPool) -> None:
        await ask(pool, "sleep 0")
        slow = [start_slow_call(pool, number) for number in range(limits.WORKERS - 1)]
        await until_started(limits.WORKERS - 1)
        assert (await ask(pool, "sleep 0"))["answers"] == []  # one worker is free
        last = start_slow_call(pool, limits.WORKERS)
        await until_started(limits.WORKERS)
        waits = asyncio.create_task(ask(pool, "sleep 0"))
        await asyncio.sleep(0.1)
        assert not waits.done()
        assert len(pool.workers) == limits.WORKERS
        os.kill(pool.workers[0].process.pid, signal.SIGKILL)  # a slow worker dies
        assert (await waits)["answers"] == []
        for task in (*slow, last):
            task.cancel()
        await asyncio.gather(*slow, last, return_exceptions=True)

    with_pool(act)


def test_too_many_waiting_calls_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKERS", 1)
    monkeypatch.setattr(limits, "WAITING_REQUESTS", 2)

    async def act(pool: WorkerPool) -> None:
        slow = asyncio.create_task(ask(pool, "sleep 600"))
        while not pool.workers:
            await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(ask(pool, "sleep 0")) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(RequestError, match="2 requests wait") as raised:
            await ask(pool, "sleep 0")
        assert raised.value.status == 429
        pool.kill_workers()  # as Ctrl-C does: no call waits for ever
        await pool.close()
        errors = await asyncio.gather(slow, *waiting, return_exceptions=True)
        assert all(isinstance(each, RequestError) for each in errors)

    with_pool(act)


def test_a_call_goes_to_the_worker_that_has_the_model() -> None:
    async def act(pool: WorkerPool) -> None:
        results = await asyncio.gather(
            ask(pool, "sleep 0.3", key="a"), ask(pool, "sleep 0.3", key="b")
        )
        pids = dict(zip("ab", (each["pid"] for each in results), strict=True))
        assert pids["a"] != pids["b"]
        for key in "abbaab":
            assert (await ask(pool, "sleep 0", key=key))["pid"] == pids[key]
        await ask(pool, "sleep 0", key="c")  # no third worker is started
        assert len(pool.workers) == 2

    with_pool(act)


def test_a_cancelled_call_leaves_the_worker_usable() -> None:
    """Even in the middle of a frame: the next call still works."""

    async def cancel_after(pool: WorkerPool, seconds: float) -> None:
        async with pool.stream("ask", {"questions": ["count 1000000"]}) as frames:
            async with asyncio.timeout(seconds):
                async for _ in frames:
                    pass

    async def act(pool: WorkerPool) -> None:
        await ask(pool, "sleep 0")
        random_generator = random.Random(0)
        for _ in range(12):
            with pytest.raises(TimeoutError):
                await cancel_after(pool, 0.02 + 0.1 * random_generator.random())
            while pool.releases:
                await asyncio.sleep(0.005)
            assert (await ask(pool, "sleep 0"))["answers"] == []
        assert len(pool.workers) == 1

    with_pool(act)


def test_a_worker_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "CANCEL_SECONDS", 0.2)
    started = tmp_path / "started"

    async def act(pool: WorkerPool) -> None:
        task = asyncio.create_task(ask(pool, f"touch {started}", "sleep 600"))
        while not started.exists():
            await asyncio.sleep(0.01)
        worker = pool.workers[0]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while pool.releases:
            await asyncio.sleep(0.01)
        assert await worker.process.wait() == -signal.SIGKILL
        assert pool.workers == []
        assert (await ask(pool, "sleep 0"))["answers"] == []

    with_pool(act)


def test_a_call_that_takes_too_long_is_killed() -> None:
    async def act(pool: WorkerPool) -> None:
        worker = await Worker.start()
        with pytest.raises(RequestError, match=r"more than 0\.2 seconds") as raised:
            async for _ in worker.frames("ask", {"questions": ["sleep 600"]}, b"", seconds=0.2):
                pass
        assert raised.value.status == 422
        assert await worker.process.wait() == -signal.SIGKILL
        assert pool.workers == []

    with_pool(act)


def test_a_worker_exits_when_its_input_closes() -> None:
    async def act(_: WorkerPool) -> None:
        worker = await Worker.start()
        await worker.send({"call": "ask", "arguments": {"questions": ["sleep 600"]}})
        assert worker.process.stdin is not None
        worker.process.stdin.close()  # as when the server has ended
        assert await worker.process.wait() == -signal.SIGKILL

    with_pool(act)


def test_jobs_run_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(limits, "JOBS", 3)
        jobs = JobQueue()
        commands = [["count 3"], ["break"], ["end"]]
        added = [jobs.add("ask", {"questions": each}, lambda _: {"file": "f"}) for each in commands]
        with pytest.raises(RequestError, match="3 jobs wait or run"):
            jobs.add("ask", {"questions": []}, lambda _: {})
        assert [each.state for each in added] == ["waiting"] * 3
        chunks = [chunk async for chunk in jobs.follow(added[-1])]
        assert [each.state for each in added] == ["done", "failed", "failed"]
        assert added[0].to_json()["result"] == {"file": "f"}
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
    async def fail_to_start() -> Worker:
        raise BlockingIOError("no process is left")

    async def run() -> None:
        jobs = JobQueue()
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "start", fail_to_start)
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
    monkeypatch.setattr(limits, "REMEMBERED_JOBS", 2)

    async def run() -> None:
        jobs = JobQueue()
        for _ in range(4):
            job = jobs.add("ask", {"questions": []}, lambda _: {})
            assert [chunk async for chunk in jobs.follow(job)]
        assert len(jobs.jobs) == 2
        assert job.id in jobs.jobs
        await jobs.close()

    asyncio.run(run())


def test_a_slow_request_blocks_no_other(tmp_path: Path) -> None:
    """Tests the whole studio."""
    from concurrent.futures import ThreadPoolExecutor

    make_run(tmp_path / "one")
    with studio_client(tmp_path) as client, ThreadPoolExecutor(1) as executor:

        def ask(*questions: str) -> Any:
            return client.post("/api/ask", json={"run": "one", "questions": list(questions)})

        started = tmp_path / "started"
        slow = executor.submit(ask, f"touch {started}", "sleep 600")
        while not started.exists():  # a call that had not started would go to another worker
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
        assert slow.result(300).status_code == 503
        assert client.get("/api/runs").status_code == 200
