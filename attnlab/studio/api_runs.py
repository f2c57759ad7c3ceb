"""What there is: runs, their metrics, settings and what changes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

import attnlab
from attnlab.run_folder.tail import MARK
from attnlab.studio import limits, runs
from attnlab.studio.endpoint import Endpoint
from attnlab.studio.places import could_be, shown
from attnlab.studio.schema import Many, Text, wrong
from attnlab.studio.shapes import ANY, ENTRY, NUMBER, OBJECT, PART, TEXT, WHOLE, many, maybe, record
from attnlab.studio.streams import EVENTS
from attnlab.tasks.registry import TASKS

if TYPE_CHECKING:
    from attnlab.studio.app import Studio

RUN = Text(limits.NAME, about="the id of a run: its folder below --runs")
PLACE = Text(24, about="lines that are known: a number, or a mark", pattern=MARK.pattern)


@dataclass(frozen=True)
class OneRun:
    run: Annotated[str, RUN]


@dataclass(frozen=True)
class After:
    run: Annotated[str, RUN]
    after: Annotated[str, PLACE] = "0"


@dataclass(frozen=True)
class Several:
    run: Annotated[tuple[str, ...], Many(RUN, 1, limits.RUNS)]


@dataclass(frozen=True)
class Followed:
    run: Annotated[
        tuple[str, ...],
        Many(
            Text(limits.NAME + 25, about="RUN:N, a run and the lines known of it"), 0, limits.RUNS
        ),
    ] = ()


async def info(studio: Studio) -> dict[str, Any]:
    return {
        "version": attnlab.__version__,
        "runs_folder": str(studio.places.runs),
        "models": [{"id": name, "name": name} for name in studio.places.models],
        "limits": limits.told(),
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


async def list_runs(studio: Studio) -> dict[str, Any]:
    return {"runs": await studio.hub.entries_now()}


async def one_run(studio: Studio, asked: OneRun) -> dict[str, Any]:
    entry = await studio.hub.entry(asked.run)
    return await asyncio.to_thread(runs.one, studio.places, asked.run, entry)


async def metrics(studio: Studio, asked: After) -> dict[str, Any]:
    part = await studio.hub.metrics(asked.run, asked.after)
    return {"run": asked.run, **part.json()}


async def diff(studio: Studio, asked: Several) -> dict[str, Any]:
    return await asyncio.to_thread(runs.diff, studio.places, asked.run)


async def events(studio: Studio, asked: Followed, last: str) -> Response:
    """`last`: what the header Last-Event-ID says, which is newer than the address.

    A run that is not there ends no connection, which has others too; its rows come once it is.
    """
    places: dict[str, str] = {}
    for each in asked.run:
        run, colon, place = each.rpartition(":")
        if not colon or not run or not MARK.fullmatch(place):
            raise wrong(f"run: {each[:40]!r} has no place; give RUN:N, from RUN:0 on")
        if not could_be(run):
            raise wrong(f"run: {shown(run)} cannot be a run; GET /api/runs lists them")
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


TASK = record(
    name=TEXT,
    help=TEXT,
    headline=TEXT,
    better={"enum": ["lower", "higher"]},
    can=many(TEXT),
    example=maybe(record(sentence=TEXT, command=TEXT, folder=TEXT)),
)
ENDPOINTS = [
    Endpoint(
        "GET", "/api/info", "Version, folders, models and limits.", info,
        record(
            version=TEXT, runs_folder=TEXT, models=many(record(id=TEXT, name=TEXT)), limits=OBJECT,
            tasks=many(TASK),
        ),
    ),
    Endpoint("GET", "/api/runs", "All runs.", list_runs, record(runs=many(ENTRY))),
    Endpoint(
        "GET", "/api/run", "One run: settings, files, checkpoints.", one_run,
        {
            **ENTRY,

                "properties": {
                    **ENTRY["properties"],
                    "config": OBJECT,
                    "settings": OBJECT,
                    "files": many(record(name=TEXT, bytes=WHOLE, time=NUMBER)),
                    "checkpoints": many(
                        record(name=TEXT, step=maybe(WHOLE), bytes=WHOLE, time=maybe(NUMBER))
                    ),
                }
            ,
        },
        query=OneRun, refusals=(404,),
    ),
    Endpoint(
        "GET", "/api/metrics", "Rows of metrics after a line.", metrics, PART,
        query=After, refusals=(404,),
    ),
    Endpoint(
        "GET", "/api/diff", "Settings in which runs differ.", diff,
        record(rows=many(record(setting=TEXT, values=many(ANY))), same=WHOLE),
        query=Several, refusals=(404, 409),
    ),
    Endpoint(
        "GET", "/api/events", "What changes: events `runs` and `metrics`.", events,
        {}, query=Followed, media=EVENTS, refusals=(429,), resumes=True,
    ),
]  # fmt: skip
