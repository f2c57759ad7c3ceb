"""A worker whose models are quick to make: it does what a question says.

python -m tests.support.studio_worker
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from attnlab.studio import _worker as worker
from attnlab.studio._worker import Teller


def ask(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """Each question is an order."""
    del content
    for order in given["questions"]:
        word, _, rest = order.partition(" ")
        if word == "sleep":
            time.sleep(float(rest))
        elif word == "touch":
            Path(rest).touch()
        elif word == "count":
            for number in range(int(rest)):
                tell("token", {"summary": 0, "text": "x" * (number % 50)})
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
    threshold = {"known": None, "guess": 0.5, "fitted_on": "nothing"}
    about = {"pid": os.getpid(), "torch": "torch" in sys.modules}
    return {"answers": [], "threshold": threshold, **about}, b"attached"


def write(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """Each line is an order."""
    return ask({"questions": given["text"].splitlines()}, content, tell)


if __name__ == "__main__":
    worker.CALLS |= dict.fromkeys(("ask", "write", "bench"), "tests.support.studio_worker")
    worker.main()
