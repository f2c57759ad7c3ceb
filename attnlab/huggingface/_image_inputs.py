"""An image as a Hugging Face model reads it, and what its tokens are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab._image_files import open_picture
from attnlab.interpret._inspected_model import Prepared, at_home, patches
from attnlab.interpret._records import Picture

CLASS = re.compile(r"(^|\.)(cls_token|class_token|class_embedding)$")


def read_image(model: Any, processor: Any, path: Path) -> Prepared:
    """The processor resizes and cuts; what is shown is what it gives, before it is scaled."""
    image = open_picture(path)
    values = processor(images=image, return_tensors="pt")["pixel_values"]
    plain = processor(images=image, return_tensors="pt", do_rescale=False, do_normalize=False)
    pixels = plain["pixel_values"]
    name = type(model).__name__
    if values.dim() != 4 or len(values) != 1 or pixels.shape != values.shape:
        raise ValueError(f"{path}: a {name} reads images in parts, which cannot be shown")
    inputs = {"pixel_values": values}
    rows, columns = _grid(model, values)
    before, length = _before(model), _length(model, inputs)
    if length != len(before) + rows * columns:
        raise ValueError(
            f"{path}: a {name} makes {length or 'no row of'} tokens of {rows} x {columns} patches "
            f"and {len(before)} before them, so which is which cannot be told"
        )
    shown = pixels[0].expand(3, -1, -1).permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)
    picture = Picture(shown.contiguous(), rows, columns, len(before))
    return Prepared(inputs, [patches(picture, before)])


def _grid(model: Any, values: Tensor) -> tuple[int, int]:
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "patch_size", None)
    high, wide = size if isinstance(size, list | tuple) else (size, size)
    if not isinstance(high, int) or not isinstance(wide, int):
        raise ValueError(f"a {type(model).__name__} has no patches of one size to show")
    return values.shape[2] // high, values.shape[3] // wide


def _before(model: Any) -> list[str]:
    """Names of the tokens before the patches, by the parameters that they are."""
    named = dict(model.named_parameters())
    registers = [x.shape[-2] for name, x in named.items() if name.endswith("register_tokens")]
    found = ["class"] if any(map(CLASS.search, named)) else []
    if any(name.endswith("distillation_token") for name in named):
        found.append("distillation")
    return [*found, *(f"register {i + 1}" for i in range(max(registers, default=0)))]


def _length(model: Any, inputs: dict[str, Tensor]) -> int:
    """Tokens that the first layer reads; 0 where it reads something else."""
    with torch.no_grad():
        out = model(**at_home(model, inputs), output_hidden_states=True, return_dict=True)
    states = getattr(out, "hidden_states", None) or [torch.empty(0)]
    return int(states[0].shape[1]) if states[0].dim() == 3 else 0
