"""A small run of the vision task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.tasks.vision._training import train_vision
from tests.support.image_files import write_npz

TINY: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2}
QUICK: dict[str, Any] = {"steps": 40, "batch_size": 16, "device": "cpu"}


def trained(folder: Path, model: str = "vit", **changes: Any) -> dict[str, float]:
    """On dark and light squares, in a second."""
    data = folder / "set.npz"
    if not data.exists():
        write_npz(data, 60)
    settings: dict[str, Any] = {
        "out": folder / model, "model": model, "quiet": True,
        "sizes": TINY if model == "vit" else {"width": 4, "blocks": 1}, "training": QUICK,
    }  # fmt: skip
    return train_vision(data, **{**settings, **changes})
