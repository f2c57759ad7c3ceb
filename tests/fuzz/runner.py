"""Read mutants in a forked process that may crash, hang or run out of memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import random
import resource
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz import base_files
from tests.fuzz.targets import TARGETS, Target
from tests.support.memory_limit import extra_memory

MEMORY = 10**9
SECONDS, SLOW = 10.0, 2.0
MAX_MESSAGE = 2000
FIELDS = struct.Struct("<qqqddq")  # next mutant, accepted, refused, start of it, slowest, memory


class MessageError(Exception):
    """A refusal that is not one clear line."""


@dataclass
class Failure:
    target: str
    mutant: int
    problem: str
    file: str = ""


@dataclass
class Outcome:
    """What became of the mutants of one target."""

    target: str
    mutants: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    """Bytes that reading added to the process, at most."""
    failures: list[Failure] = field(default_factory=list)
    slow: list[Path] = field(default_factory=list)
    """Files that took seconds, though not too many."""


def make_mutant(name: str, number: int, seed: int) -> tuple[Path, bytes]:
    """The file that the mutant replaces, and the mutant."""
    rng = random.Random(f"{name}/{seed}/{number}")
    path, content = rng.choice(originals(name))
    return path, TARGETS[name].mutate(content, rng)


@cache
def originals(name: str) -> list[tuple[Path, bytes]]:
    """The files of a target. A killed process may leave a mutant in place of one."""
    target = TARGETS[name]
    paths = sorted(path for path in target.folder().glob(target.files) if path.is_file())
    return [(path, path.read_bytes()) for path in paths]


def read_mutant(target: Target, path: Path, mutant: bytes) -> bool:
    """Whether the mutant was accepted. Raises if it was refused in any way but one clear line."""
    path.write_bytes(mutant)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)
    except (ValueError, OSError) as error:
        message = str(error)
        if isinstance(error, UnicodeError | json.JSONDecodeError):
            raise MessageError(f"{type(error).__name__}: {message}") from error
        if not message or "\n" in message or len(message) > MAX_MESSAGE:
            raise MessageError(f"not one clear line: {message[:200]!r}") from error
        return False
    return True


def prepare() -> None:
    """Write the base files of all targets, before a fork: targets use each other's."""
    for target in TARGETS.values():
        target.folder()
    base_files.pictures()


def fuzz(name: str, mutants: int, seed: int, out: Path, first: int = 0) -> Outcome:
    """Read mutants `first` to `first + mutants` of a target; a child does it, and may die."""
    prepare()
    kept = originals(name)
    outcome, begin = Outcome(name), time.monotonic()
    shared = mmap.mmap(-1, FIELDS.size)
    log = out / f"{name}.log"
    number, end = first, first + mutants
    while number < end:
        FIELDS.pack_into(shared, 0, number, 0, 0, time.monotonic(), 0.0, 0)
        child = os.fork()
        if child == 0:
            _work(name, number, end, seed, shared, log)
        problem = _watch(child, shared)
        for path, content in kept:
            path.write_bytes(content)
        number, accepted, refused, _, slowest, memory = FIELDS.unpack_from(shared)
        outcome.accepted += accepted
        outcome.refused += refused
        outcome.slowest = max(outcome.slowest, slowest)
        outcome.memory = max(outcome.memory, memory)
        if problem:
            outcome.failures.append(Failure(name, number, problem))
            number += 1
    outcome.mutants, outcome.seconds = mutants, time.monotonic() - begin
    if log.exists():
        rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            if "problem" in row:
                outcome.failures.append(Failure(name, row["mutant"], row["problem"]))
            else:
                outcome.slow.append(_keep(Failure(name, row["mutant"], ""), seed, out))
        log.unlink()
    for failure in outcome.failures:
        failure.file = str(_keep(failure, seed, out))
    return outcome


def _work(name: str, number: int, end: int, seed: int, shared: Any, log: Path) -> None:
    """In the child: read mutants one after the other. Never returns."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    accepted = refused = 0
    too_large = False
    slowest, base = 0.0, _resident()
    with log.open("a", encoding="utf-8") as file, contextlib.suppress(KeyboardInterrupt):
        for mutant_number in range(number, end):
            path, mutant = make_mutant(name, mutant_number, seed)
            start = time.monotonic()
            numbers = (mutant_number, accepted, refused, start, slowest, _peak() - base)
            FIELDS.pack_into(shared, 0, *numbers)
            try:
                with extra_memory(MEMORY):
                    good = read_mutant(TARGETS[name], path, mutant)
                accepted, refused = accepted + good, refused + (not good)
            except BaseException:
                row = {"mutant": mutant_number, "problem": traceback.format_exc(limit=-8)}
                file.write(json.dumps(row) + "\n")
                file.flush()
            taken = time.monotonic() - start
            if _peak() - base > MEMORY and not too_large:  # the peak never falls: report it once
                too_large = True
                problem = f"needs {(_peak() - base) / 1e6:.0f} MB of memory"
                file.write(json.dumps({"mutant": mutant_number, "problem": problem}) + "\n")
                file.flush()
            if taken > SLOW:
                file.write(json.dumps({"mutant": mutant_number, "slow": taken}) + "\n")
                file.flush()
            slowest = max(slowest, taken)
            path.write_bytes(dict(originals(name))[path])
        FIELDS.pack_into(shared, 0, end, accepted, refused, 0.0, slowest, _peak() - base)
    os._exit(0)


def _watch(child: int, shared: Any) -> str:
    """Wait for the child, and kill it if one file takes too long. Returns what went wrong."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"the process died with exit code {code}"
        start = FIELDS.unpack_from(shared)[3]
        if start and time.monotonic() - start > SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"takes more than {SECONDS:g} seconds"
        time.sleep(0.02)


def _keep(failure: Failure, seed: int, out: Path) -> Path:
    """Write the mutant next to the others, so that it can be read again."""
    path, mutant = make_mutant(failure.target, failure.mutant, seed)
    folder = out / failure.target
    folder.mkdir(parents=True, exist_ok=True)
    relative = path.relative_to(TARGETS[failure.target].folder()).as_posix().replace("/", "@")
    kept = folder / f"{hashlib.sha256(mutant).hexdigest()[:8]}-{relative}"
    kept.write_bytes(mutant)
    return kept


def kept_file(target: Target, kept: Path) -> Path:
    """The file that a kept mutant replaces."""
    return target.folder() / kept.name.partition("-")[2].replace("@", "/")


def corpus_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("*/*")):
        yield path.parent.name, path


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
