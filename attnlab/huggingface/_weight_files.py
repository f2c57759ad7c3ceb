"""The tensors of a folder of safetensors files, which may be broken or hostile."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnlab._safe_files import read_json
from attnlab._short_repr import short_repr
from attnlab._tensor_files import HEADER_BYTES, TensorInfo, read_header, unreadable_message
from attnlab.huggingface._architectures import Stored

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")


class WeightFiles:
    """The tensors by name, each read when it is asked for. Use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header: dict[str, TensorInfo] = {}
        self._file_of: dict[str, Path] = {}
        for path in _weight_files(folder):
            for name, info in read_header(path).items():
                if name in self.header:
                    raise ValueError(f"{folder}: two files have {short_repr(name)}")
                self.header[name], self._file_of[name] = info, path
        self._open: dict[Path, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def shape_of(self, place: Stored) -> tuple[int, ...]:
        """The shape of attnlab's tensor that is stored there."""
        shapes = [self.header[name].shape for name in place.names]
        rest = {shape[1:] for shape in shapes}
        if len(rest) != 1 or not all(shapes):
            raise ValueError(f"{self.folder}: the shapes of {place.names[0]} … do not fit")
        joined = (sum(shape[0] for shape in shapes), *rest.pop())
        return joined[::-1] if place.transposed else joined

    def read(self, place: Stored) -> Tensor:
        """attnlab's tensor that is stored there."""
        tensor = torch.cat([self._tensor(name) for name in place.names])
        tensor = tensor.T if place.transposed else tensor
        return tensor + 1 if place.less_one else tensor

    def _tensor(self, name: str) -> Tensor:
        path = self._file_of[name]
        if self.header[name].dtype not in FLOATS:
            raise ValueError(
                f"{path}: {short_repr(name)} is {self.header[name].dtype}; give weights that are "
                "not quantized"
            )
        try:
            if path not in self._open:
                self._open[path] = self._stack.enter_context(safe_open(path, framework="pt"))
            tensor: Tensor = self._open[path].get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ValueError(unreadable_message(path, error)) from None
        return tensor.float()


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if (folder / SINGLE).exists() or not index.exists():
        return [folder / SINGLE]
    try:
        content = read_json(index, HEADER_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{index}: {error}") from None
    listed = content.get("weight_map") if isinstance(content, dict) else None
    names: set[Any] = set(listed.values()) if isinstance(listed, dict) and listed else {None}
    for name in names:
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or not name.endswith(".safetensors")
        ):
            raise ValueError(f"{index}: {short_repr(name)} is not the name of a safetensors file")
    return [folder / name for name in sorted(names)]
