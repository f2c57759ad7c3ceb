"""How much memory attention takes at once, each measured in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

import torch

from attnlab._confidence_intervals import Estimate
from attnlab.bench._attention_pass import Way, pass_of
from attnlab.bench._contenders import Contender, Sizes
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._settings import CostSettings
from attnlab.bench._speed_bench import Costs, fitting, some

WARM = 64  # tokens of a first call, which loads what the library loads but once


def measure_memory(
    parties: Sequence[Contender], settings: CostSettings, progress: Progress = SILENT
) -> Costs:
    """The most that a call had resident beyond its inputs. Memory that operators use inside counts,
    which a count of tensors would not see."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise ValueError("bench memory: needs Linux or macOS, to start a clean process for each")
    sizes, found = Sizes(settings.heads, settings.head_dim), Costs()
    steps = sum(2 * len(each.causal) for each in parties) * len(settings.lengths)
    progress.begin("memory", steps)
    for party in parties:
        for tokens in settings.lengths:
            ways = fitting(party, sizes, tokens, found)
            progress.step(by=2 * len(party.causal) - len(ways))
            for way in ways:
                progress.step(f"{party.name}, {tokens:,} tokens")
                taken = peak_bytes(party, way, sizes, tokens, settings.threads)
                found.values.setdefault(way, {})[tokens] = Estimate(float(taken))
    return some(found, settings)


def peak_bytes(party: Contender, way: Way, sizes: Sizes, tokens: int, threads: int) -> int:
    """In a process that was forked from a clean one: what others left behind does not count."""
    context = multiprocessing.get_context("forkserver")
    _ready(context)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, party, way, sizes, tokens, threads))
    child.start()
    theirs.close()
    try:
        taken = ours.recv()
    except EOFError:
        child.join()
        raise ValueError(
            f"bench memory: {party.name} at {tokens:,} tokens was ended by the system "
            f"(exit code {child.exitcode}), for want of memory perhaps; give shorter --lengths"
        ) from None
    finally:
        child.join()
    assert isinstance(taken, int)
    return taken


def _ready(context: ForkServerContext) -> None:
    """The clean process, which imports what all need. It takes no interrupt: the one who waits
    for it does, and tells of it in no words."""
    context.set_forkserver_preload([__name__])
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may say what a signal does
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def _child(
    pipe: Connection, party: Contender, way: Way, sizes: Sizes, tokens: int, threads: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # when interrupted it ends without a word
    torch.set_num_threads(threads)
    _, causal, backward = way
    for length in (min(WARM, tokens), tokens):
        inputs = sizes.inputs(length)
        module, attend = party.create(sizes, length)
        leaves = [each for each in module.parameters() if each.requires_grad]
        call = pass_of(attend, inputs, leaves, causal, backward)
        before = _most_so_far()
        call()
    with suppress(BrokenPipeError):  # whoever asked is gone
        pipe.send(_most_so_far() - before)


def _most_so_far() -> int:
    """Bytes that this process had resident at most."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * (1 if sys.platform == "darwin" else 1024)
