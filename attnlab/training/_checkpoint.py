"""Save and load checkpoints: everything needed to resume a run with bit-identical results.

Sharded tensors are saved unsharded, so you may resume with another number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from attnlab._tensor_files import save_tensors
from attnlab.run_folder._checkpoints import (
    TrainingProgress,
    optimizer_file,
    read_progress,
    write_checkpoint,
)
from attnlab.run_folder._file_names import BEST, OPTIMIZER, WEIGHTS
from attnlab.training._distributed import ProcessGroup, full_tensor, shard_like
from attnlab.training._optimizers import WeightAverage


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters (shared ones once) and persistent buffers, on the CPU."""
    tensors = {name: full_tensor(p.detach()) for name, p in model.named_parameters()}
    shared = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(tensors)
    for name, tensor in model.state_dict().items():
        if name not in tensors and name not in shared:
            tensors[name] = full_tensor(tensor)
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


@torch.no_grad()
def load_model_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    targets = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    for name, tensor in tensors.items():
        target = targets[name]
        target.copy_(shard_like(tensor.to(target.device), target))


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    average: WeightAverage | None,
    progress: TrainingProgress,
    group: ProcessGroup,
    keep: int,
    best: dict[str, Tensor] | None = None,
) -> None:
    """Write checkpoints/step-N and keep the newest `keep`. All processes must call it.

    `best` are the weights of the best validation so far, if the run keeps them.
    """
    weights, moments = model_tensors(model), _optimizer_tensors(model, optimizers)
    if average is not None:
        moments |= {f"average|{n}": full_tensor(t).cpu() for n, t in average.weights.items()}

    def save(part: Path) -> None:
        save_tensors(weights, part / WEIGHTS)
        save_tensors(moments, part / OPTIMIZER)
        if best is not None:
            save_tensors(best, part / BEST)

    if group.is_main:
        write_checkpoint(folder, progress, keep, save)
    group.wait()


def load_checkpoint(
    path: Path, model: nn.Module, optimizers: Sequence[Optimizer], average: WeightAverage | None
) -> TrainingProgress:
    load_model_tensors(model, load_file(path / WEIGHTS))
    moments = load_file(optimizer_file(path))
    parameters = dict(model.named_parameters())
    owner = {
        id(p): optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for p in group["params"]
    }
    for key, tensor in moments.items():
        kind, name = key.split("|", 1)
        parameter = parameters[name]
        tensor = tensor.to(parameter.device) if tensor.dim() else tensor
        same_shape = tensor.shape == parameter.shape
        tensor = shard_like(tensor, parameter) if same_shape else tensor
        if kind == "average":
            if average is not None:
                average.weights[name].copy_(tensor)
        else:
            owner[id(parameter)].state[parameter][kind] = tensor
    return read_progress(path)


def load_best(path: Path) -> dict[str, Tensor] | None:
    return load_file(path / BEST) if (path / BEST).exists() else None


def _optimizer_tensors(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    names = {id(p): name for name, p in model.named_parameters()}
    tensors: dict[str, Tensor] = {}
    for optimizer in optimizers:
        for parameter, values in optimizer.state.items():
            for kind, value in values.items():
                tensor = full_tensor(value) if isinstance(value, Tensor) else torch.tensor(value)
                tensors[f"{kind}|{names[id(parameter)]}"] = tensor.detach().cpu().contiguous()
    return tensors
