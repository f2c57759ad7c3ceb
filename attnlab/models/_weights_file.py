"""Weights from a safetensors file, which may be broken or hostile.

The header of the file is read before the model is built, and says how many numbers a model with
these weights has. Building a model that is larger stops early, so that a configuration that does
not fit its weights costs neither memory nor time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.overrides import TorchFunctionMode

from attnlab._short_repr import one_line
from attnlab._tensor_files import TensorInfo, read_header, unreadable_message
from attnlab.run_folder._file_names import CONFIG

SPARE_NUMBERS, SPARE_SIZE = 2**25, 2**14  # for tables that are not saved
CALL_NUMBERS = 256  # the time of a call, in numbers
TENSORS_PER_BLOCK = 6  # at least: four matrices and two norms, or two convolutions and two norms

Network = TypeVar("Network", bound=nn.Module)


def build_and_load(build: Callable[[], Network], depth: int, source: Path, path: Path) -> Network:
    """The model that `build` returns, which has `depth` blocks, with the weights in `path`.

    `source` is the file with its configuration.
    """
    header = read_header(path)
    model = build_bounded(build, depth, header, source, path)
    check_weights(model, header, path)
    _copy_weights(model, path)
    return model


def build_bounded(
    build: Callable[[], Network],
    depth: int,
    header: Mapping[str, TensorInfo],
    source: Path,
    path: Path,
) -> Network:
    """The model that `build` returns, if it is no larger than the tensors of `header`. Its
    parameters are not initialized."""
    if TENSORS_PER_BLOCK * depth > len(header):
        problem = f"it has {len(header)} tensors, too few for {depth:,} blocks"
        raise ValueError(_mismatch_message(path, problem))
    try:
        with _BoundedConstruction(header):
            return build()
    except _TooLargeError:
        problem = "the configured model is larger than the file"
        raise ValueError(_mismatch_message(path, problem)) from None
    except ValueError as error:
        raise ValueError(f"{source}: {one_line(error)}") from None
    except Exception as error:
        raise ValueError(f"{source}: this model cannot be built ({one_line(error)})") from error


@torch.no_grad()
def _copy_weights(model: nn.Module, path: Path) -> None:
    targets = model.state_dict(keep_vars=True)
    try:
        with safe_open(path, framework="pt") as content:
            for name in content.keys():  # noqa: SIM118
                targets[name].copy_(content.get_tensor(name))
    except (KeyError, OSError, SafetensorError, RuntimeError) as error:  # it changed meanwhile
        raise ValueError(unreadable_message(path, error)) from None


def check_weights(model: nn.Module, header: Mapping[str, TensorInfo], path: Path) -> None:
    """Raise an error if the tensors of the file are not those of the model."""
    problem = _find_mismatch(model, header)
    if problem:
        raise ValueError(_mismatch_message(path, problem))


def _find_mismatch(model: nn.Module, header: Mapping[str, TensorInfo]) -> str:
    """The first mismatch in the model's order; torch would list all, which fills pages."""
    tensors = model.state_dict(keep_vars=True)
    names_of = defaultdict(list)  # several if layers share a tensor, which is saved once
    for name, tensor in tensors.items():
        names_of[id(tensor)].append(name)
        if name not in header:
            continue
        info, expected = header[name], tuple(tensor.shape)
        if info.shape != expected:
            return f"{name} has shape {info.shape} in the file, but {expected} as configured"
        if info.dtype.lstrip("B").startswith("F") != tensor.is_floating_point():
            return f"{name} is {info.dtype} in the file, but {tensor.dtype} as configured"
    for names in names_of.values():
        if not any(name in header for name in names):
            return f"{names[0]} is not in the file"
    unexpected = [name for name in header if name not in tensors]
    return f"the file has {unexpected[0]}, which is not configured" if unexpected else ""


def _mismatch_message(path: Path, problem: str) -> str:
    return f"{path}: these weights do not fit the configuration in {CONFIG}: {problem}"


class _TooLargeError(Exception):
    pass


class _BoundedConstruction(TorchFunctionMode):
    """Bounds the tensors that a model allocates inside the `with` by those of a file, and skips the
    initialization of its parameters: the file replaces them."""

    def __init__(self, header: Mapping[str, TensorInfo]) -> None:
        super().__init__()
        shapes = [info.shape for info in header.values()]
        self.remaining = SPARE_NUMBERS + 3 * sum(map(math.prod, shapes))
        self.largest_size = max(SPARE_SIZE, *(max(shape, default=0) for shape in shapes))

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> Any:
        del types
        options = options or {}
        if function in FACTORIES:
            sizes = _requested_sizes(arguments, options)
            self.remaining -= CALL_NUMBERS + math.prod(sizes)
            if self.remaining < 0 or max(sizes, default=0) > self.largest_size:
                raise _TooLargeError
        elif getattr(function, "__module__", None) == "torch.nn.init":
            tensor = options.get("tensor", arguments[0] if arguments else None)
            if isinstance(tensor, nn.Parameter):
                return tensor
        return function(*arguments, **options)


FACTORIES = frozenset({torch.empty, torch.full, torch.ones, torch.rand, torch.randn, torch.zeros})


def _requested_sizes(arguments: tuple[Any, ...], options: dict[str, Any]) -> list[int]:
    """The shape of the tensor that the call of a factory returns."""
    sizes = options.get("size", arguments)
    if len(sizes) and isinstance(sizes[0], Sequence):
        sizes = sizes[0]
    return [size for size in sizes if isinstance(size, int)]
