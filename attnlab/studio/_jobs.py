"""Jobs that take minutes: audits, claims, benches. Each has its own process and can be cancelled.

Only one runs at a time, because benches and some claims measure time.
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
from attnlab.studio._event_stream import KEEP_ALIVE, format_event
from attnlab.studio._http_errors import RequestError
from attnlab.studio._worker_pool import Worker

KEEP_ALIVE_SECONDS = 15.0
FINAL_STATES = ("done", "failed", "cancelled")


@dataclass
class Job:
    kind: str
    arguments: dict[str, Any]
    make_result: Callable[[Any], dict[str, Any]]
    """Turns the worker's return value into the job's result."""
    run: str = ""
    """The run that it works on, or an empty text."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    state: str = "waiting"
    done: int = 0
    total: int = 0
    message: str = "waiting for other jobs"
    result: dict[str, Any] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def to_json(self) -> dict[str, Any]:
        content = {
            "id": self.id,
            "kind": self.kind,
            "run": self.run,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "message": self.message,
        }
        return content if self.result is None else {**content, "result": self.result}

    def update(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class JobQueue:
    def __init__(self) -> None:
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.runner: asyncio.Task[None] | None = None
        self.worker: Worker | None = None
        self.closing = False

    def add(
        self,
        kind: str,
        arguments: dict[str, Any],
        make_result: Callable[[Any], dict[str, Any]],
        run: str = "",
    ) -> Job:
        unfinished = sum(job.state not in FINAL_STATES for job in self.jobs.values())
        if unfinished >= limits.JOBS or self.closing:
            raise RequestError(
                429, f"{unfinished} jobs wait or run, which is the limit; cancel one or wait."
            )
        job = Job(kind, arguments, make_result, run)
        self.jobs[job.id] = job
        for old in [job for job in self.jobs.values() if job.state in FINAL_STATES]:
            if len(self.jobs) > limits.REMEMBERED_JOBS:
                del self.jobs[old.id]
        if self.runner is None or self.runner.done():
            self.runner = asyncio.create_task(self._run())
        return job

    def get(self, name: str) -> Job:
        if name not in self.jobs:
            raise RequestError(404, f"There is no job {name}; GET /api/jobs lists them.")
        return self.jobs[name]

    def cancel(self, name: str) -> Job:
        """Cancels a job. One that has ended keeps its state."""
        job = self.get(name)
        if job.state == "running" and self.worker is not None:
            self.worker.kill()
        if job.state not in FINAL_STATES:
            job.update(state="cancelled", message="cancelled")
        return job

    async def follow(self, job: Job) -> AsyncIterator[bytes]:
        """An event for each change of the job, up to its final state."""
        while True:
            changed = job.changed
            yield format_event("job", job.to_json())
            if job.state in FINAL_STATES or self.closing:
                return
            while not changed.is_set():
                try:
                    await asyncio.wait_for(changed.wait(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    yield KEEP_ALIVE

    async def _run(self) -> None:
        while job := next((j for j in self.jobs.values() if j.state == "waiting"), None):
            job.update(state="running", message="starting")
            try:
                await self._work(job)
            except RequestError as error:
                self._fail(job, error.message)
            except Exception as error:  # such as too little memory to start a worker
                traceback.print_exc(file=sys.stderr)
                self._fail(job, f"The studio failed: {type(error).__name__}; see the terminal.")
            finally:
                if self.worker is not None:
                    self.worker.kill()
                    await self.worker.process.wait()
                    self.worker = None

    def _fail(self, job: Job, message: str) -> None:
        if job.state != "cancelled":
            job.update(state="failed", message=message)

    async def _work(self, job: Job) -> None:
        self.worker = await Worker.start()
        if job.state == "cancelled":
            return
        async for message, _ in self.worker.frames(job.kind, job.arguments, b"", seconds=None):
            if job.state == "cancelled":
                return
            if "done" in message:
                result = job.make_result(message["done"])
                job.update(state="done", message="", done=max(job.done, job.total), result=result)
            else:
                job.update(**message["data"])

    def disconnect_followers(self) -> None:
        self.closing = True
        for job in self.jobs.values():
            job.update()

    async def close(self) -> None:
        self.disconnect_followers()
        for name in list(self.jobs):
            self.cancel(name)
        if self.runner is not None:
            await self.runner
