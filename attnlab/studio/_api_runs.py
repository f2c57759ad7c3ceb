"""Endpoints about runs: the list, metrics, settings, and a stream of changes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query

import attnlab
from attnlab.run_folder._metrics_tail import MARK
from attnlab.studio import _run_list as runs
from attnlab.studio._allowed_folders import is_valid_run_id, printable_name
from attnlab.studio._app_state import StudioDependency
from attnlab.studio._event_stream import EventStream
from attnlab.studio._http_errors import RequestError
from attnlab.studio._requests import DiffQuery, EventsQuery, MetricsQuery, RunQuery
from attnlab.studio._responses import (
    RUN_EVENTS,
    DiffResponse,
    InfoResponse,
    MetricsResponse,
    RunResponse,
    RunsResponse,
)
from attnlab.studio._routing import StudioRoute, error_responses, event_stream_options
from attnlab.tasks.registry import TASKS

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.get("/info")
async def info(studio: StudioDependency) -> InfoResponse:
    """The version, folders, models, tasks and limits of the studio."""
    return InfoResponse.from_content(
        {
            "version": attnlab.__version__,
            "runs_folder": str(studio.folders.runs),
            "models": [{"id": name, "name": name} for name in studio.folders.models],
            "tasks": [
                {
                    "name": kind.name,
                    "help": kind.help,
                    "headline": kind.headline,
                    "better": kind.better,
                    "can": list(kind.capabilities),
                    "example": None if kind.example is None else asdict(kind.example),
                }
                for kind in TASKS.values()
            ],
        }
    )


@router.get("/runs")
async def list_runs(studio: StudioDependency) -> RunsResponse:
    """List all runs."""
    return RunsResponse.from_content({"runs": await studio.run_watcher.read_entries()})


@router.get("/run", responses=error_responses(404))
async def one_run(studio: StudioDependency, query: Annotated[RunQuery, Query()]) -> RunResponse:
    """The settings, files and checkpoints of one run."""
    entry = await studio.run_watcher.read_entry(query.run)
    return RunResponse.from_content(
        await asyncio.to_thread(runs.read_details, studio.folders, query.run, entry)
    )


@router.get("/metrics", responses=error_responses(404))
async def metrics(
    studio: StudioDependency, query: Annotated[MetricsQuery, Query()]
) -> MetricsResponse:
    """The rows of metrics after a line."""
    part = await studio.run_watcher.read_metrics(query.run, query.after)
    return MetricsResponse.from_content({"run": query.run, **part.json()})


@router.get("/diff", responses=error_responses(404, 409))
async def diff(studio: StudioDependency, query: Annotated[DiffQuery, Query()]) -> DiffResponse:
    """The settings in which runs differ."""
    return DiffResponse.from_content(
        await asyncio.to_thread(runs.compare_settings, studio.folders, query.run)
    )


@router.get("/events", **event_stream_options(RUN_EVENTS, 429))
async def events(
    studio: StudioDependency,
    query: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[str, Header(alias="Last-Event-ID")] = "",
) -> EventStream:
    """Changes in the list of runs, and new rows of metrics of the named runs.

    The header Last-Event-ID overrides the positions in the address. A named run need not exist yet:
    its rows follow once it does.
    """
    marks = dict(map(parse_followed_run, query.run))
    newer = marks_in_event_id(last_event_id)
    marks |= {run: mark for run, mark in newer.items() if run in marks}
    return studio.streams.respond(studio.run_watcher.follow(marks))


def parse_followed_run(value: str) -> tuple[str, str]:
    """The run and the mark of RUN:N."""
    run, colon, mark = value.rpartition(":")
    if not colon or not run or not MARK.fullmatch(mark):
        raise RequestError(
            400, f"run: {value[:40]!r} has no line number; give RUN:N, or RUN:0 for all lines"
        )
    if not is_valid_run_id(run):
        name = printable_name(run)
        raise RequestError(400, f"run: {name} is not the id of a run; GET /api/runs lists them")
    return run, mark


def marks_in_event_id(event_id: str) -> dict[str, str]:
    """The marks by run in an event's id; empty if the studio did not write the id."""
    try:
        content = json.loads(event_id)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        run: mark for run, mark in content.items() if isinstance(mark, str) and MARK.fullmatch(mark)
    }
