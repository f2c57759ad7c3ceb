"""The application: endpoints, pages and what they share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from attnlab.studio import api_models, api_results, api_runs
from attnlab.studio.captures import Captures
from attnlab.studio.endpoint import Answer, Endpoint, unknown
from attnlab.studio.guard import Guard, Keys
from attnlab.studio.hub import Hub
from attnlab.studio.jobs import Jobs
from attnlab.studio.openapi import openapi
from attnlab.studio.places import Places
from attnlab.studio.pool import Pool
from attnlab.studio.results import Results, own_folder
from attnlab.studio.shapes import OBJECT
from attnlab.studio.streams import Streams

STATIC = Path(__file__).parent / "static"
NOT_BUILT = (
    "The studio's pages are not built here: run `make web` in attnlab's folder, then load this "
    "page again. The API works: /api/openapi.json tells how.\n"
)


class Studio:
    """What endpoints share. Made in the server's event loop."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.hub = Hub(places)
        self.streams = Streams()
        self.pool = Pool()
        self.jobs = Jobs()
        self.captures = Captures()
        self.results = Results(places.runs, own_folder())
        self.known: dict[str, Any] | None = None

    async def registry(self) -> dict[str, Any]:
        """Every claim, asked for once: their code imports torch, so a worker tells."""
        if self.known is None:
            self.known = (await self.pool.ask("registry", {}))[0]
        return self.known

    def leave(self) -> None:
        """Streams end and models stop now, so that nobody waits for them."""
        self.hub.close()
        self.jobs.leave()
        self.pool.leave()

    async def close(self) -> None:
        self.leave()
        await self.jobs.close()
        await self.pool.close()


async def describe(studio: Studio) -> Response:
    del studio
    return Answer(openapi(ENDPOINTS))


ENDPOINTS: list[Endpoint] = [
    *api_runs.ENDPOINTS,
    *api_models.ENDPOINTS,
    *api_results.ENDPOINTS,
    Endpoint("GET", "/api/openapi.json", "This description.", describe, OBJECT),
]


class App:
    """The ASGI application with its guard."""

    def __init__(self, places: Places, keys: Keys) -> None:
        self.places = places
        self.studio: Studio | None = None
        routes = [
            Route("/", self.index, methods=["GET"]),
            Route("/static/{path:path}", self.static, methods=["GET"]),
            *(self.route(each) for each in ENDPOINTS),
        ]
        handlers: Any = {HTTPException: unknown}
        inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=self.life)
        self.guarded = Guard(inner, keys)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.guarded(scope, receive, send)

    @asynccontextmanager
    async def life(self, _: Starlette) -> AsyncIterator[None]:
        self.studio = Studio(self.places)
        try:
            yield
        finally:
            await self.studio.close()

    def leave(self) -> None:
        if self.studio is not None:
            self.studio.leave()

    def route(self, endpoint: Endpoint) -> Route:
        async def respond(request: Request) -> Response:
            assert self.studio is not None
            return await endpoint.respond(self.studio, request)

        route = Route(endpoint.path, respond, methods=[endpoint.method])
        route.methods = {endpoint.method}  # no HEAD: a stream has no end to measure
        return route

    async def index(self, request: Request) -> Response:
        whole(request)
        page = STATIC / "index.html"
        if not page.is_file():
            return PlainTextResponse(NOT_BUILT, 404)
        return FileResponse(page, headers={"cache-control": "no-store"})

    async def static(self, request: Request) -> Response:
        whole(request)
        if not STATIC.is_dir():
            return PlainTextResponse(NOT_BUILT, 404)
        files = StaticFiles(directory=STATIC)
        found = await files.get_response(request.path_params["path"], request.scope)
        found.headers["cache-control"] = "no-cache"  # asked each time: a new build shows at once
        return found


def whole(request: Request) -> None:
    """No part of a file is served, which a server need not: a wrong Range is no error then."""
    given = request.scope["headers"]
    request.scope["headers"] = [pair for pair in given if pair[0] not in (b"range", b"if-range")]
