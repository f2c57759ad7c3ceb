"""A worker without models: it executes each question as a command.

python -m tests.support.studio_fake_worker
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from attnlab.studio import _worker as worker
from attnlab.studio._worker import EventSender


def ask(arguments: dict[str, Any], attached: bytes, send_event: EventSender) -> tuple[Any, bytes]:
    """Executes each question."""
    del attached
    for question in arguments["questions"]:
        word, _, rest = question.partition(" ")
        if word == "sleep":
            time.sleep(float(rest))
        elif word == "wait":
            while not Path(rest).exists():
                time.sleep(0.01)
        elif word == "touch":
            Path(rest).touch()
        elif word == "count":
            for number in range(int(rest)):
                send_event("token", {"generation": 0, "text": "x" * (number % 50)})
                time.sleep(0.0005)
        elif word == "refuse":
            raise ValueError("this question\ncannot be read")
        elif word == "break":
            raise RuntimeError("weights of\nanother shape")
        elif word == "print":
            print(rest)
        elif word == "end":
            os._exit(7)
        elif word == "forget":
            return {"answers": []}, bytes(int(rest))
    threshold = {"known": None, "guess": 0.5, "fitted": True, "fitted_on": "nothing"}
    process = {"pid": os.getpid(), "torch": "torch" in sys.modules}
    return {"answers": [], "threshold": threshold, **process}, b"attached"


def write(arguments: dict[str, Any], attached: bytes, send_event: EventSender) -> tuple[Any, bytes]:
    """Executes each line."""
    return ask({"questions": arguments["text"].splitlines()}, attached, send_event)


if __name__ == "__main__":
    worker.CALLS |= dict.fromkeys(("ask", "write", "bench"), "tests.support.studio_fake_worker")
    worker.CALLS["dying_import"] = "tests.support.studio_dying_import"
    worker.main()
