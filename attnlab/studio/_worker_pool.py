"""The worker processes: started when needed, up to a limit. A slow request blocks only one of them.

If a worker dies during a call, that request fails and the next one starts a new worker. If it dies
before it starts the call, another worker takes the call.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attnlab
from attnlab._message_frames import Frame, pack_frame, receive_frame
from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import RequestError

PROGRAM = "attnlab.studio._worker"
INBOX = 64  # frames that wait to be read; a worker that sends more must wait
CANCEL_SECONDS = 2.0  # for a worker to stop a cancelled call; then it is killed


class WorkerNotStartedError(RequestError):
    """The worker died before it started the call, so another worker may try it."""


class Worker:
    """One process. Its frames wait in a queue, so that a client may disconnect at any time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.killed = process, False
        self.inbox = asyncio.Queue[Frame | None](INBOX)
        self.reader = asyncio.create_task(self._read())
        self.models: OrderedDict[str, None] = OrderedDict()
        """The keys of its last calls: it still has these models loaded."""

    @staticmethod
    async def start() -> Worker:
        package = str(Path(attnlab.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        threads = str(max(1, (os.cpu_count() or 1) // 2))
        environment = {"OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", **os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # do not import modules from the current folder
                "-m",
                PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={**environment, "PYTHONPATH": paths},
            )
        except OSError as error:
            message = f"No process for the model could be started ({error.strerror}); try again."
            raise RequestError(503, message) from None
        return Worker(process)

    @property
    def alive(self) -> bool:
        """False right after `kill`, although the return code arrives later."""
        return not self.killed and self.process.returncode is None

    async def send(self, message: dict[str, Any], attached: bytes = b"") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(pack_frame(message, attached))
        await self.process.stdin.drain()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self.inbox.put(await receive_frame(self.process.stdout))
        await self.inbox.put(None)

    async def receive(self) -> Frame:
        """The next frame; raises EOFError if the worker has ended."""
        frame = await self.inbox.get()
        if frame is None:
            self.inbox.put_nowait(None)  # for the next caller
            raise EOFError
        return frame

    def kill(self) -> None:
        """Kills the worker and the processes that it started, which are in its process group."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.killed = True

    async def frames(
        self,
        name: str,
        arguments: dict[str, Any],
        attached: bytes,
        seconds: float | None = limits.WORK_SECONDS,
    ) -> AsyncIterator[Frame]:
        """All frames of a call, the result last. Raises RequestError if the call fails."""
        started = False
        try:
            await self.send({"call": name, "arguments": arguments}, attached)
            deadline = None if seconds is None else time.monotonic() + seconds
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                async with asyncio.timeout(left):
                    message, result_bytes = await self.receive()
                if "error" in message:
                    raise RequestError(message["status"], message["error"])
                if "crash" in message:
                    raise RequestError(500, f"The model failed: {message['crash']}")
                if "started" in message:
                    started = True
                    continue
                yield message, result_bytes
                if "done" in message:
                    return
        except TimeoutError:
            self.kill()
            text = f"This took more than {seconds:g} seconds; give a smaller input."
            raise RequestError(422, text) from None
        except (EOFError, ConnectionError):
            self.kill()
            code = await self.process.wait()
            reason = f"signal {-code}" if code < 0 else f"code {code}"
            raise (RequestError if started else WorkerNotStartedError)(
                503,
                f"The process of the model ended with {reason}; maybe it ran out of memory. Try "
                "again: the studio starts another.",
            ) from None


class WorkerPool:
    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.idle: list[Worker] = []
        self.waiting = 0
        self.changed = asyncio.Condition()
        self.releases: set[asyncio.Task[None]] = set()
        """Tasks that return workers to the pool."""
        self.closed = False

    async def call(
        self, name: str, arguments: dict[str, Any], attached: bytes = b"", *, key: str = ""
    ) -> tuple[Any, bytes]:
        """The result of a call, without its events."""
        result: tuple[Any, bytes] = (None, b"")
        async with self.stream(name, arguments, attached, key=key) as frames:
            async for message, result_bytes in frames:
                result = message.get("done"), result_bytes  # the last frame is the result
        return result

    @asynccontextmanager
    async def stream(
        self, name: str, arguments: dict[str, Any], attached: bytes = b"", *, key: str = ""
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """All frames of a call, as they arrive. Prefers a worker that has loaded the model `key`.

        Leaving the context early cancels the call; the worker is free again once it has stopped.
        """
        worker = await self._acquire(key)
        ended = False

        async def frames_with_retry() -> AsyncIterator[Frame]:
            nonlocal worker
            try:
                async for frame in worker.frames(name, arguments, attached):
                    yield frame
            except WorkerNotStartedError:
                await self._release(worker)
                worker = await self._acquire(key)
                async for frame in worker.frames(name, arguments, attached):
                    yield frame

        async def frames() -> AsyncIterator[Frame]:
            nonlocal ended
            try:
                async for frame in frames_with_retry():
                    ended = "done" in frame[0]
                    yield frame
            except RequestError:
                ended = True
                raise

        try:
            yield frames()
        finally:
            free = ended or not worker.alive
            task = asyncio.create_task(self._release(worker) if free else self._cancel(worker))
            self.releases.add(task)
            task.add_done_callback(self.releases.discard)
            if free:
                await asyncio.shield(task)  # a client that disconnects now must not lose the worker

    async def _acquire(self, key: str) -> Worker:
        if self.waiting >= limits.WAITING_REQUESTS:
            raise RequestError(
                429,
                f"{self.waiting} requests wait for a model, which is the limit; try again later.",
            )
        self.waiting += 1
        try:
            async with self.changed:
                await self.changed.wait_for(self._can_acquire)
                if self.closed:
                    raise RequestError(409, "The studio is closing.")
                worker = self._choose_idle(key)
                if worker is None:
                    worker = await Worker.start()
                    self.workers.append(worker)
        finally:
            self.waiting -= 1
        worker.models[key] = None
        worker.models.move_to_end(key)
        while len(worker.models) > limits.MODELS_PER_WORKER:
            worker.models.popitem(last=False)
        return worker

    def _can_acquire(self) -> bool:
        return self.closed or bool(self.idle) or len(self.workers) < limits.WORKERS

    def _choose_idle(self, key: str) -> Worker | None:
        """An idle worker that has the model, else the one with the fewest; None if none is idle."""
        for dead in [worker for worker in self.idle if not worker.alive]:
            self.idle.remove(dead)
            self.workers.remove(dead)
        if not self.idle:
            return None
        worker = min(self.idle, key=lambda each: (key not in each.models, len(each.models)))
        self.idle.remove(worker)
        return worker

    async def _release(self, worker: Worker) -> None:
        async with self.changed:
            if worker.alive and not self.closed:
                self.idle.append(worker)
            else:
                worker.kill()
                if worker in self.workers:
                    self.workers.remove(worker)
            self.changed.notify()

    async def _cancel(self, worker: Worker) -> None:
        """Cancels the worker's call, discards its remaining frames and releases the worker."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await worker.send({"cancel": True})
                while not {"done", "error", "crash"} & (await worker.receive())[0].keys():
                    pass
        except (TimeoutError, EOFError, ConnectionError):
            worker.kill()
        await self._release(worker)

    def kill_workers(self) -> None:
        """Kills all workers; every later call fails."""
        self.closed = True
        for worker in self.workers:
            worker.kill()

    async def close(self) -> None:
        self.kill_workers()
        await asyncio.gather(*(worker.process.wait() for worker in self.workers))
        async with self.changed:
            self.changed.notify_all()
