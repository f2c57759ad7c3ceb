"""Runs trials in several processes, each new for its trial and with one thread.

They are new programs, not forks, because PyTorch's threads would not survive a fork. A thread of
this process serves each of them. They end with this process, also if it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, cast

import attnlab
from attnlab._message_frames import pack_frame, read_frame
from attnlab.compare._jobs import TrialJob, describe_job, read_attempt, resumed
from attnlab.compare._runs import Attempt, Failure
from attnlab.errors import InterruptedTraining
from attnlab.training._loop import delay_signals

PROGRAM = "attnlab.compare._trial_process"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
STOP_SECONDS = 30.0  # for a process to save a checkpoint; then it is killed
TRIES = 2  # a process that something killed is started again once


class TrialStoppedError(Exception):
    """The trial ended early, because it was asked to."""


class TrialProcess:
    """One process for one trial."""

    def __init__(self, job: dict[str, Any]) -> None:
        package = str(Path(attnlab.__file__).parent.parent)
        paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._send(job)

    def _send(self, message: dict[str, Any]) -> None:
        stdin = cast(IO[bytes], self.process.stdin)
        with suppress(BrokenPipeError, ValueError):  # it has ended already
            stdin.write(pack_frame(message))
            stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """What the process sends before it ends; None if it was killed."""
        try:
            frame = read_frame(cast(IO[bytes], self.process.stdout))
        except ValueError:  # it was cut, so it is not JSON
            frame = None
        self.process.wait()
        return None if frame is None else frame[0]

    def stop(self) -> None:
        """Ask it to save a checkpoint and to end."""
        self._send({"stop": True})

    def kill(self) -> None:
        """Kill it and what it started, which is in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                cast(IO[bytes], stream).close()


class ProcessRunner:
    """Runs jobs in `slots` processes at a time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running: set[TrialProcess] = set()
        self.lock = threading.Lock()
        self.stopping = False

    def run(self, jobs: Sequence[TrialJob]) -> Iterator[tuple[TrialJob, Attempt | None]]:
        waiting = deque((job, describe_job(job)) for job in jobs)
        events: SimpleQueue[tuple[TrialJob, Attempt | Exception | None]] = SimpleQueue()
        serve = lambda: self._serve(waiting, events)  # noqa: E731
        threads = [threading.Thread(target=serve) for _ in range(min(self.slots, len(jobs)))]
        finished = 0
        with delay_signals() as received:
            try:
                for thread in threads:
                    thread.start()
                while finished < len(jobs) and not received:
                    with suppress(Empty):
                        job, event = events.get(timeout=0.2)
                        if isinstance(event, Exception):
                            raise event
                        finished += event is not None
                        yield job, event
            finally:
                self._stop(threads, received)
            while finished < len(jobs):  # what was finished while the others stopped
                try:
                    job, event = events.get_nowait()
                except Empty:
                    break
                if event is not None and not isinstance(event, Exception):
                    finished += 1
                    yield job, event
            if received and finished < len(jobs):
                raise InterruptedTraining(
                    f"stopped; {len(jobs) - finished} runs remain; continue with --resume",
                    received[0],
                )

    def _serve(
        self,
        waiting: deque[tuple[TrialJob, dict[str, Any]]],
        events: SimpleQueue[tuple[TrialJob, Attempt | Exception | None]],
    ) -> None:
        while True:
            with self.lock:
                if self.stopping or not waiting:
                    return
                job, content = waiting.popleft()
            events.put((job, None))
            try:
                events.put((job, self._run(job, content)))
            except TrialStoppedError:
                return
            except Exception as error:  # the main thread raises it
                events.put((job, error))
                return

    def _run(self, job: TrialJob, content: dict[str, Any]) -> Attempt:
        for _ in range(TRIES):
            with self.lock:
                if self.stopping:
                    raise TrialStoppedError
                process = TrialProcess(content)
                self.running.add(process)
            try:
                answer = process.answer()
            finally:
                with self.lock:
                    self.running.discard(process)
                process.close()
            if answer is not None and "interrupted" not in answer:
                return read_answer(job, answer)
            content = describe_job(resumed(job))
        if self.stopping:
            raise TrialStoppedError
        return Failure(job.trial, describe_end(process.process.returncode), retry=True)

    def _stop(self, threads: Sequence[threading.Thread], received: list[int]) -> None:
        """End all processes: with a checkpoint after a signal, at once after an error or a second
        signal."""
        with self.lock:
            self.stopping = True
            running = list(self.running)
        for process in running:
            process.stop() if received else process.kill()
        rounds = int(STOP_SECONDS / 0.1)
        for number in range(2 * rounds):
            if not any(thread.is_alive() for thread in threads):
                return
            if number >= rounds or len(received) > 1:
                for process in running:
                    process.kill()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(0.1 / len(threads))


def read_answer(job: TrialJob, answer: dict[str, Any]) -> Attempt:
    """The attempt that a process sent, or its error."""
    if "error" in answer:
        raise ValueError(answer["error"])
    if "problem" in answer:
        return Failure(job.trial, answer["problem"], retry=True)
    return read_attempt(answer["attempt"])


def describe_end(code: int) -> str:
    """How a process ended that sent nothing."""
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    memory = "; there may be too little memory" if -code == signal.SIGKILL else ""
    return f"its process ended {how}, {TRIES} times{memory}"
