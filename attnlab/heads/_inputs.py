"""The inputs that a model reads while its heads are measured: a text, pairs of texts and summaries,
or images."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from attnlab._image_files import SUFFIXES, UnreadableImageError, open_rgb_image
from attnlab.tasks.language._text_files import read_text_file
from attnlab.tasks.summary._pairs import SUFFIXES as PAIRED
from attnlab.tasks.summary._pairs import Pair, read_pairs
from attnlab.tasks.vision._dataset import Dataset, Images, join, split_dataset
from attnlab.tasks.vision._image_folders import is_image_folder
from attnlab.tasks.vision._open_data import is_resized, open_data

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


@dataclass(frozen=True)
class HeadInputs:
    """A text, pairs or images: one of them."""

    text: str = ""
    pairs: list[Pair] = field(default_factory=list)
    images: str | None = None
    """An image, a folder of images, or a data set as `attnlab vision` reads it."""
    notes: list[str] = field(default_factory=list)

    @property
    def full_text(self) -> str:
        """The text, or the texts of all pairs as one."""
        return self.text or "\n".join(pair.text for pair in self.pairs)


def read_inputs(text: Path | str | None, images: Path | str | None = None) -> HeadInputs:
    """`text`: a file (.jsonl, .csv and .tsv hold pairs), or the text itself."""
    if images is not None and text is None:
        return HeadInputs(images=str(images))
    if text is None or images is not None:
        raise ValueError("the model needs something to read: give either a text or images")
    if isinstance(text, Path) and text.suffix.lower() in PAIRED:
        try:
            rows = read_pairs(text)
        except ValueError as problem:  # its advice names options that this command lacks
            message, advice, _ = str(problem).partition(": name yours")
            needed = "; attnlab heads needs the columns text and summary"
            raise ValueError(message + (advice and needed)) from None
        complaint = rows.describe_bad_rows(text)
        return HeadInputs(pairs=rows.pairs, notes=[f"{complaint}."] if complaint else [])
    return HeadInputs(read_text_file(text) if isinstance(text, Path) else text)


@dataclass(frozen=True)
class LabeledImage:
    """An image, (C, height, width) uint8 or of Pillow, and the name of its class if known."""

    picture: Tensor | Image
    name: str | None = None


@dataclass(frozen=True)
class LoadedImages:
    images: list[LabeledImage]
    notes: list[str]


def read_images(source: str, size: int, most: int, held_out_only: bool = True) -> LoadedImages:
    """Up to `most` images. From a data set it takes the held-out images, because a model of attnlab
    was trained on the others; without `only_held` it takes all if too few are held out. `size`: the
    size to which the images of a folder are resized."""
    files = _unlabeled_files(Path(source))
    loaded = _load_files(files, most) if files else _load_dataset(source, size, most, held_out_only)
    if len(loaded.images) < 2:
        raise ValueError(
            f"{source}: has {len(loaded.images) or 'no'} readable image; give 2 or more: half to "
            "choose mechanisms on, half to check them on"
        )
    return loaded


def _unlabeled_files(path: Path) -> list[Path]:
    """Images without a class: one file, or the files in a folder without class folders."""
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return [path]
    if not path.is_dir() or not is_resized(path) or is_image_folder(path):
        return []
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise ValueError(f"{path}: has no images; give a folder of images, or one for each class")
    return files


def _load_files(files: list[Path], most: int) -> LoadedImages:
    """Images evenly spread over the files; others replace unreadable ones."""
    first = set(spread_indices(len(files), most))
    images, skipped = list[LabeledImage](), list[str]()
    for index in (*sorted(first), *(n for n in range(len(files)) if n not in first)):
        if len(images) == most:
            break
        try:
            images.append(LabeledImage(open_rgb_image(files[index])))
        except UnreadableImageError as error:
            skipped.append(str(error))
    return LoadedImages(images, _skipped_notes(skipped))


def _load_dataset(source: str, size: int, most: int, held_out_only: bool) -> LoadedImages:
    dataset = open_data(source, size if is_resized(source) else None)
    available, notes = _available_images(dataset, source, most, held_out_only)
    rows = torch.randperm(len(available), generator=torch.Generator().manual_seed(0))[:most]
    selected = available.select(rows)
    names = [dataset.classes[label] for label in selected.labels.tolist()]
    images = list(map(LabeledImage, selected.pixels, names))
    return LoadedImages(images, [*_skipped_notes(dataset.skipped), *notes])


def _available_images(
    dataset: Dataset, source: str, most: int, held_out_only: bool
) -> tuple[Images, list[str]]:
    """The held-out images, or all; with a note if too few are held out."""
    parts = (dataset.train, dataset.validation, dataset.test)
    everything = [part for part in parts if part is not None]
    try:
        held_out = split_dataset(dataset).validation
    except ValueError:  # too few to hold some out
        return join(everything), [f"{source}: too few images to hold some out; all are used."]
    if len(held_out) >= most:
        return held_out, []
    count = f"{len(held_out)} of its images {'is' if len(held_out) == 1 else 'are'} held out"
    few = f"{source}: only {count}"
    if not held_out_only:
        return join(everything), [f"{few}, fewer than {most}; all images are used."]
    if len(held_out) < 2:
        raise ValueError(f"{few}, and the model may have learned from the others; give more images")
    reason = "the model may have learned from the others, so they are not used"
    return held_out, [f"{few}, fewer than {most}; {reason}."]


def _skipped_notes(problems: list[str]) -> list[str]:
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return [f"Left out: {problems[0]}{more}."] if problems else []


def spread_indices(total: int, count: int) -> list[int]:
    """`count` indices evenly spread over `total`, or all."""
    return [n * total // count for n in range(count)] if total > count else [*range(total)]
