"""Images as tensors; Pillow reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 100_000_000  # a small file can open to more than memory holds


def open_picture(path: Path) -> Image:
    """In red, green and blue, and upright: cameras turn a picture by a note in its file."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise ValueError("images need Pillow; pip install 'attnlab[image]'") from None
    if not path.exists():
        raise ValueError(f"{path}: is not there")
    try:
        with Image.open(path) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise ValueError(f"{path}: {opened.width} x {opened.height} pixels are too many")
            return ImageOps.exif_transpose(opened).convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: no image that can be read ({error})") from None


def middle_square(image: Image, size: int) -> Tensor:
    """(size, size, 3) uint8: cut to the middle square, then resized."""
    from PIL.Image import Resampling

    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    resized = square.resize((size, size), Resampling.BICUBIC)
    values = torch.frombuffer(bytearray(resized.tobytes()), dtype=torch.uint8)
    return values.view(size, size, 3)


def to_channels(pixels: Tensor, channels: int) -> Tensor:
    """(height, width, 3) uint8 -> (channels, height, width) from 0 to 1; grey by luminance."""
    x = pixels.permute(2, 0, 1).float() / 255
    if channels == 1:
        weights = torch.tensor([0.299, 0.587, 0.114])
        return (x * weights[:, None, None]).sum(0, keepdim=True)
    return x
