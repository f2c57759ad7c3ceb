"""A process that holds models and executes the server's calls one after the other.

    python -m attnlab.studio._worker

It exits when its standard input closes, so it never outlives the server.
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

from attnlab._message_frames import Frame, pack_frame, read_frame
from attnlab.studio._http_errors import RequestError

CAPABILITY_MODULE = "attnlab.studio._worker_runs"
CALLS = {
    "classify": "attnlab.studio._worker_look",
    "example_images": "attnlab.studio._worker_look",
    "look": "attnlab.studio._worker_look",
    "switch_heads": "attnlab.studio._worker_look",
    "registry": "attnlab.studio._worker_results",
    "claims": "attnlab.studio._worker_results",
    "bench": "attnlab.studio._worker_results",
}
"""Modules by the name of their function. Any other call is a capability of a run's task."""


class CallCancelled(Exception):  # noqa: N818 (a request, not an error)
    """The server cancelled the call."""


class EventSender:
    """Sends events of a call before its result. Raises CallCancelled once the call is cancelled."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.cancelled = out, threading.Event()

    def send(self, message: dict[str, Any], attached: bytes = b"") -> None:
        self.out.write(pack_frame(message, attached))
        self.out.flush()

    def __call__(self, event: str, data: Any) -> None:
        if self.cancelled.is_set():
            raise CallCancelled
        self.send({"event": event, "data": data})


Call = Callable[[dict[str, Any], bytes, EventSender], tuple[Any, bytes]]


def find_call(name: str) -> Call:
    """Imports the function at its first call, because these modules import torch."""
    if name not in CALLS:
        return partial(import_module(CAPABILITY_MODULE).run_capability, name)
    call: Call = getattr(import_module(CALLS[name]), name)
    return call


def main() -> None:
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a model prints is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C
    sender, calls = EventSender(out), queue.Queue[Frame]()
    threading.Thread(target=read_input, args=(sender, calls), daemon=True).start()
    while True:
        message, attached = calls.get()
        sender.cancelled.clear()
        try:
            call = find_call(message["call"])
            sender.send({"started": True})  # imports are done: until now another worker may take it
            value, attached = call(message["arguments"], attached, sender)
            sender.send({"done": value}, attached)
        except CallCancelled:
            sender.send({"done": None})
        except RequestError as error:
            sender.send({"error": error.message, "status": error.status})
        except ValueError as error:
            sender.send({"error": to_one_line(error), "status": 422})
        except Exception as error:
            traceback.print_exc()
            sender.send({"crash": f"{type(error).__name__}: {to_one_line(error)}"})


def read_input(sender: EventSender, calls: queue.Queue[Frame]) -> None:
    """Reads calls and cancellations while the main thread works."""
    while True:
        frame = read_frame(sys.stdin.buffer)
        if frame is None:
            exit_with_children()
            return
        if "cancel" in frame[0]:
            sender.cancelled.set()
        else:
            calls.put(frame)


def exit_with_children() -> None:
    """Exits, and kills the processes that a claim or a bench started: they share its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def to_one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 500 else f"{text[:499]}…"


if __name__ == "__main__":
    main()
