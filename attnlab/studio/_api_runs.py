"""What there is: runs, their metrics, settings and what changes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query

import attnlab
from attnlab.run_folder._metrics_tail import MARK
from attnlab.studio import _run_list as runs
from attnlab.studio._allowed_folders import could_be, shown
from attnlab.studio._app_state import TheStudio
from attnlab.studio._event_stream import EventStream
from attnlab.studio._http_errors import Refused
from attnlab.studio._requests import DiffQuery, EventsQuery, MetricsQuery, RunQuery
from attnlab.studio._responses import (
    RUN_EVENTS,
    DiffResponse,
    InfoResponse,
    MetricsResponse,
    RunResponse,
    RunsResponse,
)
from attnlab.studio._routing import StudioRoute, refusals, streamed
from attnlab.tasks.registry import TASKS

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.get("/info")
async def info(studio: TheStudio) -> InfoResponse:
    """Version, folders, models, tasks and limits."""
    return InfoResponse.checked(
        {
            "version": attnlab.__version__,
            "runs_folder": str(studio.places.runs),
            "models": [{"id": name, "name": name} for name in studio.places.models],
            "tasks": [
                {
                    "name": kind.name,
                    "help": kind.help,
                    "headline": kind.headline,
                    "better": kind.better,
                    "can": list(kind.can),
                    "example": None if kind.example is None else asdict(kind.example),
                }
                for kind in TASKS.values()
            ],
        }
    )


@router.get("/runs")
async def list_runs(studio: TheStudio) -> RunsResponse:
    """All runs."""
    return RunsResponse.checked({"runs": await studio.hub.entries_now()})


@router.get("/run", responses=refusals(404))
async def one_run(studio: TheStudio, query: Annotated[RunQuery, Query()]) -> RunResponse:
    """One run: settings, files, checkpoints."""
    entry = await studio.hub.entry(query.run)
    return RunResponse.checked(await asyncio.to_thread(runs.one, studio.places, query.run, entry))


@router.get("/metrics", responses=refusals(404))
async def metrics(studio: TheStudio, query: Annotated[MetricsQuery, Query()]) -> MetricsResponse:
    """Rows of metrics after a line."""
    part = await studio.hub.metrics(query.run, query.after)
    return MetricsResponse.checked({"run": query.run, **part.json()})


@router.get("/diff", responses=refusals(404, 409))
async def diff(studio: TheStudio, query: Annotated[DiffQuery, Query()]) -> DiffResponse:
    """Settings in which runs differ."""
    return DiffResponse.checked(await asyncio.to_thread(runs.diff, studio.places, query.run))


@router.get("/events", **streamed(RUN_EVENTS, 429))
async def events(
    studio: TheStudio,
    query: Annotated[EventsQuery, Query()],
    last: Annotated[str, Header(alias="Last-Event-ID")] = "",
) -> EventStream:
    """What changes in the list of runs, and new rows of those that are named.

    The header Last-Event-ID is newer than the address. A run that is not there ends no connection,
    which has others too; its rows come once it is.
    """
    places: dict[str, str] = {}
    for each in query.run:
        run, colon, place = each.rpartition(":")
        if not colon or not run or not MARK.fullmatch(place):
            raise Refused(400, f"run: {each[:40]!r} has no place; give RUN:N, from RUN:0 on")
        if not could_be(run):
            raise Refused(400, f"run: {shown(run)} cannot be a run; GET /api/runs lists them")
        places[run] = place
    places |= {run: place for run, place in known_of(last).items() if run in places}
    return studio.streams.answer(studio.hub.follow(places))


def known_of(last: str) -> dict[str, str]:
    """Of an event's id; one that is not ours tells nothing."""
    try:
        found = json.loads(last)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        run: place
        for run, place in found.items()
        if isinstance(place, str) and MARK.fullmatch(place)
    }
