"""Every response and every event: one pydantic model each.

The OpenAPI description and the TypeScript types of the pages are made from these.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from attnlab.studio import _request_limits as limits

SURROGATE = re.compile("[\ud800-\udfff]")


class ResponseModel(BaseModel):
    model_config = ConfigDict(
        use_attribute_docstrings=True, json_schema_serialization_defaults_required=True
    )

    @classmethod
    def checked(cls, content: Any) -> Self:
        """Half a character, as a stranger's file may hold, becomes U+FFFD."""
        text = json.dumps(content, ensure_ascii=False)
        if SURROGATE.search(text):
            content = json.loads(SURROGATE.sub("\ufffd", text))
        return cls.model_validate(content)


def _finite(value: Any) -> float | None:
    """Settings come from files, which may say anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


State = Literal["training", "finished", "stopped", "broken"]
Better = Literal["higher", "lower"]
Number = int | float | Literal["nan", "inf", "-inf"]
"""A number that JSON lacks is its name."""


class ErrorResponse(ResponseModel):
    """Of every refusal, and the event `error` of a stream."""

    error: str


# Runs


class ModelEntry(ResponseModel):
    id: str
    name: str


class Limits(ResponseModel):
    """What one request may ask for."""

    text: int = limits.TEXT
    image_bytes: int = limits.IMAGE_BYTES
    questions: int = limits.QUESTIONS
    question: int = limits.QUESTION
    summaries: int = limits.SUMMARIES
    beams: int = limits.BEAMS
    pairs: int = limits.PAIRS
    tokens: int = limits.TOKENS
    runs: int = limits.RUNS
    rows: int = limits.ROWS


class TaskExample(ResponseModel):
    """A command that trains a first run."""

    sentence: str
    command: str
    folder: str


class Task(ResponseModel):
    name: str
    help: str
    headline: str
    better: Better
    can: list[str]
    """What its runs can do."""
    example: TaskExample | None


class InfoResponse(ResponseModel):
    version: str
    runs_folder: str
    models: list[ModelEntry]
    tasks: list[Task]
    limits: Limits = Limits()


class Run(ResponseModel):
    id: str
    name: str
    task: str | None
    state: State
    problem: str | None = None
    """What is wrong with a broken one."""
    created: float | None
    """Seconds since 1970."""
    updated: float | None
    step: int
    steps: int | None
    minutes: Annotated[float | None, BeforeValidator(_finite)] = None
    """It trains so long, whatever its steps."""
    parameters: int | None
    attention: str | None
    headline: str | None = None
    """The metric that counts."""
    better: Better | None = None
    last: dict[str, Number]
    """The newest value of each metric."""
    can: list[str]
    """What can be done with its model."""


class RunsResponse(ResponseModel):
    runs: list[Run]


class RunFile(ResponseModel):
    name: str
    bytes: int
    time: float


class Checkpoint(ResponseModel):
    name: str
    step: int | None
    bytes: int
    time: float | None


class RunResponse(Run):
    config: dict[str, Any]
    settings: dict[str, Any]
    """Each by its path, as training.learning_rate."""
    files: list[RunFile]
    checkpoints: list[Checkpoint]
    audited: bool
    examples: list[str] = []
    """Questions that one can try."""


class MetricsResponse(ResponseModel):
    """Rows of metrics, also the event `metrics`."""

    run: str
    after: int
    """Lines before these."""
    rows: list[dict[str, Any]]
    next: int
    """Lines with these."""
    mark: str
    """`next` with a checksum of the lines: so the server sees that a file was replaced."""
    total: int
    again: bool = False
    """The file was cut or replaced: what was read before does not count."""


class DiffRow(ResponseModel):
    setting: str
    values: list[Any]


class DiffResponse(ResponseModel):
    rows: list[DiffRow]
    same: int


class RunsEvent(ResponseModel):
    """Runs that changed, and ids of those that are gone."""

    runs: list[Run]
    gone: list[str]


# Models


class Alternative(ResponseModel):
    answer: str
    probability: float


class Answer(ResponseModel):
    question: str
    answer: str
    probability: float
    margin: float
    verdict: Literal["known", "unsure", "guess"]
    seen: bool
    alternatives: list[Alternative]
    nearest: list[tuple[str, float]]
    """Names of its training that resemble the one asked about, and how much."""
    name: str | None
    """Whom it asks about."""
    trained: bool | None
    """False: no question of its training names that one."""
    room: int
    """Tokens that it can write behind the question."""


class Thresholds(ResponseModel):
    known: float | None
    guess: float
    fitted_on: str


class AskResponse(ResponseModel):
    answers: list[Answer]
    threshold: Thresholds


class LabelProbability(ResponseModel):
    label: str
    probability: float


class SeeResponse(ResponseModel):
    label: str
    probabilities: list[LabelProbability]
    capture: str | None


class LookResponse(ResponseModel):
    capture: str
    title: str


class CutEvent(ResponseModel):
    """The model reads the beginning of the text alone."""

    read: int
    cut: int
    at: int | None
    """The character after the last that is read."""


class TextEvent(ResponseModel):
    """The next piece of a text (`token`), or all of it as it is now (`draft`)."""

    summary: int
    text: str


class Source(ResponseModel):
    """Where in the text a word came from: characters as JavaScript counts them."""

    start: int
    end: int
    weight: float


class Word(ResponseModel):
    text: str
    sources: list[Source]
    copied: float | None


class SummaryEvent(ResponseModel):
    """A text that is finished."""

    summary: int
    text: str
    log_probability: float
    finished: bool
    words: list[Word]


class DoneEvent(ResponseModel):
    pass


# Claims, benches, jobs


class ReportResponse(ResponseModel):
    """A file of results: an audit, or a bench as `attnlab bench --json` writes it."""

    model_config = ConfigDict(extra="allow")


class ClaimsResponse(ResponseModel):
    ledger: dict[str, Any] | None
    """The newest result of each claim, in the format of `attnlab claims --json`."""
    registry: list[dict[str, Any]]
    topics: dict[str, str]


class BenchFile(ResponseModel):
    file: str
    time: float
    sections: list[str]


class BenchFilesResponse(ResponseModel):
    files: list[BenchFile]


class JobStartedResponse(ResponseModel):
    job: str
    """Its id."""


class JobResult(ResponseModel):
    file: str | None = None
    """The bench that it measured."""


class JobResponse(ResponseModel):
    """A job, also the event `job`."""

    id: str
    kind: str
    about: str
    """The run that it is of, if any."""
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done: int
    of: int
    message: str
    result: JobResult | None = None


class JobsResponse(ResponseModel):
    jobs: list[JobResponse]


Events = dict[str, type[ResponseModel]]
RUN_EVENTS: Events = {"runs": RunsEvent, "metrics": MetricsResponse}
JOB_EVENTS: Events = {"job": JobResponse}
WRITE_EVENTS: Events = {
    "cut": CutEvent,
    "token": TextEvent,
    "draft": TextEvent,
    "summary": SummaryEvent,
    "error": ErrorResponse,
    "done": DoneEvent,
}
EVENTS: Events = {**RUN_EVENTS, **JOB_EVENTS, **WRITE_EVENTS}
