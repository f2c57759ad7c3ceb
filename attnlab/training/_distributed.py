"""One process or several: torchrun, DDP and FSDP2 do the work, this only asks them."""

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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from attnlab.layers import Block
from attnlab.training._batches import Batch


@dataclass(frozen=True)
class Group:
    """The processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """This one writes files and speaks."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch:
        """This process's rows; every process made the same batch."""
        return {name: x[self.rank :: self.size] for name, x in batch.items()}

    def total(self, number: float) -> float:
        """The sum over all processes."""
        if self.size == 1:
            return number
        value = torch.tensor(number, dtype=torch.float64)
        dist.all_reduce(value)
        return float(value)

    def any(self, flag: bool) -> bool:
        """True if it is so in any process: a signal may reach only one of them."""
        return self.total(float(flag)) > 0

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


def speaks() -> bool:
    """Whether this is the process that talks to the person, also before any group is made."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def process_group(device: torch.device) -> Iterator[Group]:
    """The group that torchrun started, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # numbers that are only counted stay on the CPU
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Group(dist.get_rank(), size)
    finally:
        gc.collect()  # what still holds on to the group must go before it does
        dist.destroy_process_group()


def wrap(model: nn.Module, group: Group, shard: bool, device: torch.device) -> nn.Module:
    """What to call in training: the model, one that averages gradients, or one in shards."""
    if group.size == 1:
        if shard:
            raise ValueError("shard: one process has nothing to share; start several with torchrun")
        return model
    if not shard:
        idle = getattr(model, "has_idle_parameters", False)
        return DistributedDataParallel(model, find_unused_parameters=idle)
    mesh = init_device_mesh(device.type, (group.size,))
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def settle(model: nn.Module) -> None:
    """After a forward without a backward, FSDP still holds whole parameters: back to shards."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def whole(x: Any) -> Any:
    """A tensor in shards as one; all processes must ask."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def shards_like(full: Tensor, parameter: Tensor) -> Tensor:
    """The whole tensor cut up as this parameter is."""
    if not hasattr(parameter, "device_mesh"):
        return full
    from torch.distributed.tensor import distribute_tensor

    mesh: Any = parameter.device_mesh
    return distribute_tensor(full, mesh, parameter.placements)  # type: ignore[attr-defined]
