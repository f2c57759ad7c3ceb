"""Answers and generated texts of the studio equal those of the command line."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.tasks.knowledge import WorldConfig, make_world
from attnlab.tasks.knowledge import _audit as audit
from attnlab.tasks.knowledge._data import WORLD
from attnlab.tasks.knowledge._studio_requests import NOT_READ, example_questions
from tests.support import summary_runs as summaries
from tests.support.studio_client import generation_events, post
from tests.support.studio_servers import parse_events


def first_example(client: TestClient) -> str:
    examples = client.get("/api/run?run=learned").json()["examples"]
    assert 1 <= len(examples) <= 8
    kinds = [example["kind"] for example in examples]
    assert list(dict.fromkeys(kinds)) == ["trained on", "made up", "off-topic"]
    return str(examples[0]["text"])


def test_examples_of_the_embedded_world_have_right_answers() -> None:
    world = make_world(WorldConfig())
    name = world.train[0][0].removeprefix("Where was ").removesuffix(" born?")
    other = world.train[1][0].removeprefix("Where was ").removesuffix(" born?")
    known = {"names": [name, other], "wordings": [["Where was ", " born?"]]}
    examples = example_questions(lambda _: known, {"corpus": WORLD})
    by_kind: dict[str | None, dict[str | None, str | None]] = {}
    for example in examples:
        by_kind.setdefault(example["kind"], {})[example["text"]] = example["answer"]
    assert by_kind["held out"] == dict(world.held_out[:2])
    assert by_kind["trained on"] == dict(world.train[:2])
    names = {person.name for person in world.people}
    for question in by_kind["made up"]:
        assert str(question)[len("Where was ") : -len(" born?")] not in names
    assert set(by_kind["off-topic"].values()) == {NOT_READ}
    assert example_questions(lambda _: {"names": [3], "wordings": "x"}, {}) == []


# Ask


def test_answers_equal_those_of_the_command(client: TestClient, all_runs: Path) -> None:
    question = first_example(client)
    result = post(client, "ask", run="learned", questions=[question, question])
    (answer, verdict), _ = audit.ask(all_runs / "learned", [question, question])
    first, second = result["answers"]
    assert first == second
    assert (first["question"], first["answer"], first["verdict"]) == (
        question,
        answer.text,
        verdict,
    )
    assert first["probability"] == pytest.approx(answer.confidence)
    assert first["margin"] == pytest.approx(answer.margin)
    assert first["alternatives"][0]["answer"] == answer.other
    probabilities = [each["probability"] for each in first["alternatives"]]
    assert probabilities == sorted(probabilities, reverse=True)
    name, similarity = first["nearest"][0]
    assert name in question
    assert similarity == pytest.approx(1)
    assert (first["name"], first["trained"]) == (name, True)
    assert set(result["threshold"]) == {"known", "guess", "fitted", "fitted_on"}


def test_a_name_outside_the_training_data_is_reported(client: TestClient) -> None:
    """Thresholds may not hold for such a name, however confident the answer is."""
    known = post(client, "ask", run="learned", questions=[first_example(client)])["answers"][0]
    unknown = known["question"].replace(known["name"], "Nobody Atall")
    answers = post(client, "ask", run="learned", questions=[unknown, "nobody?"])["answers"]
    assert (answers[0]["name"], answers[0]["trained"]) == ("Nobody Atall", False)
    assert (answers[1]["name"], answers[1]["trained"]) == (None, None)  # no known question form


def test_a_long_question_leaves_few_tokens_and_can_still_be_inspected(client: TestClient) -> None:
    def is_valid(length: int) -> bool:
        response = client.post("/api/ask", json={"run": "learned", "questions": ["x" * length]})
        return bool(response.status_code == 200)

    longest = bisect_left(range(1, 500), True, key=lambda length: not is_valid(length))
    text = "x" * longest
    (answer,) = post(client, "ask", run="learned", questions=[text])["answers"]
    assert 1 <= answer["remaining_tokens"] <= 3
    post(
        client,
        "look",
        target="run:learned",
        text=text,
        generate=min(32, answer["remaining_tokens"]),
    )


@pytest.mark.parametrize(
    ("run", "question", "status", "words"),
    [
        ("learned", "   ", 422, "question 1 is empty"),
        ("learned", "x" * 500, 422, "tokens"),
        ("pretrained", "who?", 409, "was never trained on questions"),
        ("language", "who?", 409, "does not support 'ask'"),
        ("untrained", "who?", 409, "was never trained"),
        ("nobody", "who?", 404, "There is no run nobody"),
    ],
)
def test_an_invalid_question_is_reported(
    client: TestClient, run: str, question: str, status: int, words: str
) -> None:
    error = post(client, "ask", status, run=run, questions=[question])
    assert words in error["error"]


@pytest.mark.parametrize(
    "text", ["\0", "<script>", "\u202e", "\U0001f600", "a\nb\r\n\r\nevent: x", "⁇", "\x7f\x1b[31m"]
)
def test_hostile_tokens_are_only_text(client: TestClient, text: str) -> None:
    for path, body in (
        ("ask", {"run": "learned", "questions": [text]}),
        ("look", {"target": "run:language", "text": text}),
        ("write", {"run": "summary", "text": f"{text} is a tool."}),
        ("write", {"run": "language", "text": text[:4]}),
    ):
        response = client.post(f"/api/{path}", json=body)
        assert response.status_code in (200, 422), (path, response.text)
        if path == "write" and response.status_code == 200:
            assert response.content.isascii()
            names = [e.name for e in parse_events(iter(response.content.splitlines(keepends=True)))]
            assert "x" not in names
            assert names[-1] == "done"


# Write


def test_a_summary_comes_token_by_token(client: TestClient) -> None:
    events = generation_events(client, run="summary", text=summaries.TEXT)
    names = [event.name for event in events]
    assert names == ["token"] * (len(names) - 2) + ["generation", "done"]
    (expected,) = summaries.written([summaries.TEXT])[0]
    tokens = "".join(event.data["text"] for event in events if event.name == "token")
    last = events[-2].data
    assert tokens == expected.text == last["text"]
    assert last["log_probability"] == pytest.approx(expected.log_probability)
    assert len([event for event in events if event.name == "token"]) >= len(expected.ids)


def test_copied_words_point_to_their_source(client: TestClient) -> None:
    """The run learned to copy kind and field, so both point into the text that was sent."""
    text = "\n  Package 3 is a\u00a0tool for \U0001f600 maps and more.\n\n It has 2 parts."
    events = generation_events(client, run="summary", text=text)
    generation = next(event.data for event in events if event.name == "generation")
    assert "".join(word["text"] for word in generation["words"]) == generation["text"]
    utf16 = text.encode("utf-16-le")
    copied = 0
    for word in generation["words"]:
        weights = [source["weight"] for source in word["sources"]]
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) <= 1.001
        spans = [
            utf16[2 * each["start"] : 2 * each["end"]].decode("utf-16-le")
            for each in word["sources"]
        ]
        assert all(each and not each[0].isspace() and not each[-1].isspace() for each in spans)
        if word["copied"] > 0.9:
            copied += 1
            assert spans[0].strip(".") == word["text"].strip()
    assert copied


def test_several_summaries_equal_those_of_the_command(client: TestClient) -> None:
    methods: list[dict[str, Any]] = [{"count": 3, "temperature": 1.0, "seed": 4}, {"count": 2}]
    repetitive = {"count": 4, "temperature": 0.3}  # many samples, few of them different
    for method in (*methods, {"beams": 3}, repetitive):
        events = generation_events(client, run="summary", text=summaries.TEXT, **method)
        expected = summaries.written([summaries.TEXT], **method)[0]
        generations = [event.data for event in events if event.name == "generation"]
        assert [each["text"] for each in generations] == [each.text for each in expected]
        assert [each["generation"] for each in generations] == list(range(len(expected)))
        drafts: dict[int, str] = {}
        for event in events:
            if event.name in ("token", "draft"):
                index, text = event.data["generation"], event.data["text"]
                drafts[index] = drafts.get(index, "") + text if event.name == "token" else text
        assert sorted(drafts) == list(range(method.get("count", 1)))
        assert [text for text in drafts.values() if text] == [each.text for each in expected]
        if method is repetitive:
            assert any(event.name == "draft" for event in events)


def test_a_truncated_text_is_reported(client: TestClient) -> None:
    text = " ".join(f"word{i}" for i in range(60))
    events = generation_events(client, run="summary", text=text)
    assert events[0].name == "cut"
    cut = events[0].data
    assert cut["read"] == 48
    assert cut["cut"] > 0
    assert text[: cut["at"]].split()[-1] in text.split()
    assert 0 < cut["at"] < len(text)


def test_a_language_run_continues_a_text(client: TestClient) -> None:
    events = generation_events(
        client, run="language", text="to be", count=2, temperature=0.7, seed=1
    )
    generations = [event.data for event in events if event.name == "generation"]
    assert len(generations) == 2
    for generation in generations:
        drafts = [
            e.data
            for e in events
            if e.name == "token" and e.data["generation"] == generation["generation"]
        ]
        assert generation["text"] == "".join(draft["text"] for draft in drafts)
        assert "".join(word["text"] for word in generation["words"]) == generation["text"]
    assert generation_events(client, run="language", text="to", beams=2)[-1].name == "done"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"run": "summary", "text": " \n "}, 422, "empty"),
        ({"run": "summary", "text": "a", "beams": 2, "temperature": 1}, 422, "give one of them"),
        ({"run": "summary", "text": "a", "top_k": 2}, 422, "temperature"),
        ({"run": "summary", "text": "a", "count": 9}, 400, "count: is 9"),
        ({"run": "summary", "text": "a", "top_p": 0}, 400, "top_p: is 0"),
        ({"run": "summary", "text": "a", "seed": -1}, 400, "seed"),
        ({"run": "summary", "text": "x" * 20_001}, 400, "20001 characters"),
        ({"run": "language", "text": "to be or not to be " * 9}, 422, "reads at most"),
        ({"run": "learned", "text": "a"}, 409, "does not support 'write'"),
        ({"run": "vit", "text": "a"}, 409, "does not support 'write'"),
    ],
)
def test_an_invalid_write_request_is_reported(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    assert words in post(client, "write", status, **body)["error"]
