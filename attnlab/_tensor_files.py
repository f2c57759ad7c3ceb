"""Read and write safetensors files, with the errors of every other file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attnlab._safe_files import open_regular
from attnlab._short_repr import one_line

HEADER_BYTES = 2**24  # about 100,000 tensors


def unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters (shared ones once) and persistent buffers of a model."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    shared = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(tensors)
    others = {name: x for name, x in model.state_dict().items() if name not in shared}
    return {**others, **tensors}


def save_tensors(
    tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file into a new folder, as `write_atomically` makes it.

    A full disk is an OSError, as for any other file. safetensors lets only the owner read the file;
    like all others it gets the mode that the umask asks for, and gave to the folder.
    """
    try:
        save_file(dict(tensors), path, metadata)
        path.chmod(path.parent.stat().st_mode & 0o666)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise OSError(str(error)) from error
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


class TensorInfo(NamedTuple):
    """One entry of a header."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, TensorInfo]:
    """The tensors of a safetensors file. Reads nothing but the header."""
    try:
        with open_regular(path, follow_links=True) as file:
            size = int.from_bytes(file.read(8), "little")
        if size > HEADER_BYTES:
            raise ValueError(
                f"{path}: these weights cannot be read (the header has {size:,} bytes; "
                f"at most {HEADER_BYTES:,} are allowed)"
            )
        with safe_open(path, framework="pt") as content:
            slices = {name: content.get_slice(name) for name in content.keys()}  # noqa: SIM118
            return {
                name: TensorInfo(part.get_dtype(), tuple(part.get_shape()))
                for name, part in slices.items()
            }
    except FileNotFoundError:
        raise ValueError(f"{path.parent}: holds no weights; {path.name} is missing") from None
    except (OSError, SafetensorError) as error:
        raise ValueError(unreadable_message(path, error)) from None


def load_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file."""
    read_header(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(unreadable_message(path, error)) from None


def unreadable_message(path: Path, error: Exception) -> str:
    return f"{path}: these weights cannot be read ({one_line(error, 300)})"
