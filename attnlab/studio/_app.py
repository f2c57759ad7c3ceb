"""The application: endpoints, their description, pages, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

import attnlab
from attnlab.studio import _api_models as api_models
from attnlab.studio import _api_results as api_results
from attnlab.studio import _api_runs as api_runs
from attnlab.studio._allowed_folders import Places
from attnlab.studio._app_state import Studio
from attnlab.studio._request_guard import Guard, Keys
from attnlab.studio._responses import EVENTS, ErrorResponse
from attnlab.studio._routing import REF, refusals, unknown

STATIC = Path(__file__).parent / "static"
NOT_BUILT = (
    "The studio's pages are not built here: run `make web` in attnlab's folder, then load this "
    "page again. The API works: /api/openapi.json tells how.\n"
)


class App:
    """The ASGI application with its guard."""

    def __init__(self, places: Places, keys: Keys) -> None:
        self.places = places
        self.studio: Studio | None = None
        self.api = api(lifespan=self.life)
        self.guarded = Guard(self.api, keys)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.guarded(scope, receive, send)

    @asynccontextmanager
    async def life(self, app: FastAPI) -> AsyncIterator[None]:
        self.studio = app.state.studio = Studio(self.places)
        try:
            yield
        finally:
            await self.studio.close()

    def leave(self) -> None:
        if self.studio is not None:
            self.studio.leave()


def api(**options: Any) -> FastAPI:
    """Everything but the guard. FastAPI's pages of documentation load from elsewhere: none here."""
    made = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        exception_handlers={HTTPException: unknown},
        responses=refusals(400, 403),
        generate_unique_id_function=lambda route: route.name,
        **options,
    )
    for each in (api_runs, api_models, api_results):
        made.include_router(each.router)
    made.add_route("/", index, methods=["GET"])
    made.add_route("/static/{path:path}", static, methods=["GET"])
    made.openapi = cache(lambda: described(made))  # type: ignore[method-assign]
    return made


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the events of streams and without FastAPI's own errors."""
    found = get_openapi(
        title="attnlab studio",
        version=attnlab.__version__,
        description="Runs, models and results on this machine, for the pages of the studio.",
        routes=app.routes,
    )
    for path in found["paths"].values():
        for operation in path.values():
            if operation["responses"].get("422", {}).get("description") == "Validation Error":
                del operation["responses"]["422"]
    models: set[type[BaseModel]] = {ErrorResponse, *EVENTS.values()}
    more = models_json_schema([(each, "serialization") for each in models], ref_template=REF)[1]
    schemas = {**found["components"]["schemas"], **more["$defs"]}
    schemas = {k: schemas[k] for k in sorted(schemas) if not k.endswith("ValidationError")}
    cookie = {"type": "apiKey", "in": "cookie", "name": "attnlab-studio-PORT"}
    found["components"] = {"schemas": schemas, "securitySchemes": {"cookie": cookie}}
    return {**found, "security": [{"cookie": []}]}


async def index(request: Request) -> Response:
    without_range(request)
    page = STATIC / "index.html"
    if not page.is_file():
        return PlainTextResponse(NOT_BUILT, 404)
    return FileResponse(page, headers={"cache-control": "no-store"})


async def static(request: Request) -> Response:
    without_range(request)
    if not STATIC.is_dir():
        return PlainTextResponse(NOT_BUILT, 404)
    files = StaticFiles(directory=STATIC)
    response = await files.get_response(request.path_params["path"], request.scope)
    response.headers["cache-control"] = "no-cache"  # asked each time: a new build shows at once
    return response


def without_range(request: Request) -> None:
    """Files are served whole, which a server may: a wrong Range is no error then."""
    given = request.scope["headers"]
    request.scope["headers"] = [pair for pair in given if pair[0] not in (b"range", b"if-range")]
