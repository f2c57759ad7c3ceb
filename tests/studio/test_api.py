"""The OpenAPI description of the API, and its messages about wrong requests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.testclient import TestClient

from attnlab.studio import _request_limits as limits
from attnlab.studio._api_runs import parse_followed_run
from attnlab.studio._app import create_api
from attnlab.studio._http_errors import STATUS_DESCRIPTIONS, RequestError
from attnlab.studio._requests import EventsQuery, LookRequest, RequestModel, WriteRequest
from attnlab.studio._responses import EVENTS
from attnlab.studio._validation_errors import describe_validation_error
from tests.support.examples import examples
from tests.support.studio_secret_files import error_message
from tests.support.studio_servers import (
    StudioThread,
    send_request,
    start_studio_thread,
    studio_client,
)

WEB = Path(__file__).parents[2] / "web"
DESCRIPTION = json.loads(json.dumps(create_api().openapi()))
OPERATIONS = [
    (method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioThread]:
    with start_studio_thread(tmp_path_factory.mktemp("studio")) as started:
        yield started


def get_operation(method: str, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = DESCRIPTION["paths"][path][method.lower()]
    return operation


def declared_events(operation: dict[str, Any]) -> list[dict[str, Any]]:
    content = operation["responses"].get("200", {}).get("content", {})
    schema: dict[str, Any] = content.get("text/event-stream", {}).get("schema", {})
    return list(schema.get("oneOf", []))


def test_the_openapi_file_describes_every_endpoint(server: StudioThread) -> None:
    description = server.json("/api/openapi.json")
    assert description["openapi"] == "3.1.0"
    assert description == json.loads(json.dumps(create_api(server.keys.port).openapi()))
    assert description["servers"] == [{"url": server.origin}]
    error = {"$ref": "#/components/schemas/ErrorResponse"}
    for method, path in OPERATIONS:
        operation = get_operation(method, path)
        errors = {code: each for code, each in operation["responses"].items() if code >= "400"}
        assert errors.keys() >= {"400", "403"}
        assert ("requestBody" in operation) == ({"408", "413", "415"} <= errors.keys())
        parameters = {each["name"]: each for each in operation.get("parameters", ())}
        assert ("Origin" in parameters) == (method != "GET")
        for code, each in errors.items():
            assert each["description"] == STATUS_DESCRIPTIONS[int(code)]
            assert each["content"] == {"application/json": {"schema": error}}
    names = [get_operation(*each)["operationId"] for each in OPERATIONS]
    assert len(set(names)) == len(names)
    assert "/api/jobs/{id}/events" in description["paths"]
    event_names = {
        event["properties"]["event"]["const"]
        for each in OPERATIONS
        for event in declared_events(get_operation(*each))
    }
    assert event_names == set(EVENTS)


def test_fastapi_documentation_pages_are_disabled(server: StudioThread) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/openapi.json"):
        with send_request(server.keys.port, "GET", path, server.headers) as response:
            assert response.status == 404


def test_the_typescript_types_are_up_to_date(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (WEB / "node_modules" / "json-schema-to-typescript").is_dir():
        pytest.skip("needs Node and web/node_modules; .ci/run compares them too")
    schemas = subprocess.run(
        [sys.executable, "schemas.py"], cwd=WEB, stdout=subprocess.PIPE, check=True
    )
    for folder in ("studio", "report"):
        (tmp_path / folder).mkdir()
    command = [node, "generate-types.mjs", str(tmp_path)]
    subprocess.run(command, cwd=WEB, input=schemas.stdout, check=True)
    for file in ("studio/api-types.ts", "report/report-types.ts"):
        generated, committed = (tmp_path / file).read_text(), (WEB / "src" / file).read_text()
        assert generated == committed, "run make web and commit"


def test_the_documentation_names_every_status_and_limit() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/studio-api.md").read_text(encoding="utf-8")
    section = page.split("## For programs")[1].split("```")[0]
    expected = {*STATUS_DESCRIPTIONS, 405}  # an unknown method has no endpoint that declares it
    assert {int(number) for number in re.findall(r"\b[45]\d\d\b", section)} == expected
    limits_text = " ".join(page.split("- Bodies over")[1].split("\n- ")[0].split())
    assert (
        f"{limits.JSON_BYTES // 2**20} MiB (images {limits.IMAGE_BYTES // 2**20} MiB" in limits_text
    )
    assert f"over {limits.TEXT_CHARACTERS:,} characters" in limits_text
    assert f"at most {limits.METRIC_ROWS:,} rows" in limits_text
    slow_text = " ".join(page.split("- Headers must arrive")[1].split("\n- ")[0].split())
    seconds = [int(number) for number in re.findall(r"(?:within|body within) (\d+)", slow_text)]
    assert seconds == [limits.HEADER_SECONDS, limits.BODY_SECONDS, limits.WRITE_SECONDS]
    assert f"{limits.CONNECTIONS:,} connections and {limits.EVENT_STREAMS} event" in slow_text


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
        "target": st.text(max_size=4) | st.text(max_size=4).map(lambda name: f"model:{name}"),
        "text": st.text(max_size=9),
    },
    optional={
        "compare": VALUES
        | st.sampled_from(["untrained", "run:", "run:a", "run:\n", "model:b"])
        | st.fixed_dictionaries({"text": VALUES}, optional={"more": VALUES}),
        "neurons": st.booleans() | VALUES,
    },
)


@examples(150)
@given(WRITE.map(lambda b: (WriteRequest, b)) | LOOK.map(lambda b: (LookRequest, b)))
def test_request_models_agree_with_their_schemas(
    case: tuple[type[RequestModel], dict[str, Any]],
) -> None:
    """Compares with another implementation of JSON Schema. The message is one short sentence."""
    jsonschema: Any = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    model, body = case
    text = json.dumps(body)
    half = any(0xD800 <= ord(c) < 0xE000 for c in json.dumps(body, ensure_ascii=False))
    if half or "NaN" in text or "Infinity" in text:
        return  # not JSON, or not a text
    validator = jsonschema.Draft202012Validator(model.model_json_schema())
    try:
        model.model_validate(json.loads(text))
        message = ""
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        message = describe_validation_error(errors, model.model_fields)
        assert "\n" not in message
        assert len(message) < 200
    assert validator.is_valid(json.loads(text)) == (not message), message


@given(
    st.lists(st.text("ab./\n\0-", max_size=5), min_size=1, max_size=7).map("/".join),
    st.sampled_from([":0", ":12-0123abcd", ":", "", ":-1", ":0-x"]) | st.text(max_size=3),
)
def test_the_pattern_of_a_followed_run_agrees_with_its_check(run: str, mark: str) -> None:
    (field,) = EventsQuery.model_json_schema()["properties"].values()
    try:
        parse_followed_run(run + mark)
        valid = True
    except RequestError:
        valid = False
    matches = re.search(field["items"]["pattern"].replace("$", r"\Z"), run + mark) is not None
    assert matches == valid


def error_of_get_or_post(client: TestClient, path: str, body: Any = None) -> str:
    response = client.get(path) if body is None else client.post(path, json=body)
    assert response.status_code == 400, response.text
    return error_message(response)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("run", "run: is missing; give ?run="),
        ("run?run=", "run: is empty; give a text"),
        ("run?run=a&run=b", "run: is given 2 times; give it once"),
        ("run?run=a&x=1", "the address: unknown field 'x' (known: run)"),
        ("runs?x=1", "the address: this endpoint takes no parameters; remove the text after the ?"),
        ("diff", "run: is missing; give ?run="),
        ("diff?" + "&".join(["run=a"] * 33), "run: has 33 items; give at most 32"),
        ("metrics?run=a&after=-1", "after: is '-1'; give a text that matches ^"),
        ("jobs/a%20b", "id: is 'a b'; give a text that matches ^[A-Za-z0-9_-]+$"),
        ("bench?file=" + "x" * 1025, "file: has 1025 characters; give at most 1024"),
    ],
)
def test_a_wrong_address_is_reported(tmp_path: Path, path: str, sentence: str) -> None:
    with studio_client(tmp_path) as client:
        assert error_of_get_or_post(client, f"/api/{path}").startswith(sentence)


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
        ("look", {"target": 7}, "target: is 7; give a text"),
        ("look", {"compare": 7}, "compare: is 7; give a text"),
        ("look", {"compare": {"text": []}}, "compare.text: is a list; give a text"),
        ("look", {"compare": {}}, "compare: has no text; give one"),
        ("look", {"compare": {"run": "a"}}, "compare: unknown field 'run'"),
        ("look", {"neurons": "no"}, "neurons: is 'no'; give true or false"),
        ("bench", {"part": "all"}, "part: is 'all'; give 'error', 'speed', 'memory' or 'decode'"),
    ],
)
def test_a_wrong_body_is_reported(tmp_path: Path, path: str, body: Any, sentence: str) -> None:
    right: Any = {
        "ask": {"run": "a", "questions": ["b"]},
        "write": {"run": "a", "text": "b"},
        "look": {"target": "run:a", "text": "b"},
        "bench": {},
    }
    with studio_client(tmp_path) as client:
        assert error_of_get_or_post(client, f"/api/{path}", {**right[path], **body}) == sentence


def test_a_flag_in_the_address_is_true_or_false(tmp_path: Path) -> None:
    with studio_client(tmp_path) as client:
        for flag, status, words in (("yes", 400, "give true or false"), ("true", 404, "no run a")):
            response = client.post(f"/api/look/image?target=run:a&neurons={flag}", content=b"x")
            assert response.status_code == status
            assert words in error_message(response)
