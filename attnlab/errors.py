"""Exceptions that the command line knows by class. Imports nothing, so that help comes at once."""

from __future__ import annotations


class TrainingStoppedError(RuntimeError):
    """A run that could not go on; the message says where it stands and what to try."""

    exit_code = 1


class InterruptedTraining(TrainingStoppedError):  # noqa: N818 (a request, not an error)
    """SIGINT or SIGTERM: saved, and left."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
