"""What a bench lets a model read: a text, texts with their summaries, or images."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from attnlab._image_files import SUFFIXES, UnreadableImageError, open_picture
from attnlab.tasks.summary._pairs import SUFFIXES as PAIRED
from attnlab.tasks.summary._pairs import Pair, read_pairs
from attnlab.tasks.vision._dataset import Dataset, Images, divided, join
from attnlab.tasks.vision._image_folders import is_image_folder
from attnlab.tasks.vision._open_data import is_resized, open_data

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


@dataclass(frozen=True)
class Material:
    """One of them; a mistake in a text is told before a model is opened."""

    text: str = ""
    pairs: list[Pair] = field(default_factory=list)
    images: str | None = None
    """An image, a folder of them, or a data set as `attnlab vision` reads it."""
    notes: list[str] = field(default_factory=list)

    @property
    def whole(self) -> str:
        """All that is to be read as one text."""
        return self.text or "\n".join(pair.text for pair in self.pairs)


def read_material(text: Path | str | None, images: Path | str | None = None) -> Material:
    """`text`: a file, of pairs where its name says so, or the text itself."""
    if images is not None and text is None:
        return Material(images=str(images))
    if text is None or images is not None:
        raise ValueError("what is read: give a text, or images, one of them")
    if isinstance(text, Path) and text.suffix.lower() in PAIRED:
        try:
            found = read_pairs(text)
        except ValueError as problem:  # it tells of options that a bench has not
            told = str(problem).partition(": name yours")
            raise ValueError(told[0] + (told[1] and "; a bench reads text and summary")) from None
        complaint = found.complaint(text)
        return Material(pairs=found.pairs, notes=[f"{complaint}."] if complaint else [])
    return Material(read_text(text) if isinstance(text, Path) else text)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"{path}: cannot be read as a text ({reason})") from None


@dataclass(frozen=True)
class Shown:
    """An image, (C, height, width) uint8 or as Pillow has it, and its class where it is known."""

    picture: Tensor | Image
    name: str | None = None


@dataclass(frozen=True)
class Pictures:
    shown: list[Shown]
    notes: list[str]


def read_images(source: str, size: int, most: int, only_held: bool = True) -> Pictures:
    """Up to `most`, an even number; of a data set those that are held out to choose by, for a
    model of attnlab was trained on the others, and reports on the rest. `size`: that of a folder's
    images. Without `only_held` all may be read where too few are held out."""
    loose = _loose(Path(source))
    found = _pictures(loose, most) if loose else _of_data(source, size, most, only_held)
    if len(found.shown) < 2:
        raise ValueError(
            f"{source}: {len(found.shown) or 'no'} image that can be read; give 2 or more, half to "
            "choose on and half to check on"
        )
    return found


def _loose(path: Path) -> list[Path]:
    """Images without a class: a file, or those that lie in a folder without classes."""
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return [path]
    if not path.is_dir() or not is_resized(path) or is_image_folder(path):
        return []
    found = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
    if not found:
        raise ValueError(f"{path}: no images here; give a folder of images, or one for each class")
    return found


def _pictures(files: list[Path], most: int) -> Pictures:
    """Spread over all of them; what is broken is replaced by others."""
    first = set(spread(len(files), most))
    shown, skipped = list[Shown](), list[str]()
    for place in (*sorted(first), *(n for n in range(len(files)) if n not in first)):
        if len(shown) == most:
            break
        try:
            shown.append(Shown(open_picture(files[place])))
        except UnreadableImageError as error:
            skipped.append(str(error))
    return Pictures(shown, _left_out(skipped))


def _of_data(source: str, size: int, most: int, only_held: bool) -> Pictures:
    dataset = open_data(source, size if is_resized(source) else None)
    images, few = _readable(dataset, source, most, only_held)
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:most]
    chosen = images.select(rows)
    names = [dataset.classes[label] for label in chosen.labels.tolist()]
    shown = list(map(Shown, chosen.pixels, names))
    return Pictures(shown, [*_left_out(dataset.skipped), *few])


def _readable(
    dataset: Dataset, source: str, most: int, only_held: bool
) -> tuple[Images, list[str]]:
    """Those that are held out, or all; and a note where these are too few."""
    parts = (dataset.train, dataset.validation, dataset.test)
    everything = [part for part in parts if part is not None]
    try:
        held = divided(dataset).validation
    except ValueError:  # too few to hold some out
        return join(everything), [f"{source}: too few images to hold some out; all may be read."]
    if len(held) >= most:
        return held, []
    few = f"{source}: {len(held)} of its images {'is' if len(held) == 1 else 'are'} held out"
    if not only_held:
        return join(everything), [f"{few}, fewer than the {most} wanted; all may be read."]
    if len(held) < 2:
        raise ValueError(f"{few}, and a model may have learned from the others; give more images")
    told = "the others are not read, for a model may have learned from them"
    return held, [f"{few}, fewer than the {most} wanted; {told}."]


def _left_out(sentences: list[str]) -> list[str]:
    more = f", and {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return [f"Left out: {sentences[0]}{more}."] if sentences else []


def spread(total: int, count: int) -> list[int]:
    """So many places of all of them, or all."""
    return [place * total // count for place in range(count)] if total > count else [*range(total)]
