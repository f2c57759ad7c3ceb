"""Runs trials on a Ray cluster, one task for each. Needs the extra `ray`.

Only plain data travels: a trial goes out as JSON text, and its attempt comes back as one frame with
the run folder as an uncompressed tar file. So the machines need no shared file system, but each
needs the same version of attnlab, and the files that options name. Ray runs the tasks of a lost
machine again.
"""

from __future__ import annotations

import io
import json
import logging
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attnlab._message_frames import pack_frame, read_frame
from attnlab._safe_files import write_atomically
from attnlab._short_repr import one_line
from attnlab.compare._jobs import TrialJob, describe_job
from attnlab.compare._process_runner import TRIES, TrialProcess, describe_end, read_answer
from attnlab.compare._runs import Attempt, Failure
from attnlab.errors import InterruptedTraining
from attnlab.run_folder import StartMode
from attnlab.training._loop import delay_signals

RETRIES = 3  # of a task whose machine or process was lost


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ValueError("--ray needs Ray; install it with pip install 'attnlab[ray]'") from None
    return ray


class RayRunner:
    """Runs jobs on all free cores of a cluster."""

    def __init__(self, address: str) -> None:
        self.ray, self.address = import_ray(), address
        try:
            if not self.ray.is_initialized():
                self.ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            raise ValueError(f"--ray {address}: no cluster answers there ({text})") from None
        self.slots = max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def run(self, jobs: Sequence[TrialJob]) -> Iterator[tuple[TrialJob, Attempt | None]]:
        remote = self.ray.remote(num_cpus=1, max_retries=RETRIES)(run_trial)
        texts = [json.dumps({**describe_job(job), "start": StartMode.NEW.value}) for job in jobs]
        remaining = {remote.remote(text): job for text, job in zip(texts, jobs, strict=True)}
        queued = deque(jobs)  # Ray starts them in about this order, and does not say when
        try:
            with delay_signals() as received:
                while remaining and not received:
                    while queued and len(remaining) - len(queued) < self.slots:
                        yield queued.popleft(), None
                    done, _ = self.ray.wait(list(remaining), timeout=0.5)
                    for reference in done:
                        job = remaining.pop(reference)
                        if job in queued:
                            queued.remove(job)
                            yield job, None
                        yield job, self._receive(job, reference)
                if remaining:
                    raise InterruptedTraining(
                        f"stopped; {len(remaining)} runs remain; continue with --resume",
                        received[0],
                    )
        finally:
            for reference in remaining:
                self.ray.cancel(reference, force=True)

    def _receive(self, job: TrialJob, reference: Any) -> Attempt:
        try:
            content = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:  # its last line is the error itself
            text = str(error).strip().rpartition("\n")[2].strip()[:200]
            raise ValueError(
                f"--ray {self.address}: a machine cannot run trials ({text})"
            ) from None
        except self.ray.exceptions.RayError as error:
            problem = f"was lost {RETRIES + 1} times on the cluster ({one_line(error)[:200]})"
            return Failure(job.trial, problem, retry=True)
        frame = read_frame(io.BytesIO(content))
        assert frame is not None
        answer, archive = frame
        attempt = read_answer(job, answer)
        if "attempt" in answer:
            unpack_folder(archive, job.folder)
        return attempt


def run_trial(text: str) -> bytes:
    """The task on a machine of the cluster: trains in a temporary folder and sends all back."""
    with tempfile.TemporaryDirectory(prefix="attnlab-") as temporary:
        job = json.loads(text)
        folder = Path(temporary) / Path(job["folder"]).name
        code = 0
        for _ in range(TRIES):
            process = TrialProcess({**job, "folder": str(folder)})
            try:
                answer = process.answer()
                code = process.process.returncode
            finally:
                process.close()
            if answer is not None and "interrupted" not in answer:
                return pack_frame(answer, pack_folder(folder))
            job["start"] = StartMode.RESUME.value
        return pack_frame({"problem": describe_end(code)})


def pack_folder(folder: Path) -> bytes:
    """The files of a folder as a tar file, without links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                archive.add(path, str(path.relative_to(folder)))
    return buffer.getvalue()


def unpack_folder(content: bytes, folder: Path) -> None:
    """Write the packed files as `folder`, in one step. An old one is replaced."""

    def write(path: Path) -> None:
        path.mkdir()
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(path, filter="data")

    write_atomically(folder, write)
