"""Check that a model's sizes fit the images. An error names the data and the sizes that fit."""

from __future__ import annotations

from attnlab.tasks.vision._dataset import Dataset
from attnlab.tasks.vision._open_data import is_resized

MAX_PATCHES = 32  # along an image, unless you set --patch: the cost grows with the fourth power


def check_patch(dataset: Dataset, patch: int, explicit: bool) -> None:
    size = dataset.train.size
    divisors = [divisor for divisor in range(1, size + 1) if size % divisor == 0]
    if patch not in divisors:
        problem = f"patches of {patch} do not tile images of {size} pixels"
    elif not explicit and size // patch > MAX_PATCHES:
        problem = f"only tiny or very large patches tile images of {size} pixels"
    else:
        return
    listed = " or ".join(map(str, divisors))
    raise ValueError(f"{dataset.source}: {problem}; give --patch {listed}{_or_size(dataset)}")


def check_stages(dataset: Dataset, stages: int) -> None:
    size = dataset.train.size
    if stages > max_stages(size):
        raise ValueError(
            f"{dataset.source}: images of {size} pixels cannot be halved {stages - 1} times; give "
            f"--stages {max_stages(size)} or fewer{_or_size(dataset)}"
        )


def max_stages(size: int) -> int:
    """Every stage but the first halves the image; one pixel has to remain."""
    return size.bit_length()


def _or_size(dataset: Dataset) -> str:
    return ", or another --image-size" if is_resized(dataset.source) else ""
