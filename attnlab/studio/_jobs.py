"""What takes minutes: one job after the other, each in a process of its own that can be ended.

One at a time, because benches and some claims measure time.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import traceback
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from attnlab.studio import _request_limits as limits
from attnlab.studio._event_stream import KEEP_ALIVE, event
from attnlab.studio._http_errors import Refused
from attnlab.studio._worker_pool import Worker

ALIVE = 15.0
ENDED = ("done", "failed", "cancelled")


@dataclass
class Job:
    kind: str
    given: dict[str, Any]
    finish: Callable[[Any], dict[str, Any]]
    """From what the worker gave to what the page is told."""
    about: str = ""
    """The run that it is of."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    state: str = "waiting"
    done: int = 0
    of: int = 0
    message: str = "waits for its turn"
    result: dict[str, Any] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def json(self) -> dict[str, Any]:
        found = {
            "id": self.id,
            "kind": self.kind,
            "about": self.about,
            "state": self.state,
            "done": self.done,
            "of": self.of,
            "message": self.message,
        }
        return found if self.result is None else {**found, "result": self.result}

    def update(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Jobs:
    def __init__(self) -> None:
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.runner: asyncio.Task[None] | None = None
        self.worker: Worker | None = None
        self.closing = False

    def add(
        self,
        kind: str,
        given: dict[str, Any],
        finish: Callable[[Any], dict[str, Any]],
        about: str = "",
    ) -> Job:
        waiting = sum(each.state not in ENDED for each in self.jobs.values())
        if waiting >= limits.JOBS or self.closing:
            raise Refused(429, f"{waiting} jobs wait or run, the most; cancel one or wait.")
        job = Job(kind, given, finish, about)
        self.jobs[job.id] = job
        for old in [each for each in self.jobs.values() if each.state in ENDED]:
            if len(self.jobs) > limits.KEPT_JOBS:
                del self.jobs[old.id]
        if self.runner is None or self.runner.done():
            self.runner = asyncio.create_task(self._run())
        return job

    def get(self, name: str) -> Job:
        if name not in self.jobs:
            raise Refused(404, "There is no such job.")
        return self.jobs[name]

    def cancel(self, name: str) -> Job:
        """One that has ended stays as it is."""
        job = self.get(name)
        if job.state == "running" and self.worker is not None:
            self.worker.kill()
        if job.state not in ENDED:
            job.update(state="cancelled", message="cancelled")
        return job

    async def follow(self, job: Job) -> AsyncIterator[bytes]:
        """Its state at each change, the last one too."""
        while True:
            changed = job.changed
            yield event("job", job.json())
            if job.state in ENDED or self.closing:
                return
            while not changed.is_set():
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE)
                except TimeoutError:
                    yield KEEP_ALIVE

    async def _run(self) -> None:
        while job := next((j for j in self.jobs.values() if j.state == "waiting"), None):
            job.update(state="running", message="starts")
            try:
                await self._work(job)
            except Refused as refused:
                self._fail(job, refused.sentence)
            except Exception as error:  # as no memory or process left to start a worker
                traceback.print_exc(file=sys.stderr)
                self._fail(job, f"The studio failed: {type(error).__name__}; see the terminal.")
            finally:
                if self.worker is not None:
                    self.worker.kill()
                    await self.worker.process.wait()
                    self.worker = None

    def _fail(self, job: Job, sentence: str) -> None:
        if job.state != "cancelled":
            job.update(state="failed", message=sentence)

    async def _work(self, job: Job) -> None:
        self.worker = await Worker.start()
        if job.state == "cancelled":
            return
        async for message, _ in self.worker.frames(job.kind, job.given, b"", seconds=None):
            if job.state == "cancelled":
                return
            if "done" in message:
                result = job.finish(message["done"])
                job.update(state="done", message="", done=max(job.done, job.of), result=result)
            else:
                job.update(**message["data"])

    def leave(self) -> None:
        """Who follows is let go."""
        self.closing = True
        for job in self.jobs.values():
            job.update()

    async def close(self) -> None:
        self.leave()
        for name in list(self.jobs):
            self.cancel(name)
        if self.runner is not None:
            await self.runner
