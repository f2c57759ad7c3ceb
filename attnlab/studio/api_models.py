"""What models do: answer, write, see, and show what they attend to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

from attnlab.files import read_json
from attnlab.studio import limits
from attnlab.studio.api_runs import RUN, OneRun
from attnlab.studio.endpoint import Endpoint, Image
from attnlab.studio.places import shown
from attnlab.studio.runs import audit_file, strict
from attnlab.studio.schema import Either, Flag, Many, Real, Refused, Text, Whole
from attnlab.studio.shapes import ANY, FLAG, NUMBER, OBJECT, TEXT, WHOLE, many, maybe, record
from attnlab.studio.streams import EVENTS, event

if TYPE_CHECKING:
    from attnlab.studio.app import Studio

MODEL_REFUSALS = (404, 409, 422, 429, 500)
CAPTURE = "application/octet-stream"


@dataclass(frozen=True)
class Ask:
    run: Annotated[str, RUN]
    questions: Annotated[tuple[str, ...], Many(Text(limits.QUESTION), 1, limits.QUESTIONS)]


@dataclass(frozen=True)
class Write:
    run: Annotated[str, RUN]
    text: Annotated[str, Text(limits.TEXT, about="to summarise, or to go on from")]
    count: Annotated[int, Whole(1, limits.SUMMARIES, "different ones")] = 1
    temperature: Annotated[float, Real(0, 100, about="0: the likeliest token")] = 0.0
    top_k: Annotated[int | None, Whole(1, 10**6, "draw among the k likeliest")] = None
    top_p: Annotated[float | None, Real(0, 1, True, "draw among the likeliest that have p")] = None
    beams: Annotated[int | None, Whole(1, limits.BEAMS, "search with so many")] = None
    seed: Annotated[int, Whole(0, 2**53 - 1)] = 0
    block: Annotated[int | None, Whole(0, 50, "no n tokens in a row twice; 0: any")] = None


GIVEN = Text(limits.NAME, about="the id of a model given at start")


@dataclass(frozen=True)
class ModelNamed:
    model: Annotated[str, GIVEN]


SUBJECT = Either(RUN, ModelNamed)
UNTRAINED = Flag("compare with the same model, not trained")
NEURONS = Flag("queries, keys and values too")


@dataclass(frozen=True)
class Look:
    subject: Annotated[str | ModelNamed, SUBJECT]
    text: Annotated[str, Text(limits.TEXT)]
    second: Annotated[str | None, Text(limits.TEXT, about="a second text")] = None
    generate: Annotated[int, Whole(0, limits.TOKENS, "tokens to write on first")] = 0
    compare: Annotated[str | ModelNamed | None, SUBJECT] = None
    compare_text: Annotated[str | None, Text(limits.TEXT, about="read by the same model")] = None
    untrained: Annotated[bool, UNTRAINED] = False
    neurons: Annotated[bool, NEURONS] = True


@dataclass(frozen=True)
class LookAtImage:
    """The image is the body, so that the rest stands in the address."""

    run: Annotated[str | None, RUN] = None
    model: Annotated[str | None, GIVEN] = None
    compare_run: Annotated[str | None, RUN] = None
    compare_model: Annotated[str | None, GIVEN] = None
    untrained: Annotated[bool, UNTRAINED] = False
    neurons: Annotated[bool, NEURONS] = True


@dataclass(frozen=True)
class CaptureNamed:
    id: Annotated[str, Text(64, about="of a capture", pattern="[A-Za-z0-9_-]+")]


def folder_of(studio: Studio, subject: str | ModelNamed) -> str:
    if isinstance(subject, ModelNamed):
        return str(studio.places.model(subject.model))
    return str(studio.places.run_to_open(subject))


async def ask(studio: Studio, asked: Ask) -> Any:
    folder = folder_of(studio, asked.run)
    given = {"folder": folder, "questions": list(asked.questions)}
    return (await studio.pool.ask("ask", given, key=f"ask {folder}"))[0]


async def write(studio: Studio, asked: Write) -> Response:
    source = written(studio, asked, folder_of(studio, asked.run))
    first = await anext(source)  # what is wrong with the request is told before a stream begins

    async def chain() -> AsyncIterator[bytes]:
        try:
            yield first
            async for chunk in source:
                yield chunk
        finally:
            await source.aclose()

    try:
        return studio.streams.answer(chain())
    except Refused:
        await source.aclose()
        raise


async def written(studio: Studio, asked: Write, folder: str) -> Any:
    """Events; only what goes wrong before the first is raised."""
    given = {name: getattr(asked, name) for name in asked.__dataclass_fields__ if name != "run"}
    given |= {"folder": folder, "tokens": limits.TOKENS}
    can = (await studio.hub.entry(asked.run))["can"]
    call = "generate" if "generate" in can else "write"
    begun = False
    try:
        async with studio.pool.call(call, given, key=f"{call} {folder}") as frames:
            async for message, _ in frames:
                begun = True
                if "done" in message:
                    yield event("done", {})
                else:
                    yield event(message["tell"], message["data"])
    except Refused as refused:
        if not begun:
            raise
        yield event("error", {"error": refused.sentence})


async def see(studio: Studio, asked: OneRun, image: Image) -> Any:
    folder = folder_of(studio, asked.run)
    key = f"classify {folder}"
    can = (await studio.hub.entry(asked.run))["can"]
    given = {"folder": folder, "look": "look" in can}
    told, content = await studio.pool.ask("classify", given, image.content, key=key)
    return {**told, "capture": studio.captures.add(content) if content else None}


async def look(studio: Studio, asked: Look) -> Any:
    if (asked.compare is not None) + asked.untrained + (asked.compare_text is not None) > 1:
        raise Refused(400, "compare, compare_text and untrained; give one of them")
    names = ("text", "second", "generate", "compare_text", "untrained", "neurons")
    given = {name: getattr(asked, name) for name in names}
    return await looked(studio, asked.subject, asked.compare, given)


async def look_at_image(studio: Studio, asked: LookAtImage, image: Image) -> Any:
    subject = one_of(asked.run, asked.model)
    compare = one_of(asked.compare_run, asked.compare_model)
    if subject is None:
        raise Refused(400, "the address: has no run and no model; give one of them")
    if compare is not None and asked.untrained:
        raise Refused(400, "compare_run or compare_model, and untrained; give one of them")
    given = {"untrained": asked.untrained, "neurons": asked.neurons}
    return await looked(studio, subject, compare, given, image.content)


def one_of(run: str | None, model: str | None) -> str | ModelNamed | None:
    if run is not None and model is not None:
        raise Refused(400, "a run and a model; give one of them")
    return run if model is None else ModelNamed(model)


async def looked(
    studio: Studio,
    subject: str | ModelNamed,
    compare: str | ModelNamed | None,
    given: dict[str, Any],
    image: bytes = b"",
) -> Any:
    folder = folder_of(studio, subject)
    other = None if compare is None else folder_of(studio, compare)
    whole = {**given, "folder": folder, "compare": other}
    told, content = await studio.pool.ask("look", whole, image, key=f"look {folder}")
    return {**told, "capture": studio.captures.add(content)}


async def capture(studio: Studio, asked: CaptureNamed) -> Response:
    return Response(studio.captures.get(asked.id), media_type=CAPTURE)


async def audit(studio: Studio, asked: OneRun) -> Any:
    folder, task = studio.places.run(asked.run), (await studio.hub.entry(asked.run))["task"]
    name = audit_file(task)
    if name is None:
        raise Refused(404, f"{shown(asked.run)}: a run of a task that has no audit.")
    path = folder / name
    if not path.is_file():
        raise Refused(
            404, f"{shown(asked.run)}: has no audit yet; attnlab {task} audit RUN makes one."
        )
    try:
        found = await asyncio.to_thread(read_json, path, limits.REPORT_BYTES)
    except ValueError as error:
        raise Refused(409, f"{shown(asked.run)}: its {name} {error}.") from None
    if not isinstance(found, dict):
        raise Refused(409, f"{shown(asked.run)}: its {name} is no report.")
    return strict(found, depth=32)


ANSWER = record(
    question=TEXT,
    answer=TEXT,
    probability=NUMBER,
    margin=NUMBER,
    verdict={"enum": ["known", "unsure", "guess"]},
    seen=FLAG,
    alternatives=many(record(answer=TEXT, probability=NUMBER)),
    nearest=many(many(ANY)),
    name=maybe(TEXT),
    trained=maybe(FLAG),
    room=WHOLE,
)
ENDPOINTS = [
    Endpoint(
        "POST", "/api/ask", "Ask a run that learned facts.", ask,
        record(
            answers=many(ANSWER),
            threshold=record(known=maybe(NUMBER), guess=NUMBER, fitted_on=TEXT),
        ),
        body=Ask, refusals=MODEL_REFUSALS,
    ),
    Endpoint(
        "GET", "/api/audit", "The audit of a run.", audit, OBJECT,
        query=OneRun, refusals=(404, 409),
    ),
    Endpoint(
        "POST", "/api/write",
        "Summaries or continuations: events `cut`, `token`, `draft`, `summary`, `error`, `done`.",
        write, {}, body=Write, media=EVENTS, refusals=MODEL_REFUSALS,
    ),
    Endpoint(
        "POST", "/api/see", "What an image shows.", see,
        record(
            label=TEXT,
            probabilities=many(record(label=TEXT, probability=NUMBER)),
            capture=maybe(TEXT),
        ),
        query=OneRun, body=Image, refusals=MODEL_REFUSALS,
    ),
    Endpoint(
        "POST", "/api/look", "What a model attends to.", look,
        record(capture=TEXT, title=TEXT), body=Look, refusals=MODEL_REFUSALS,
    ),
    Endpoint(
        "POST", "/api/look/image", "What a model attends to in an image.", look_at_image,
        record(capture=TEXT, title=TEXT), query=LookAtImage, body=Image, refusals=MODEL_REFUSALS,
    ),
    Endpoint(
        "GET", "/api/captures/{id}", "A capture file.", capture, {},
        named=CaptureNamed, media=CAPTURE, refusals=(404,),
    ),
]  # fmt: skip
