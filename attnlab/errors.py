"""Exceptions that the command line handles. Imports nothing, so that `--help` is fast."""

from __future__ import annotations


class TrainingStoppedError(RuntimeError):
    """Training could not continue; the message says at which step and what to try."""

    exit_code = 1


class InterruptedTraining(TrainingStoppedError):  # noqa: N818 (a request, not an error)
    """Training was stopped by SIGINT or SIGTERM and saved a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
