"""In a worker: what a model attends to, and what it sees in an image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.interpret._adapters import open_subject
from attnlab.interpret._capture_file import parts_of
from attnlab.interpret._inspected_model import Subject
from attnlab.interpret._look import Looked
from attnlab.interpret._look import look as looking
from attnlab.studio import _request_limits as limits
from attnlab.studio._loaded_models import MODELS
from attnlab.studio._worker import Teller
from attnlab.studio._worker_runs import use

MOST = limits.CAPTURE_BYTES // 4


FLAGS = (
    ("--image FILE", "an image"),
    ("--text and --compare-text", "the texts"),
    ("--text", "a text"),
    ("--image", "the image"),
    ("--generate", "“Tokens to write on”"),
    ("--pair", "“Second text”"),
    (r"--max-tokens is (\d+): give a shorter text, .*", r"\1 are the most: give a shorter text"),
)
"""What the command calls a flag has another name on the page."""


def look(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """The bytes of an image, where there is one instead of a text, come behind the call."""
    del tell
    compare = given["compare"]
    subject = subject_of(given["folder"])
    with image_file(content) as image:
        found = looking(
            subject,
            given.get("text"),
            pair=given.get("second"),
            image=image,
            generate=given.get("generate", 0),
            compare=None if compare is None else subject_of(compare),
            compare_text=given.get("compare_text"),
            untrained=given["untrained"],
            neurons=given["neurons"],
            max_tokens=limits.LOOK_TOKENS,
            memory=limits.LOOK_GIBIBYTES,
            title=None if image is None else f"{subject.label}: an image",
        )
    return {"title": found.capture.title}, packed(found)


@contextmanager
def image_file(content: bytes) -> Iterator[Path | None]:
    """The image as a file, None without one; what is wrong then is told in the page's words."""
    with TemporaryDirectory(prefix="attnlab-studio-") as folder:
        path = Path(folder) / "image"
        try:
            if content:
                path.write_bytes(content)
            yield path if content else None
        except ValueError as error:
            raise ValueError(in_page_words(str(error).replace(str(path), "the image"))) from None


def in_page_words(sentence: str) -> str:
    for flag, words in FLAGS:
        sentence = re.sub(flag, words, sentence)
    return sentence


def subject_of(folder: str) -> Subject:
    return MODELS.get("look", folder, open_subject)


def packed(found: Looked) -> bytes:
    """A capture file."""
    content = b"".join(parts_of(*found.packed))
    if len(content) > MOST:
        raise ValueError(
            f"the capture has {len(content) // 2**20} MB; {MOST // 2**20} are the most: give a "
            "shorter text, or leave out queries, keys and values"
        )
    return content


def classify(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """What an image shows, and a capture where the model has attention. The image's bytes come
    behind the call."""
    with image_file(content) as path:
        assert path is not None  # an empty body is refused before
        found, _ = use("classify", {**given, "image": path}, b"", tell)
        if not given["look"]:
            return found, b""
        subject = subject_of(given["folder"])
        title = f"{subject.label}: {found['label']}"
        looked = looking(subject, image=path, memory=limits.LOOK_GIBIBYTES, title=title)
    return found, packed(looked)
