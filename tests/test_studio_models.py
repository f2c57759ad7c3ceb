"""Models in the studio: what they answer is what the command line would; none takes it down."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from attnlab.looking.api import look
from attnlab.looking.file import read as read_capture
from attnlab.pictures import png
from attnlab.studio import limits
from attnlab.studio.app import App, Studio
from attnlab.studio.captures import Captures
from attnlab.studio.models import Models
from attnlab.studio.schema import Refused
from attnlab.tasks.knowledge import audit as auditing
from attnlab.tasks.vision.classify import classify
from tests import summaries, vision_runs
from tests.small_transformers import small
from tests.studios import Event, events_of, make_run, studio
from tests.vision_files import pixels

QUESTION = "Where was Nobody Atall born?"


@pytest.fixture(scope="module")
def runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of each kind, and one that lies about itself."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    folder.mkdir()
    for name in ("pretrained", "learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(summaries.trained(), folder / "summary")
    vision_runs.trained(folder, "vit")
    vision_runs.trained(folder, "convnet")
    liar = shutil.copytree(folder / "convnet", folder / "liar")
    config = json.loads((liar / "config.json").read_text())
    config["task"]["classes"] = ["dark"]  # its model knows two
    (liar / "config.json").write_text(json.dumps(config))
    make_run(folder / "untrained", task={"name": "knowledge"})
    return folder


@pytest.fixture(scope="module")
def client(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    model = tmp_path_factory.mktemp("models") / "gpt2"
    small("gpt2").save_pretrained(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with studio(runs, [model]) as client:
            yield client


def inside(client: TestClient) -> Studio:
    """The studio behind a client."""
    app = client.app
    assert isinstance(app, App)
    assert app.studio is not None
    return app.studio


def posted(client: TestClient, path: str, status: int = 200, **body: Any) -> Any:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def written(client: TestClient, **body: Any) -> list[Event]:
    answer = client.post("/api/write", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return list(events_of(iter(answer.content.splitlines(keepends=True))))


def a_question(client: TestClient) -> str:
    found = client.get("/api/run?run=learned").json()["examples"]
    assert 1 <= len(found) <= 8
    return str(found[0])


# Ask


def test_answers_are_those_of_the_command(client: TestClient, runs: Path) -> None:
    question = a_question(client)
    found = posted(client, "ask", run="learned", questions=[question, question])
    (said, verdict), _ = auditing.ask(runs / "learned", [question, question])
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


def test_an_audit_is_a_job(client: TestClient, runs: Path) -> None:
    answer = client.get("/api/audit?run=learned")
    assert answer.status_code == 404
    assert "attnlab knowledge audit" in answer.json()["error"]
    assert "cannot answer" in posted(client, "audit", 409, run="language")["error"]
    job = posted(client, "audit", 202, run="learned")["job"]
    last = finished(client, job)
    # it learned from files of its own, so it must be told what to ask: as on the command line
    assert last["state"] == "failed"
    assert "--pairs" in last["message"]
    (runs / "learned" / "audit.json").write_text('{"accuracy": NaN, "run": "learned"}')
    assert client.get("/api/audit?run=learned").json() == {"accuracy": "nan", "run": "learned"}
    (runs / "learned" / "audit.json").write_text("[")
    assert client.get("/api/audit?run=learned").status_code == 409
    (runs / "learned" / "audit.json").unlink()


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
    for way in (*ways, {"beams": 3}):
        events = written(client, run="summary", text=summaries.TEXT, **way)
        wanted = summaries.written([summaries.TEXT], **way)[0]
        told = [event.data for event in events if event.name == "summary"]
        assert [each["text"] for each in told] == [each.text for each in wanted]
        assert [each["summary"] for each in told] == list(range(len(wanted)))
        drafts = {event.data["summary"] for event in events if event.name in ("token", "draft")}
        assert drafts == set(range(way["count"] if "temperature" in way else 1))


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
        assert each["text"].startswith("".join(draft["text"] for draft in drafts))
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
    client: TestClient, runs: Path, tmp_path: Path
) -> None:
    image = png(pixels(2, 1, 6)[1])
    (tmp_path / "image.png").write_bytes(image)
    for run in ("vit", "convnet"):
        answer = client.post(f"/api/see?run={run}", content=image)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        wanted = classify(runs / run, [tmp_path / "image.png"])[0].chances
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
    client: TestClient, runs: Path, tmp_path: Path
) -> None:
    found = posted(client, "look", subject="language", text="to be", generate=3)
    seen = captured(client, tmp_path, found["capture"])
    look(str(runs / "language"), "to be", generate=3, neurons=True).save(tmp_path / "own.attnlab")
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


# Workers


def test_a_model_is_opened_once_and_again_when_it_changes(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_one(folder: Path) -> str:
        opened.append(folder.name)
        return folder.name

    models = Models(most=2)
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    for name in "abab":
        assert models.get("ask", str(tmp_path / name), open_one) == name
    assert opened == ["a", "b"]
    (tmp_path / "a" / "config.json").write_text("{ }")
    models.get("ask", str(tmp_path / "a"), open_one)
    models.get("ask", str(tmp_path / "c"), open_one)  # now b goes, the one not used for longest
    assert opened == ["a", "b", "a", "c"]
    models.get("ask", str(tmp_path / "a"), open_one)
    models.get("ask", str(tmp_path / "b"), open_one)
    assert opened == ["a", "b", "a", "c", "b"]


def test_a_model_that_changes_while_it_is_opened_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    tries: list[int] = []

    def open_one(folder: Path) -> str:
        tries.append(1)
        if len(tries) == 1:
            (folder / "checkpoints").mkdir()
            raise ValueError("the checkpoint is gone")
        return "open"

    assert Models().get("look", str(tmp_path), open_one) == "open"

    def fail(_: Path) -> str:
        raise ValueError("has no weights")

    with pytest.raises(Refused, match="has no weights") as told:
        Models().get("look", str(tmp_path), fail)
    assert told.value.status == 409


def test_a_model_that_breaks_is_a_sentence(client: TestClient) -> None:
    answer = client.post("/api/see?run=liar", content=png(pixels(1, 1, 6)[0]))
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("The model broke: IndexError")
    assert client.post("/api/see?run=vit", content=png(pixels(1, 1, 6)[0])).status_code == 200


def test_a_slow_model_holds_up_nobody_and_a_killed_one_is_told(client: TestClient) -> None:
    """Stopped in the middle, one worker is as slow as can be; others answer meanwhile."""
    posted(client, "ask", run="learned", questions=[QUESTION])
    pool = inside(client).pool
    with ThreadPoolExecutor(1) as executor:
        slow_worker = next(each for each in pool.idle if any("ask" in k for k in each.models))
        pid = slow_worker.process.pid
        os.kill(pid, signal.SIGSTOP)
        slow = executor.submit(
            client.post, "/api/ask", json={"run": "learned", "questions": [QUESTION]}
        )
        while slow_worker in pool.idle:
            time.sleep(0.02)
        assert client.get("/api/runs").status_code == 200
        found = posted(client, "look", subject="language", text="to be")
        assert client.get(f"/api/captures/{found['capture']}").status_code == 200
        # the same model too: another worker opens it
        assert posted(client, "ask", run="learned", questions=[QUESTION])["answers"]
        assert not slow.done()
        os.kill(pid, signal.SIGKILL)
        answer = slow.result(120)
    assert answer.status_code == 500
    assert "signal 9" in answer.json()["error"]
    assert posted(client, "ask", run="learned", questions=[QUESTION])["answers"]
    assert len(pool.workers) <= limits.WORKERS


def test_workers_are_few_and_who_waits_too_long_is_told(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = inside(client).pool
    monkeypatch.setattr(limits, "WAITING", 0)
    found = posted(client, "ask", 429, run="learned", questions=[QUESTION])
    assert "wait for a model" in found["error"]
    assert len(pool.workers) <= limits.WORKERS


def test_who_leaves_early_frees_the_worker(client: TestClient) -> None:
    """A reader that goes in the middle of a stream: its worker stops and is used again."""
    studio = inside(client)
    given = {
        "folder": str(studio.places.runs / "language"),
        "text": "to",
        "count": 8,
        "temperature": 1.0,
        "top_k": None,
        "top_p": None,
        "beams": None,
        "seed": 0,
        "block": 0,
    }

    async def leave() -> None:
        async with studio.pool.call("write", given) as frames:
            message, _ = await anext(frames)
            assert message["tell"] == "token"
            workers = [each for each in studio.pool.workers if each not in studio.pool.idle]
            assert len(workers) == 1
        while studio.pool.leaving:
            await asyncio.sleep(0.02)
        assert workers[0] in studio.pool.idle
        value, _ = await studio.pool.ask("write", given)
        assert value == {}

    assert client.portal is not None
    client.portal.call(leave)


def test_workers_end_with_the_server(runs: Path) -> None:
    """However it ends: here by a signal that nobody can handle."""
    from tests.studios import served

    with served(runs) as server:
        body = json.dumps({"run": "learned", "questions": [QUESTION]})
        kind = {"content-type": "application/json"}
        with server.ask("POST", "/api/ask", kind, body) as answer:
            assert answer.status == 200, answer.read()
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        if not children.exists():
            pytest.skip("only Linux tells a process's children")
        workers = [int(each) for each in children.read_text().split()]
        assert workers
        server.process.kill()
        server.process.wait()
        end = time.monotonic() + 60
        while any(running(pid) for pid in workers) and time.monotonic() < end:
            time.sleep(0.1)
        assert not any(running(pid) for pid in workers)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


# Claims, bench, jobs


def finished(client: TestClient, job: str) -> Any:
    """The job once it has ended, by its events; each of them is a state of it."""
    answer = client.get(f"/api/jobs/{job}/events")
    states = [e.data for e in events_of(iter(answer.content.splitlines(keepends=True)))]
    assert all(each["id"] == job for each in states)
    assert client.get(f"/api/jobs/{job}").json() == states[-1]
    return states[-1]


def test_claims_are_run_and_joined(client: TestClient) -> None:
    before = client.get("/api/claims").json()
    assert before["ledger"] is None
    ids = [each["id"] for each in before["registry"]]
    assert "copy" in ids
    assert {each["topic"] for each in before["registry"]} <= set(before["topics"])
    old = {"format": "attnlab-claims", "version": 1, "seed": 0, "size": "small", "claims": [
        {"id": "copy", "outcome": "old"}, {"id": "beta-hard", "outcome": "kept"}, {"id": "gone"},
    ]}  # fmt: skip
    own = inside(client).results.own
    own.mkdir(parents=True, exist_ok=True)
    (own / "claims-small.json").write_text(json.dumps(old))
    last = finished(client, posted(client, "claims", 202, ids=["copy"])["job"])
    assert (last["state"], last["done"], last["of"]) == ("done", 1, 1)
    after = client.get("/api/claims").json()
    found = {each["id"]: each["outcome"] for each in after["ledger"]["claims"]}
    assert found == {"copy": "holds", "beta-hard": "kept"}
    assert after["file"] == "studio:claims-small.json"
    assert sorted(found, key=ids.index) == list(found)
    wrong = posted(client, "claims", 400, ids=["nonsense"])
    assert "no claim 'nonsense'" in wrong["error"]


def test_a_bench_is_a_job_and_a_file(client: TestClient, runs: Path) -> None:
    assert client.get("/api/bench").json() == {"files": []}
    job = posted(client, "bench", 202, part="decode")["job"]
    last = finished(client, job)
    assert last["state"] == "done", last
    name = last["result"]["file"]
    (file,) = client.get("/api/bench").json()["files"]
    assert (file["file"], file["sections"]) == (name, ["decode"])
    report = client.get("/api/bench", params={"file": name}).json()
    assert report["format"] == "attnlab-bench"
    assert "measurements" not in report["sections"][0]
    for wrong in ("../x.json", "/etc/passwd", name.replace("studio:", "")):
        assert client.get("/api/bench", params={"file": wrong}).status_code == 404
    (runs / "broken.json").write_text('{"format": "attnlab-bench", "version": 1}')
    (runs / "other.json").write_text("[1, 2]")
    (runs / "link.json").symlink_to(inside(client).results.own / name.removeprefix("studio:"))
    assert len(client.get("/api/bench").json()["files"]) == 1
    shutil.copy(inside(client).results.own / name.removeprefix("studio:"), runs / "mine.json")
    files = client.get("/api/bench").json()["files"]
    assert {each["file"] for each in files} == {name, "mine.json"}
    for each in ("broken.json", "other.json", "link.json", "mine.json"):
        (runs / each).unlink()


def test_jobs_wait_and_can_be_cancelled(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = posted(client, "bench", 202, part="speed", quick=False)["job"]
    second = posted(client, "bench", 202, part="speed", quick=False)["job"]
    assert client.get(f"/api/jobs/{second}").json()["state"] == "waiting"
    while client.get(f"/api/jobs/{first}").json()["of"] == 0:
        time.sleep(0.05)
    states = {each["id"]: each["state"] for each in client.get("/api/jobs").json()["jobs"]}
    assert (states[first], states[second]) == ("running", "waiting")
    monkeypatch.setattr(limits, "JOBS", 2)
    assert "jobs wait or run" in posted(client, "bench", 429, part="speed")["error"]
    worker = inside(client).jobs.worker
    assert worker is not None
    for job in (second, first):
        assert client.delete(f"/api/jobs/{job}").json()["state"] == "cancelled"
        assert finished(client, job)["state"] == "cancelled"
    end = time.monotonic() + 60
    while worker.alive and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.alive
    assert client.delete(f"/api/jobs/{first}").json()["state"] == "cancelled"  # still
    assert client.get("/api/jobs/none").status_code == 404
    assert client.delete("/api/jobs/none").status_code == 404


def test_the_playground_has_a_policy_of_its_own(client: TestClient) -> None:
    answer = client.get("/playground")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert "Attention playground" in answer.text
    threads = {thread.name for thread in threading.enumerate()}
    assert threads  # the page came from a worker: nothing of it was imported for this
