"""Image files to tensors, and tensors to PNG. Only reading needs Pillow."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from attnlab._short_repr import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 50_000_000  # a small file can decode to more than fits into memory
PIECE = 2**20  # pixels that are converted at a time
# common formats; some of Pillow's other readers start programs or are rarely tested
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (
    *(".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm"),
    *(".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)


class UnreadableImageError(ValueError):
    """A file that holds no image, or a damaged one."""


def open_rgb_image(path: Path, max_pixels: int = MAX_PIXELS) -> Image:
    """The image in red, green and blue; otherwise like `open_image`."""
    return open_image(path, max_pixels).convert("RGB")


def open_image(path: Path, max_pixels: int = MAX_PIXELS) -> Image:
    """The image with one byte per channel: gray if the file is gray, else red, green and blue.

    Rotated upright by the camera's orientation tag. Transparent pixels become white. Refuses an
    image of more than `max_pixels` pixels before it is decoded.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise ValueError("images need Pillow; pip install 'attnlab[image]'") from None
    if not path.exists():
        raise UnreadableImageError(f"{path}: does not exist")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the errors below say what matters
            with Image.open(path, formats=FORMATS) as opened:
                if opened.width * opened.height > max_pixels:
                    size = f"{opened.width} x {opened.height} pixels"
                    raise ValueError(f"{size} are too many; give at most {max_pixels:,}")
                opened.load()
                return _to_bytes(ImageOps.exif_transpose(opened), opened.format)
    except UnidentifiedImageError:
        reason = f"it is damaged, or not one of {', '.join(FORMATS)}"
        raise UnreadableImageError(f"{path}: cannot be read as an image ({reason})") from None
    except Exception as error:  # Pillow's readers raise all kinds on broken files
        reason = one_line(error)
        raise UnreadableImageError(f"{path}: cannot be read as an image ({reason})") from None


def _to_bytes(image: Image, file_format: str | None) -> Image:
    """Pillow's own conversion clips values above 255 and ignores transparency."""
    from PIL import Image as Pillow

    wide = image.mode == "I" and file_format == "PPM"  # 16 bits in a container of 32
    if image.mode.startswith("I;16") or wide:
        return Pillow.fromarray(_high_bytes(np.asarray(image), image.info.get("transparency")))
    if image.mode == "I":
        raise ValueError(
            "it has 32 bits per channel, so the value of white is unknown; give 8 or 16 bits"
        )
    if image.mode == "F":
        values = np.asarray(image)
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                "it has numbers outside 0 to 1; give numbers from 0 to 1, or 8 or 16 bits"
            )
        return Pillow.fromarray((values * 255).round().astype(np.uint8))
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        white = Pillow.new("RGBA", image.size, "white")
        image = Pillow.alpha_composite(white, image.convert("RGBA"))
    return image.convert("L" if gray else "RGB")


def _high_bytes(values: np.ndarray, transparent: object) -> np.ndarray:
    """16 bits to 8, with white where a pixel is transparent. Piece by piece, to need no copies."""
    flat = values.reshape(-1)
    out = np.empty(flat.shape, np.uint8)
    for start in range(0, len(flat), PIECE):
        piece = flat[start : start + PIECE].astype(np.int64)
        piece[piece == transparent] = 65535
        out[start : start + PIECE] = (piece + 128) // 257
    return out.reshape(values.shape)


def center_crop(image: Image, size: int) -> Tensor:
    """(size, size, 3) uint8: the central square, resized."""
    from PIL.Image import Resampling

    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    resized = square.resize((size, size), Resampling.BICUBIC)
    return image_to_tensor(resized)


def image_to_tensor(image: Image) -> Tensor:
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


def encode_png(pixels: Tensor) -> bytes:
    """The bytes of a PNG file of (1 or 3, height, width) uint8."""
    channels, height, width = pixels.shape
    if channels not in (1, 3) or pixels.dtype != torch.uint8:
        raise ValueError(
            f"pixels are {pixels.dtype} of shape {tuple(pixels.shape)}; "
            "give uint8 of shape (1 or 3, height, width)"
        )
    rows = pixels.permute(1, 2, 0).reshape(height, -1)  # (height, width C)
    lines = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), rows], 1)  # 0: no filter
    color_type = 0 if channels == 1 else 2
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.contiguous().numpy().tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
