"""Endpoints about audits, claims and benches, and the jobs that produce them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from attnlab._safe_files import read_json
from attnlab.studio import _request_limits as limits
from attnlab.studio import _run_list as runs
from attnlab.studio._allowed_folders import printable_name
from attnlab.studio._app_state import StudioDependency
from attnlab.studio._event_stream import EventStream
from attnlab.studio._http_errors import RequestError
from attnlab.studio._requests import (
    AuditRequest,
    BenchQuery,
    BenchRequest,
    ClaimsRequest,
    PathId,
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
from attnlab.studio._result_files import BENCH, CLAIMS, OWN_PREFIX, merge_ledgers
from attnlab.studio._routing import BODY_ERRORS, StudioRoute, error_responses, event_stream_options

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.get("/audit", responses=error_responses(404, 409))
async def audit(studio: StudioDependency, query: Annotated[RunQuery, Query()]) -> ReportResponse:
    """The audit of a run."""
    folder, name = studio.folders.run_folder(query.run), printable_name(query.run)
    task = (await studio.run_watcher.read_entry(query.run))["task"]
    file = runs.audit_file(task)
    if file is None:
        raise RequestError(404, f"{name}: runs of task {task!r} have no audit.")
    path = folder / file
    if not path.is_file():
        raise RequestError(404, f"{name}: has no audit yet; run `attnlab {task} audit RUN`.")
    try:
        report = await asyncio.to_thread(read_json, path, limits.REPORT_BYTES)
    except ValueError as error:
        raise RequestError(409, f"{name}: its {file} {error}.") from None
    if not isinstance(report, dict):
        raise RequestError(409, f"{name}: its {file} is not a report.")
    return ReportResponse.from_content(runs.to_strict_json(report, depth=32))


@router.post("/audit", status_code=202, responses=error_responses(*BODY_ERRORS, 404, 409, 429))
async def run_audit(studio: StudioDependency, body: AuditRequest) -> JobStartedResponse:
    """Start a job that audits a run."""
    folder, name = studio.loadable_run_folder(body.run), printable_name(body.run)
    if "audit" not in (await studio.run_watcher.read_entry(body.run))["can"]:
        raise RequestError(409, f"{name}: cannot answer questions, so it cannot be audited.")
    try:
        audit_arguments = runs.prepare_audit(Path(folder), body.pairs, studio.folders.find_file)
    except FileNotFoundError as error:
        source = printable_name(str(error)) if str(error) else "your own files"
        raise RequestError(
            409,
            f"{name}: was trained on {source}, which is not below the runs folder; give questions "
            "and answers for the audit.",
        ) from None
    except ValueError as error:
        raise RequestError(400, str(error)) from None
    arguments = {**audit_arguments, "folder": folder}
    job = studio.jobs.add("audit", arguments, lambda _: {}, body.run)
    return JobStartedResponse(job=job.id)


@router.get("/claims", responses=error_responses(429, 500, 503))
async def claims(studio: StudioDependency) -> ClaimsResponse:
    """All claims, and the newest result of each."""
    ledgers = await asyncio.to_thread(studio.results.list_files, CLAIMS)
    return ClaimsResponse.from_content(
        {"ledger": merge_ledgers(ledgers), **await studio.read_claim_registry()}
    )


@router.post(
    "/claims", status_code=202, responses=error_responses(*BODY_ERRORS, 404, 429, 500, 503)
)
async def run_claims(studio: StudioDependency, body: ClaimsRequest) -> JobStartedResponse:
    """Start a job that runs some claims."""
    names = {claim["id"] for claim in (await studio.read_claim_registry())["registry"]}
    for name in body.ids:
        if name not in names:
            raise RequestError(
                404, f"There is no claim {printable_name(name)}; GET /api/claims lists them."
            )
    arguments = {
        "ids": list(dict.fromkeys(body.ids)),
        "size": body.size,
        "cache": str(studio.results.own),
    }
    return JobStartedResponse(job=studio.jobs.add("claims", arguments, lambda _: {}).id)


@router.get("/bench", responses=error_responses(404))
async def bench(
    studio: StudioDependency, query: Annotated[BenchQuery, Query()]
) -> BenchFilesResponse | ReportResponse:
    """The list of bench reports, or one of them."""
    reports = await asyncio.to_thread(studio.results.list_files, BENCH)
    if query.file is None:
        files = [
            {
                "file": report.name,
                "time": report.time,
                "sections": [section["name"] for section in report.content["sections"]],
            }
            for report in reports
        ]
        return BenchFilesResponse.from_content({"files": files})
    for report in reports:
        if report.name == query.file:
            return ReportResponse.from_content(report.content)
    name = printable_name(query.file)
    raise RequestError(404, f"There is no report {name}; GET /api/bench lists them.")


@router.post("/bench", status_code=202, responses=error_responses(*BODY_ERRORS, 429))
async def run_bench(studio: StudioDependency, body: BenchRequest) -> JobStartedResponse:
    """Start a job that measures one part of the bench."""
    arguments = {**body.model_dump(), "cache": str(studio.results.own)}
    job = studio.jobs.add("bench", arguments, lambda done: {"file": OWN_PREFIX + done["name"]})
    return JobStartedResponse(job=job.id)


@router.get("/jobs")
async def list_jobs(studio: StudioDependency) -> JobsResponse:
    """List all jobs."""
    jobs = [job.to_json() for job in studio.jobs.jobs.values()]
    return JobsResponse.from_content({"jobs": jobs})


@router.get("/jobs/{id}", responses=error_responses(404))
async def job(studio: StudioDependency, job_id: PathId) -> JobResponse:
    """The state of one job."""
    return JobResponse.from_content(studio.jobs.get(job_id).to_json())


@router.post("/jobs/{id}/cancel", responses=error_responses(404))
async def cancel(studio: StudioDependency, job_id: PathId) -> JobResponse:
    """Cancel a job. One that has ended keeps its state."""
    return JobResponse.from_content(studio.jobs.cancel(job_id).to_json())


@router.get("/jobs/{id}/events", **event_stream_options(JOB_EVENTS, 404, 429))
async def job_events(studio: StudioDependency, job_id: PathId) -> EventStream:
    """An event for each change of a job."""
    return studio.streams.respond(studio.jobs.follow(studio.jobs.get(job_id)))
