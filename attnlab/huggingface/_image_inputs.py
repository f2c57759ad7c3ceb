"""Reads an image for a Hugging Face model, and names its tokens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab._image_files import open_rgb_image
from attnlab.interpret._inspected_model import PreparedInput, move_to_model, patch_tokens
from attnlab.interpret._records import PatchedImage

CLASS_TOKEN = re.compile(r"(^|\.)(cls_token|class_token|class_embedding)$")


def read_image(model: Any, processor: Any, path: Path) -> PreparedInput:
    """Apply the model's processor; the page shows the image as it is before normalization."""
    image = open_rgb_image(path)
    values = processor(images=image, return_tensors="pt")["pixel_values"]
    unscaled = processor(images=image, return_tensors="pt", do_rescale=False, do_normalize=False)
    pixels = unscaled["pixel_values"]
    name = type(model).__name__
    if values.dim() != 4 or len(values) != 1 or pixels.shape != values.shape:
        raise ValueError(f"{path}: a {name} splits images into parts, which attnlab cannot show")
    inputs = {"pixel_values": values}
    rows, columns = _grid(model, values)
    before, length = _leading_tokens(model), _token_count(model, inputs)
    if length != len(before) + rows * columns:
        raise ValueError(
            f"{path}: a {name} reads {length or 'no'} tokens, not {rows} x {columns} patches after "
            f"{len(before)} other tokens, so attnlab cannot match them to the image"
        )
    rgb = pixels[0].expand(3, -1, -1).permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)
    patched = PatchedImage(rgb.contiguous(), rows, columns, len(before))
    return PreparedInput(inputs, [patch_tokens(patched, before)])


def _grid(model: Any, values: Tensor) -> tuple[int, int]:
    """Rows and columns of patches."""
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "patch_size", None)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    if not isinstance(height, int) or not isinstance(width, int):
        raise ValueError(f"a {type(model).__name__} has no patch_size, so it cannot be shown")
    return values.shape[2] // height, values.shape[3] // width


def _leading_tokens(model: Any) -> list[str]:
    """Names of the tokens before the patches, known by their parameters."""
    parameters = dict(model.named_parameters())
    registers = [x.shape[-2] for name, x in parameters.items() if name.endswith("register_tokens")]
    names = ["class"] if any(map(CLASS_TOKEN.search, parameters)) else []
    if any(name.endswith("distillation_token") for name in parameters):
        names.append("distillation")
    return [*names, *(f"register {i + 1}" for i in range(max(registers, default=0)))]


def _token_count(model: Any, inputs: dict[str, Tensor]) -> int:
    """Number of tokens that the first layer reads; 0 if it does not read tokens."""
    with torch.no_grad():
        out = model(**move_to_model(model, inputs), output_hidden_states=True, return_dict=True)
    states = getattr(out, "hidden_states", None) or [torch.empty(0)]
    return int(states[0].shape[1]) if states[0].dim() == 3 else 0
