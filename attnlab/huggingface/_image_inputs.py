"""Reads an image for a Hugging Face model, alone or with a text.

Letters: C channels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab._image_files import open_rgb_image
from attnlab.interpret._arrangement import ImageMedium
from attnlab.interpret._records import PatchedImage, Sequence

CLASS_TOKEN = re.compile(r"(^|\.)(cls_token|class_token|class_embedding)$")
SUMMARY = re.compile(r"q_?former|resampler|perceiver|abstractor", re.IGNORECASE)
"""Modules that give a text model learned queries in place of patches."""
WHOLE_LAST = re.compile(r"idefics|smolvlm|modernvbert")
"""Types of models that read parts of the image, and then the whole image as a square."""


def read_image(
    model: Any, processor: Any, path: Path
) -> tuple[dict[str, Tensor], ImageMedium | None]:
    """The model's inputs, and the image as it is before normalization."""
    image = open_rgb_image(path)
    values = processor(images=image, return_tensors="pt")["pixel_values"]
    pixels = as_read(processor, image, values)
    if pixels is None:
        name = type(model).__name__
        raise ValueError(f"{path}: a {name} splits images into parts, which attnlab cannot show")
    return {"pixel_values": values}, image_medium(model, values, pixels)


def as_read(processor: Any, image: Any, values: Tensor) -> Tensor | None:
    """The image (height, width, 3) as the model reads it, resized and cropped; None if the model
    reads it in parts."""
    if values.dim() != 4 or len(values) != 1:
        return None
    unscaled = processor(images=image, return_tensors="pt", do_rescale=False, do_normalize=False)
    pixels = unscaled["pixel_values"]
    if pixels.shape != values.shape or pixels.shape[1] not in (1, 3):
        return None
    return to_bytes(pixels[0].expand(3, -1, -1).float())


def to_bytes(pixels: Tensor) -> Tensor:
    """(C, height, width) from 0 to 255 as (height, width, C)."""
    return pixels.permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8).contiguous()


def image_medium(model: Any, values: Tensor, pixels: Tensor) -> ImageMedium | None:
    """The image of `pixel_values`; None if the model drops or reorders patches."""
    config = getattr(model.config, "vision_config", model.config)
    if getattr(config, "mask_ratio", None) and "MAE" in type(model).__name__:
        return None
    size = getattr(config, "patch_size", None)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    grid = None
    if isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0:
        grid = values.shape[2] // height, values.shape[3] // width
    return ImageMedium(pixels, leading_tokens(model), grid)


def leading_tokens(model: Any) -> list[str]:
    """Names of the tokens before the patches, known by their parameters."""
    parameters = dict(model.named_parameters())
    classes = [x.shape for name, x in parameters.items() if CLASS_TOKEN.search(name)]
    registers = [x.shape[-2] for name, x in parameters.items() if name.endswith("register_tokens")]
    count = max((shape[-2] if len(shape) > 1 else 1 for shape in classes), default=0)
    names = ["class"] if count == 1 else [f"class {i + 1}" for i in range(count)]
    if any(name.endswith("distillation_token") for name in parameters):
        names.append("distillation")
    return [*names, *(f"register {i + 1}" for i in range(max(registers, default=0)))]


def drawn(values: Tensor) -> Tensor | None:
    """Normalized pixels (1, C, height, width) as an image: from the darkest to the brightest."""
    if values.dim() != 4 or values.shape[1] not in (1, 3) or not values.is_floating_point():
        return None
    first = values[0].detach().float()
    low, high = float(first.amin()), float(first.amax())
    if not high - low < float("inf"):
        return None
    return to_bytes(((first - low) * (255 / max(high - low, 1e-9))).expand(3, -1, -1))


@dataclass(frozen=True)
class ImageInText:
    """An image whose patches are tokens of a text."""

    pixels: Tensor
    grid: tuple[int, int] | None
    """Rows and columns, if the model says them."""
    medium: ImageMedium | None
    whole_last: bool = False
    patches: bool = True
    """Whether the image's tokens in the text are patches, and not learned queries."""

    def mark(self, sequence: Sequence, ids: list[int], image_id: int | None) -> Sequence:
        """The text, whose image tokens are named by their row and column."""
        run = self._whole_image(ids, image_id) if self.patches else None
        grid = None if run is None else self._grid(len(run))
        if run is None or grid is None:
            return sequence
        rows, columns = grid
        texts, special = list(sequence.texts), list(sequence.special)
        for number, position in enumerate(run):
            texts[position] = f"{number // columns + 1},{number % columns + 1}"
            special[position] = False
        image = PatchedImage(self.pixels, rows, columns, run.start)
        return replace(sequence, texts=texts, special=special, image=image)

    def _grid(self, count: int) -> tuple[int, int] | None:
        if self.grid is not None:
            return self.grid if self.grid[0] * self.grid[1] == count else None
        if self.whole_last:
            side = round(count**0.5)
            return (side, side) if side * side == count else None
        return None if self.medium is None else self.medium.divide(count)

    def _whole_image(self, ids: list[int], image_id: int | None) -> range | None:
        """The positions of the patches of the whole image."""
        runs: list[range] = []
        for position, index in enumerate(ids):
            if index != image_id:
                continue
            if runs and runs[-1].stop == position:
                runs[-1] = range(runs[-1].start, position + 1)
            else:
                runs.append(range(position, position + 1))
        return runs[-1] if runs else None


def read_image_and_text(
    model: Any, processor: Any, image_processor: Any, path: Path, text: str
) -> tuple[Any, ImageInText]:
    """The encoding of both by the model's processor, and the image."""
    image = open_rgb_image(path)
    encoding = processor(text=with_image_token(processor, text), images=image, return_tensors="pt")
    values = encoding.get("pixel_values")
    pixels = as_read(image_processor, image, values) if isinstance(values, Tensor) else None
    medium = None if pixels is None else image_medium(model, values, pixels)
    grid = _merged_grid(model, encoding)
    if pixels is None:
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        pixels = pixels.reshape(image.height, image.width, 3)
        if grid is not None:
            medium = ImageMedium(pixels)  # resized, but neither cropped nor in parts
    if any(map(SUMMARY.search, dict(model.named_modules()))):
        return encoding, ImageInText(pixels, None, medium, patches=False)
    whole_last = bool(WHOLE_LAST.search(str(model.config.model_type)))
    return encoding, ImageInText(pixels, grid, medium, whole_last)


def with_image_token(processor: Any, text: str) -> str:
    """The text with the model's mark for an image: as its chat template writes it, or in front."""
    token = getattr(processor, "image_token", None)
    if not isinstance(token, str) or token in text or "PaliGemma" in type(processor).__name__:
        return text
    if getattr(processor, "chat_template", None):
        content = [{"type": "image"}, {"type": "text", "text": text}]
        return str(
            processor.apply_chat_template(
                [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
            )
        )
    return f"{token}{text}"


def _merged_grid(model: Any, encoding: Any) -> tuple[int, int] | None:
    """Rows and columns of the image's tokens in a model that says how it cuts the image."""
    cut = encoding.get("image_grid_thw")
    if not isinstance(cut, Tensor) or cut.shape != (1, 3) or int(cut[0, 0]) != 1:
        return None
    vision = getattr(model.config, "vision_config", model.config)
    merge = int(getattr(vision, "spatial_merge_size", 1) or 1)
    return int(cut[0, 1]) // merge, int(cut[0, 2]) // merge


def image_token_id(model: Any, processor: Any) -> int | None:
    """The id of the token that stands for a part of an image."""
    for owner in (model.config, processor):
        for name in ("image_token_id", "image_token_index"):
            index = getattr(owner, name, None)
            if isinstance(index, int):
                return index
    return None
