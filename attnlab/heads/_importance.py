"""`attnlab heads --importance`: cuts a text file into texts and ablates every head on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attnlab._help_groups import MEASUREMENT


@dataclass(frozen=True)
class ImportanceSettings:
    """What the importance of a head is. The sentences are also the help of the command line."""

    metric: Annotated[
        str | None,
        "With --importance, the number whose change is measured: loss, probability, logit, "
        "logit_difference or distance. Without it, loss for a model that predicts next tokens, "
        "probability for classes, distance for an encoder of texts.",
        MEASUREMENT,
    ] = None
    answer: Annotated[
        str | None,
        "With --importance, the token whose probability or logit is measured, after the last one "
        "or at the mask. Without it, what the model itself predicts.",
        MEASUREMENT,
    ] = None
    other: Annotated[
        str | None, "With --metric logit_difference, the token to compare with.", MEASUREMENT
    ] = None
    how: Annotated[
        str,
        "With --importance, how a head is ablated: zero, mean, uniform or resample.",
        MEASUREMENT,
    ] = "zero"


TOKENS, TEXTS, IMAGES = 64, 10, 16


def importance(
    model: Path,
    text: Path | None,
    images: Path | None,
    settings: ImportanceSettings,
    *,
    tokens: int | None = None,
    windows: int | None = None,
    seed: int = 0,
    progress: Any = None,
) -> Any:
    """The `HeadImportance` of a model on pieces of a text file, pairs of texts, or images."""
    from attnlab.heads._inputs import read_inputs
    from attnlab.heads._model_reader import MIN_TOKENS
    from attnlab.interpret._adapters import open_model
    from attnlab.interpret._head_importance import head_importance

    for name, count, least in (("tokens", tokens, MIN_TOKENS), ("windows", windows, 1)):
        if count is not None and count < least:
            raise ValueError(f"--{name} {count}; give {least} or more")
    inputs = None if text is None else read_inputs(text)
    inspected = open_model(model)
    metric = settings.metric or {"vision": "probability", "encoder": "distance"}.get(
        inspected.kind, "loss"
    )
    options: dict[str, Any] = {
        "metric": metric, "answer": settings.answer, "other": settings.other, "how": settings.how,
        "seed": seed, "progress": progress,
    }  # fmt: skip
    if images is not None:
        return head_importance(inspected, images=image_files(images, windows or IMAGES), **options)
    assert inputs is not None
    if inspected.kind == "vision":
        raise ValueError(f"{inspected.label}: this model reads images; give --images")
    texts = _texts(inspected, inputs, tokens or TOKENS, windows or TEXTS)
    return head_importance(inspected, texts, **options)


def _texts(inspected: Any, inputs: Any, tokens: int, count: int) -> Sequence[Any]:
    """Pieces of token ids; for an encoder-decoder pairs of texts, or the lines of the file."""
    from attnlab.heads._model_reader import cut_pieces
    from attnlab.heads._run_heads import create_reader

    if inspected.kind == "encoder-decoder":
        pairs = [(pair.text, pair.summary) for pair in inputs.pairs]
        lines = [line for line in inputs.text.splitlines() if line.strip()]
        return [*pairs, *lines][:count]
    reader: Any = create_reader(inspected)
    before, after = reader.special_tokens()
    limit = min(tokens, reader.limit or tokens)
    size = limit - len(before) - len(after)
    pieces = cut_pieces(inputs.full_text, reader.encode, size, count, inspected.label)
    return [[*before, *piece, *after] for piece in pieces]


def image_files(folder: Path, count: int) -> list[Path]:
    """Up to `count` images of a folder and the folders in it, evenly spread."""
    from attnlab._image_files import SUFFIXES
    from attnlab.heads._inputs import spread_indices

    paths = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    files = [file for file in paths if file.suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(f"{folder}: has no images; give a folder of images")
    return [files[index] for index in spread_indices(len(files), count)]
