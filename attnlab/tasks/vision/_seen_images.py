"""Remember which images a run was trained or validated on, as digests of their pixels.

If a data set loses or gains an image, it is split again, and its new test part may contain training
images. The digests find them, whatever their file names and parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlab._tensor_files import load_tensors, save_tensors
from attnlab.tasks.vision._dataset import Images
from attnlab.tasks.vision.kind import SEEN

KEY, BYTES = "digests", 8


def image_digests(images: Images) -> Tensor:
    """(N,) int64, from the pixels alone."""
    rows = images.pixels.contiguous().flatten(1).numpy()
    joined = b"".join(hashlib.blake2b(row, digest_size=BYTES).digest() for row in rows)
    return torch.frombuffer(bytearray(joined), dtype=torch.int64)


def save_seen_images(parts: Sequence[Images], path: Path) -> None:
    digests = torch.cat([image_digests(images) for images in parts]).unique()
    save_tensors({KEY: digests}, path)


def was_seen_by(run: str | Path, images: Images) -> Tensor | None:
    """(N,) True for images that the run was trained or validated on. None if an older run did not
    store them."""
    path = Path(run) / SEEN
    if not path.exists():
        return None
    try:
        seen = load_tensors(path)[KEY]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"{path}: is damaged ({error}); delete it, then train with --resume, which writes it"
        ) from None
    return torch.from_numpy(np.isin(image_digests(images).numpy(), seen.numpy()))
