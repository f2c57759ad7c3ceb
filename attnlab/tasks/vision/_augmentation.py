"""Images changed a little each time they are seen, in whole batches, by a seed.

Letters: B batch, C channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Augmentation:
    """How much an image may change."""

    crop: Annotated[float, "moved by up to this share of its side"] = 0.0
    flip: Annotated[bool, "mirrored, every other time"] = False
    turn: Annotated[float, "turned by up to so many degrees"] = 0.0
    zoom: Annotated[float, "larger or smaller by up to this share"] = 0.0
    color: Annotated[float, "brightness, contrast, saturation changed by up to this share"] = 0.0
    cutout: Annotated[float, "a square of this share of its side is hidden"] = 0.0
    mixup: Annotated[float, "mixed with another image: alpha of the Beta distribution"] = 0.0


RECIPES = {
    "none": Augmentation(),
    "mirror": Augmentation(flip=True),
    "light": Augmentation(crop=0.125, flip=True),
    "strong": Augmentation(
        crop=0.125, flip=True, turn=10.0, zoom=0.1, color=0.3, cutout=0.35, mixup=0.2
    ),
}


def recipe_named(name: str) -> Augmentation:
    if name not in RECIPES:
        raise ValueError(f"augmentation {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]


def augment(images: Tensor, how: Augmentation, random: torch.Generator) -> Tensor:
    """(B, C, side, side) from 0 to 1, changed; mixup is `mixed`."""
    if how.flip:
        mirrored = torch.rand(len(images), generator=random) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    if how.turn or how.zoom:
        images = _turned(images, how, random)
    if how.crop:
        images = _moved(images, max(1, round(how.crop * images.shape[-1])), random)
    if how.color:
        images = _colored(images, how.color, random)
    if how.cutout:
        images = _cut(images, max(1, round(how.cutout * images.shape[-1])), random)
    return images


def mixed(images: Tensor, alpha: float, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Each image mixed with another: the images, which other one (B,), the first's share (B,).

    The share is drawn from Beta(alpha, alpha), by two gamma variables.
    """
    order = torch.randperm(len(images), generator=random)
    wanted = torch.full((2, len(images)), alpha)
    # what torch.distributions draws with, which takes no generator itself
    drawn = torch._standard_gamma(wanted, generator=random).clamp(min=1e-30)
    share = drawn[0] / drawn.sum(0)
    share = torch.maximum(share, 1 - share)  # the image itself is the larger part
    s = share[:, None, None, None]
    return s * images + (1 - s) * images[order], order, share


def _moved(images: Tensor, reach: int, random: torch.Generator) -> Tensor:
    """Each by its own number of pixels, both ways; what comes in is black."""
    B, C, side, _ = images.shape
    padded = F.pad(images, (reach,) * 4)
    down, right = torch.randint(2 * reach + 1, (2, B), generator=random)
    places = torch.arange(side)
    rows = (down[:, None] + places)[:, None, :, None]  # (B, 1, side, 1)
    columns = (right[:, None] + places)[:, None, None, :]
    batch, channel = torch.arange(B)[:, None, None, None], torch.arange(C)[None, :, None, None]
    return padded[batch, channel, rows, columns]


def _turned(images: Tensor, how: Augmentation, random: torch.Generator) -> Tensor:
    angle, size = 2 * torch.rand(2, len(images), generator=random) - 1
    angle = angle * math.radians(how.turn)
    scale = 1 / (1 + how.zoom * size)
    zero = torch.zeros_like(angle)
    rows = [
        torch.stack([scale * angle.cos(), -scale * angle.sin(), zero], -1),
        torch.stack([scale * angle.sin(), scale * angle.cos(), zero], -1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _colored(images: Tensor, reach: float, random: torch.Generator) -> Tensor:
    factors = 1 + reach * (2 * torch.rand(3, len(images), 1, 1, 1, generator=random) - 1)
    light, contrast, saturation = factors
    mean = images.mean((1, 2, 3), keepdim=True)
    images = ((images - mean) * contrast + mean) * light
    gray = images.mean(1, keepdim=True)  # of a gray image the image itself
    return ((images - gray) * saturation + gray).clamp(0, 1)


def _cut(images: Tensor, edge: int, random: torch.Generator) -> Tensor:
    """A square around any pixel becomes the image's mean; at the border less of it is inside."""
    side = images.shape[-1]
    middle = torch.randint(side, (2, len(images), 1), generator=random)
    inside = (torch.arange(side) - middle + edge // 2) // edge == 0  # (2, B, side)
    hidden = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return torch.where(hidden, images.mean((1, 2, 3), keepdim=True), images)
