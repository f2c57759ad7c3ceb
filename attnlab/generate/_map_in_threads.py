"""Run parts of one job in parallel threads on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

from attnlab.generate._generation_base import Decodable, device_of, inference

BATCH = 128  # rows at once: enough to use the machine, few enough to fit into its caches
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(
    model: Decodable, work: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """work(item) for each item, in order; on a CPU as many at once as PyTorch has threads.

    A decoding step has many small products, which several threads hardly speed up. One thread per
    item keeps all cores busy, because PyTorch releases Python's lock while it computes.
    """
    threads = torch.get_num_threads()
    sequential = device_of(model).type != "cpu" or torch.is_autocast_enabled("cpu")
    if sequential or threads < 2 or len(items) < 2:
        return [work(item) for item in items]

    def work_on_one_thread(item: Item) -> Result:
        torch.set_num_threads(1)  # for this thread and those that it starts
        return work(item)

    # Set and restore the model's mode once, because the threads would overwrite it for each other.
    with inference(model), ThreadPoolExecutor(min(threads, len(items))) as pool:
        try:
            jobs = [pool.submit(copy_context().run, work_on_one_thread, item) for item in items]
            return [job.result() for job in jobs]
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)
