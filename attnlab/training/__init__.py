"""Training: one loop for every task, with batches, optimizers, checkpoints and progress."""

from __future__ import annotations

from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.training._batches import (
    Batch,
    BatchLoader,
    TrainingTask,
    bucket_by_length,
    mix_seeds,
    pad_rows,
)
from attnlab.training._distributed import is_main_process
from attnlab.training._loop import train
from attnlab.training._progress import use_progress_listener
from attnlab.training._settings import Settings
from attnlab.training._trained_run import Run

__all__ = [
    "Batch",
    "BatchLoader",
    "InterruptedTraining",
    "Run",
    "Settings",
    "TrainingStoppedError",
    "TrainingTask",
    "bucket_by_length",
    "is_main_process",
    "mix_seeds",
    "pad_rows",
    "train",
    "use_progress_listener",
]
