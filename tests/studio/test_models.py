"""Models in the studio: what they answer is what the command line would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attnlab.tasks.knowledge import _audit as auditing
from tests.support import summary_runs as summaries
from tests.support.studio_runs import posted, written
from tests.support.studio_servers import events_of


def a_question(client: TestClient) -> str:
    found = client.get("/api/run?run=learned").json()["examples"]
    assert 1 <= len(found) <= 8
    return str(found[0])


# Ask


def test_answers_are_those_of_the_command(client: TestClient, kinds: Path) -> None:
    question = a_question(client)
    found = posted(client, "ask", run="learned", questions=[question, question])
    (said, verdict), _ = auditing.ask(kinds / "learned", [question, question])
    first, second = found["answers"]
    assert first == second
    assert (first["question"], first["answer"], first["verdict"]) == (question, said.text, verdict)
    assert first["probability"] == pytest.approx(said.confidence)
    assert first["margin"] == pytest.approx(said.margin)
    assert first["alternatives"][0]["answer"] == said.other
    chances = [each["probability"] for each in first["alternatives"]]
    assert chances == sorted(chances, reverse=True)
    name, similarity = first["nearest"][0]
    assert name in question
    assert similarity == pytest.approx(1)
    assert (first["name"], first["trained"]) == (name, True)
    assert set(found["threshold"]) == {"known", "guess", "fitted_on"}


def test_a_name_that_no_training_question_has_is_told(client: TestClient) -> None:
    """Thresholds may not hold for it, however sure the answer is."""
    known = posted(client, "ask", run="learned", questions=[a_question(client)])["answers"][0]
    strange = known["question"].replace(known["name"], "Nobody Atall")
    found = posted(client, "ask", run="learned", questions=[strange, "nobody?"])["answers"]
    assert (found[0]["name"], found[0]["trained"]) == ("Nobody Atall", False)
    assert (found[1]["name"], found[1]["trained"]) == (None, None)  # of no known wording


def test_a_long_question_leaves_little_room_and_is_still_looked_at(client: TestClient) -> None:
    text = "x"
    while True:  # the longest that it takes
        answer = client.post("/api/ask", json={"run": "learned", "questions": [text + "xxx"]})
        if answer.status_code == 422:
            break
        text += "xxx"
    (found,) = posted(client, "ask", run="learned", questions=[text])["answers"]
    assert 1 <= found["room"] <= 3
    posted(client, "look", subject="learned", text=text, generate=min(32, found["room"]))


@pytest.mark.parametrize(
    ("run", "question", "status", "words"),
    [
        ("learned", "   ", 422, "question 1 is empty"),
        ("learned", "x" * 500, 422, "tokens"),
        ("pretrained", "who?", 409, "has not learned to answer"),
        ("language", "who?", 409, "cannot do 'ask'"),
        ("untrained", "who?", 409, "has not learned"),
        ("nobody", "who?", 404, "There is no run nobody"),
    ],
)
def test_what_cannot_be_asked_is_told(
    client: TestClient, run: str, question: str, status: int, words: str
) -> None:
    found = posted(client, "ask", status, run=run, questions=[question])
    assert words in found["error"]


@pytest.mark.parametrize(
    "text", ["\0", "<script>", "\u202e", "\U0001f600", "a\nb\r\n\r\nevent: x", "⁇", "\x7f\x1b[31m"]
)
def test_hostile_tokens_are_only_text(client: TestClient, text: str) -> None:
    for path, body in (
        ("ask", {"run": "learned", "questions": [text]}),
        ("look", {"subject": "language", "text": text}),
        ("write", {"run": "summary", "text": f"{text} is a tool."}),
        ("write", {"run": "language", "text": text[:4]}),
    ):
        answer = client.post(f"/api/{path}", json=body)
        assert answer.status_code in (200, 422), (path, answer.text)
        if path == "write" and answer.status_code == 200:
            assert answer.content.isascii()
            names = [e.name for e in events_of(iter(answer.content.splitlines(keepends=True)))]
            assert "x" not in names
            assert names[-1] == "done"


# Write


def test_a_summary_comes_token_by_token(client: TestClient) -> None:
    events = written(client, run="summary", text=summaries.TEXT)
    names = [event.name for event in events]
    assert names == ["token"] * (len(names) - 2) + ["summary", "done"]
    (wanted,) = summaries.written([summaries.TEXT])[0]
    said = "".join(event.data["text"] for event in events if event.name == "token")
    last = events[-2].data
    assert said == wanted.text == last["text"]
    assert last["log_probability"] == pytest.approx(wanted.log_probability)
    assert len([event for event in events if event.name == "token"]) >= len(wanted.ids)


def test_words_come_from_where_they_stand(client: TestClient) -> None:
    """The run learned to copy kind and field: each is found in the text that was sent."""
    text = "\n  Package 3 is a\u00a0tool for \U0001f600 maps and more.\n\n It has 2 parts."
    events = written(client, run="summary", text=text)
    summary = next(event.data for event in events if event.name == "summary")
    assert "".join(word["text"] for word in summary["words"]) == summary["text"]
    wide = text.encode("utf-16-le")
    found = 0
    for word in summary["words"]:
        weights = [source["weight"] for source in word["sources"]]
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) <= 1.001
        places = [
            wide[2 * each["start"] : 2 * each["end"]].decode("utf-16-le")
            for each in word["sources"]
        ]
        assert all(each and not each[0].isspace() and not each[-1].isspace() for each in places)
        if word["copied"] > 0.9:
            found += 1
            assert places[0].strip(".") == word["text"].strip()
    assert found


def test_several_summaries_are_those_of_the_command(client: TestClient) -> None:
    ways: list[dict[str, Any]] = [{"count": 3, "temperature": 1.0, "seed": 4}, {"count": 2}]
    alike = {"count": 4, "temperature": 0.3}  # many draws, and fewer different ones
    for way in (*ways, {"beams": 3}, alike):
        events = written(client, run="summary", text=summaries.TEXT, **way)
        wanted = summaries.written([summaries.TEXT], **way)[0]
        told = [event.data for event in events if event.name == "summary"]
        assert [each["text"] for each in told] == [each.text for each in wanted]
        assert [each["summary"] for each in told] == list(range(len(wanted)))
        drafts: dict[int, str] = {}
        for event in events:
            if event.name in ("token", "draft"):
                place, text = event.data["summary"], event.data["text"]
                drafts[place] = drafts.get(place, "") + text if event.name == "token" else text
        assert sorted(drafts) == list(range(way.get("count", 1)))
        assert [text for text in drafts.values() if text] == [each.text for each in wanted]
        if way is alike:
            assert any(event.name == "draft" for event in events)


def test_a_text_that_is_cut_says_where(client: TestClient) -> None:
    text = " ".join(f"word{i}" for i in range(60))
    events = written(client, run="summary", text=text)
    assert events[0].name == "cut"
    cut = events[0].data
    assert cut["read"] == 48
    assert cut["cut"] > 0
    assert text[: cut["at"]].split()[-1] in text.split()
    assert 0 < cut["at"] < len(text)


def test_a_language_run_goes_on(client: TestClient) -> None:
    events = written(client, run="language", text="to be", count=2, temperature=0.7, seed=1)
    told = [event.data for event in events if event.name == "summary"]
    assert len(told) == 2
    for each in told:
        drafts = [
            e.data for e in events if e.name == "token" and e.data["summary"] == each["summary"]
        ]
        assert each["text"] == "".join(draft["text"] for draft in drafts)
        assert "".join(word["text"] for word in each["words"]) == each["text"]
    assert written(client, run="language", text="to", beams=2)[-1].name == "done"


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
        ({"run": "learned", "text": "a"}, 409, "cannot do 'write'"),
        ({"run": "vit", "text": "a"}, 409, "cannot do 'write'"),
    ],
)
def test_what_cannot_be_written_is_told(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    assert words in posted(client, "write", status, **body)["error"]
