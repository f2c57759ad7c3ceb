"""Prints the JSON schemas from which `npm run types-from-python` makes the TypeScript types.

.venv/bin/python web/schemas.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import TypeAdapter

from attnlab.report import Report
from attnlab.studio._app import create_api

NOT_IN_PAGES = "measurements"  # a page contains the report without its single measurements


def report_schema() -> dict[str, Any]:
    """The schema of a report in a page, in which every field is present."""
    schema = TypeAdapter(Report).json_schema(mode="serialization")
    for model in (schema, *schema["$defs"].values()):
        model["properties"].pop(NOT_IN_PAGES, None)
        model["required"] = list(model["properties"])
    return schema


def schemas() -> dict[str, Any]:
    """The OpenAPI description of the studio, and the schema of a report."""
    return {"api": create_api().openapi(), "report": report_schema()}


if __name__ == "__main__":
    json.dump(schemas(), sys.stdout)
