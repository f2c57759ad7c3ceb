"""The pydantic model of every response and every event.

The OpenAPI description and the TypeScript types of the pages are generated from them.
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
    def from_content(cls, content: Any) -> Self:
        """Validates the content. Lone surrogates, which a file may contain, become U+FFFD."""
        text = json.dumps(content, ensure_ascii=False)
        if SURROGATE.search(text):
            content = json.loads(SURROGATE.sub("\ufffd", text))
        return cls.model_validate(content)


def _finite_or_none(value: Any) -> float | None:
    """Settings come from files, which may contain anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


RunState = Literal["training", "finished", "stopped", "broken"]
Better = Literal["higher", "lower"]
Number = int | float | Literal["nan", "inf", "-inf"]
"""JSON has no NaN and no infinity, so their names stand for them."""


class ErrorResponse(ResponseModel):
    """The body of every error, and the event `error` of a stream."""

    error: str


# Runs


class ModelEntry(ResponseModel):
    id: str
    name: str


class Limits(ResponseModel):
    """How much one request may use."""

    text: int = limits.TEXT_CHARACTERS
    image_bytes: int = limits.IMAGE_BYTES
    questions: int = limits.QUESTIONS
    question: int = limits.QUESTION_CHARACTERS
    generations: int = limits.GENERATIONS
    beams: int = limits.BEAMS
    pairs: int = limits.PAIRS_CHARACTERS
    tokens: int = limits.NEW_TOKENS
    runs: int = limits.COMPARED_RUNS
    rows: int = limits.METRIC_ROWS


class TaskExample(ResponseModel):
    """A command that trains a first run."""

    sentence: str
    command: str
    folder: str


class TaskEntry(ResponseModel):
    name: str
    help: str
    headline: str
    better: Better
    can: list[str]
    """The capabilities of its runs."""
    example: TaskExample | None


class InfoResponse(ResponseModel):
    version: str
    runs_folder: str
    models: list[ModelEntry]
    tasks: list[TaskEntry]
    limits: Limits = Limits()


class RunSummary(ResponseModel):
    id: str
    name: str
    task: str | None
    state: RunState
    problem: str | None = None
    """Why a broken run cannot be read."""
    created: float | None
    """Seconds since 1970."""
    updated: float | None
    step: int
    steps: int | None
    minutes: Annotated[float | None, BeforeValidator(_finite_or_none)] = None
    """The time limit of the training, which replaces the number of steps."""
    parameters: int | None
    attention: str | None
    headline: str | None = None
    """The name of the metric by which runs are compared."""
    better: Better | None = None
    last: dict[str, Number]
    """The newest value of each metric."""
    can: list[str]
    """The capabilities of its model."""


class RunsResponse(ResponseModel):
    runs: list[RunSummary]


class RunFile(ResponseModel):
    name: str
    bytes: int
    time: float


class Checkpoint(ResponseModel):
    name: str
    step: int | None
    bytes: int
    time: float | None


class ExampleInput(ResponseModel):
    """An input to try, such as a question."""

    kind: str
    """What it shows, such as "held out" or "made up"."""
    text: str
    answer: str | None = None
    """The right answer, if it is known."""


class RunResponse(RunSummary):
    config: dict[str, Any]
    settings: dict[str, Any]
    """Each setting by its path, such as training.learning_rate."""
    files: list[RunFile]
    checkpoints: list[Checkpoint]
    audited: bool
    examples: list[ExampleInput] = []
    """Inputs to try."""


class MetricsResponse(ResponseModel):
    """Rows of metrics, also the event `metrics`."""

    run: str
    after: int
    """How many lines come before these rows."""
    rows: list[dict[str, Any]]
    next: int
    """How many lines there are up to the last of these rows."""
    mark: str
    """`next` and a checksum of the lines, from which the server sees that a file was replaced."""
    total: int
    again: bool = False
    """The file was truncated or replaced: discard all rows read before."""


class DiffRow(ResponseModel):
    setting: str
    values: list[Any]


class DiffResponse(ResponseModel):
    rows: list[DiffRow]
    same: int


class RunsEvent(ResponseModel):
    """Runs that changed, and the ids of deleted runs."""

    runs: list[RunSummary]
    gone: list[str]


# Models


class Alternative(ResponseModel):
    answer: str
    probability: float


class AnswerResponse(ResponseModel):
    question: str
    answer: str
    probability: float
    margin: float
    nothing: float
    """The probability that the model gives to no answer at all."""
    verdict: Literal["known", "unsure", "guess", "not in what I read", "another kind of question"]
    seen: bool
    alternatives: list[Alternative]
    nearest: list[tuple[str, float]]
    """Names from the training data most similar to the name in the question, with similarities."""
    name: str | None
    """The name in the question."""
    trained: bool | None
    """Whether a training question contains the name."""
    remaining_tokens: int
    """How many tokens fit into the context after the question."""


class Thresholds(ResponseModel):
    known: float | None
    guess: float
    fitted: bool
    """Whether enough questions were held out to fit them."""
    fitted_on: str


class AskResponse(ResponseModel):
    answers: list[AnswerResponse]
    threshold: Thresholds


class LabelProbability(ResponseModel):
    label: str
    probability: float


class SeeResponse(ResponseModel):
    label: str
    known_label: str | None
    """The image's class in the run's data, if it is one of their images."""
    probabilities: list[LabelProbability]
    capture: str | None


class ExampleImage(ResponseModel):
    png: str
    """The file, in base64."""
    label: str


class ExampleImagesResponse(ResponseModel):
    images: list[ExampleImage]
    """Test images of the run's own data; none if they cannot be read fast."""


class LookResponse(ResponseModel):
    capture: str
    title: str


class SwitchedCandidate(ResponseModel):
    """A token or class, with its probability before and after heads were switched off."""

    token: str
    before: float
    after: float


class SwitchHeadsResponse(ResponseModel):
    target: SwitchedCandidate
    """The token that follows in the text, or the likeliest one."""
    top: list[SwitchedCandidate]
    """The likeliest tokens without the heads."""


class TruncationEvent(ResponseModel):
    """The text is too long: the model reads only its beginning."""

    read: int
    """Tokens that the model reads."""
    cut: int
    """Tokens that it does not read."""
    at: int | None
    """The index of the first character that is not read."""


class TextEvent(ResponseModel):
    """The next piece of a text (`token`), or the whole text so far (`draft`)."""

    generation: int
    """The index of the text."""
    text: str


class WordSource(ResponseModel):
    """A span of the input from which a word came, in UTF-16 code units, as JavaScript counts."""

    start: int
    end: int
    weight: float


class GeneratedWord(ResponseModel):
    text: str
    sources: list[WordSource]
    copied: float | None


class GenerationEvent(ResponseModel):
    """A generated text that is complete."""

    generation: int
    """The index of the text."""
    text: str
    log_probability: float
    finished: bool
    words: list[GeneratedWord]


class DoneEvent(ResponseModel):
    pass


# Claims, benches, jobs


class ReportResponse(ResponseModel):
    """A result file: an audit, or a report as `attnlab bench --json` writes it."""

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
    """The id of the job."""


class JobResult(ResponseModel):
    file: str | None = None
    """The name of the measured report."""


class JobResponse(ResponseModel):
    """A job, also the event `job`."""

    id: str
    kind: str
    run: str
    """The run that it works on, or an empty text."""
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    message: str
    result: JobResult | None = None


class JobsResponse(ResponseModel):
    jobs: list[JobResponse]


Events = dict[str, type[ResponseModel]]
RUN_EVENTS: Events = {"runs": RunsEvent, "metrics": MetricsResponse}
JOB_EVENTS: Events = {"job": JobResponse}
WRITE_EVENTS: Events = {
    "cut": TruncationEvent,
    "token": TextEvent,
    "draft": TextEvent,
    "generation": GenerationEvent,
    "error": ErrorResponse,
    "done": DoneEvent,
}
EVENTS: Events = {**RUN_EVENTS, **JOB_EVENTS, **WRITE_EVENTS}
