"""The API against its own description: whatever is sent, no answer is an accident."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.testclient import TestClient

from attnlab._image_files import png
from attnlab.studio import _change_events as hub
from attnlab.studio import _request_limits as limits
from attnlab.studio._app import api
from attnlab.studio._change_events import Hub
from attnlab.studio._event_stream import KEEP_ALIVE
from attnlab.studio._http_errors import REASONS
from attnlab.studio._jobs import Job, Jobs
from attnlab.studio._requests import LookRequest, RequestModel, WriteRequest
from attnlab.studio._responses import EVENTS
from attnlab.studio._validation_errors import sentence_of
from tests.support import summary_runs as summaries
from tests.support import vision_runs
from tests.support.image_files import pixels
from tests.support.studio_servers import Threaded, asked, make_run, rows, studio, threaded
from tests.support.studio_traps import error_of

WEB = Path(__file__).parents[2] / "web"
DESCRIPTION = json.loads(json.dumps(api().openapi()))
OPERATIONS = [
    (method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods
]
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


def operation_of(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = DESCRIPTION["paths"][path][method.lower()]
    return found


def events_described(operation: dict[str, Any]) -> list[dict[str, Any]]:
    content = operation["responses"].get("200", {}).get("content", {})
    schema: dict[str, Any] = content.get("text/event-stream", {}).get("schema", {})
    return list(schema.get("oneOf", []))


def described(job: str) -> dict[str, Any]:
    """With names that there are and one that is not: a free text is hardly ever one of them."""
    found: dict[str, Any] = copy.deepcopy(DESCRIPTION)
    del found["security"]  # the cookie: test_guard.py tries without it
    del found["components"]["securitySchemes"]
    for place, path in found["paths"].items():
        runs = {"enum": [FITTING.get(place, "learned"), "language", "nobody"]}
        followed = {"enum": ["plain:0", "learned:2", "nobody:0", "plain"]}
        claims = {"enum": ["copy", "beta-hard", "nobody"]}
        for operation in path.values():
            for each in operation.get("parameters", []):
                schema, name = each["schema"], each["name"]
                if name == "run" and schema.get("type") == "array":
                    schema["items"] = followed if place == "/api/events" else runs
                elif name.endswith("run"):
                    each["schema"] = runs
                elif name == "id" and place.startswith("/api/jobs"):
                    each["schema"] = {"enum": [job, "nobody"]}
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            schema = found["components"]["schemas"].get(schema.get("$ref", "").split("/")[-1], {})
            properties = schema.get("properties", {})
            properties |= {name: runs for name in ("run", "subject") if name in properties}
            if "pairs" in properties:
                properties["pairs"] = {"enum": ["Who?\tMe", "Who?", None]}
            if "ids" in properties:
                properties["ids"]["items"] = claims
    return found


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_is_an_accident(
    method: str, path: str, wrong: bool, server: Threaded, job: str
) -> None:
    """Right or wrong by the description: the answer is one that the description names."""
    schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    checks, more, generation = (
        import_module(f"schemathesis.{name}")
        for name in ("checks", "specs.openapi.checks", "generation")
    )
    declared = operation_of(method, path)
    if wrong and not {"parameters", "requestBody"} & declared.keys():
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
    operation = schema[path][method]
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
    if "requestBody" in declared and "422" in declared["responses"]:
        assert found & {200, 422}  # a model was asked: not all ended before
    elif "captures" not in path:  # of these nobody knows a name
        assert found & {200, 202}


def test_the_description_names_every_endpoint(server: Threaded) -> None:
    found = server.json("/api/openapi.json")
    assert found["openapi"] == "3.1.0"
    assert found == DESCRIPTION
    error = {"$ref": "#/components/schemas/ErrorResponse"}
    for method, path in OPERATIONS:
        operation = operation_of(method, path)
        refused = {code: each for code, each in operation["responses"].items() if code >= "400"}
        assert refused.keys() >= {"400", "403"}
        assert ("requestBody" in operation) == ({"408", "413", "415"} <= refused.keys())
        for code, each in refused.items():
            assert each["description"] == REASONS[int(code)]
            assert each["content"] == {"application/json": {"schema": error}}
    names = [operation_of(*each)["operationId"] for each in OPERATIONS]
    assert len(set(names)) == len(names)
    assert "/api/jobs/{id}/events" in found["paths"]
    described = {
        event["properties"]["event"]["const"]
        for each in OPERATIONS
        for event in events_described(operation_of(*each))
    }
    assert described == set(EVENTS)


def test_no_page_of_documentation_loads_from_elsewhere(server: Threaded) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/openapi.json"):
        with asked(server.keys.port, "GET", path, server.headers) as answer:
            assert answer.status == 404


def test_the_types_of_the_pages_are_those_of_the_description(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (WEB / "node_modules" / "json-schema-to-typescript").is_dir():
        pytest.skip("needs Node and web/node_modules; .ci/run compares them too")
    made = tmp_path / "api-types.ts"
    command = [node, "api-types.mjs", str(made)]
    subprocess.run(command, cwd=WEB, input=json.dumps(DESCRIPTION).encode(), check=True)
    kept = WEB / "src" / "studio" / "api-types.ts"
    assert made.read_text() == kept.read_text(), "run make web and commit"


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

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=7),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=4,
)
WRITE = st.fixed_dictionaries(
    {"run": st.text(max_size=6) | VALUES, "text": st.text(max_size=9)},
    optional={
        "count": st.integers(-2, 10) | VALUES,
        "top_p": st.floats(0, 1.2) | VALUES,
        "seed": st.floats(0, 1e9).map(round).map(float) | VALUES,
        "more": VALUES,
    },
)
LOOK = st.fixed_dictionaries(
    {
        "subject": st.text(max_size=4) | st.fixed_dictionaries({"model": st.text(max_size=6)}),
        "text": st.text(max_size=9),
    },
    optional={
        "compare": VALUES | st.fixed_dictionaries({"model": VALUES, "more": VALUES}),
        "neurons": st.booleans() | VALUES,
    },
)


@settings(max_examples=150)
@given(WRITE.map(lambda b: (WriteRequest, b)) | LOOK.map(lambda b: (LookRequest, b)))
def test_a_request_is_taken_just_when_its_schema_takes_it(
    asked: tuple[type[RequestModel], dict[str, Any]],
) -> None:
    """By another implementation of JSON Schema; what is wrong is one short sentence."""
    jsonschema: Any = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    model, body = asked
    text = json.dumps(body)
    half = any(0xD800 <= ord(c) < 0xE000 for c in json.dumps(body, ensure_ascii=False))
    if half or "NaN" in text or "Infinity" in text:
        return  # no JSON, or no text
    validator = jsonschema.Draft202012Validator(model.model_json_schema())
    try:
        model.model_validate(json.loads(text))
        wrong = ""
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        wrong = sentence_of(errors, model.model_fields)
        assert "\n" not in wrong
        assert len(wrong) < 200
    assert validator.is_valid(json.loads(text)) == (not wrong), wrong


def refused(client: TestClient, path: str, body: Any = None) -> str:
    answer = client.get(path) if body is None else client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return error_of(answer)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("run", "run: is missing; give ?run="),
        ("run?run=", "run: is empty; give a text"),
        ("run?run=a&run=b", "run: is given 2 times; give it once"),
        ("run?run=a&x=1", "the address: 'x' is not known (there are: run)"),
        ("runs?x=1", "the address: nothing may stand behind the question mark here"),
        ("diff", "run: is missing; give ?run="),
        ("diff?" + "&".join(["run=a"] * 33), "run: has 33 items; give at most 32"),
        ("metrics?run=a&after=-1", "after: is '-1'; give a text that matches ^"),
        ("jobs/a%20b", "id: is 'a b'; give a text that matches ^[A-Za-z0-9_-]+$"),
        ("bench?file=" + "x" * 1025, "file: has 1025 characters; 1024 are the most"),
    ],
)
def test_a_wrong_address_is_told(tmp_path: Path, path: str, sentence: str) -> None:
    with studio(tmp_path) as client:
        assert refused(client, f"/api/{path}").startswith(sentence)


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("ask", {"questions": ["a"] * 60}, "questions: has 60 items; give at most 50"),
        ("ask", {"questions": ["a", None]}, "questions, item 2: is null; give a text"),
        ("write", {"count": 9}, "count: is 9; give at most 8"),
        ("write", {"count": 1.5}, "count: is 1.5; give a whole number"),
        ("write", {"count": True}, "count: is true; give a whole number"),
        ("write", {"seed": 10**400}, "seed: is too large; give at most 9007199254740991"),
        ("write", {"top_p": 0}, "top_p: is 0; give more than 0"),
        ("write", {"temperature": "hot"}, "temperature: is 'hot'; give a number"),
        ("write", {"text": {}}, "text: is an object; give a text"),
        ("look", {"subject": 7}, "subject: is 7; give a text"),
        ("look", {"subject": {"model": []}}, "subject.model: is a list; give a text"),
        ("look", {"subject": {}}, "subject: has no model; give one"),
        ("look", {"subject": {"run": "a"}}, "subject: 'run' is not known"),
        ("look", {"neurons": "no"}, "neurons: is 'no'; give true or false"),
        ("bench", {"part": "all"}, "part: is 'all'; give 'error', 'speed', 'memory' or 'decode'"),
    ],
)
def test_a_wrong_body_is_told(tmp_path: Path, path: str, body: Any, sentence: str) -> None:
    right: Any = {
        "ask": {"run": "a", "questions": ["b"]},
        "write": {"run": "a", "text": "b"},
        "look": {"subject": "a", "text": "b"},
        "bench": {},
    }
    with studio(tmp_path) as client:
        assert refused(client, f"/api/{path}", {**right[path], **body}) == sentence


def test_a_flag_in_the_address_is_true_or_false(tmp_path: Path) -> None:
    with studio(tmp_path) as client:
        for flag, words in (("yes", "give true or false"), ("true", "has no run and no model")):
            answer = client.post(f"/api/look/image?neurons={flag}", content=b"x")
            assert answer.status_code == 400
            assert words in error_of(answer)
