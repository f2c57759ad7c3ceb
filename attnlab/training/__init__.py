"""Training: one visible loop, and what it stands on."""

from __future__ import annotations

from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.training.data import Batch, Loader, Task, bucket, mix, pad_rows
from attnlab.training.distributed import speaks
from attnlab.training.loop import train
from attnlab.training.progress import heard_by
from attnlab.training.run import Run
from attnlab.training.settings import Settings

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
