"""Files that once broke a reader, and some that got far into one, are read, or refused in one line.

`python -m tests.fuzz` looks for more.
"""

from __future__ import annotations

import multiprocessing
import shutil
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from tests.fuzz import base_files
from tests.fuzz.runner import (
    MEMORY,
    corpus_files,
    kept_file,
    originals,
    prepare,
    read_mutant,
)
from tests.fuzz.targets import TARGETS
from tests.support.memory_limit import extra_memory

CORPUS = Path(__file__).parent / "corpus"
HANG_SECONDS = 120  # for one file; ends only what hangs


def test_files_of_the_corpus() -> None:
    """In another process, which may crash or hang. Base files are all accepted: otherwise their
    mutants would test only the first check."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=read_all, args=(sender,))
    child.start()
    sender.close()
    last, problems = "the base files", list[str]()
    try:
        while receiver.poll(HANG_SECONDS):
            last, problem = receiver.recv()
            problems += [problem] if problem else []
        pytest.fail(f"the file after {last} takes too long")
    except EOFError:
        child.join(HANG_SECONDS)
        assert (child.exitcode, last) == (0, "the end")
    finally:
        child.kill()
    assert problems == []


def read_all(sender: Connection) -> None:
    torch.set_num_threads(1)  # threads do not survive a fork
    try:
        prepare()
        for message in read_files():
            sender.send(message)
        sender.send(("the end", ""))
    finally:
        shutil.rmtree(base_files.root())


def read_files() -> Iterator[tuple[str, str]]:
    """The name of each file, and what went wrong with it."""
    for name, target in TARGETS.items():
        for path, content in originals(name):
            accepted = read_mutant(target, path, content)
            yield str(path), "" if accepted else f"{name}: {path} was refused"
    for name, kept in corpus_files(CORPUS):
        path = kept_file(TARGETS[name], kept)
        original = path.read_bytes()
        try:
            with extra_memory(MEMORY):
                read_mutant(TARGETS[name], path, kept.read_bytes())
        except BaseException:
            yield str(kept), f"{kept}: {traceback.format_exc(limit=-3)}"
        else:
            yield str(kept), ""
        path.write_bytes(original)
