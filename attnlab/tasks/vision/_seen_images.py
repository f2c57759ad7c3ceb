"""Which images a run has learned from or chosen by: digests of their pixels, in its folder.

A data set that lost or gained an image is divided anew, so what is its test part now may have been
trained on. The digests tell, whatever the files are called and whichever part they are in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from attnlab.run_folder import RunFolder
from attnlab.tasks.vision._dataset import Images
from attnlab.tasks.vision.kind import SEEN

KEY, BYTES = "digests", 8


def digests(images: Images) -> Tensor:
    """(N,) int64, of the pixels alone."""
    rows = images.pixels.contiguous().flatten(1).numpy()
    joined = b"".join(hashlib.blake2b(row, digest_size=BYTES).digest() for row in rows)
    return torch.frombuffer(bytearray(joined), dtype=torch.int64)


def keep_seen(parts: Sequence[Images], folder: Path) -> None:
    found = {KEY: torch.cat([digests(part) for part in parts]).unique()}
    RunFolder(folder).write(SEEN, lambda part: save_file(found, part))


def seen_by(run: str | Path, images: Images) -> Tensor | None:
    """(N,) True where the run has learned from an image; None: an older run, which kept nothing."""
    path = Path(run) / SEEN
    if not path.exists():
        return None
    try:
        kept = load_file(path)[KEY]
    except (SafetensorError, KeyError, OSError) as error:
        raise ValueError(
            f"{path}: damaged ({error}); train with --resume, which writes it anew"
        ) from None
    return torch.from_numpy(np.isin(digests(images).numpy(), kept.numpy()))
