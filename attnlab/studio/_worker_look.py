"""In a worker: captures of a model's attention, and classification of images."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.interpret._adapters import open_model
from attnlab.interpret._capture_file import file_parts
from attnlab.interpret._head_switches import SwitchableModel, SwitchRequest
from attnlab.interpret._inspected_model import InspectedModel
from attnlab.interpret._look import LookResult
from attnlab.interpret._look import look as look_into_model
from attnlab.interpret._options import LookInput
from attnlab.interpret._run_model import evaluating
from attnlab.studio import _request_limits as limits
from attnlab.studio._loaded_models import LOADED_MODELS
from attnlab.studio._worker import EventSender
from attnlab.studio._worker_runs import run_capability

MAX_CAPTURE_BYTES = limits.CAPTURE_BYTES // 4


PAGE_LABELS = (
    ("--image FILE", "an image"),
    ("--text and --compare-text", "the texts"),
    ("--text", "a text"),
    ("--image", "the image"),
    ("--generate", "“Tokens to write on”"),
    ("--pair", "“Second text”"),
    (r"--max-tokens is (\d+): give a shorter text, .*", r"the limit is \1: give a shorter text"),
)
"""The page's labels for the flags of `attnlab look`, to translate its error messages."""


def look(arguments: dict[str, Any], attached: bytes, send_event: EventSender) -> tuple[Any, bytes]:
    """Captures what a model attends to in a text, or in the attached image."""
    del send_event
    compare = arguments["compare"]
    model = inspected_model(arguments["folder"])
    with temporary_image(attached) as image:
        result = look_into_model(
            model,
            arguments.get("text"),
            pair=arguments.get("second"),
            image=image,
            generate=arguments.get("generate", 0),
            compare=None if compare is None else inspected_model(compare),
            compare_text=arguments.get("compare_text"),
            untrained=arguments["untrained"],
            neurons=arguments["neurons"],
            effects=arguments.get("effects", False),
            max_tokens=limits.LOOK_TOKENS,
            memory=limits.LOOK_GIBIBYTES,
            title=None if image is None else f"{model.label}: an image",
        )
    if result.model is not None:
        SWITCHABLE_MODELS.add(arguments, attached, result.model)
    return {"title": result.capture.title}, capture_bytes(result)


def switch_heads(
    arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Predicts without some heads, on the input of an earlier `look`."""
    del send_event
    inspected = inspected_model(arguments["folder"])
    model = SWITCHABLE_MODELS.get(arguments, attached, inspected)
    if model is None:
        with temporary_image(attached) as image, evaluating(inspected.model):
            text, second = arguments.get("text"), arguments.get("second")
            generate = arguments.get("generate", 0)
            prepared = inspected.prepare(LookInput(text, second, image, generate))
        model = SwitchableModel(inspected, prepared)
        SWITCHABLE_MODELS.add(arguments, attached, model)
    request = SwitchRequest(
        [(layer, head) for layer, head in arguments["request"]["heads"]],
        arguments["request"]["position"],
    )
    return asdict(model.predict(request)), b""


class SwitchableModels:
    """The inputs that were looked at last, so that switching a head runs little of the model."""

    def __init__(self, capacity: int = 2) -> None:
        self.capacity = capacity
        self.models: OrderedDict[bytes, SwitchableModel] = OrderedDict()

    def add(self, arguments: dict[str, Any], image: bytes, model: SwitchableModel) -> None:
        self.models[self._key(arguments, image)] = model
        while len(self.models) > self.capacity:
            self.models.popitem(last=False)

    def get(
        self, arguments: dict[str, Any], image: bytes, inspected: InspectedModel
    ) -> SwitchableModel | None:
        """None if the input is not kept, or the model was loaded again."""
        model = self.models.get(self._key(arguments, image))
        return model if model is not None and model.inspected is inspected else None

    @staticmethod
    def _key(arguments: dict[str, Any], image: bytes) -> bytes:
        names = ("folder", "text", "second", "generate")
        values = [arguments.get(name) or None for name in names]
        return sha256(json.dumps(values).encode() + b"\0" + image).digest()


SWITCHABLE_MODELS = SwitchableModels()


@contextmanager
def temporary_image(content: bytes) -> Iterator[Path | None]:
    """The image as a file, or None without one. Errors inside get the page's words."""
    with TemporaryDirectory(prefix="attnlab-studio-") as folder:
        path = Path(folder) / "image"
        try:
            if content:
                path.write_bytes(content)
            yield path if content else None
        except ValueError as error:
            message = str(error).replace(str(path), "the image")
            raise ValueError(use_page_labels(message)) from None


def use_page_labels(message: str) -> str:
    for flag, label in PAGE_LABELS:
        message = re.sub(flag, label, message)
    return message


def inspected_model(folder: str) -> InspectedModel:
    return LOADED_MODELS.get("look", folder, open_model)


def capture_bytes(result: LookResult) -> bytes:
    """The content of a capture file."""
    content = b"".join(file_parts(*result.packed))
    if len(content) > MAX_CAPTURE_BYTES:
        raise ValueError(
            f"the capture has {len(content) // 2**20} MB, more than {MAX_CAPTURE_BYTES // 2**20}; "
            "give a shorter text, or leave out queries, keys and values"
        )
    return content


def example_images(
    arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Test images of the run's data: PNG in base64, and the label."""
    examples, _ = run_capability("classify", {**arguments, "examples": True}, attached, send_event)
    images = [
        {"png": b64encode(png).decode("ascii"), "label": label} for png, label in examples["images"]
    ]
    return images, b""


def classify(
    arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Classifies the attached image, and captures the attention if the model has any."""
    with temporary_image(attached) as path:
        assert path is not None  # an empty body is rejected before
        result, _ = run_capability("classify", {**arguments, "image": path}, b"", send_event)
        if not arguments["look"]:
            return result, b""
        model = inspected_model(arguments["folder"])
        known = result["known_label"]
        title = f"{model.label}: classified as {result['label']}"
        if known is not None:
            title += f", {'and' if known == result['label'] else 'but'} its label is {known}"
        capture = look_into_model(model, image=path, memory=limits.LOOK_GIBIBYTES, title=title)
    return result, capture_bytes(capture)
