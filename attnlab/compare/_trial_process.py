"""The program of one trial: it reads a job, trains and measures it, and writes the attempt.

`python -m attnlab.compare._trial_process` is started by `attnlab.compare._process_runner`. Messages
are frames of JSON; nothing is pickled. It ends when the process that started it ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import IO, Any

from attnlab import __version__
from attnlab._message_frames import pack_frame, read_frame
from attnlab._short_repr import one_line
from attnlab.extensions import VARIABLE


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; the parent decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the frames
    frame = read_frame(sys.stdin.buffer)
    if frame is None:
        os._exit(1)
    threading.Thread(target=_watch, args=(sys.stdin.buffer,), daemon=True).start()
    answers.write(pack_frame(_answer(frame[0])))
    answers.flush()
    os._exit(0)  # without waiting for the thread, which reads


def _watch(source: IO[bytes]) -> None:
    """Stop if the parent asks to, with a checkpoint; end at once if it has ended."""
    if read_frame(source) is None:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)
    read_frame(source)
    os._exit(1)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    import torch

    from attnlab.compare._jobs import pack_attempt, read_job, run_job
    from attnlab.errors import InterruptedTraining

    if job["version"] != __version__:
        return {"error": f"attnlab {job['version']} sent a trial to attnlab {__version__}"}
    os.environ[VARIABLE] = job["extensions"]  # of the machine that started the comparison
    torch.set_num_threads(1)
    try:
        return {"attempt": pack_attempt(run_job(read_job(job), quiet=True))}
    except InterruptedTraining:
        return {"interrupted": True}
    except (ValueError, OSError) as error:
        return {"error": " ".join(str(error).split())}
    except Exception as error:
        traceback.print_exc()
        return {"problem": f"{type(error).__name__}: {one_line(error)}"}


if __name__ == "__main__":
    main()
