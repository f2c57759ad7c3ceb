"""Measures the CPU time of a call on one thread, and the memory of tensors alive at once."""

from __future__ import annotations

import math
import statistics
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.mechanisms._compiled import peak_scratch_bytes

Call = Callable[[], object]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Sets the number of PyTorch threads inside the block, then restores it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """CPU time of two threads does not measure the work: it counts their waiting too."""
    return threads(1)


def seconds(call: Call, times: int = 1) -> float:
    """Mean CPU time of one call. Other processes slow it only by their use of the caches, which
    always adds time, so callers take the least of several measurements."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


@torch.no_grad()
def least_seconds(calls: Sequence[Call], rounds: int = 3) -> list[float]:
    """For each call the least CPU time over several rounds, after one warm-up round."""
    with one_thread():
        rows = [[seconds(call) for call in calls] for _ in range(rounds + 1)]
    return [min(column) for column in zip(*rows[1:], strict=True)]


@torch.no_grad()
def peak_bytes_no_grad(call: Call) -> int:
    """`peak_tensor_bytes` of a call without gradients."""
    return peak_tensor_bytes(call)


def peak_tensor_bytes(call: Call) -> int:
    """The most bytes that tensors created by the call hold at once, with the scratch memory of
    attnlab's kernels in C. Scratch memory of PyTorch's own operators does not count. `bench memory`
    counts it, in a separate process, but with a resolution of about a megabyte."""
    with _AliveTensors() as tensors:
        call()
        tensors.count_scratch()
    return tensors.most


class _AliveTensors(TorchDispatchMode):
    """Counts each storage once, from the first tensor on it that an operator returns until the
    last one is deleted. Storages that exist before the call do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.users: dict[int, int] = {}
        peak_scratch_bytes()  # resets the count of earlier calls

    def count_scratch(self) -> None:
        """Adds the scratch memory of kernels called since the last count to the tensors alive."""
        self.most = max(self.most, self.now + peak_scratch_bytes())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        inputs = {
            _storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)
        }
        self.count_scratch()  # of kernels called without the dispatcher
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._add(leaf, inputs)
        self.count_scratch()
        return out

    def _add(self, tensor: Tensor, inputs: set[int]) -> None:
        storage, size = _storage(tensor), tensor.untyped_storage().nbytes()
        if storage not in self.users:
            if storage in inputs:
                return
            self.users[storage] = 0
            self.now += size
            self.most = max(self.most, self.now)
        self.users[storage] += 1
        weakref.finalize(tensor, self._remove, storage, size)

    def _remove(self, storage: int, size: int) -> None:
        self.users[storage] -= 1
        if not self.users[storage]:
            del self.users[storage]
            self.now -= size


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def crossing(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> float:
    """Where two lines fitted on logarithmic axes cross; infinity if they are parallel."""
    (slope_a, start_a), (slope_b, start_b) = (
        statistics.linear_regression(
            [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
        )
        for points in (first, second)
    )
    if slope_a == slope_b:
        return math.inf
    return math.exp(min(700.0, (start_a - start_b) / (slope_b - slope_a)))
