"""Checkpoints: everything that a run needs to go on bit for bit, in safetensors and JSON.

Tensors are saved whole, whatever the number of processes, so a run may go on with another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from attnlab.run_folder._checkpoints import (
    Progress,
    optimizer_file,
    read_progress,
    write_checkpoint,
)
from attnlab.run_folder._file_names import BEST, OPTIMIZER, WEIGHTS
from attnlab.training._distributed import Group, shards_like, whole
from attnlab.training._optimizers import Average


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, what layers share once, and the buffers that belong to the model."""
    found = {name: whole(p.detach()) for name, p in model.named_parameters()}
    shared = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(found)
    for name, tensor in model.state_dict().items():
        if name not in found and name not in shared:
            found[name] = whole(tensor)
    return {name: tensor.cpu().contiguous() for name, tensor in found.items()}


@torch.no_grad()
def load_model_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    own = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    for name, tensor in tensors.items():
        own[name].copy_(shards_like(tensor.to(own[name].device), own[name]))


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    average: Average | None,
    progress: Progress,
    group: Group,
    keep: int,
    best: dict[str, Tensor] | None = None,
) -> None:
    """Write checkpoints/step-N; older ones beyond `keep` go. All processes call it.

    `best`: the weights that validated best so far, where a run keeps them.
    """
    weights, moments = model_tensors(model), _optimizer_tensors(model, optimizers)
    if average is not None:
        moments |= {f"average|{n}": whole(t).cpu() for n, t in average.weights.items()}

    def save(part: Path) -> None:
        save_file(weights, part / WEIGHTS)
        save_file(moments, part / OPTIMIZER)
        if best is not None:
            save_file(best, part / BEST)

    if group.first:
        write_checkpoint(folder, progress, keep, save)
    group.wait()


def load_checkpoint(
    path: Path, model: nn.Module, optimizers: Sequence[Optimizer], average: Average | None
) -> Progress:
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
        same = tensor.shape == parameter.shape
        tensor = shards_like(tensor, parameter) if same else tensor
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
    found: dict[str, Tensor] = {}
    for optimizer in optimizers:
        for parameter, values in optimizer.state.items():
            for kind, value in values.items():
                tensor = whole(value) if isinstance(value, Tensor) else torch.tensor(value)
                found[f"{kind}|{names[id(parameter)]}"] = tensor.detach().cpu().contiguous()
    return found
