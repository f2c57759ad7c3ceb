"""What models do: answer, write, see, and show what they attend to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from attnlab.studio import _request_limits as limits
from attnlab.studio._app_state import Studio, TheStudio
from attnlab.studio._event_stream import EventStream, event
from attnlab.studio._http_errors import Refused
from attnlab.studio._requests import (
    AskRequest,
    Id,
    LookImageQuery,
    LookRequest,
    ModelSubject,
    RunQuery,
    WriteRequest,
)
from attnlab.studio._responses import WRITE_EVENTS, AskResponse, LookResponse, SeeResponse
from attnlab.studio._routing import IMAGE_BODY, WITH_BODY, Image, StudioRoute, refusals, streamed

MODEL_REFUSALS = (*WITH_BODY, 404, 409, 422, 429, 500)

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.post("/ask", responses=refusals(*MODEL_REFUSALS))
async def ask(studio: TheStudio, body: AskRequest) -> AskResponse:
    """Ask a run that learned facts."""
    folder = studio.folder_of(body.run)
    given = {"folder": folder, "questions": body.questions}
    return AskResponse.checked((await studio.pool.ask("ask", given, key=f"ask {folder}"))[0])


@router.post("/write", **streamed(WRITE_EVENTS, *MODEL_REFUSALS))
async def write(studio: TheStudio, body: WriteRequest) -> EventStream:
    """Summaries or continuations, token by token."""
    source = written(studio, body, studio.folder_of(body.run))
    first = await anext(source)  # what is wrong with the request is told before a stream begins

    async def chain() -> AsyncIterator[bytes]:
        try:
            yield first
            async for chunk in source:
                yield chunk
        finally:
            await source.aclose()

    try:
        return studio.streams.answer(chain())
    except Refused:
        await source.aclose()
        raise


async def written(studio: Studio, body: WriteRequest, folder: str) -> Any:
    """Events; only what goes wrong before the first is raised."""
    given = {**body.model_dump(exclude={"run"}), "folder": folder, "tokens": limits.TOKENS}
    can = (await studio.hub.entry(body.run))["can"]
    call = "generate" if "generate" in can else "write"
    begun = False
    try:
        async with studio.pool.call(call, given, key=f"{call} {folder}") as frames:
            async for message, _ in frames:
                begun = True
                if "done" in message:
                    yield event("done", {})
                else:
                    yield event(message["tell"], message["data"])
    except Refused as refused:
        if not begun:
            raise
        yield event("error", {"error": refused.sentence})


@router.post("/see", responses=refusals(*MODEL_REFUSALS), openapi_extra=IMAGE_BODY)
async def see(studio: TheStudio, query: Annotated[RunQuery, Query()], image: Image) -> SeeResponse:
    """What an image shows."""
    folder = studio.folder_of(query.run)
    can = (await studio.hub.entry(query.run))["can"]
    given = {"folder": folder, "look": "look" in can}
    result, capture = await studio.pool.ask("classify", given, image, key=f"classify {folder}")
    return SeeResponse.checked(
        {**result, "capture": studio.captures.add(capture) if capture else None}
    )


@router.post("/look", responses=refusals(*MODEL_REFUSALS))
async def look(studio: TheStudio, body: LookRequest) -> LookResponse:
    """What a model attends to."""
    if (body.compare is not None) + body.untrained + (body.compare_text is not None) > 1:
        raise Refused(400, "compare, compare_text and untrained; give one of them")
    given = body.model_dump(exclude={"subject", "compare"})
    return await looked(studio, body.subject, body.compare, given)


@router.post("/look/image", responses=refusals(*MODEL_REFUSALS), openapi_extra=IMAGE_BODY)
async def look_at_image(
    studio: TheStudio, query: Annotated[LookImageQuery, Query()], image: Image
) -> LookResponse:
    """What a model attends to in an image."""
    subject = one_of(query.run, query.model)
    compare = one_of(query.compare_run, query.compare_model)
    if subject is None:
        raise Refused(400, "the address: has no run and no model; give one of them")
    if compare is not None and query.untrained:
        raise Refused(400, "compare_run or compare_model, and untrained; give one of them")
    given = query.model_dump(include={"untrained", "neurons"})
    return await looked(studio, subject, compare, given, image)


def one_of(run: str | None, model: str | None) -> str | ModelSubject | None:
    if run is not None and model is not None:
        raise Refused(400, "a run and a model; give one of them")
    return run if model is None else ModelSubject(model=model)


async def looked(
    studio: Studio,
    subject: str | ModelSubject,
    compare: str | ModelSubject | None,
    given: dict[str, Any],
    image: bytes = b"",
) -> LookResponse:
    def folder_of(one: str | ModelSubject) -> str:
        if isinstance(one, ModelSubject):
            return str(studio.places.model(one.model))
        return studio.folder_of(one)

    folder = folder_of(subject)
    other = None if compare is None else folder_of(compare)
    given = {**given, "folder": folder, "compare": other}
    result, capture = await studio.pool.ask("look", given, image, key=f"look {folder}")
    return LookResponse.checked({**result, "capture": studio.captures.add(capture)})


class CaptureFile(Response):
    media_type = "application/octet-stream"


@router.get("/captures/{id}", response_class=CaptureFile, responses=refusals(404))
async def capture(studio: TheStudio, identity: Id) -> CaptureFile:
    """A capture file."""
    return CaptureFile(studio.captures.get(identity))
