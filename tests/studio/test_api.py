"""The API against its own description: whatever is sent, no answer is an accident."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.pictures import png
from attnlab.studio import hub, limits
from attnlab.studio.app import ENDPOINTS
from attnlab.studio.endpoint import Endpoint
from attnlab.studio.hub import Hub
from attnlab.studio.jobs import Job, Jobs
from attnlab.studio.openapi import REASONS, openapi
from attnlab.studio.schema import (
    Choice,
    Either,
    Flag,
    Many,
    Real,
    Refused,
    Text,
    Whole,
    read,
    read_query,
    schema_of,
)
from attnlab.studio.streams import KEEP_ALIVE
from tests.support import summary_runs as summaries
from tests.support import vision_runs
from tests.support.image_files import pixels
from tests.support.studio_servers import Threaded, asked, make_run, rows, threaded

SETTINGS = settings(max_examples=20, suppress_health_check=list(HealthCheck))
FITTING = {"/api/write": "summary", "/api/see": "vit", "/api/look/image": "vit"}
"""A run that can do it, where another than the one that answers questions is needed."""


async def until_silence(self: Hub, places: dict[str, str]) -> AsyncIterator[bytes]:
    """Events of a folder in which nothing changes have an end."""
    async with aclosing(FOLLOW(self, places)) as events:  # type: ignore[type-var]
        async for chunk in events:
            if chunk == KEEP_ALIVE:
                return
            yield chunk


async def at_once(_: Jobs, job: Job) -> None:
    """What it does takes minutes and has tests of its own."""
    job.update(state="done", result=job.finish({"name": "none.json"}))


FOLLOW = Hub.follow


@pytest.fixture(scope="module")
def server(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    folder = tmp_path_factory.mktemp("studio") / "runs"
    make_run(folder / "plain", rows(1, 2, 3))
    for name in ("learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(summaries.trained(), folder / "summary")
    vision_runs.trained(folder, "vit")
    (folder / "learned" / "audit.json").write_text('{"accuracy": 1}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(hub, "ALIVE", 0.05)
        patch.setattr(Hub, "follow", until_silence)
        patch.setattr(Jobs, "_work", at_once)
        with threaded(folder) as found:
            yield found


@pytest.fixture(scope="module")
def job(server: Threaded) -> str:
    """One that there is."""
    headers = {**server.headers, "content-type": "application/json"}
    body = json.dumps({"part": "error"})
    with asked(server.keys.port, "POST", "/api/bench", headers, body) as answer:
        return str(json.loads(answer.read())["job"])


def described(job: str) -> dict[str, Any]:
    """With names that there are and one that is not: a free text is hardly ever one of them."""
    found: dict[str, Any] = json.loads(json.dumps(openapi(ENDPOINTS)))
    del found["security"], found["components"]  # the cookie: test_studio_guard.py tries without it
    for place, path in found["paths"].items():
        runs = {"enum": [FITTING.get(place, "learned"), "language", "nobody"]}
        followed = {"enum": ["plain:0", "learned:2", "nobody:0", "plain"]}
        claims = {"enum": ["copy", "beta-hard", "nobody"]}
        for operation in path.values():
            for each in operation["parameters"]:
                schema, name = each["schema"], each["name"]
                if name == "run" and schema["type"] == "array":
                    schema["items"] = followed if place == "/api/events" else runs
                elif name.endswith("run"):
                    each["schema"] = runs
                elif name == "id" and place.startswith("/api/jobs"):
                    each["schema"] = {"enum": [job, "nobody"]}
            content = operation.get("requestBody", {}).get("content", {})
            properties = content.get("application/json", {}).get("schema", {}).get("properties", {})
            properties |= {name: runs for name in ("run", "subject") if name in properties}
            if "pairs" in properties:
                properties["pairs"] = {"enum": ["Who?\tMe", "Who?", None]}
            if "ids" in properties:
                properties["ids"]["items"] = claims
    return found


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_no_request_is_an_accident(
    endpoint: Endpoint, wrong: bool, server: Threaded, job: str
) -> None:
    """Right or wrong by the description: the answer is one that the description names."""
    schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    checks, more, generation = (
        import_module(f"schemathesis.{name}")
        for name in ("checks", "specs.openapi.checks", "generation")
    )
    if wrong and endpoint.named is endpoint.query is endpoint.body is None:
        pytest.skip("it takes nothing, so nothing can be wrong")
    wanted: list[Any] = [
        checks.not_a_server_error,
        more.status_code_conformance,
        more.content_type_conformance,
        more.response_schema_conformance,
        *([more.negative_data_rejection] if wrong else []),
    ]
    image = st.just(png(pixels(2, 1, 6)[1])) | st.binary(min_size=1, max_size=50)
    schemathesis.openapi.media_type("application/octet-stream", image)
    schema = schemathesis.openapi.from_dict(described(job))
    operation = schema[endpoint.path][endpoint.method]
    mode = generation.GenerationMode("negative" if wrong else "positive")

    found = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @SETTINGS
    def ask(case: Any) -> None:
        answer = case.call(base_url=server.origin, headers=server.headers, timeout=300)
        case.validate_response(answer, checks=wanted)
        found.add(answer.status_code)

    ask()
    assert server.json("/api/runs")["runs"]
    if wrong:
        return
    if endpoint.body is not None and 422 in endpoint.statuses:
        assert found & {200, 422}  # a model was asked: not all ended before
    elif "captures" not in endpoint.path:  # of these nobody knows a name
        assert endpoint.status in found


def test_the_description_names_every_endpoint(server: Threaded) -> None:
    found = server.json("/api/openapi.json")
    assert found["openapi"] == "3.1.0"
    assert found == openapi(ENDPOINTS)
    for each in ENDPOINTS:
        operation = found["paths"][each.path][each.method.lower()]
        for status in each.statuses:
            assert operation["responses"][str(status)]["description"] == REASONS[status]
    names = [op["operationId"] for path in found["paths"].values() for op in path.values()]
    assert len(set(names)) == len(names) == len(ENDPOINTS)


def test_the_page_about_the_studio_names_every_status_and_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "studio.md").read_text(encoding="utf-8")
    told = page.split("## For programs")[1].split("```")[0]
    wanted = {*REASONS, 405}  # a method that there is not has no endpoint to describe it
    assert {int(number) for number in re.findall(r"\b[45]\d\d\b", told)} == wanted
    refused = " ".join(page.split("- A body is refused")[1].split("\n- ")[0].split())
    assert f"{limits.JSON_BYTES // 2**20} MiB; images {limits.IMAGE_BYTES // 2**20} MiB" in refused
    assert f"more than {limits.TEXT:,} characters" in refused
    assert f"at most {limits.ROWS:,} rows" in refused


# The declarations


@dataclass(frozen=True)
class Inner:
    model: Annotated[str, Text(5)]


@dataclass(frozen=True)
class Everything:
    text: Annotated[str, Text(5, least=2)]
    several: Annotated[tuple[int, ...], Many(Whole(-3, 3), 1, 2)]
    number: Annotated[float, Real(0, 1, above=True)] = 0.5
    flag: Annotated[bool, Flag()] = False
    choice: Annotated[str, Choice(("a", "b"))] = "a"
    either: Annotated[str | Inner | None, Either(Text(3), Inner)] = None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=7),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=4,
)
NAMES = st.sampled_from(["text", "several", "number", "flag", "choice", "either", "more"])
NEARLY = st.fixed_dictionaries(
    {
        "text": st.text(max_size=6) | VALUES,
        "several": st.lists(st.integers(-4, 4) | VALUES, max_size=3),
    },
    optional={
        "number": st.floats(0, 1.2) | VALUES,
        "flag": st.booleans() | VALUES,
        "choice": st.sampled_from("abc") | VALUES,
        "either": st.text(max_size=4) | st.fixed_dictionaries({"model": st.text(max_size=6)}),
    },
)


@settings(max_examples=150)
@given(NEARLY | st.dictionaries(NAMES, VALUES))
def test_a_request_is_taken_just_when_its_schema_takes_it(body: dict[str, Any]) -> None:
    """By another implementation of JSON Schema."""
    jsonschema: Any = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    text = json.dumps(body)
    half = any(0xD800 <= ord(c) < 0xE000 for c in json.dumps(body, ensure_ascii=False))
    if half or "NaN" in text or "Infinity" in text:
        return  # no JSON, or no text
    validator = jsonschema.Draft202012Validator(schema_of(Everything))
    refused = refusal_of(lambda: read(Everything, json.loads(text)))
    assert validator.is_valid(json.loads(text)) == (refused is None), refused
    assert refused is None or (refused.status == 400 and "\n" not in refused.sentence)


def refusal_of(act: Callable[[], Any]) -> Refused | None:
    try:
        act()
    except Refused as refused:
        return refused
    return None


def test_requests_become_what_they_declare() -> None:
    found = read(Everything, {"text": "abc", "several": [1, 2.0], "either": {"model": "m"}})
    assert found == Everything("abc", (1, 2), either=Inner("m"))
    assert read(Everything, {"text": "abc", "several": [1], "either": None}).either is None
    query = [("text", "abc"), ("several", "1"), ("several", "-2"), ("flag", "true")]
    query += [("number", "0.25")]
    assert read_query(Everything, query) == Everything("abc", (1, -2), 0.25, True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ([("text", "abc")], "several: 0 given"),
        ([("text", "abc"), ("text", "abd"), ("several", "1")], "given 2 times"),
        ([("several", "1")], "text: is missing"),
        ([("text", "abc"), ("several", "1.5")], "whole number"),
        ([("text", "abc"), ("several", "9" * 5000)], "whole number"),
        ([("text", "abc"), ("several", "1"), ("flag", "yes")], "true or false"),
        ([("text", "abc"), ("several", "1"), ("number", "nan")], "is nan"),
        ([("text", "abc"), ("several", "1"), ("number", "x")], "give a number"),
        ([("text", "abc"), ("several", "1"), ("choice", "c")], "there are a, b"),
        ([("text", "abc"), ("several", "1"), ("x", "")], "'x' is not known"),
    ],
)
def test_a_wrong_address_is_told(query: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(Refused) as told:
        read_query(Everything, query)
    assert words in told.value.sentence


@given(st.integers())
def test_numbers_of_any_size_are_told(number: int) -> None:
    refused = refusal_of(lambda: Whole(0, 3).check(number, "n"))
    assert (refused is None) == (0 <= number <= 3)
    assert refused is None or len(refused.sentence) < 80


def test_a_number_that_is_too_long_to_tell() -> None:
    with pytest.raises(Refused, match="too large"):
        Whole(0, 3).check(10**400, "n")
