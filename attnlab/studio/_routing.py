"""How a request becomes a response: limits before FastAPI reads it, one sentence where it fails."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, get_origin

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from attnlab.studio import _request_limits as limits
from attnlab.studio._event_stream import EventStream, Gone, while_heard
from attnlab.studio._http_errors import REASONS, Refused
from attnlab.studio._responses import ErrorResponse, Events
from attnlab.studio._validation_errors import sentence_of

JSON, IMAGE = "application/json", "application/octet-stream"
REF = "#/components/schemas/{model}"
IMAGE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            IMAGE: {
                "schema": {"description": f"An image file, at most {limits.IMAGE_BYTES:,} bytes."}
            }
        },
    }
}
"""Given as `openapi_extra`: the body is an image file as it is."""
WITH_BODY = (408, 413, 415)
UNKNOWN = {
    404: "There is nothing at this address; GET /api/openapi.json lists what there is.",
    405: "This address does not take that method; GET /api/openapi.json tells which it takes.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of an operation, for its `responses`."""
    content = {JSON: {"schema": _ref(ErrorResponse)}}
    return {each: {"description": REASONS[each], "content": content} for each in sorted(statuses)}


def streamed(events: Events, *statuses: int) -> dict[str, Any]:
    """The options of an operation that sends events: each has a name, and JSON as its data."""
    described = [
        {
            "properties": {
                "event": {"const": name},
                "data": {
                    "type": "string",
                    "contentMediaType": JSON,
                    "contentSchema": _ref(model),
                },
                "id": {"type": "string"},
            },
            "required": ["event", "data"],
        }
        for name, model in events.items()
    ]
    content = {EventStream.media_type: {"schema": {"type": "object", "oneOf": described}}}
    return {
        "status_code": 200,
        "response_class": EventStream,
        "responses": {200: {"content": content}, **refusals(*statuses)},
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}


class JsonRequest(Request):
    """NaN and Infinity are no JSON."""

    async def json(self) -> Any:
        try:
            return json.loads((await self.body()).decode("utf-8"), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body: is not JSON") from None


class StudioRoute(APIRoute):
    """Reads the body within its limits, then waits for the result as long as the client does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def respond(given: Request) -> Response:
            request = JsonRequest(given.scope, given.receive)
            try:
                self.check_query(request)
                await self.read_body(request)
                return await while_heard(request.receive, handle(request))
            except Refused as refused:
                return refusal(refused.status, refused.sentence)
            except HTTPException as error:
                return refusal(error.status_code, error.detail)
            except RequestValidationError as error:
                errors = error.errors()
                return refusal(400, sentence_of(errors, self.names(errors[0]["loc"][0])))
            except ClientDisconnect:
                return refusal(400, "The body ended early.")
            except Gone:
                return refusal(400, "Nobody waits for the answer.")  # nor hears this
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                return refusal(500, f"The studio failed: {type(error).__name__}; see the terminal.")

        return respond

    def names(self, place: str) -> dict[str, Any]:
        """The fields of the query or the body, each with what is declared of it."""
        query = self.dependant.query_params
        field = self.body_field if place == "body" else query[0] if query else None
        model = None if field is None else field.field_info.annotation
        fields: dict[str, Any] = getattr(model, "model_fields", {})
        return fields

    def check_query(self, request: Request) -> None:
        """What FastAPI would pass over in silence."""
        fields = self.names("query")
        if not fields and request.query_params:
            raise Refused(400, "the address: nothing may stand behind the question mark here")
        for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
            if count > 1 and name in fields and get_origin(fields[name].annotation) is not list:
                raise Refused(400, f"{name}: is given {count} times; give it once")

    async def read_body(self, request: Request) -> None:
        if "requestBody" in (self.openapi_extra or {}):
            await read_within(request, limits.IMAGE_BYTES)
        elif self.body_field is not None:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != JSON:
                raise Refused(415, f"The body must be {JSON}.")
            await read_within(request, limits.JSON_BYTES)


async def read_within(request: Request, most: int) -> None:
    """Keep the body; refuse it as soon as its header or what came says that it is too long."""
    too_long = Refused(413, f"The body is too long; {most:,} bytes are the most.")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 15:
        raise Refused(400, "Content-Length: is not a number")
    if int(length) > most:
        raise too_long
    content = bytearray()
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    raise too_long
    except TimeoutError:
        raise Refused(408, f"The body took more than {limits.BODY_SECONDS:g} seconds.") from None
    if not content:
        raise Refused(400, "the body: is empty")
    request._body = bytes(content)  # where `Request.body` keeps it


async def _body(request: Request) -> bytes:
    return await request.body()


Image = Annotated[bytes, Depends(_body)]


def refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers={"connection": "close"})


async def unknown(request: Request, error: Any) -> Response:
    """Addresses and methods that there are not."""
    del request
    sentence = UNKNOWN.get(error.status_code, "The request cannot be answered.")
    response = refusal(error.status_code, sentence)
    response.headers.update(error.headers or {})
    return response


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
