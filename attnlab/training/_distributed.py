"""Training in one or several processes, with torchrun, DDP and FSDP2."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attnlab.layers import Block
from attnlab.training._batches import Batch


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints messages."""
        return self.rank == 0

    def local_rows(self, batch: Batch) -> Batch:
        """The rows of this process; every process has the same batch."""
        return {name: x[self.rank :: self.size] for name, x in batch.items()}

    def sum(self, value: float) -> float:
        """The sum over all processes."""
        if self.size == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        return float(total)

    def any(self, flag: bool) -> bool:
        """Whether the flag is True in any process: a signal may reach only one of them."""
        return self.sum(float(flag)) > 0

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


def is_main_process() -> bool:
    """Whether this process prints messages, also before a process group exists.

    >>> from attnlab.training import is_main_process
    >>> is_main_process()  # False in all but one process of torchrun
    True
    """
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """The process group that torchrun started, or only this process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ProcessGroup()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # counts are summed on the CPU
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), size)
    finally:
        gc.collect()  # objects that use the group must be freed before it
        dist.destroy_process_group()


def wrap_model(
    model: nn.Module, group: ProcessGroup, shard: bool, device: torch.device
) -> nn.Module:
    """The module to call in training: the model itself, wrapped in DDP, or sharded with FSDP."""
    if group.size == 1:
        if shard:
            raise ValueError("shard: needs several processes; start them with torchrun")
        return model
    if not shard:
        from torch.nn.parallel import DistributedDataParallel

        idle = getattr(model, "has_idle_parameters", False)
        return DistributedDataParallel(model, find_unused_parameters=idle)
    # imported here, because FSDP takes longer to import than the rest of attnlab
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (group.size,))
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def reshard(model: nn.Module) -> None:
    """Free the full parameters that FSDP keeps after a forward pass without a backward pass."""
    for module in model.modules():
        free: Any = getattr(module, "reshard", None)  # an FSDPModule has it
        if free is not None:
            free()


def full_tensor(x: Any) -> Any:
    """A sharded tensor as one; all processes must call it."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def shard_like(full: Tensor, parameter: Tensor) -> Tensor:
    """The full tensor, sharded like this parameter."""
    if not hasattr(parameter, "device_mesh"):
        return full
    from torch.distributed.tensor import distribute_tensor

    mesh: Any = parameter.device_mesh
    return distribute_tensor(full, mesh, parameter.placements)  # type: ignore[attr-defined]
