"""Claims, benches and the jobs that make them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

from attnlab.studio import limits, runs
from attnlab.studio.api_models import folder_of
from attnlab.studio.api_runs import RUN
from attnlab.studio.endpoint import Endpoint
from attnlab.studio.places import shown
from attnlab.studio.results import BENCH, CLAIMS, OWN, Found, merged
from attnlab.studio.schema import Choice, Flag, Many, Refused, Text, wrong
from attnlab.studio.shapes import JOB, OBJECT, TEXT, many, maybe, record
from attnlab.studio.streams import EVENTS

if TYPE_CHECKING:
    from attnlab.studio.app import Studio

PARTS = ("error", "speed", "memory", "decode")


@dataclass(frozen=True)
class RunClaims:
    ids: Annotated[tuple[str, ...], Many(Text(100, about="the name of a claim"), 1, 500)]
    size: Annotated[str, Choice(("small", "full"))] = "small"


@dataclass(frozen=True)
class RunBench:
    part: Annotated[str, Choice(PARTS)]
    quick: Annotated[bool, Flag("small sizes: seconds, not minutes")] = True


@dataclass(frozen=True)
class RunAudit:
    run: Annotated[str, RUN]
    pairs: Annotated[
        str | None, Text(limits.PAIRS, about="lines of question, tab, answer to audit with")
    ] = None


@dataclass(frozen=True)
class OneFile:
    file: Annotated[str | None, Text(limits.NAME, about="one of the list")] = None


@dataclass(frozen=True)
class JobNamed:
    id: Annotated[str, Text(64, about="of a job", pattern="[A-Za-z0-9_-]+")]


async def results(studio: Studio, kind: str) -> list[Found]:
    return await asyncio.to_thread(studio.results.of, kind)


async def claims(studio: Studio) -> Any:
    """The newest result of each claim, and every claim that there is."""
    known = await studio.registry()
    return {"ledger": merged(await results(studio, CLAIMS)), **known}


async def run_claims(studio: Studio, asked: RunClaims) -> Any:
    known = {each["id"] for each in (await studio.registry())["registry"]}
    for name in asked.ids:
        if name not in known:
            raise Refused(400, f"ids: there is no claim {name[:40]!r}; GET /api/claims lists them")
    given = {
        "ids": list(dict.fromkeys(asked.ids)),
        "size": asked.size,
        "cache": str(studio.results.own),
    }
    return {"job": studio.jobs.add("claims", given, lambda _: {}).id}


async def bench(studio: Studio, asked: OneFile) -> Any:
    """The list, or one of it."""
    found = await results(studio, BENCH)
    if asked.file is None:
        files = [
            {
                "file": each.name,
                "time": each.time,
                "sections": [section["name"] for section in each.content["sections"]],
            }
            for each in found
        ]
        return {"files": files}
    for each in found:
        if each.name == asked.file:
            return each.content
    raise Refused(404, "There is no such bench; GET /api/bench lists them.")


async def run_bench(studio: Studio, asked: RunBench) -> Any:
    given = {"part": asked.part, "quick": asked.quick, "cache": str(studio.results.own)}
    job = studio.jobs.add("bench", given, lambda done: {"file": OWN + done["name"]})
    return {"job": job.id}


async def run_audit(studio: Studio, asked: RunAudit) -> Any:
    folder, name = folder_of(studio, asked.run), shown(asked.run)
    if "audit" not in (await studio.hub.entry(asked.run))["can"]:
        raise Refused(409, f"{name}: cannot answer questions, so nothing can be audited.")
    try:
        request = runs.audit_request(Path(folder), asked.pairs, studio.places.file_named)
    except FileNotFoundError as error:
        what = shown(str(error)) if str(error) else "your own files"
        raise Refused(
            409,
            f"{name}: learned from {what}, which is not found below the runs folder; give "
            "questions and answers to audit it with.",
        ) from None
    except ValueError as error:
        raise wrong(str(error)) from None
    given = {**request, "folder": folder}
    return {"job": studio.jobs.add("audit", given, lambda _: {}, asked.run).id}


async def list_jobs(studio: Studio) -> Any:
    return {"jobs": [each.json() for each in studio.jobs.jobs.values()]}


async def job(studio: Studio, asked: JobNamed) -> Any:
    return studio.jobs.get(asked.id).json()


async def cancel(studio: Studio, asked: JobNamed) -> Any:
    return studio.jobs.cancel(asked.id).json()


async def job_events(studio: Studio, asked: JobNamed) -> Response:
    return studio.streams.answer(studio.jobs.follow(studio.jobs.get(asked.id)))


STARTED = record(job=TEXT)
ENDPOINTS = [
    Endpoint(
        "GET", "/api/claims", "The newest result of each claim, and every claim that there is.",
        claims, record(ledger=maybe(OBJECT), registry=many(OBJECT), topics=OBJECT),
        refusals=(429, 500),
    ),
    Endpoint(
        "POST", "/api/claims", "Run some claims, as a job.", run_claims, STARTED,
        body=RunClaims, status=202, refusals=(429, 500),
    ),
    Endpoint(
        "GET", "/api/bench", "Benches that were measured, or one of them.", bench, OBJECT,
        query=OneFile, refusals=(404,),
    ),
    Endpoint(
        "POST", "/api/bench", "Measure, as a job.", run_bench, STARTED,
        body=RunBench, status=202, refusals=(429,),
    ),
    Endpoint(
        "POST", "/api/audit", "Audit a run, as a job.", run_audit, STARTED,
        body=RunAudit, status=202, refusals=(404, 409, 429),
    ),
    Endpoint("GET", "/api/jobs", "All jobs.", list_jobs, record(jobs=many(JOB))),
    Endpoint("GET", "/api/jobs/{id}", "One job.", job, JOB, named=JobNamed, refusals=(404,)),
    Endpoint(
        "DELETE", "/api/jobs/{id}", "Cancel a job.", cancel, JOB, named=JobNamed, refusals=(404,)
    ),
    Endpoint(
        "GET", "/api/jobs/{id}/events", "A job's state at each change: events `job`.", job_events,
        {}, named=JobNamed, media=EVENTS, refusals=(404, 429),
    ),
]  # fmt: skip
