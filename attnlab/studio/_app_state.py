"""The state that all endpoints share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._capture_store import CaptureStore
from attnlab.studio._event_stream import EventStreams
from attnlab.studio._jobs import JobQueue
from attnlab.studio._result_files import ResultFiles, results_folder
from attnlab.studio._run_watcher import RunWatcher
from attnlab.studio._worker_pool import WorkerPool


class Studio:
    """Must be created in the server's event loop."""

    def __init__(self, folders: AllowedFolders) -> None:
        self.folders = folders
        self.run_watcher = RunWatcher(folders)
        self.streams = EventStreams()
        self.pool = WorkerPool()
        self.jobs = JobQueue()
        self.captures = CaptureStore()
        self.results = ResultFiles(folders.runs, results_folder())
        self.claim_registry: dict[str, Any] | None = None

    async def read_claim_registry(self) -> dict[str, Any]:
        """Every claim. A worker reads them once, because their code imports torch."""
        if self.claim_registry is None:
            self.claim_registry = (await self.pool.call("registry", {}))[0]
        return self.claim_registry

    def loadable_run_folder(self, run: str) -> str:
        return str(self.folders.loadable_run_folder(run))

    def begin_shutdown(self) -> None:
        """Ends streams and models now, so that no client waits for them."""
        self.run_watcher.close()
        self.jobs.disconnect_followers()
        self.pool.kill_workers()

    async def close(self) -> None:
        self.begin_shutdown()
        await self.jobs.close()
        await self.pool.close()


async def _get_studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


StudioDependency = Annotated[Studio, Depends(_get_studio)]
