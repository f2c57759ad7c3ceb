"""The pydantic model of every request. It checks the request and describes it in the OpenAPI file.

A `...Query` model holds the parameters of the address; a list is a parameter that repeats.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from attnlab.run_folder._metrics_tail import MARK
from attnlab.run_folder._run_list import DEPTH
from attnlab.studio import _request_limits as limits


class RequestModel(BaseModel):
    """Converts no field from another type, and rejects unknown fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def _to_integer(value: Any) -> Any:
    """JSON does not distinguish 1 from 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _comparison_kind(value: Any) -> str:
    return TEXT if isinstance(value, dict | ComparedText) else KEY


KEY, TEXT = "a key", "a text"
MODEL_KEY = r"(run|model):[\s\S]+"
UNTRAINED = "untrained"
RUN_PART = r"[^./\x00][^/\x00]*"
RUN_ID = rf"\.|{RUN_PART}(/{RUN_PART}){{0,{DEPTH - 1}}}"
AsInteger = BeforeValidator(_to_integer)
QueryFlag = Annotated[bool, BeforeValidator(_parse_flag)]

RunId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.NAME_CHARACTERS,
        description="the id of a run: its folder below --runs",
    ),
]
ModelKey = Annotated[
    str,
    Field(
        max_length=limits.NAME_CHARACTERS + len("model:"),
        pattern=rf"^{MODEL_KEY}$",
        description="run:ID, or model:ID for a model that was named at start",
    ),
]
FollowedRun = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.NAME_CHARACTERS + 25,
        description="RUN:N, a run and how many of its lines are known",
        # `_api_runs.parse_followed_run` checks it, with messages that say what is wrong
        json_schema_extra={"pattern": rf"^({RUN_ID}):{MARK.pattern}$"},
    ),
]
SourceText = Annotated[str, Field(min_length=1, max_length=limits.TEXT_CHARACTERS)]
Question = Annotated[str, Field(min_length=1, max_length=limits.QUESTION_CHARACTERS)]
ClaimId = Annotated[str, Field(min_length=1, max_length=100, description="the name of a claim")]
PathId = Annotated[str, Path(alias="id", max_length=64, pattern="^[A-Za-z0-9_-]+$")]


class RunQuery(RequestModel):
    run: RunId


class MetricsQuery(RequestModel):
    run: RunId
    after: Annotated[str, Field(max_length=24, pattern=f"^{MARK.pattern}$")] = "0"
    """The lines already known: a number, or the `mark` of an earlier response."""


class DiffQuery(RequestModel):
    run: Annotated[list[RunId], Field(min_length=1, max_length=limits.COMPARED_RUNS)]


class EventsQuery(RequestModel):
    run: Annotated[list[FollowedRun], Field(max_length=limits.COMPARED_RUNS)] = []


class AskRequest(RequestModel):
    run: RunId
    questions: Annotated[list[Question], Field(min_length=1, max_length=limits.QUESTIONS)]


class WriteRequest(RequestModel):
    run: RunId
    text: SourceText
    """The text to summarize or to continue."""
    count: Annotated[int, Field(ge=1, le=limits.GENERATIONS), AsInteger] = 1
    """How many different texts to generate."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    """0 always takes the most probable token."""
    top_k: Annotated[int, Field(ge=1, le=10**6), AsInteger] | None = None
    """Sample from the k most probable tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample from the most probable tokens whose probabilities sum to p."""
    beams: Annotated[int, Field(ge=1, le=limits.BEAMS), AsInteger] | None = None
    """Beam search of this width."""
    seed: Annotated[int, Field(ge=0, le=2**53 - 1), AsInteger] = 0
    block: Annotated[int, Field(ge=0, le=50), AsInteger] | None = None
    """Generate no sequence of this many tokens twice; 0 disables it."""


ComparedModel = Annotated[
    str,
    Field(
        max_length=limits.NAME_CHARACTERS + len("model:"),
        pattern=rf"^({UNTRAINED}|{MODEL_KEY})$",
        description="run:ID, model:ID, or untrained for the same model before its training",
    ),
]


class ComparedText(RequestModel):
    """Compare with this text, read by the same model."""

    text: SourceText


class LookRequest(RequestModel):
    target: ModelKey
    text: SourceText
    second: SourceText | None = None
    """A second text: the target of an encoder-decoder, or the second segment of an encoder."""
    generate: Annotated[int, Field(ge=0, le=limits.NEW_TOKENS), AsInteger] = 0
    """Tokens to generate first."""
    compare: (
        Annotated[
            Annotated[ComparedModel, Tag(KEY)] | Annotated[ComparedText, Tag(TEXT)],
            Discriminator(_comparison_kind),
        ]
        | None
    ) = None
    """Compare with another model or another text."""
    neurons: bool = True
    """Capture queries, keys and values too."""
    effects: bool = False
    """Measure how the prediction changes without each head, and what each layer predicts."""


class SwitchedHead(RequestModel):
    layer: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS)]
    """The name of a layer, as in the capture."""
    head: Annotated[int, Field(ge=0, le=2**20), AsInteger]


class SwitchHeadsRequest(RequestModel):
    """Heads that are off, for a new prediction on the input of a capture."""

    capture: Annotated[str, Field(max_length=64, pattern="^[A-Za-z0-9_-]+$")]
    heads: Annotated[list[SwitchedHead], Field(max_length=limits.SWITCHED_HEADS)]
    position: Annotated[int, Field(ge=0, le=2**24), AsInteger] | None = None
    """The token whose next token is predicted; without it the last one, or the mask."""


class LookImageQuery(RequestModel):
    """The body is the image, so all options are in the address."""

    target: ModelKey
    compare: ComparedModel | None = None
    neurons: QueryFlag = True
    """Capture queries, keys and values too."""
    effects: QueryFlag = False
    """Measure how the prediction changes without each head, and what each layer predicts."""


class ClaimsRequest(RequestModel):
    ids: Annotated[list[ClaimId], Field(min_length=1, max_length=500)]
    size: Literal["small", "full"] = "small"


class BenchRequest(RequestModel):
    part: Literal["error", "speed", "memory", "decode"]
    quick: bool = True
    """Measure small sizes, which takes seconds instead of minutes."""


class AuditRequest(RequestModel):
    run: RunId
    pairs: Annotated[str, Field(min_length=1, max_length=limits.PAIRS_CHARACTERS)] | None = None
    """Questions and answers for the audit: lines of question, tab, answer."""


class BenchQuery(RequestModel):
    file: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS)] | None = None
    """The name of a report in the list."""
