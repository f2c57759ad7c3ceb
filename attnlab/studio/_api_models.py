"""Endpoints that run models: answer, generate text, classify images, capture attention."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from attnlab.studio import _request_limits as limits
from attnlab.studio._app_state import Studio, StudioDependency
from attnlab.studio._capture_store import CaptureSource
from attnlab.studio._event_stream import EventStream, format_event
from attnlab.studio._http_errors import RequestError
from attnlab.studio._requests import (
    UNTRAINED,
    AskRequest,
    ComparedText,
    LookImageQuery,
    LookRequest,
    PathId,
    RunQuery,
    SwitchHeadsRequest,
    WriteRequest,
)
from attnlab.studio._responses import (
    WRITE_EVENTS,
    AskResponse,
    ExampleImagesResponse,
    LookResponse,
    SeeResponse,
    SwitchHeadsResponse,
)
from attnlab.studio._routing import (
    BODY_ERRORS,
    IMAGE_BODY,
    ImageBody,
    StudioRoute,
    error_responses,
    event_stream_options,
)

MODEL_ERRORS = (*BODY_ERRORS, 404, 409, 422, 429, 500, 503)

router = APIRouter(prefix="/api", route_class=StudioRoute)


@router.post("/ask", responses=error_responses(*MODEL_ERRORS))
async def ask(studio: StudioDependency, body: AskRequest) -> AskResponse:
    """Ask questions to a run that was trained on facts."""
    folder = studio.loadable_run_folder(body.run)
    arguments = {"folder": folder, "questions": body.questions}
    answers, _ = await studio.pool.call("ask", arguments, key=f"ask {folder}")
    return AskResponse.from_content(answers)


@router.post("/write", **event_stream_options(WRITE_EVENTS, *MODEL_ERRORS))
async def write(studio: StudioDependency, body: WriteRequest) -> EventStream:
    """Generate summaries or continuations, token by token."""
    source = generation_events(studio, body, studio.loadable_run_folder(body.run))
    first = await anext(source)  # so that a wrong request fails before the stream starts

    async def chain() -> AsyncIterator[bytes]:
        try:
            yield first
            async for chunk in source:
                yield chunk
        finally:
            await source.aclose()

    try:
        return studio.streams.respond(chain())
    except RequestError:
        await source.aclose()
        raise


async def generation_events(studio: Studio, body: WriteRequest, folder: str) -> Any:
    """Events of a generation. Raises only errors before the first; later ones become events."""
    arguments = {**body.model_dump(exclude={"run"}), "folder": folder, "tokens": limits.NEW_TOKENS}
    can = (await studio.run_watcher.read_entry(body.run))["can"]
    call = "generate" if "generate" in can else "write"
    started = False
    try:
        async with studio.pool.stream(call, arguments, key=f"{call} {folder}") as frames:
            async for message, _ in frames:
                started = True
                if "done" in message:
                    yield format_event("done", {})
                else:
                    yield format_event(message["event"], message["data"])
    except RequestError as error:
        if not started:
            raise
        yield format_event("error", {"error": error.message})


@router.post("/see", responses=error_responses(*MODEL_ERRORS), openapi_extra=IMAGE_BODY)
async def see(
    studio: StudioDependency, query: Annotated[RunQuery, Query()], image: ImageBody
) -> SeeResponse:
    """Classify an image."""
    folder = studio.loadable_run_folder(query.run)
    can = (await studio.run_watcher.read_entry(query.run))["can"]
    arguments = {"folder": folder, "look": "look" in can}
    key = f"classify {folder}"
    result, capture = await studio.pool.call("classify", arguments, image, key=key)
    source = CaptureSource({"folder": folder}, image)
    return SeeResponse.from_content(
        {**result, "capture": studio.captures.add(capture, source) if capture else None}
    )


@router.get("/see/examples", responses=error_responses(404, 409, 422, 429, 500, 503))
async def example_images(
    studio: StudioDependency, query: Annotated[RunQuery, Query()]
) -> ExampleImagesResponse:
    """Test images of a run's data, with their labels."""
    folder = studio.loadable_run_folder(query.run)
    images, _ = await studio.pool.call(
        "example_images", {"folder": folder}, key=f"classify {folder}"
    )
    return ExampleImagesResponse.from_content({"images": images})


@router.post("/look", responses=error_responses(*MODEL_ERRORS))
async def look(studio: StudioDependency, body: LookRequest) -> LookResponse:
    """Capture what a model attends to in a text."""
    options = body.model_dump(exclude={"target", "compare"})
    if isinstance(body.compare, ComparedText):
        options["compare_text"] = body.compare.text
        return await capture_attention(studio, body.target, None, options)
    return await capture_attention(studio, body.target, body.compare, options)


@router.post("/look/image", responses=error_responses(*MODEL_ERRORS), openapi_extra=IMAGE_BODY)
async def look_at_image(
    studio: StudioDependency, query: Annotated[LookImageQuery, Query()], image: ImageBody
) -> LookResponse:
    """Capture what a model attends to in an image."""
    return await capture_attention(
        studio,
        query.target,
        query.compare,
        {"neurons": query.neurons, "effects": query.effects},
        image,
    )


@router.post("/look/heads", responses=error_responses(*MODEL_ERRORS))
async def switch_heads(studio: StudioDependency, body: SwitchHeadsRequest) -> SwitchHeadsResponse:
    """Predict again, on the input of a capture, without some heads of its first model."""
    source = studio.captures.get_source(body.capture)
    request = {
        "heads": [(each.layer, each.head) for each in body.heads],
        "position": body.position,
    }
    arguments = {**source.arguments, "request": request}
    key = f"look {source.arguments['folder']}"
    result, _ = await studio.pool.call("switch_heads", arguments, source.image, key=key)
    return SwitchHeadsResponse.from_content(result)


async def capture_attention(
    studio: Studio,
    target: str,
    compare: str | None,
    options: dict[str, Any],
    image: bytes = b"",
) -> LookResponse:
    """`target` and `compare` are keys of models; `compare` may be UNTRAINED."""

    def folder_of(key: str) -> str:
        kind, _, name = key.partition(":")
        if kind == "model":
            return str(studio.folders.model_folder(name))
        return studio.loadable_run_folder(name)

    folder, untrained = folder_of(target), compare == UNTRAINED
    compare_folder = None if compare is None or untrained else folder_of(compare)
    arguments = {**options, "folder": folder, "compare": compare_folder, "untrained": untrained}
    result, capture = await studio.pool.call("look", arguments, image, key=f"look {folder}")
    source = CaptureSource(arguments, image)
    return LookResponse.from_content({**result, "capture": studio.captures.add(capture, source)})


class CaptureFile(Response):
    media_type = "application/octet-stream"


@router.get("/captures/{id}", response_class=CaptureFile, responses=error_responses(404))
async def capture(studio: StudioDependency, capture_id: PathId) -> CaptureFile:
    """Download a capture file."""
    return CaptureFile(studio.captures.get(capture_id))
