"""The OpenAPI 3.1 description, made from the declarations that check requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attnlab
from attnlab.studio import limits
from attnlab.studio.endpoint import JSON, Endpoint, Image
from attnlab.studio.schema import Many, Schema, kinds_of, schema_of

ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
    "additionalProperties": False,
}
REASONS = {
    400: "The request is wrong; the sentence says what would be right.",
    403: "Host, Origin or cookie are not those of the studio.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "The run cannot do this, or not yet.",
    413: "The body is too long.",
    415: "The body is of another type.",
    422: "The model cannot take this input.",
    429: "Too much at once; try again.",
    500: "The model broke; the server goes on.",
}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "attnlab studio",
            "version": attnlab.__version__,
            "description": "Runs, models and results on this machine, for the pages of the studio.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "cookie": {"type": "apiKey", "in": "cookie", "name": "attnlab-studio-PORT"}
            }
        },
        "security": [{"cookie": []}],
    }


def operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": endpoint.about,
        "parameters": [
            *parameters(endpoint.named, "path"),
            *parameters(endpoint.query, "query"),
        ],
        "responses": {
            str(endpoint.status): {
                "description": "Done.",
                "content": {endpoint.media: {"schema": endpoint.answer}},
            },
            **{
                str(status): {
                    "description": REASONS[status],
                    "content": {JSON: {"schema": ERROR}},
                }
                for status in endpoint.statuses
            },
        },
    }
    if endpoint.body is Image:
        about = f"An image file, at most {limits.IMAGE_BYTES:,} bytes."
        content: dict[str, Any] = {"application/octet-stream": {"schema": {"description": about}}}
        found["requestBody"] = {"required": True, "content": content}
    elif endpoint.body is not None:
        content = {JSON: {"schema": schema_of(endpoint.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def parameters(request: type[Any] | None, place: str) -> list[dict[str, Any]]:
    if request is None:
        return []
    found = []
    for name, (kind, must) in kinds_of(request).items():
        each = {"name": name, "in": place, "required": must, "schema": kind.schema()}
        if isinstance(kind, Many):
            each |= {"style": "form", "explode": True}
        found.append(each)
    return found


def _name(endpoint: Endpoint) -> str:
    words = endpoint.path.removeprefix("/api/").replace("{", "").replace("}", "")
    return "_".join([endpoint.method.lower(), *words.replace(".", "/").split("/")])
