"""Measures the peak memory of attention, each contender and length in a separate process."""

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
from attnlab.bench._attention_pass import PassKey, create_pass
from attnlab.bench._contenders import Contender, Sizes
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._settings import CostSettings
from attnlab.bench._speed_bench import Costs, check_measured, keys_that_fit

WARM_UP = 64  # tokens of a first call, so that what the library loads once does not count


def measure_memory(
    contenders: Sequence[Contender], settings: CostSettings, progress: BenchProgress = NO_PROGRESS
) -> Costs:
    """The peak resident memory of a call beyond its inputs. This includes scratch memory of
    operators, which a count of tensors would miss."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise ValueError(
            "bench memory: runs only on Linux and macOS, where it can fork a clean process"
        )
    sizes, costs = Sizes(settings.heads, settings.head_dim), Costs()
    steps = sum(2 * len(contender.causal) for contender in contenders) * len(settings.lengths)
    progress.begin("memory", steps)
    for contender in contenders:
        for tokens in settings.lengths:
            keys = keys_that_fit(contender, sizes, tokens, costs)
            progress.step(by=2 * len(contender.causal) - len(keys))
            for key in keys:
                progress.step(f"{contender.name}, {tokens:,} tokens")
                peak = peak_resident_bytes(contender, key, sizes, tokens, settings.threads)
                costs.values.setdefault(key, {})[tokens] = Estimate(float(peak))
    return check_measured(costs, settings)


def peak_resident_bytes(
    contender: Contender, key: PassKey, sizes: Sizes, tokens: int, threads: int
) -> int:
    """In a process forked from a clean one, so that memory left by other calls does not count."""
    context = multiprocessing.get_context("forkserver")
    _start_clean_process(context)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sender, contender, key, sizes, tokens, threads))
    child.start()
    sender.close()
    try:
        peak = receiver.recv()
    except EOFError:
        child.join()
        raise ValueError(
            f"bench memory: the process of {contender.name} at {tokens:,} tokens ended with exit "
            f"code {child.exitcode}, perhaps for lack of memory; give shorter --lengths"
        ) from None
    finally:
        child.join()
    assert isinstance(peak, int)
    return peak


def _start_clean_process(context: ForkServerContext) -> None:
    """Starts the process that all others are forked from, with the imports they need. It ignores
    interrupts: the main process handles them, without a second traceback."""
    context.set_forkserver_preload([__name__])
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may set a signal handler
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def _child(
    pipe: Connection, contender: Contender, key: PassKey, sizes: Sizes, tokens: int, threads: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends it without a traceback
    torch.set_num_threads(threads)
    _, causal, backward = key
    for length in (min(WARM_UP, tokens), tokens):
        inputs = sizes.inputs(length)
        module, attend = contender.create(sizes, length)
        leaves = [weight for weight in module.parameters() if weight.requires_grad]
        call = create_pass(attend, inputs, leaves, causal, backward)
        before = _peak_rss()
        call()
    with suppress(BrokenPipeError):  # the main process has ended
        pipe.send(_peak_rss() - before)


def _peak_rss() -> int:
    """Peak resident memory of this process in bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)
