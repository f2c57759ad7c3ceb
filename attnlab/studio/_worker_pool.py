"""The workers: as many as are needed and no more than a few; a slow request holds up one of them.

A worker that dies at work is one answer "the model broke"; the next request starts another. Of one
that dies before it begins, another takes the request.
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
from attnlab.studio import _request_limits as limits
from attnlab.studio._http_errors import Refused
from attnlab.studio._worker_messages import Frame, packed, receive_frame

PROGRAM = "attnlab.studio._worker"
INBOX = 64  # frames that wait to be heard; a worker that says more waits too
LEAVING = 2.0  # seconds that a worker has to stop when nobody waits any more, else it is ended


class UntakenError(Refused):
    """The worker ended before it began: not by what was asked, so another may be."""


class Worker:
    """One process. What it says waits in a queue, so that whoever listens may leave at any time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.killed = process, False
        self.inbox = asyncio.Queue[Frame | None](INBOX)
        self.reader = asyncio.create_task(self._read())
        self.models: OrderedDict[str, None] = OrderedDict()
        """What it was asked for last: it keeps these."""

    @staticmethod
    async def start() -> Worker:
        package = str(Path(attnlab.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        threads = str(max(1, (os.cpu_count() or 1) // 2))
        known = {"OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", **os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # what lies in the folder that one stands in is not imported
            "-m",
            PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**known, "PYTHONPATH": paths},
        )
        return Worker(process)

    @property
    def alive(self) -> bool:
        """A code to return comes some time after the end."""
        return not self.killed and self.process.returncode is None

    async def send(self, message: dict[str, Any], content: bytes = b"") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(packed(message, content))
        await self.process.stdin.drain()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self.inbox.put(await receive_frame(self.process.stdout))
        await self.inbox.put(None)

    async def receive(self) -> Frame:
        """An EOFError where it has ended."""
        frame = await self.inbox.get()
        if frame is None:
            self.inbox.put_nowait(None)  # for whoever asks next
            raise EOFError
        return frame

    def kill(self) -> None:
        """With the processes that it began: it leads a group of its own."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.killed = True

    async def frames(
        self,
        name: str,
        given: dict[str, Any],
        content: bytes,
        seconds: float | None = limits.WORK_SECONDS,
    ) -> AsyncIterator[Frame]:
        """All that comes, the end last. What is refused or breaks is a Refused."""
        taken = False
        try:
            await self.send({"call": name, "with": given}, content)
            end = None if seconds is None else time.monotonic() + seconds
            while True:
                left = None if end is None else max(0.0, end - time.monotonic())
                async with asyncio.timeout(left):
                    message, attached = await self.receive()
                if "wrong" in message:
                    raise Refused(message["status"], message["wrong"])
                if "broken" in message:
                    raise Refused(500, f"The model broke: {message['broken']}")
                if "taken" in message:
                    taken = True
                    continue
                yield message, attached
                if "done" in message:
                    return
        except TimeoutError:
            self.kill()
            sentence = f"This took more than {seconds:g} seconds; ask for less."
            raise Refused(422, sentence) from None
        except (EOFError, ConnectionError):
            self.kill()
            code = await self.process.wait()
            how = f"signal {-code}" if code < 0 else f"code {code}"
            raise (Refused if taken else UntakenError)(
                500,
                f"The model broke: its process ended with {how}; there may be too little memory.",
            ) from None


class Pool:
    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.idle: list[Worker] = []
        self.waiting = 0
        self.changed = asyncio.Condition()
        self.leaving: set[asyncio.Task[None]] = set()
        self.closed = False

    async def ask(
        self, name: str, given: dict[str, Any], content: bytes = b"", *, key: str = ""
    ) -> tuple[Any, bytes]:
        """The end alone."""
        found: tuple[Any, bytes] = (None, b"")
        async with self.call(name, given, content, key=key) as frames:
            async for message, attached in frames:
                found = message.get("done"), attached  # the last is the end
        return found

    @asynccontextmanager
    async def call(
        self, name: str, given: dict[str, Any], content: bytes = b"", *, key: str = ""
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """All frames of a call, as they come. `key`: a worker that has this model is preferred.

        Whoever leaves early cancels it; the worker is free again once it has stopped.
        """
        worker = await self._take(key)
        ended = False

        async def tried() -> AsyncIterator[Frame]:
            nonlocal worker
            try:
                async for frame in worker.frames(name, given, content):
                    yield frame
            except UntakenError:
                await self._give(worker)
                worker = await self._take(key)
                async for frame in worker.frames(name, given, content):
                    yield frame

        async def frames() -> AsyncIterator[Frame]:
            nonlocal ended
            try:
                async for frame in tried():
                    ended = "done" in frame[0]
                    yield frame
            except Refused:
                ended = True
                raise

        try:
            yield frames()
        finally:
            free = ended or not worker.alive
            task = asyncio.create_task(self._give(worker) if free else self._stop(worker))
            self.leaving.add(task)
            task.add_done_callback(self.leaving.discard)
            if free:
                await asyncio.shield(task)  # who leaves just now takes no worker along

    async def _take(self, key: str) -> Worker:
        if self.waiting >= limits.WAITING:
            raise Refused(429, f"{self.waiting} requests wait for a model; try again.")
        self.waiting += 1
        try:
            async with self.changed:
                await self.changed.wait_for(self._free)
                if self.closed:
                    raise Refused(409, "The studio is closing.")
                worker = self._best(key)
                if worker is None:
                    worker = await Worker.start()
                    self.workers.append(worker)
        finally:
            self.waiting -= 1
        worker.models[key] = None
        worker.models.move_to_end(key)
        while len(worker.models) > limits.MODELS:
            worker.models.popitem(last=False)
        return worker

    def _free(self) -> bool:
        return self.closed or bool(self.idle) or len(self.workers) < limits.WORKERS

    def _best(self, key: str) -> Worker | None:
        """An idle worker that has the model, or has the fewest; None where all are busy or dead."""
        for dead in [each for each in self.idle if not each.alive]:
            self.idle.remove(dead)
            self.workers.remove(dead)
        if not self.idle:
            return None
        worker = min(self.idle, key=lambda each: (key not in each.models, len(each.models)))
        self.idle.remove(worker)
        return worker

    async def _give(self, worker: Worker) -> None:
        async with self.changed:
            if worker.alive and not self.closed:
                self.idle.append(worker)
            else:
                worker.kill()
                if worker in self.workers:
                    self.workers.remove(worker)
            self.changed.notify()

    async def _stop(self, worker: Worker) -> None:
        """What it still says is for nobody."""
        try:
            async with asyncio.timeout(LEAVING):
                await worker.send({"cancel": True})
                while not {"done", "wrong", "broken"} & (await worker.receive())[0].keys():
                    pass
        except (TimeoutError, EOFError, ConnectionError):
            worker.kill()
        await self._give(worker)

    def leave(self) -> None:
        """Nothing is answered any more."""
        self.closed = True
        for worker in self.workers:
            worker.kill()

    async def close(self) -> None:
        self.leave()
        await asyncio.gather(*(each.process.wait() for each in self.workers))
        async with self.changed:
            self.changed.notify_all()
