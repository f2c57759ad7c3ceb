"""Audits, claims, benches and the jobs that make them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from attnlab._safe_files import read_json
from attnlab.studio import _request_limits as limits
from attnlab.studio import _run_list as runs
from attnlab.studio._allowed_folders import shown
from attnlab.studio._app_state import TheStudio
from attnlab.studio._event_stream import EventStream
from attnlab.studio._http_errors import Refused
from attnlab.studio._requests import (
    AuditRequest,
    BenchQuery,
    BenchRequest,
    ClaimsRequest,
    Id,
    RunQuery,
)
from attnlab.studio._responses import (
    JOB_EVENTS,
    BenchFilesResponse,
    ClaimsResponse,
    JobResponse,
    JobsResponse,
    JobStartedResponse,
    ReportResponse,
)
from attnlab.studio._result_files import BENCH, CLAIMS, OWN, merged
from attnlab.studio._routing import WITH_BODY, StudioRoute, refusals, streamed

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.get("/audit", responses=refusals(404, 409))
async def audit(studio: TheStudio, query: Annotated[RunQuery, Query()]) -> ReportResponse:
    """The audit of a run."""
    folder, name = studio.places.run(query.run), shown(query.run)
    task = (await studio.hub.entry(query.run))["task"]
    file = runs.audit_file(task)
    if file is None:
        raise Refused(404, f"{name}: a run of a task that has no audit.")
    path = folder / file
    if not path.is_file():
        raise Refused(404, f"{name}: has no audit yet; attnlab {task} audit RUN makes one.")
    try:
        report = await asyncio.to_thread(read_json, path, limits.REPORT_BYTES)
    except ValueError as error:
        raise Refused(409, f"{name}: its {file} {error}.") from None
    if not isinstance(report, dict):
        raise Refused(409, f"{name}: its {file} is no report.")
    return ReportResponse.checked(runs.strict(report, depth=32))


@router.post("/audit", status_code=202, responses=refusals(*WITH_BODY, 404, 409, 429))
async def run_audit(studio: TheStudio, body: AuditRequest) -> JobStartedResponse:
    """Audit a run, as a job."""
    folder, name = studio.folder_of(body.run), shown(body.run)
    if "audit" not in (await studio.hub.entry(body.run))["can"]:
        raise Refused(409, f"{name}: cannot answer questions, so nothing can be audited.")
    try:
        request = runs.audit_request(Path(folder), body.pairs, studio.places.file_named)
    except FileNotFoundError as error:
        what = shown(str(error)) if str(error) else "your own files"
        raise Refused(
            409,
            f"{name}: learned from {what}, which is not found below the runs folder; give "
            "questions and answers to audit it with.",
        ) from None
    except ValueError as error:
        raise Refused(400, str(error)) from None
    given = {**request, "folder": folder}
    return JobStartedResponse(job=studio.jobs.add("audit", given, lambda _: {}, body.run).id)


@router.get("/claims", responses=refusals(429, 500))
async def claims(studio: TheStudio) -> ClaimsResponse:
    """The newest result of each claim, and every claim that there is."""
    ledgers = await asyncio.to_thread(studio.results.of, CLAIMS)
    return ClaimsResponse.checked({"ledger": merged(ledgers), **await studio.registry()})


@router.post("/claims", status_code=202, responses=refusals(*WITH_BODY, 429, 500))
async def run_claims(studio: TheStudio, body: ClaimsRequest) -> JobStartedResponse:
    """Run some claims, as a job."""
    known = {each["id"] for each in (await studio.registry())["registry"]}
    for name in body.ids:
        if name not in known:
            raise Refused(400, f"ids: there is no claim {name[:40]!r}; GET /api/claims lists them")
    given = {
        "ids": list(dict.fromkeys(body.ids)),
        "size": body.size,
        "cache": str(studio.results.own),
    }
    return JobStartedResponse(job=studio.jobs.add("claims", given, lambda _: {}).id)


@router.get("/bench", responses=refusals(404))
async def bench(
    studio: TheStudio, query: Annotated[BenchQuery, Query()]
) -> BenchFilesResponse | ReportResponse:
    """Benches that were measured, or one of them."""
    benches = await asyncio.to_thread(studio.results.of, BENCH)
    if query.file is None:
        files = [
            {
                "file": each.name,
                "time": each.time,
                "sections": [section["name"] for section in each.content["sections"]],
            }
            for each in benches
        ]
        return BenchFilesResponse.checked({"files": files})
    for each in benches:
        if each.name == query.file:
            return ReportResponse.checked(each.content)
    raise Refused(404, "There is no such bench; GET /api/bench lists them.")


@router.post("/bench", status_code=202, responses=refusals(*WITH_BODY, 429))
async def run_bench(studio: TheStudio, body: BenchRequest) -> JobStartedResponse:
    """Measure, as a job."""
    given = {**body.model_dump(), "cache": str(studio.results.own)}
    job = studio.jobs.add("bench", given, lambda done: {"file": OWN + done["name"]})
    return JobStartedResponse(job=job.id)


@router.get("/jobs")
async def list_jobs(studio: TheStudio) -> JobsResponse:
    """All jobs."""
    return JobsResponse.checked({"jobs": [each.json() for each in studio.jobs.jobs.values()]})


@router.get("/jobs/{id}", responses=refusals(404))
async def job(studio: TheStudio, identity: Id) -> JobResponse:
    """One job."""
    return JobResponse.checked(studio.jobs.get(identity).json())


@router.delete("/jobs/{id}", responses=refusals(404))
async def cancel(studio: TheStudio, identity: Id) -> JobResponse:
    """Cancel a job."""
    return JobResponse.checked(studio.jobs.cancel(identity).json())


@router.get("/jobs/{id}/events", **streamed(JOB_EVENTS, 404, 429))
async def job_events(studio: TheStudio, identity: Id) -> EventStream:
    """A job's state at each change."""
    return studio.streams.answer(studio.jobs.follow(studio.jobs.get(identity)))
