"""What a computation costs: CPU time of one thread, memory of tensors alive at once."""

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

from attnlab.mechanisms._compiled import most_scratch

Call = Callable[[], object]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of PyTorch inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Time of two threads is no measure of work: they wait for each other, and that counts."""
    return threads(1)


def seconds(call: Call, times: int = 1) -> float:
    """CPU time of one call. Time that other processes take does not count, though their use of
    the caches does: noise only ever adds, so callers take the least of several."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


@torch.no_grad()
def least_seconds(calls: Sequence[Call], rounds: int = 3) -> list[float]:
    """Of each call the least of several rounds, after one that warms up."""
    with one_thread():
        found = [[seconds(call) for call in calls] for _ in range(rounds + 1)]
    return [min(column) for column in zip(*found[1:], strict=True)]


@torch.no_grad()
def peak_bytes(call: Call) -> int:
    """`most_alive` of a call that needs no gradients."""
    return most_alive(call)


def most_alive(call: Call) -> int:
    """The most that tensors made inside held at once, with what attnlab's kernels in C work in.
    What PyTorch's own operators use inside is not seen; `bench.memory` sees all, in a process of
    its own, but nothing below a megabyte or so."""
    with _Alive() as alive:
        call()
        alive.count_scratch()
    return alive.most


class _Alive(TorchDispatchMode):
    """Counts each storage once, from the first tensor on it that an operator returns until the
    last one is gone. Storages that operators are given from outside do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.users: dict[int, int] = {}
        most_scratch()  # of earlier calls

    def count_scratch(self) -> None:
        """Kernels that were called since the last count worked beside the tensors alive now."""
        self.most = max(self.most, self.now + most_scratch())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = {_storage(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        self.count_scratch()  # of kernels called without the dispatcher
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, Tensor):
                self._enter(each, given)
        self.count_scratch()
        return out

    def _enter(self, tensor: Tensor, given: set[int]) -> None:
        storage, size = _storage(tensor), tensor.untyped_storage().nbytes()
        if storage not in self.users:
            if storage in given:
                return
            self.users[storage] = 0
            self.now += size
            self.most = max(self.most, self.now)
        self.users[storage] += 1
        weakref.finalize(tensor, self._leave, storage, size)

    def _leave(self, storage: int, size: int) -> None:
        self.users[storage] -= 1
        if not self.users[storage]:
            del self.users[storage]
            self.now -= size


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def crossing(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> float:
    """Where the lines through both meet, on logarithmic axes; infinity if they are parallel."""
    (slope_a, start_a), (slope_b, start_b) = (
        statistics.linear_regression(
            [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
        )
        for points in (first, second)
    )
    if slope_a == slope_b:
        return math.inf
    return math.exp(min(700.0, (start_a - start_b) / (slope_b - slope_a)))
