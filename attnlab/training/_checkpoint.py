"""Save and load checkpoints: everything needed to resume a run with bit-identical results.

Sharded tensors are saved unsharded, so you may resume with another number of processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnlab._short_repr import short_repr
from attnlab._tensor_files import load_tensors, save_tensors, unique_tensors
from attnlab.run_folder._checkpoints import (
    TrainingProgress,
    optimizer_file,
    read_progress,
    write_checkpoint,
)
from attnlab.run_folder._file_names import BEST, OPTIMIZER, WEIGHTS
from attnlab.training._distributed import ProcessGroup, full_tensor, shard_like
from attnlab.training._optimizers import WeightAverage

ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters (shared ones once) and persistent buffers, on the CPU."""
    tensors = unique_tensors(model).items()
    return {name: full_tensor(tensor.detach()).cpu().contiguous() for name, tensor in tensors}


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
    weights, moments = load_tensors(path / WEIGHTS), load_tensors(optimizer_file(path))
    _check_checkpoint(path, model, weights, moments)
    load_model_tensors(model, weights)
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


def load_best(path: Path, model: nn.Module) -> dict[str, Tensor] | None:
    if not (path / BEST).exists():
        return None
    best = load_tensors(path / BEST)
    _check_checkpoint(path, model, best, {})
    return best


def _check_checkpoint(
    path: Path, model: nn.Module, weights: dict[str, Tensor], moments: dict[str, Tensor]
) -> None:
    """Refuse tensors that are not those of this model, and moments that fit no parameter."""
    targets = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    kinds: dict[str, set[str]] = defaultdict(set)
    for key, tensor in moments.items():
        kind, _, name = key.partition("|")
        kinds[name].add(kind)
        if name not in targets or (tensor.dim() and tensor.shape != targets[name].shape):
            raise ValueError(f"{path}: its {short_repr(key)} does not fit the model; delete it")
    for name, names in kinds.items():
        adam = names & set(ADAM_STATE)
        if adam and adam != set(ADAM_STATE):
            raise ValueError(f"{path}: lacks a part of the optimizer state of {name}; delete it")
    for name in dict(model.named_parameters()).keys() | weights.keys():
        known = name in targets and name in weights
        if not known or weights[name].shape != targets[name].shape:
            raise ValueError(f"{path}: its {short_repr(name)} does not fit the model; delete it")


def _optimizer_tensors(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    names = {id(p): name for name, p in model.named_parameters()}
    tensors: dict[str, Tensor] = {}
    for optimizer in optimizers:
        for parameter, values in optimizer.state.items():
            for kind, value in values.items():
                tensor = full_tensor(value) if isinstance(value, Tensor) else torch.tensor(value)
                tensors[f"{kind}|{names[id(parameter)]}"] = tensor.detach().cpu().contiguous()
    return tensors
