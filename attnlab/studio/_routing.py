"""How a request becomes a response: limits are checked first, and each failure is one sentence."""

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
from starlette.routing import Match

from attnlab.studio import _request_limits as limits
from attnlab.studio._event_stream import ClientGoneError, EventStream, run_while_connected
from attnlab.studio._http_errors import STATUS_DESCRIPTIONS, RequestError
from attnlab.studio._responses import ErrorResponse, Events
from attnlab.studio._validation_errors import describe_validation_error

JSON, IMAGE = "application/json", "application/octet-stream"
SCHEMA_REFERENCE = "#/components/schemas/{model}"
IMAGE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            IMAGE: {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "minLength": 1,
                    "description": f"An image file, at most {limits.IMAGE_BYTES:,} bytes.",
                }
            }
        },
    }
}
"""The `openapi_extra` of an operation whose body is an image file."""
BODY_ERRORS = (408, 413, 415)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
UNKNOWN_ADDRESS = {
    404: "There is nothing at this address; GET /api/openapi.json lists all addresses.",
    405: "This address does not take that method; GET /api/openapi.json lists its methods.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of an operation, for its `responses`."""
    content = {JSON: {"schema": _ref(ErrorResponse)}}
    return {
        status: {"description": STATUS_DESCRIPTIONS[status], "content": content}
        for status in sorted(statuses)
    }


def event_stream_options(events: Events, *statuses: int) -> dict[str, Any]:
    """The options of an operation that sends events. Each event has a name and JSON data."""
    schemas = [
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
    content = {EventStream.media_type: {"schema": {"type": "object", "oneOf": schemas}}}
    return {
        "status_code": 200,
        "response_class": EventStream,
        "responses": {200: {"content": content}, **error_responses(*statuses)},
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": SCHEMA_REFERENCE.format(model=model.__name__)}


class JsonRequest(Request):
    """Rejects NaN and Infinity, which JSON does not have."""

    async def json(self) -> Any:
        try:
            return json.loads((await self.body()).decode("utf-8"), parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body: is not JSON") from None


class StudioRoute(APIRoute):
    """Reads the body within its limits, and cancels the work if the client disconnects."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def respond(original: Request) -> Response:
            request = JsonRequest(original.scope, original.receive)
            try:
                self.check_query(request)
                await self.read_body(request)
                return await run_while_connected(request.receive, handle(request))
            except RequestError as error:
                return error_response(error.status, error.message)
            except HTTPException as error:
                return error_response(error.status_code, error.detail)
            except RequestValidationError as error:
                errors = error.errors()
                fields = self.declared_fields(errors[0]["loc"][0])
                return error_response(400, describe_validation_error(errors, fields))
            except ClientDisconnect:
                return error_response(400, "The body ended early.")
            except ClientGoneError:
                return error_response(400, "The client disconnected.")  # the answer goes nowhere
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                return error_response(
                    500, f"The studio failed: {type(error).__name__}; see the terminal."
                )

        return respond

    def declared_fields(self, location: str) -> dict[str, Any]:
        """The declared fields of the `query` or the `body`."""
        query = self.dependant.query_params
        field = self.body_field if location == "body" else query[0] if query else None
        model = None if field is None else field.field_info.annotation
        fields: dict[str, Any] = getattr(model, "model_fields", {})
        return fields

    def check_query(self, request: Request) -> None:
        """Rejects what FastAPI would ignore silently."""
        fields = self.declared_fields("query")
        if not fields and request.query_params:
            raise RequestError(
                400,
                "the address: this endpoint takes no parameters; remove the text after the ?",
            )
        for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
            if count > 1 and name in fields and get_origin(fields[name].annotation) is not list:
                raise RequestError(400, f"{name}: is given {count} times; give it once")

    async def read_body(self, request: Request) -> None:
        if "requestBody" in (self.openapi_extra or {}):
            await read_limited_body(request, limits.IMAGE_BYTES)
        elif self.body_field is not None:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != JSON:
                raise RequestError(415, f"The body must be {JSON}.")
            await read_limited_body(request, limits.JSON_BYTES)


async def read_limited_body(request: Request, max_bytes: int) -> None:
    """Reads and keeps the body. Fails as soon as its header or its content exceeds the limit."""
    too_long = RequestError(413, f"The body is too long; give at most {max_bytes:,} bytes.")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 15:
        raise RequestError(400, f"Content-Length: is {length[:20]!r}; give a number of bytes")
    if int(length) > max_bytes:
        raise too_long
    content = bytearray()
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > max_bytes:
                    raise too_long
    except TimeoutError:
        raise RequestError(
            408, f"The body took more than {limits.BODY_SECONDS:g} seconds."
        ) from None
    if not content:
        raise RequestError(400, "the body: is empty")
    request._body = bytes(content)  # where `Request.body` keeps it


async def _read_body(request: Request) -> bytes:
    return await request.body()


ImageBody = Annotated[bytes, Depends(_read_body)]


def error_response(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers={"connection": "close"})


async def handle_unknown_address(request: Request, error: Any) -> Response:
    """The response for an address or method that does not exist."""
    message = UNKNOWN_ADDRESS.get(error.status_code, "The request cannot be answered.")
    response = error_response(error.status_code, message)
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(allowed_methods(request))
    return response


def allowed_methods(request: Request) -> list[str]:
    """What an address takes. Each method has a route of its own, and Starlette names only one."""
    routes = request.app.routes
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    return [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
