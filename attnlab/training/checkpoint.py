"""Checkpoints: everything that a run needs to go on bit for bit, in safetensors and JSON.

Tensors are saved whole, whatever the number of processes, so a run may go on with another number.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from attnlab.files import write_whole
from attnlab.models.base import WEIGHTS
from attnlab.training.distributed import Group, shards_like, whole
from attnlab.training.optimisers import Average

OPTIMISER, STATE, BEST = "optimiser.safetensors", "state.json", "best.safetensors"


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of training steps."""
    best: float | None = None
    elapsed: float | None = None
    """Seconds in all, validations and saving included; older checkpoints did not tell."""


NEWER = ("elapsed",)  # what checkpoints of older versions lack


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
    optimisers: Sequence[Optimizer],
    average: Average | None,
    progress: Progress,
    group: Group,
    keep: int,
    best: dict[str, Tensor] | None = None,
) -> Path:
    """Write checkpoints/step-N; older ones beyond `keep` go. All processes call it.

    `best`: the weights that validated best so far, where a run keeps them.
    """
    path = folder / f"step-{progress.step:09d}"
    weights, moments = model_tensors(model), _optimiser_tensors(model, optimisers)
    if average is not None:
        moments |= {f"average|{n}": whole(t).cpu() for n, t in average.weights.items()}
    if group.first:

        def write(part: Path) -> None:
            part.mkdir(parents=True)
            save_file(weights, part / WEIGHTS)
            save_file(moments, part / OPTIMISER)
            if best is not None:
                save_file(best, part / BEST)
            sums = {path.name: _digest(path) for path in sorted(part.iterdir())}
            state = {**asdict(progress), "sha256": sums}
            (part / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")

        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, write)
        others = [each for each in list_checkpoints(folder) if each != path]
        later = [each for each in others if each.name > path.name]  # damaged, or of another past
        earlier = [each for each in others if each.name < path.name]
        for old in later + earlier[: max(0, len(earlier) - keep + 1)]:
            shutil.rmtree(old, ignore_errors=True)
    group.wait()
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def newest_good(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not."""
    problems: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        problem = _damage(path)
        if problem is None:
            return path, problems
        problems.append(f"{path}: damaged ({problem}); using the one before")
    return None, problems


def load_checkpoint(
    path: Path, model: nn.Module, optimisers: Sequence[Optimizer], average: Average | None
) -> Progress:
    load_model_tensors(model, load_file(path / WEIGHTS))
    moments = load_file(path / OPTIMISER)
    parameters = dict(model.named_parameters())
    owner = {
        id(p): optimiser
        for optimiser in optimisers
        for group in optimiser.param_groups
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
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    return Progress(**{name: state[name] for name in asdict(Progress()) if name in state})


def load_best(path: Path) -> dict[str, Tensor] | None:
    return load_file(path / BEST) if (path / BEST).exists() else None


def _optimiser_tensors(model: nn.Module, optimisers: Sequence[Optimizer]) -> dict[str, Tensor]:
    names = {id(p): name for name, p in model.named_parameters()}
    found: dict[str, Tensor] = {}
    for optimiser in optimisers:
        for parameter, values in optimiser.state.items():
            for kind, value in values.items():
                tensor = whole(value) if isinstance(value, Tensor) else torch.tensor(value)
                found[f"{kind}|{names[id(parameter)]}"] = tensor.detach().cpu().contiguous()
    return found


def _damage(path: Path) -> str | None:
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        for name, wanted in state["sha256"].items():
            if _digest(path / name) != wanted:
                return f"{name} is not what was written"
        for name in asdict(Progress()):
            if name not in NEWER:
                state[name]
    except (OSError, json.JSONDecodeError, KeyError, UnicodeDecodeError, SafetensorError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
