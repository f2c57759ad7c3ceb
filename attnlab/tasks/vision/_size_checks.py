"""Whether a model's sizes fit the images: what does not is told with the data and what would."""

from __future__ import annotations

from attnlab.tasks.vision._dataset import Dataset
from attnlab.tasks.vision._open_data import is_resized

MOST_ALONG = 32  # patches, unless they were asked for: attention's cost grows by the fourth power


def check_patch(dataset: Dataset, patch: int, asked: bool) -> None:
    size = dataset.train.size
    tiles = [each for each in range(1, size + 1) if size % each == 0]
    if patch not in tiles:
        said = f"patches of {patch} do not tile images of {size} pixels"
    elif not asked and size // patch > MOST_ALONG:
        said = f"images of {size} pixels, which only tiny or nearly whole patches tile"
    else:
        return
    listed = " or ".join(map(str, tiles))
    raise ValueError(f"{dataset.source}: {said}; give --patch {listed}{_or_size(dataset)}")


def check_stages(dataset: Dataset, stages: int) -> None:
    size = dataset.train.size
    if stages > most_stages(size):
        raise ValueError(
            f"{dataset.source}: images of {size} pixels cannot be halved {stages - 1} times; give "
            f"--stages {most_stages(size)} or fewer{_or_size(dataset)}"
        )


def most_stages(size: int) -> int:
    """Each but the first halves the image; one pixel is left at least."""
    return size.bit_length()


def _or_size(dataset: Dataset) -> str:
    return ", or another --image-size" if is_resized(dataset.source) else ""
