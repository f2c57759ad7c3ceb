"""What the endpoints share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from attnlab.studio._allowed_folders import Places
from attnlab.studio._capture_store import Captures
from attnlab.studio._change_events import Hub
from attnlab.studio._event_stream import Streams
from attnlab.studio._jobs import Jobs
from attnlab.studio._result_files import Results, own_folder
from attnlab.studio._worker_pool import Pool


class Studio:
    """Made in the server's event loop."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.hub = Hub(places)
        self.streams = Streams()
        self.pool = Pool()
        self.jobs = Jobs()
        self.captures = Captures()
        self.results = Results(places.runs, own_folder())
        self.known: dict[str, Any] | None = None

    async def registry(self) -> dict[str, Any]:
        """Every claim, asked for once: their code imports torch, so a worker tells."""
        if self.known is None:
            self.known = (await self.pool.ask("registry", {}))[0]
        return self.known

    def folder_of(self, run: str) -> str:
        return str(self.places.run_to_open(run))

    def leave(self) -> None:
        """Streams end and models stop now, so that nobody waits for them."""
        self.hub.close()
        self.jobs.leave()
        self.pool.leave()

    async def close(self) -> None:
        self.leave()
        await self.jobs.close()
        await self.pool.close()


async def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


TheStudio = Annotated[Studio, Depends(_studio)]
