"""The studio looks into models: images that are seen, texts, captures, two side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from attnlab._image_files import png
from attnlab.interpret._capture_file import read as read_capture
from attnlab.interpret._look import look
from attnlab.studio import _request_limits as limits
from attnlab.studio._capture_store import Captures
from attnlab.studio._http_errors import Refused
from attnlab.studio._worker_look import in_page_words
from attnlab.tasks.vision._classify import classify
from tests.support import summary_runs as summaries
from tests.support.image_files import pixels
from tests.support.studio_runs import posted


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


NONE_OF_THEM = "none of BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP, or damaged"


@pytest.mark.parametrize(
    ("run", "content", "status", "words"),
    [
        ("vit", b"no image", 422, f"the image: no image that can be read ({NONE_OF_THEM})"),
        ("vit", b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, f"can be read ({NONE_OF_THEM})"),
        ("vit", b"\x89PNG\r\n\x1a\n" + bytes(50), 422, "the image"),
        ("vit", b"", 400, "empty"),
        ("language", b"x", 409, "cannot do 'classify'"),
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
    assert answer.status_code == 409  # it was saved without a tokenizer
    assert "token" in answer.json()["error"]
    found = posted(client, "look", subject="language", text="to be", compare="pretrained")
    assert len(captured(client, tmp_path, found["capture"]).sides) == 2
    found = posted(client, "look", subject="summary", text=summaries.TEXT, second="a tool")
    seen = captured(client, tmp_path, found["capture"])
    assert {layer.kind for layer in seen.sides[0].layers} == {"self", "cross"}
    found = posted(client, "look", subject="language", text="to be", compare_text="or not")
    seen = captured(client, tmp_path, found["capture"])
    assert ["".join(each.sequences[0].texts) for each in seen.sides] == ["to be", "or not"]
    found = posted(client, "look", subject="language", text="to", untrained=True, neurons=False)
    assert captured(client, tmp_path, found["capture"]).sides[0].layers[0].q is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            {"subject": "vit", "text": "a"},
            422,
            "give an image, and leave the texts",
        ),
        (
            {"subject": "language", "text": "to", "generate": 99},
            422,
            "“Tokens to write on” up to",
        ),
        ({"subject": "learned", "text": "a", "compare_text": "b" * 9000}, 422, ""),
        ({"subject": "convnet", "text": "a"}, 409, "no attention"),
        ({"subject": "language", "text": "to be " * 40}, 422, "reads at most"),
        ({"subject": "language", "text": "a", "second": "b"}, 422, "leave “Second text”"),
        ({"subject": {"model": "none"}, "text": "a"}, 404, "There is no model none"),
        ({"subject": {"run": "a"}, "text": "a"}, 400, "'run' is not known"),
        ({"subject": 1, "text": "a"}, 400, "give a text"),
        ({"subject": "language", "text": ""}, 400, "empty"),
        ({"subject": "language", "text": "a", "generate": 257}, 400, "at most 256"),
        ({"subject": "language", "text": "a", "compare": "nobody"}, 404, "There is no run"),
        (
            {"subject": "language", "text": "a", "compare": "language", "untrained": True},
            400,
            "give one of them",
        ),
        (
            {"subject": "language", "text": "a", "compare_text": "b", "untrained": True},
            400,
            "give one of them",
        ),
    ],
)
def test_what_cannot_be_looked_at_is_told(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    told = posted(client, "look", status, **body)["error"]
    assert words in told
    assert "--" not in told  # the page has no flags


def test_an_image_is_looked_at(client: TestClient, kinds: Path, tmp_path: Path) -> None:
    image = png(pixels(2, 1, 6)[1])
    (tmp_path / "image.png").write_bytes(image)
    answer = client.post("/api/look/image?run=vit&neurons=false", content=image)
    assert answer.status_code == 200, answer.text
    assert answer.json()["title"] == "vit: an image"
    (seen,) = captured(client, tmp_path, answer.json()["capture"]).sides
    look(str(kinds / "vit"), image=tmp_path / "image.png").save(tmp_path / "own.attnlab")
    (own,) = read_capture(tmp_path / "own.attnlab").sides
    weights = own.layers[0].weights
    assert weights is not None
    assert torch.equal(seen.layers[0].weights, weights)
    assert seen.layers[0].q is None
    answer = client.post("/api/look/image?run=vit&untrained=true", content=image)
    sides = captured(client, tmp_path, answer.json()["capture"]).sides
    assert [side.label for side in sides] == ["vit", "vit, untrained"]
    assert sides[0].layers[0].q is not None


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("run=language", 422, "reads a text: give a text, and leave the image"),
        ("run=convnet", 409, "no attention"),
        ("run=vit&compare_run=language", 422, "reads a text"),
        ("run=vit&compare_run=vit&untrained=true", 400, "give one of them"),
        ("run=vit&model=gpt2", 400, "give one of them"),
        ("neurons=true", 400, "no run and no model"),
        ("model=none", 404, "no model none"),
        ("run=../x", 404, "There is no run"),
    ],
)
def test_what_is_no_image_to_look_at_is_told(
    client: TestClient, query: str, status: int, words: str
) -> None:
    answer = client.post(f"/api/look/image?{query}", content=png(pixels(2, 1, 6)[1]))
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert "--" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (
            "x: a B has no head to write with; leave --generate, and give --pair to an "
            "encoder-decoder",
            "x: a B has no head to write with; leave “Tokens to write on”, and give “Second text” "
            "to an encoder-decoder",
        ),
        (
            "the input has 9 tokens; --max-tokens is 8: give a shorter text, or more of them with "
            "fewer --layers",
            "the input has 9 tokens; 8 are the most: give a shorter text",
        ),
    ],
)
def test_sentences_name_what_the_page_has(told: str, wanted: str) -> None:
    assert in_page_words(told) == wanted


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
