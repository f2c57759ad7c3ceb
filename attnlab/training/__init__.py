"""Training: one visible loop, and what it stands on."""

from __future__ import annotations

from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.training._batches import Batch, Loader, Task, bucket, mix, pad_rows
from attnlab.training._distributed import speaks
from attnlab.training._loop import train
from attnlab.training._progress import heard_by
from attnlab.training._run import Run
from attnlab.training._settings import Settings

__all__ = [
    "Batch",
    "InterruptedTraining",
    "Loader",
    "Run",
    "Settings",
    "Task",
    "TrainingStoppedError",
    "bucket",
    "heard_by",
    "mix",
    "pad_rows",
    "speaks",
    "train",
]
