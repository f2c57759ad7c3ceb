"""The web application: endpoints, their OpenAPI description, pages, and the guard around them."""

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
from attnlab.studio import _request_limits as limits
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._app_state import Studio
from attnlab.studio._request_guard import READING_METHODS, AccessKeys, RequestGuard
from attnlab.studio._responses import EVENTS, ErrorResponse
from attnlab.studio._routing import SCHEMA_REFERENCE, error_responses, handle_unknown_address

STATIC = Path(__file__).parent / "static"
NOT_BUILT = (
    "The studio's pages are not built: run `make web` in attnlab's folder, then reload this page. "
    "The API works without them; /api/openapi.json describes it.\n"
)


class StudioApp:
    """The ASGI application with its guard."""

    def __init__(self, folders: AllowedFolders, keys: AccessKeys) -> None:
        self.folders = folders
        self.studio: Studio | None = None
        self.api = create_api(keys.port, lifespan=self.lifespan)
        self.guarded_api = RequestGuard(self.api, keys)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.guarded_api(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        self.studio = app.state.studio = Studio(self.folders)
        try:
            yield
        finally:
            await self.studio.close()

    def begin_shutdown(self) -> None:
        if self.studio is not None:
            self.studio.begin_shutdown()


def create_api(port: int = limits.PORT, **options: Any) -> FastAPI:
    """Everything but the guard, whose requirements the OpenAPI description contains.

    FastAPI's documentation pages load scripts from other sites, so they are disabled.
    """
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        exception_handlers={HTTPException: handle_unknown_address},
        responses=error_responses(400, 403),
        generate_unique_id_function=lambda route: route.name,
        **options,
    )
    for endpoints in (api_runs, api_models, api_results):
        app.include_router(endpoints.router)
    app.add_route("/", serve_index, methods=["GET"])
    app.add_route("/static/{path:path}", serve_static, methods=["GET"])
    app.openapi = cache(lambda: openapi_description(app, port))  # type: ignore[method-assign]
    return app


def openapi_description(app: FastAPI, port: int) -> dict[str, Any]:
    """The OpenAPI description, with the events of streams and without FastAPI's own errors."""
    description = get_openapi(
        title="attnlab studio",
        version=attnlab.__version__,
        description="Runs, models and results on this machine, for the pages of the studio.",
        routes=app.routes,
    )
    keys = AccessKeys("", "", port)
    for path in description["paths"].values():
        for method, operation in path.items():
            if operation["responses"].get("422", {}).get("description") == "Validation Error":
                del operation["responses"]["422"]
            if method.upper() not in READING_METHODS:
                operation.setdefault("parameters", []).append(origin_parameter(keys.origin))
    models: set[type[BaseModel]] = {ErrorResponse, *EVENTS.values()}
    _, extra = models_json_schema(
        [(model, "serialization") for model in models], ref_template=SCHEMA_REFERENCE
    )
    schemas = {**description["components"]["schemas"], **extra["$defs"]}
    schemas = {k: schemas[k] for k in sorted(schemas) if not k.endswith("ValidationError")}
    cookie = {"type": "apiKey", "in": "cookie", "name": keys.cookie_name}
    description["components"] = {"schemas": schemas, "securitySchemes": {"cookie": cookie}}
    return {**description, "servers": [{"url": keys.origin}], "security": [{"cookie": []}]}


def origin_parameter(origin: str) -> dict[str, Any]:
    """The header that `RequestGuard` requires of a request that changes something."""
    return {
        "name": "Origin",
        "in": "header",
        "required": True,
        "schema": {"type": "string", "const": origin},
        "description": "The address of the studio, as in the header Host. Browsers send it.",
    }


async def serve_index(request: Request) -> Response:
    drop_range_headers(request)
    page = STATIC / "index.html"
    if not page.is_file():
        return PlainTextResponse(NOT_BUILT, 404)
    return FileResponse(page, headers={"cache-control": "no-store"})


async def serve_static(request: Request) -> Response:
    drop_range_headers(request)
    if not STATIC.is_dir():
        return PlainTextResponse(NOT_BUILT, 404)
    files = StaticFiles(directory=STATIC)
    response = await files.get_response(request.path_params["path"], request.scope)
    response.headers["cache-control"] = "no-cache"  # so that a new build shows at once
    return response


def drop_range_headers(request: Request) -> None:
    """Makes a file be served whole, so that an invalid Range header is no error."""
    headers = request.scope["headers"]
    request.scope["headers"] = [pair for pair in headers if pair[0] not in (b"range", b"if-range")]
