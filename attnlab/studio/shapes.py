"""The shapes of answers, as JSON Schema: short ways to write them."""

from __future__ import annotations

from attnlab.studio.schema import Schema

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
OBJECT: Schema = {"type": "object"}


def record(**properties: Schema) -> Schema:
    """All of these, and perhaps more."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def many(each: Schema) -> Schema:
    return {"type": "array", "items": each}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


ENTRY = record(
    id=TEXT,
    name=TEXT,
    task=maybe(TEXT),
    state={"enum": ["training", "finished", "stopped", "broken"]},
    created=maybe(NUMBER),
    updated=maybe(NUMBER),
    step=WHOLE,
    steps=maybe(WHOLE),
    parameters=maybe(WHOLE),
    attention=maybe(TEXT),
    last=OBJECT,
    can=many(TEXT),
)
PART = record(run=TEXT, after=WHOLE, rows=many(OBJECT), next=WHOLE, mark=TEXT, total=WHOLE)
JOB = record(
    id=TEXT,
    kind=TEXT,
    about=TEXT,
    state={"enum": ["waiting", "running", "done", "failed", "cancelled"]},
    done=WHOLE,
    of=WHOLE,
    message=TEXT,
)
