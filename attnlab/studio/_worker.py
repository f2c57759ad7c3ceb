"""A process that holds models and does what the server asks, one thing after the other.

    python -m attnlab.studio._worker

It ends with its standard input, so none outlives the server, however that ended.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import IO, Any

from attnlab.studio._http_errors import Refused
from attnlab.studio._worker_messages import Frame, packed, read_frame

CAPABILITY = "attnlab.studio._worker_runs"
CALLS = {
    "classify": "attnlab.studio._worker_look",
    "look": "attnlab.studio._worker_look",
    "registry": "attnlab.studio._worker_results",
    "claims": "attnlab.studio._worker_results",
    "bench": "attnlab.studio._worker_results",
}
"""Modules that have a function of this name; any other call is a capability of a run's task."""


class CancelledWork(Exception):  # noqa: N818 (a request, not an error)
    """Nobody waits any more."""


class Teller:
    """Sends what comes before the end. Each time is also a place to stop."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.cancelled = out, threading.Event()

    def send(self, message: dict[str, Any], content: bytes = b"") -> None:
        self.out.write(packed(message, content))
        self.out.flush()

    def __call__(self, event: str, data: Any) -> None:
        if self.cancelled.is_set():
            raise CancelledWork
        self.send({"tell": event, "data": data})


Call = Callable[[dict[str, Any], bytes, Teller], tuple[Any, bytes]]


def found(name: str) -> Call:
    """Imported at the first call: these modules import torch."""
    if name not in CALLS:
        return partial(import_module(CAPABILITY).use, name)
    call: Call = getattr(import_module(CALLS[name]), name)
    return call


def main() -> None:
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a model prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    teller, calls = Teller(out), queue.Queue[Frame]()
    threading.Thread(target=listen, args=(teller, calls), daemon=True).start()
    while True:
        message, content = calls.get()
        teller.cancelled.clear()
        teller.send({"taken": True})
        try:
            value, attached = found(message["call"])(message["with"], content, teller)
            teller.send({"done": value}, attached)
        except CancelledWork:
            teller.send({"done": None})
        except Refused as refused:
            teller.send({"wrong": refused.sentence, "status": refused.status})
        except ValueError as error:
            teller.send({"wrong": one_line(error), "status": 422})
        except Exception as error:
            traceback.print_exc()
            teller.send({"broken": f"{type(error).__name__}: {one_line(error)}"})


def listen(teller: Teller, calls: queue.Queue[Frame]) -> None:
    """What the server says, while the main thread works."""
    while True:
        frame = read_frame(sys.stdin.buffer)
        if frame is None:
            end()
            return
        if "cancel" in frame[0]:
            teller.cancelled.set()
        else:
            calls.put(frame)


def end() -> None:
    """With the processes that a claim or a bench began; they are in a group of our own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 500 else f"{text[:499]}…"


if __name__ == "__main__":
    main()
