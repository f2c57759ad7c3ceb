"""Pictures as Pillow reads them: every kind of number, and every kind of damage."""

from __future__ import annotations

import io
import struct
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attnlab._image_files import UnreadableImageError, center_crop, open_image, open_rgb_image
from attnlab.tasks.vision._open_data import open_data
from tests.support.examples import examples
from tests.support.image_files import write_folders

RAMP = np.linspace(0, 65535, 3 * 5).reshape(3, 5).astype(np.uint16)  # height 3, width 5
SHADES = np.round(RAMP / 257).astype(np.uint8)


def saved(image: Image.Image, path: Path, **how: Any) -> Path:
    image.save(path, **how)
    return path


def gray_of(path: Path) -> Any:
    plain = open_image(path)
    assert plain.mode == "L"
    assert torch.equal(center_crop(open_rgb_image(path), 3), center_crop(plain.convert("RGB"), 3))
    return np.asarray(plain)


def test_more_than_eight_bits_are_scaled(tmp_path: Path) -> None:
    for name in ("a.png", "a.tif"):
        assert np.array_equal(gray_of(saved(Image.fromarray(RAMP), tmp_path / name)), SHADES)
    (tmp_path / "a.pgm").write_bytes(b"P5 5 3 65535\n" + RAMP.astype(">u2").tobytes())
    assert np.array_equal(gray_of(tmp_path / "a.pgm"), SHADES)
    big = struct.pack(">2sHIH", b"MM", 42, 8, 8)  # a TIFF with the high byte first
    for tag, kind, value in (
        (256, 3, 5), (257, 3, 3), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 110),
        (278, 3, 3), (279, 4, 30),
    ):  # fmt: skip
        shown = struct.pack(">HH", value, 0) if kind == 3 else struct.pack(">I", value)
        big += struct.pack(">HHI", tag, kind, 1) + shown
    big += struct.pack(">I", 0)
    (tmp_path / "b.tif").write_bytes(big.ljust(110, b"\0") + RAMP.astype(">u2").tobytes())
    assert np.array_equal(gray_of(tmp_path / "b.tif"), SHADES)


def test_float_images_are_from_0_to_1(tmp_path: Path) -> None:
    fractions = (RAMP / 65535).astype(np.float32)
    gray = gray_of(saved(Image.fromarray(fractions), tmp_path / "a.tif"))
    assert np.array_equal(gray, np.round(255 * fractions).astype(np.uint8))
    for wrong in (fractions * 255, fractions - 0.5, np.where(fractions > 0.5, np.nan, fractions)):
        path = saved(Image.fromarray(wrong.astype(np.float32)), tmp_path / "b.tif")
        with pytest.raises(UnreadableImageError, match=r"b\.tif: .*outside 0 to 1"):
            open_image(path)
    path = saved(Image.fromarray(RAMP.astype(np.int32)), tmp_path / "c.tif")
    with pytest.raises(UnreadableImageError, match=r"c\.tif: .*32 bits"):
        open_image(path)


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    """A black bar on nothing, in each way that a file can say nothing."""
    drawing = np.zeros((6, 7, 4), np.uint8)
    drawing[1:4, 2:5, 3] = 255
    wanted = np.where(drawing[:, :, 3] == 255, 0, 255)
    image = Image.fromarray(drawing)
    for name, how in (("a.png", {}), ("a.webp", {"lossless": True}), ("a.tif", {})):
        pixels = np.asarray(open_rgb_image(saved(image, tmp_path / name, **how)))
        assert np.array_equal(pixels, wanted[:, :, None].repeat(3, 2)), name
    assert np.array_equal(gray_of(saved(image.convert("LA"), tmp_path / "b.png")), wanted)
    flat = Image.fromarray(np.where(wanted == 0, 0, 9).astype(np.uint8))  # 9 stands for nothing
    assert np.array_equal(gray_of(saved(flat, tmp_path / "c.png", transparency=9)), wanted)
    wide = Image.fromarray(np.where(wanted == 0, 0, 999).astype(np.uint16))
    assert np.array_equal(gray_of(saved(wide, tmp_path / "d.png", transparency=999)), wanted)
    for name in ("e.gif", "e.png"):
        palette = flat.convert("P")
        clear = palette.getpixel((0, 0))
        pixels = np.asarray(open_rgb_image(saved(palette, tmp_path / name, transparency=clear)))
        assert np.array_equal(pixels[:, :, 1], wanted), name
    half = Image.fromarray(np.full((3, 5, 4), (200, 100, 0, 51), np.uint8))  # a fifth is there
    pixels = np.asarray(open_rgb_image(saved(half, tmp_path / "f.png")))
    assert pixels[0, 0].tolist() == [244, 224, 204]


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "P", "CMYK", "YCbCr"])
def test_common_image_formats(mode: str, tmp_path: Path) -> None:
    colors = np.stack([SHADES, SHADES[::-1], SHADES[:, ::-1]], 2)
    image = Image.fromarray(colors).convert(mode)
    path = saved(image, tmp_path / "a.tif")
    opened = open_image(path)
    assert opened.mode == ("L" if mode in ("1", "L") else "RGB")
    assert np.array_equal(np.asarray(opened), np.asarray(image.convert(opened.mode)))


# Damage


def test_damaged_images_are_named(tmp_path: Path) -> None:
    image = Image.fromarray(SHADES)
    for name in ("a.png", "a.webp"):
        path = saved(image, tmp_path / name, exif=b"Exif\0\0garbagegarbage")
        with pytest.raises(UnreadableImageError, match=f"{name}: cannot be read as an image"):
            open_rgb_image(path)
    path = saved(image, tmp_path / "b.png")
    with pytest.raises(UnreadableImageError, match=r"b\.png: .*5 x 3 pixels are too many"):
        open_rgb_image(path, max_pixels=14)
    with pytest.raises(UnreadableImageError, match=r"c\.png: does not exist"):
        open_rgb_image(tmp_path / "c.png")
    with pytest.raises(UnreadableImageError, match="cannot be read as an image"):
        open_rgb_image(tmp_path)


@pytest.mark.parametrize("content", [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"nothing"])
def test_errors_list_the_readable_formats(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError) as error:
        open_rgb_image(path)
    assert str(error.value) == (
        f"{path}: cannot be read as an image "
        "(it is damaged, or not one of BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP)"
    )


@lru_cache
def whole(form: str) -> bytes:
    random = np.random.default_rng(0)
    image = Image.fromarray(random.integers(0, 255, (7, 9, 3), dtype=np.uint8))
    turned = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    how: dict[str, Any] = {"exif": turned} if form in ("JPEG", "PNG", "WEBP") else {}
    file = io.BytesIO()
    image.save(file, form, **how)
    return file.getvalue()


@examples(400)
@given(
    form=st.sampled_from(["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"]),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=8),
    kept=st.floats(0.05, 1),
)
def test_any_damage_raises_one_error(
    form: str,
    changes: list[tuple[float, int]],
    kept: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    content = bytearray(whole(form))
    for place, value in changes:  # most of what can go wrong stands at the beginning
        content[int(place**2 * len(content))] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[: int(kept**0.2 * len(content))])
    message = ""
    try:
        assert center_crop(open_rgb_image(path), 4).shape == (4, 4, 3)
    except UnreadableImageError as error:
        message = str(error)
    assert not message or message.startswith(f"{path}: cannot be read as an image (")
    assert "\n" not in message


def test_a_path_that_names_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken images are left out wherever they lie; without Pillow nothing can be read."""
    folder = write_folders(tmp_path / "Pillow")
    (folder / "dark" / "broken.png").write_bytes(b"no")
    assert len(open_data(folder).skipped) == 1
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"pip install 'attnlab\[image\]'"):
        open_data(folder)
