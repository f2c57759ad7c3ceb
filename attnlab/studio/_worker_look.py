"""In a worker: captures of a model's attention, and classification of images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.interpret._adapters import open_model
from attnlab.interpret._capture_file import file_parts
from attnlab.interpret._inspected_model import InspectedModel
from attnlab.interpret._look import LookResult
from attnlab.interpret._look import look as look_into_model
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
            max_tokens=limits.LOOK_TOKENS,
            memory=limits.LOOK_GIBIBYTES,
            title=None if image is None else f"{model.label}: an image",
        )
    return {"title": result.capture.title}, capture_bytes(result)


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
