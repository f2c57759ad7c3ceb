"""Models in the studio: what they answer is what the command line would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from attnlab.looking.api import look
from attnlab.looking.file import read as read_capture
from attnlab.pictures import png
from attnlab.studio import limits
from attnlab.studio.captures import Captures
from attnlab.studio.schema import Refused
from attnlab.tasks.knowledge import audit as auditing
from attnlab.tasks.vision.classify import classify
from tests import summaries
from tests.studio_kinds import posted, written
from tests.studios import events_of
from tests.vision_files import pixels


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
    assert set(found["threshold"]) == {"known", "guess", "fitted_on"}


@pytest.mark.parametrize(
    ("run", "question", "status", "words"),
    [
        ("learned", "   ", 422, "question 1 is empty"),
        ("learned", "x" * 500, 422, "tokens"),
        ("pretrained", "who?", 409, "has not learned to answer"),
        ("language", "who?", 409, "has not learned to answer"),
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
        assert answer.content.isascii()
        if path == "write" and answer.status_code == 200:
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
        ({"run": "learned", "text": "a"}, 409, "writes no text"),
        ({"run": "vit", "text": "a"}, 409, "writes no text"),
    ],
)
def test_what_cannot_be_written_is_told(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    assert words in posted(client, "write", status, **body)["error"]


# See and look


def test_an_image_is_seen_as_the_command_sees_it(
    client: TestClient, kinds: Path, tmp_path: Path
) -> None:
    image = png(pixels(2, 1, 6)[1])
    (tmp_path / "image.png").write_bytes(image)
    for run in ("vit", "convnet"):
        answer = client.post(f"/api/see?run={run}", content=image)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        wanted = classify(kinds / run, [tmp_path / "image.png"])[0].chances
        assert found["label"] == wanted[0][0]
        assert [each["label"] for each in found["probabilities"]] == [name for name, _ in wanted]
        chances = [each["probability"] for each in found["probabilities"]]
        assert chances == pytest.approx([chance for _, chance in wanted])
        assert (found["capture"] is None) == (run == "convnet")


@pytest.mark.parametrize(
    ("run", "content", "status", "words"),
    [
        ("vit", b"no image", 422, "the image: no image that can be read"),
        ("vit", b"\x89PNG\r\n\x1a\n" + bytes(50), 422, "the image"),
        ("vit", b"", 400, "empty"),
        ("language", b"x", 409, "not vision"),
        ("nobody", b"x", 404, "There is no run"),
    ],
)
def test_what_cannot_be_seen_is_told(
    client: TestClient, run: str, content: bytes, status: int, words: str
) -> None:
    answer = client.post(f"/api/see?run={run}", content=content)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert "/tmp" not in answer.json()["error"]


def captured(client: TestClient, tmp_path: Path, name: str) -> Any:
    answer = client.get(f"/api/captures/{name}")
    assert answer.status_code == 200
    (tmp_path / "seen.attnlab").write_bytes(answer.content)
    return read_capture(tmp_path / "seen.attnlab")


def test_a_look_is_the_capture_of_the_command(
    client: TestClient, kinds: Path, tmp_path: Path
) -> None:
    found = posted(client, "look", subject="language", text="to be", generate=3)
    seen = captured(client, tmp_path, found["capture"])
    look(str(kinds / "language"), "to be", generate=3, neurons=True).save(tmp_path / "own.attnlab")
    own = read_capture(tmp_path / "own.attnlab")
    assert seen.title == found["title"] == own.title
    assert seen.sides[0].sequences[0].texts == own.sides[0].sequences[0].texts
    for one, other in zip(seen.sides[0].layers, own.sides[0].layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        assert torch.equal(one.weights, other.weights)
        assert one.q is not None  # neurons


def test_models_given_at_start_and_comparisons(client: TestClient, tmp_path: Path) -> None:
    info = client.get("/api/info").json()
    assert info["models"] == [{"id": "gpt2", "name": "gpt2"}]
    answer = client.post("/api/look", json={"subject": {"model": "gpt2"}, "text": "to be"})
    assert answer.status_code == 409  # it was saved without a tokeniser
    assert "token" in answer.json()["error"]
    found = posted(client, "look", subject="language", text="to be", compare="pretrained")
    assert len(captured(client, tmp_path, found["capture"]).sides) == 2
    found = posted(client, "look", subject="summary", text=summaries.TEXT, second="a tool")
    seen = captured(client, tmp_path, found["capture"])
    assert {layer.kind for layer in seen.sides[0].layers} == {"self", "cross"}
    found = posted(client, "look", subject="language", text="to", untrained=True, neurons=False)
    assert captured(client, tmp_path, found["capture"]).sides[0].layers[0].q is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"subject": "vit", "text": "a"}, 422, "reads an image"),
        ({"subject": "convnet", "text": "a"}, 409, "no attention"),
        ({"subject": "language", "text": "to be " * 40}, 422, "reads at most"),
        ({"subject": "language", "text": "a", "second": "b"}, 422, "no second text"),
        ({"subject": {"model": "none"}, "text": "a"}, 404, "There is no model none"),
        ({"subject": {"run": "a"}, "text": "a"}, 400, "'run' is not known"),
        ({"subject": 1, "text": "a"}, 400, "give a text"),
        ({"subject": "language", "text": ""}, 400, "empty"),
        ({"subject": "language", "text": "a", "generate": 257}, 400, "0 to 256"),
        ({"subject": "language", "text": "a", "compare": "nobody"}, 404, "There is no run"),
        (
            {"subject": "language", "text": "a", "compare": "language", "untrained": True},
            400,
            "give one of them",
        ),
    ],
)
def test_what_cannot_be_looked_at_is_told(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    assert words in posted(client, "look", status, **body)["error"]


def test_captures_are_bounded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Captures()
    names = [kept.add(bytes(10)) for _ in range(limits.CAPTURES + 3)]
    assert list(kept.kept) == names[3:]
    monkeypatch.setattr(limits, "CAPTURE_BYTES", 25)
    last = kept.add(bytes(10))
    assert list(kept.kept) == [names[-1], last]
    with pytest.raises(Refused, match="no longer kept"):
        kept.get(names[0])
    assert client.get("/api/captures/unknown").status_code == 404
    assert client.get("/api/captures/..%2f..%2fetc").status_code in (400, 404)
