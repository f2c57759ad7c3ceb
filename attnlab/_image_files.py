"""Images as tensors. Pillow reads files; PNG is written by hand, so that pages need no Pillow."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 100_000_000  # a small file can open to more than memory holds
# what people have; others of Pillow's many readers start programs or are seldom tested
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (
    *(".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm"),
    *(".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)


class UnreadableImageError(ValueError):
    """A file that holds no image, or a broken one: those beside it may be whole."""


def open_picture(path: Path, most: int = MOST_PIXELS) -> Image:
    """In red, green and blue; the rest as `open_plain` has it."""
    return open_plain(path, most).convert("RGB")


def open_plain(path: Path, most: int = MOST_PIXELS) -> Image:
    """Gray where the file is gray, else red, green and blue, a byte for each; larger than `most`
    pixels is refused unread.

    Upright: cameras turn a picture by a note in its file. What is transparent is white, as paper.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise ValueError("images need Pillow; pip install 'attnlab[image]'") from None
    if not path.exists():
        raise UnreadableImageError(f"{path}: is not there")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters of it is told here
            with Image.open(path, formats=FORMATS) as opened:
                if opened.width * opened.height > most:
                    raise ValueError(f"{opened.width} x {opened.height} pixels are too many")
                opened.load()
                return _in_bytes(ImageOps.exif_transpose(opened), opened.format)
    except UnidentifiedImageError:
        reason = f"none of {', '.join(FORMATS)}, or damaged"
        raise UnreadableImageError(f"{path}: no image that can be read ({reason})") from None
    except Exception as error:  # Pillow's readers raise all kinds on broken files
        said = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableImageError(f"{path}: no image that can be read ({said})") from None


def _in_bytes(image: Image, form: str | None) -> Image:
    """Pillow's own conversion cuts what is above 255 off, and leaves transparency out."""
    from PIL import Image as Pillow

    wide = image.mode == "I" and form == "PPM"  # 16 bits, though there is room for 32
    if image.mode.startswith("I;16") or wide:
        values = np.asarray(image).astype(np.int64)
        values[values == image.info.get("transparency")] = 65535
        return Pillow.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode == "I":
        raise ValueError("numbers of 32 bits, of which no one knows what is white; give 8 or 16")
    if image.mode == "F":
        shares = np.asarray(image)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError("numbers beyond 0 to 1; give those, or 8 or 16 bits")
        return Pillow.fromarray((shares * 255).round().astype(np.uint8))
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        above = image.convert("RGBA")
        image = Pillow.alpha_composite(Pillow.new("RGBA", image.size, "white"), above)
    return image.convert("L" if gray else "RGB")


def middle_square(image: Image, size: int) -> Tensor:
    """(size, size, 3) uint8: cut to the middle square, then resized."""
    from PIL.Image import Resampling

    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    resized = square.resize((size, size), Resampling.BICUBIC)
    return pixels_of(resized)


def pixels_of(image: Image) -> Tensor:
    """(height, width, channels) uint8"""
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return values.view(image.height, image.width, -1)


def to_channels(pixels: Tensor, channels: int) -> Tensor:
    """(height, width, 3) uint8 -> (channels, height, width) from 0 to 1; gray by luminance."""
    x = pixels.permute(2, 0, 1).float() / 255
    if channels == 1:
        weights = torch.tensor([0.299, 0.587, 0.114])
        return (x * weights[:, None, None]).sum(0, keepdim=True)
    return x


def png(pixels: Tensor) -> bytes:
    """The file of (1 or 3, height, width) uint8."""
    channels, height, width = pixels.shape
    if channels not in (1, 3) or pixels.dtype != torch.uint8:
        raise ValueError(f"pixels {tuple(pixels.shape)} of {pixels.dtype}; give (1 or 3, h, w)")
    rows = pixels.permute(1, 2, 0).reshape(height, -1)  # (height, width C)
    lines = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), rows], 1)  # 0: no filter
    kind = 0 if channels == 1 else 2
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.contiguous().numpy().tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
