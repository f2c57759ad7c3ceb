"""Captures of attention and classified images, as the command line gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from attnlab._image_files import encode_png
from attnlab.interpret._capture_file import read as read_capture
from attnlab.interpret._look import look
from attnlab.studio import _request_limits as limits
from attnlab.studio._capture_store import CaptureStore
from attnlab.studio._http_errors import RequestError
from attnlab.studio._worker_look import use_page_labels
from attnlab.tasks.vision._classify import classify, classify_test
from tests.support import summary_runs as summaries
from tests.support.image_files import pixels
from tests.support.studio_client import post


def test_an_image_is_classified_as_by_the_command(
    client: TestClient, all_runs: Path, tmp_path: Path
) -> None:
    image = encode_png(pixels(2, 1, 6)[1])
    (tmp_path / "image.png").write_bytes(image)
    for run in ("vit", "convnet"):
        response = client.post(f"/api/see?run={run}", content=image)
        assert response.status_code == 200, response.text
        result = response.json()
        expected = classify(all_runs / run, [tmp_path / "image.png"])[0].probabilities
        assert result["label"] == expected[0][0]
        assert [each["label"] for each in result["probabilities"]] == [name for name, _ in expected]
        chances = [each["probability"] for each in result["probabilities"]]
        assert chances == pytest.approx([chance for _, chance in expected])
        assert (result["capture"] is None) == (run == "convnet")
        assert result["known_label"] == classify(all_runs / run, [tmp_path / "image.png"])[0].label


def test_an_image_of_the_data_comes_with_its_label(client: TestClient, all_runs: Path) -> None:
    (prediction,), (picture,) = classify_test(all_runs / "vit", [2])
    response = client.post("/api/see?run=vit", content=encode_png(picture))
    assert response.status_code == 200, response.text
    assert response.json()["known_label"] == prediction.label


NONE_OF_THEM = "it is damaged, or not one of BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP"


@pytest.mark.parametrize(
    ("run", "content", "status", "words"),
    [
        ("vit", b"no image", 422, f"the image: cannot be read as an image ({NONE_OF_THEM})"),
        (
            "vit",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            422,
            f"cannot be read as an image ({NONE_OF_THEM})",
        ),
        ("vit", b"\x89PNG\r\n\x1a\n" + bytes(50), 422, "the image"),
        ("vit", b"", 400, "empty"),
        ("language", b"x", 409, "does not support 'classify'"),
        ("nobody", b"x", 404, "There is no run"),
    ],
)
def test_an_invalid_image_is_reported(
    client: TestClient, run: str, content: bytes, status: int, words: str
) -> None:
    response = client.post(f"/api/see?run={run}", content=content)
    assert response.status_code == status, response.text
    assert words in response.json()["error"]
    assert "/tmp" not in response.json()["error"]


def download_capture(client: TestClient, tmp_path: Path, name: str) -> Any:
    response = client.get(f"/api/captures/{name}")
    assert response.status_code == 200
    (tmp_path / "capture.attnlab").write_bytes(response.content)
    return read_capture(tmp_path / "capture.attnlab")


def test_a_capture_equals_that_of_the_command(
    client: TestClient, all_runs: Path, tmp_path: Path
) -> None:
    result = post(client, "look", target="run:language", text="to be", generate=3)
    capture = download_capture(client, tmp_path, result["capture"])
    look(str(all_runs / "language"), "to be", generate=3, neurons=True).save(
        tmp_path / "expected.attnlab"
    )
    expected = read_capture(tmp_path / "expected.attnlab")
    assert capture.title == result["title"] == expected.title
    assert capture.panels[0].sequences[0].texts == expected.panels[0].sequences[0].texts
    for one, other in zip(capture.panels[0].layers, expected.panels[0].layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        assert torch.equal(one.weights, other.weights)
        assert one.q is not None  # neurons


def test_heads_are_switched_off(client: TestClient, tmp_path: Path) -> None:
    result = post(client, "look", target="run:language", text="to be", effects=True)
    capture = download_capture(client, tmp_path, result["capture"])
    effects, layer = capture.panels[0].effects, capture.panels[0].layers[0]
    assert effects.heads[0] is not None
    head = {"layer": layer.name, "head": 1}
    answer = post(client, "look/heads", capture=result["capture"], heads=[head])
    changed = answer["target"]["after"] / answer["target"]["before"]
    assert changed == pytest.approx(float(effects.heads[0][1, -1].exp()), rel=1e-2)
    assert len(answer["top"]) == 5
    whole = post(client, "look/heads", capture=result["capture"], heads=[])
    assert whole["target"]["before"] == whole["target"]["after"]
    for heads, status, words in (
        ([{"layer": layer.name, "head": 99}], 422, "no head 99"),
        ([{"layer": "nowhere", "head": 0}], 422, "no layer 'nowhere'"),
        ([{"layer": layer.name, "head": -1}], 400, "head"),
    ):
        body = {"capture": result["capture"], "heads": heads}
        response = client.post("/api/look/heads", json=body)
        assert response.status_code == status, response.text
        assert words in response.json()["error"]
    response = client.post("/api/look/heads", json={"capture": "gone", "heads": []})
    assert response.status_code == 404


def test_models_named_at_start_and_comparisons(client: TestClient, tmp_path: Path) -> None:
    info = client.get("/api/info").json()
    assert info["models"] == [{"id": "gpt2", "name": "gpt2"}]
    response = client.post("/api/look", json={"target": "model:gpt2", "text": "to be"})
    assert response.status_code == 409  # it was saved without a tokenizer
    assert "token" in response.json()["error"]
    result = post(client, "look", target="run:language", text="to be", compare="run:pretrained")
    assert len(download_capture(client, tmp_path, result["capture"]).panels) == 2
    result = post(client, "look", target="run:summary", text=summaries.TEXT, second="a tool")
    capture = download_capture(client, tmp_path, result["capture"])
    assert {layer.kind for layer in capture.panels[0].layers} == {"self", "cross"}
    result = post(client, "look", target="run:language", text="to be", compare={"text": "or not"})
    capture = download_capture(client, tmp_path, result["capture"])
    assert ["".join(each.sequences[0].texts) for each in capture.panels] == ["to be", "or not"]
    result = post(
        client, "look", target="run:language", text="to", compare="untrained", neurons=False
    )
    assert download_capture(client, tmp_path, result["capture"]).panels[0].layers[0].q is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            {"target": "run:vit", "text": "a"},
            422,
            "give an image, and omit the texts",
        ),
        (
            {"target": "run:language", "text": "to", "generate": 99},
            422,
            "“Tokens to write on” up to",
        ),
        ({"target": "run:learned", "text": "a", "compare": {"text": "b" * 9000}}, 422, ""),
        ({"target": "run:convnet", "text": "a"}, 409, "no attention"),
        ({"target": "run:language", "text": "to be " * 40}, 422, "reads at most"),
        ({"target": "run:language", "text": "a", "second": "b"}, 422, "omit “Second text”"),
        ({"target": "model:none", "text": "a"}, 404, "There is no model none"),
        ({"target": "language", "text": "a"}, 400, "that matches ^(run|model):"),
        ({"target": 1, "text": "a"}, 400, "give a text"),
        ({"target": "run:language", "text": ""}, 400, "empty"),
        ({"target": "run:language", "text": "a", "generate": 257}, 400, "at most 256"),
        ({"target": "run:language", "text": "a", "compare": "run:nobody"}, 404, "There is no run"),
        ({"target": "run:language", "text": "a", "compare": "trained"}, 400, "(untrained|"),
        (
            {"target": "run:language", "text": "a", "compare": {"text": ""}},
            400,
            "compare.text: is e",
        ),
        ({"target": "run:language", "text": "a", "compare": {"model": "b"}}, 400, "unknown field"),
    ],
)
def test_an_invalid_look_is_reported(
    client: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    message = post(client, "look", status, **body)["error"]
    assert words in message
    assert "--" not in message  # the page has no command-line flags


def test_an_image_is_looked_at(client: TestClient, all_runs: Path, tmp_path: Path) -> None:
    image = encode_png(pixels(2, 1, 6)[1])
    (tmp_path / "image.png").write_bytes(image)
    response = client.post("/api/look/image?target=run:vit&neurons=false", content=image)
    assert response.status_code == 200, response.text
    assert response.json()["title"] == "vit: an image"
    (capture,) = download_capture(client, tmp_path, response.json()["capture"]).panels
    look(str(all_runs / "vit"), image=tmp_path / "image.png").save(tmp_path / "expected.attnlab")
    (expected,) = read_capture(tmp_path / "expected.attnlab").panels
    weights = expected.layers[0].weights
    assert weights is not None
    assert torch.equal(capture.layers[0].weights, weights)
    assert capture.layers[0].q is None
    response = client.post("/api/look/image?target=run:vit&compare=untrained", content=image)
    panels = download_capture(client, tmp_path, response.json()["capture"]).panels
    assert [panel.label for panel in panels] == ["vit", "vit, untrained"]
    assert panels[0].layers[0].q is not None


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("target=run:language", 422, "reads a text: give a text, and omit the image"),
        ("target=run:convnet", 409, "no attention"),
        ("target=run:vit&compare=run:language", 422, "reads a text"),
        ("target=run:vit&compare=vit", 400, "give a text that matches ^(untrained|(run|model):"),
        ("target=vit", 400, "give a text that matches ^(run|model):"),
        ("neurons=true", 400, "target: is missing"),
        ("target=model:none", 404, "no model none"),
        ("target=run:../x", 404, "There is no run"),
    ],
)
def test_an_invalid_look_at_an_image_is_reported(
    client: TestClient, query: str, status: int, words: str
) -> None:
    response = client.post(f"/api/look/image?{query}", content=encode_png(pixels(2, 1, 6)[1]))
    assert response.status_code == status, response.text
    assert words in response.json()["error"]
    assert "--" not in response.json()["error"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "x: a B has no head to generate text; omit --generate, and give --pair to an "
            "encoder-decoder",
            "x: a B has no head to generate text; omit “Tokens to write on”, and give “Second "
            "text” to an encoder-decoder",
        ),
        (
            "the input has 9 tokens; --max-tokens is 8: give a shorter text, or a larger "
            "--max-tokens with fewer --layers",
            "the input has 9 tokens; the limit is 8: give a shorter text",
        ),
    ],
)
def test_messages_use_the_labels_of_the_page(message: str, expected: str) -> None:
    assert use_page_labels(message) == expected


def test_captures_are_bounded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CaptureStore()
    names = [store.add(bytes(10)) for _ in range(limits.CAPTURES + 3)]
    assert list(store.captures) == names[3:]
    monkeypatch.setattr(limits, "CAPTURE_BYTES", 25)
    last = store.add(bytes(10))
    assert list(store.captures) == [names[-1], last]
    with pytest.raises(RequestError, match="no longer kept"):
        store.get(names[0])
    assert client.get("/api/captures/unknown").status_code == 404
    assert client.get("/api/captures/..%2f..%2fetc").status_code in (400, 404)
