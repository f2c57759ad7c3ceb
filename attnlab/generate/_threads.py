"""Parts of one job beside each other on a CPU's cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

from attnlab.generate._decoding import Decodable, device_of, inference

Part = TypeVar("Part")
Result = TypeVar("Result")


def side_by_side(
    model: Decodable, work: Callable[[Part], Result], parts: Sequence[Part]
) -> list[Result]:
    """work(part) for each part, in order; on a CPU as many at once as PyTorch has threads.

    A decoding step is many small products, which several threads hardly make faster together. One
    thread for each part keeps all of them busy: PyTorch lets go of Python's lock while it computes.
    """
    threads = torch.get_num_threads()
    alone = device_of(model).type != "cpu" or torch.is_autocast_enabled("cpu")
    if alone or threads < 2 or len(parts) < 2:
        return [work(part) for part in parts]

    def begin(part: Part) -> Result:
        torch.set_num_threads(1)  # of this thread, and of those that are born after it
        return work(part)

    # The model's mode is set and given back once for all: they would take it from each other.
    with inference(model), ThreadPoolExecutor(min(threads, len(parts))) as pool:
        try:
            jobs = [pool.submit(copy_context().run, begin, part) for part in parts]
            return [job.result() for job in jobs]
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)
