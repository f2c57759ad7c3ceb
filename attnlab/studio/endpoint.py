"""An endpoint: where it is, what it takes, what it gives. Requests are checked from this alone."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from attnlab.studio import limits
from attnlab.studio.schema import Refused, Schema, read, read_query, wrong
from attnlab.studio.streams import Gone, while_heard

if TYPE_CHECKING:
    from attnlab.studio.app import Studio

JSON = "application/json"


@dataclass(frozen=True)
class Image:
    """A body that is an image file as it is."""

    content: bytes


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str
    about: str
    handler: Callable[..., Coroutine[Any, Any, Any]]
    """Gets the studio, then what was asked in path, query and body, as far as it is declared."""
    answer: Schema
    """Of the JSON that it gives; of streams and files what they are."""
    named: type[Any] | None = None
    """What stands in the path."""
    query: type[Any] | None = None
    body: type[Any] | None = None
    media: str = JSON
    status: int = 200
    refusals: tuple[int, ...] = ()
    """Beyond those that any endpoint of its kind may give."""
    resumes: bool = False
    """Takes the header Last-Event-ID too."""

    @property
    def statuses(self) -> list[int]:
        """Of all refusals."""
        bodies = () if self.body is None else (408, 413, 415)
        return sorted({400, 403, *bodies, *self.refusals})

    async def respond(self, studio: Studio, request: Request) -> Response:
        try:
            parts = await self.parts(request)
            found = await while_heard(request.receive, self.handler(studio, *parts))
            return found if isinstance(found, Response) else Answer(found, self.status)
        except Refused as refused:
            return refusal(refused.status, refused.sentence)
        except ClientDisconnect:
            return refusal(400, "The body ended early.")
        except Gone:
            return refusal(400, "Nobody waits for the answer.")  # nor hears this
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return refusal(500, f"The studio failed: {type(error).__name__}; see the terminal.")

    async def parts(self, request: Request) -> list[Any]:
        found = []
        if self.named is not None:
            found.append(read(self.named, dict(request.path_params), "the address"))
        if self.query is not None:
            found.append(read_query(self.query, request.query_params.multi_items()))
        elif request.query_params:
            raise wrong("the address: nothing may stand behind the question mark here")
        if self.body is Image:
            found.append(Image(await body_of(request, limits.IMAGE_BYTES)))
        elif self.body is not None:
            found.append(read(self.body, await json_of(request)))
        if self.resumes:
            found.append(request.headers.get("last-event-id", ""))
        return found


class Answer(JSONResponse):
    """JSON in ASCII: nothing that was typed or stored can break it."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def refusal(status: int, sentence: str) -> Response:
    return Answer({"error": sentence}, status, headers={"connection": "close"})


async def json_of(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refused(415, f"The body must be {JSON}.")
    content = await body_of(request, limits.JSON_BYTES)
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise wrong("the body: is not JSON") from None


async def body_of(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is known to be too long; a length that is told is a start."""
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 15:
        raise wrong("Content-Length: is not a number")
    if int(length) > most:
        raise too_long(most)
    found = bytearray()
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise too_long(most)
    except TimeoutError:
        raise Refused(408, f"The body took more than {limits.BODY_SECONDS:g} seconds.") from None
    if not found:
        raise wrong("the body: is empty")
    return bytes(found)


def too_long(most: int) -> Refused:
    return Refused(413, f"The body is too long; {most:,} bytes are the most.")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


async def unknown(request: Request, error: Exception) -> Response:
    """Addresses and methods that there are not."""
    del request
    status = error.status_code if isinstance(error, HTTPException) else 404
    sentence = {
        404: "There is nothing at this address; GET /api/openapi.json lists what there is.",
        405: "This address does not take that method; GET /api/openapi.json tells which it takes.",
    }
    headers = getattr(error, "headers", None) or {}
    found = refusal(status, sentence.get(status, "The request cannot be answered."))
    found.headers.update(headers)
    return found
