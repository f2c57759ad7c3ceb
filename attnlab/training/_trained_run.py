"""A run folder with its trained model. Unlike `attnlab.run_folder`, this needs torch."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import attnlab
from attnlab._short_repr import short_repr
from attnlab._tensor_files import save_tensors
from attnlab.models import Model, open_model
from attnlab.run_folder import RunFolder
from attnlab.run_folder._checkpoints import newest_intact_checkpoint
from attnlab.run_folder._file_names import CONFIG, WEIGHTS
from attnlab.tasks.registry import result_files
from attnlab.tokenizer import Tokenizer, load_tokenizer
from attnlab.training._settings import Settings


class Run(RunFolder):
    """The folder of one training run, for any task."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder, result_files())

    def model(self) -> Model:
        """The trained model; before training ends, the model of the newest checkpoint."""
        description = self.config()["model"]
        path = self.folder / WEIGHTS
        if not self.finished:
            newest, _ = newest_intact_checkpoint(self.checkpoints)
            if newest is None:
                raise ValueError(f"{self.folder}: has no weights yet; train it first")
            path = newest / WEIGHTS
        return open_model(description, self.folder / CONFIG, path)

    def config_of(self, task: str) -> dict[str, Any]:
        """The configuration of a run of this task; any other run is refused."""
        config = self.config()
        name = config["task"].get("name")
        if name != task:
            raise ValueError(
                f"{self.folder}: is a run of task {short_repr(name)}; give a run of task {task!r}"
            )
        return config

    def tokenizer(self, model: Model) -> Tokenizer:
        """The tokenizer of the run, whose ids this model must know."""
        tokenizer = load_tokenizer(self.folder)
        check_vocabulary(tokenizer, model, self.folder)
        return tokenizer

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:
        """Write the trained weights."""
        self.write(WEIGHTS, lambda part: save_tensors(tensors, part))


def check_vocabulary(tokenizer: Tokenizer, model: Model, folder: object) -> None:
    """Refuse a tokenizer with ids that the model does not know."""
    known = model.vocabulary
    if known is not None and tokenizer.vocabulary > known:
        raise ValueError(
            f"{folder}: its tokenizer has {tokenizer.vocabulary:,} ids, but its model knows "
            f"{known:,}; they do not belong together"
        )


def versions() -> dict[str, str]:
    return {
        "attnlab": attnlab.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def resumed_settings(settings: Settings, out: str | Path, options: Mapping[str, Any]) -> Settings:
    """The settings to resume the run in `out` with. A warmup that you did not set was computed from
    the steps; with more steps, it stays what the run began with."""
    if options.get("warmup_steps") is not None:
        return settings
    return replace(
        settings,
        warmup_steps=Run(out).config()["training"].get("warmup_steps", settings.warmup_steps),
    )
