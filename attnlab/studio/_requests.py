"""Every request: one pydantic model each, which checks what comes and is its description.

A query model holds what stands behind the question mark of the address; a list is a name that
comes several times there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from attnlab.run_folder._metrics_tail import MARK
from attnlab.studio import _request_limits as limits


class RequestModel(BaseModel):
    """No field is converted from another type, and none is ignored."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def _integral(value: Any) -> Any:
    """JSON does not tell 1 from 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _from_address(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _kind_of_subject(value: Any) -> str:
    return MODEL if isinstance(value, dict | ModelSubject) else RUN


RUN, MODEL = "a run", "a model"
Integral = BeforeValidator(_integral)
AddressFlag = Annotated[bool, BeforeValidator(_from_address)]

RunId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.NAME,
        description="the id of a run: its folder below --runs",
    ),
]
ModelId = Annotated[
    str,
    Field(min_length=1, max_length=limits.NAME, description="the id of a model given at start"),
]
FollowedRun = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.NAME + 25,
        description="RUN:N, a run and the lines known of it",
    ),
]
SourceText = Annotated[str, Field(min_length=1, max_length=limits.TEXT)]
Question = Annotated[str, Field(min_length=1, max_length=limits.QUESTION)]
ClaimId = Annotated[str, Field(min_length=1, max_length=100, description="the name of a claim")]
Id = Annotated[str, Path(alias="id", max_length=64, pattern="^[A-Za-z0-9_-]+$")]


class RunQuery(RequestModel):
    run: RunId


class MetricsQuery(RequestModel):
    run: RunId
    after: Annotated[str, Field(max_length=24, pattern=f"^{MARK.pattern}$")] = "0"
    """Lines that are known: a number, or a mark."""


class DiffQuery(RequestModel):
    run: Annotated[list[RunId], Field(min_length=1, max_length=limits.RUNS)]


class EventsQuery(RequestModel):
    run: Annotated[list[FollowedRun], Field(max_length=limits.RUNS)] = []


class AskRequest(RequestModel):
    run: RunId
    questions: Annotated[list[Question], Field(min_length=1, max_length=limits.QUESTIONS)]


class WriteRequest(RequestModel):
    run: RunId
    text: SourceText
    """To summarize, or to continue."""
    count: Annotated[int, Field(ge=1, le=limits.SUMMARIES), Integral] = 1
    """How many different ones."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    """0: the likeliest token."""
    top_k: Annotated[int, Field(ge=1, le=10**6), Integral] | None = None
    """Sample from the k likeliest tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample from the likeliest tokens that have probability p together."""
    beams: Annotated[int, Field(ge=1, le=limits.BEAMS), Integral] | None = None
    """Beam search of this width."""
    seed: Annotated[int, Field(ge=0, le=2**53 - 1), Integral] = 0
    block: Annotated[int, Field(ge=0, le=50), Integral] | None = None
    """No n tokens in a row twice; 0 disables it."""


class ModelSubject(RequestModel):
    model: ModelId


Subject = Annotated[
    Annotated[RunId, Tag(RUN)] | Annotated[ModelSubject, Tag(MODEL)],
    Discriminator(_kind_of_subject),
]


class LookRequest(RequestModel):
    subject: Subject
    text: SourceText
    second: SourceText | None = None
    """A second text."""
    generate: Annotated[int, Field(ge=0, le=limits.TOKENS), Integral] = 0
    """Tokens to generate first."""
    compare: Subject | None = None
    compare_text: SourceText | None = None
    """Read by the same model."""
    untrained: bool = False
    """Compare with the same model, untrained."""
    neurons: bool = True
    """Queries, keys and values too."""


class LookImageQuery(RequestModel):
    """The image is the body, so the rest stands in the address."""

    run: RunId | None = None
    model: ModelId | None = None
    compare_run: RunId | None = None
    compare_model: ModelId | None = None
    untrained: AddressFlag = False
    """Compare with the same model, untrained."""
    neurons: AddressFlag = True
    """Queries, keys and values too."""


class ClaimsRequest(RequestModel):
    ids: Annotated[list[ClaimId], Field(min_length=1, max_length=500)]
    size: Literal["small", "full"] = "small"


class BenchRequest(RequestModel):
    part: Literal["error", "speed", "memory", "decode"]
    quick: bool = True
    """Small sizes: seconds, not minutes."""


class AuditRequest(RequestModel):
    run: RunId
    pairs: Annotated[str, Field(min_length=1, max_length=limits.PAIRS)] | None = None
    """Lines of question, tab, answer to audit with."""


class BenchQuery(RequestModel):
    file: Annotated[str, Field(min_length=1, max_length=limits.NAME)] | None = None
    """One of the list."""
