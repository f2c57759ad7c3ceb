"""A run folder with its model: what needs torch."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import attnlab
from attnlab.models import Model, create
from attnlab.models._model import load_weights
from attnlab.run_folder import RunFolder
from attnlab.run_folder._checkpoints import newest_good
from attnlab.run_folder._file_names import CONFIG, WEIGHTS
from attnlab.tasks.registry import result_files
from attnlab.training._settings import Settings


class Run(RunFolder):
    """One training run's folder, whatever the task."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder, result_files())

    def model(self) -> Model:
        """The trained model; while there is none, that of the newest checkpoint."""
        description = self.config()["model"]
        path = self.folder / WEIGHTS
        if not self.finished:
            newest, _ = newest_good(self.checkpoints)
            if newest is None:
                raise ValueError(f"{self.folder}: has no weights yet; train it first")
            path = newest / WEIGHTS
        model = create(description, self.folder / CONFIG)
        load_weights(model, path)
        return model.eval()

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:
        """Write the trained weights."""
        self.write(WEIGHTS, lambda part: save_file(tensors, part))


def versions() -> dict[str, str]:
    return {
        "attnlab": attnlab.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def as_begun(settings: Settings, out: str | Path, given: Mapping[str, Any]) -> Settings:
    """Settings of a run that goes on in `out`: a warmup that nobody gave was made from the steps,
    and with more of them stays what the run began with."""
    if given.get("warmup_steps") is not None:
        return settings
    return replace(
        settings,
        warmup_steps=Run(out).config()["training"].get("warmup_steps", settings.warmup_steps),
    )
