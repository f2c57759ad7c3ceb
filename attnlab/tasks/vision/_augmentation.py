"""Augmentation: random changes to whole batches of images.

Letters: B batch, C channels, size pixels along an image.
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
    """How much an image may change. 0 disables a change."""

    crop: Annotated[float, "largest shift, as a fraction of the width"] = 0.0
    flip: Annotated[bool, "mirror half of the images"] = False
    turn: Annotated[float, "largest rotation in degrees"] = 0.0
    zoom: Annotated[float, "largest change of scale, as a fraction"] = 0.0
    color: Annotated[float, "largest change of brightness, contrast and saturation"] = 0.0
    cutout: Annotated[float, "edge of a hidden square, as a fraction of the width"] = 0.0
    mixup: Annotated[float, "alpha of the Beta distribution that mixes two images"] = 0.0


RECIPES = {
    "none": Augmentation(),
    "mirror": Augmentation(flip=True),
    "light": Augmentation(crop=0.125, flip=True),
    "strong": Augmentation(
        crop=0.125, flip=True, turn=10.0, zoom=0.1, color=0.3, cutout=0.35, mixup=0.2
    ),
}


def find_recipe(name: str) -> Augmentation:
    if name not in RECIPES:
        raise ValueError(f"augmentation is {name!r}; choose from {', '.join(RECIPES)}")
    return RECIPES[name]


def augment(images: Tensor, augmentation: Augmentation, random: torch.Generator) -> Tensor:
    """Change images (B, C, size, size) with values from 0 to 1. Mixup is in `mix_images`."""
    if augmentation.flip:
        mirrored = torch.rand(len(images), generator=random) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    if augmentation.turn or augmentation.zoom:
        images = _rotate_and_zoom(images, augmentation, random)
    if augmentation.crop:
        images = _shift(images, max(1, round(augmentation.crop * images.shape[-1])), random)
    if augmentation.color:
        images = _jitter_colors(images, augmentation.color, random)
    if augmentation.cutout:
        images = _cut_out(images, max(1, round(augmentation.cutout * images.shape[-1])), random)
    return images


def mix_images(
    images: Tensor, alpha: float, random: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Mix each image with another. Returns the mixed images, the index of the other image (B,) and
    the weight of the first image (B,).

    The weight follows Beta(alpha, alpha), computed from two gamma variables.
    """
    order = torch.randperm(len(images), generator=random)
    concentration = torch.full((2, len(images)), alpha)
    # torch.distributions samples with it too, but takes no generator
    gammas = torch._standard_gamma(concentration, generator=random).clamp(min=1e-30)
    weight = gammas[0] / gammas.sum(0)
    weight = torch.maximum(weight, 1 - weight)  # the image itself has the larger weight
    w = weight[:, None, None, None]
    return w * images + (1 - w) * images[order], order, weight


def _shift(images: Tensor, max_shift: int, random: torch.Generator) -> Tensor:
    """Shift each image by its own number of pixels, at most `max_shift`; black comes in."""
    B, C, size, _ = images.shape
    padded = F.pad(images, (max_shift,) * 4)
    down, right = torch.randint(2 * max_shift + 1, (2, B), generator=random)
    positions = torch.arange(size)
    rows = (down[:, None] + positions)[:, None, :, None]  # (B, 1, size, 1)
    columns = (right[:, None] + positions)[:, None, None, :]
    batch, channel = torch.arange(B)[:, None, None, None], torch.arange(C)[None, :, None, None]
    return padded[batch, channel, rows, columns]


def _rotate_and_zoom(images: Tensor, augmentation: Augmentation, random: torch.Generator) -> Tensor:
    angle, zoom = 2 * torch.rand(2, len(images), generator=random) - 1
    angle = angle * math.radians(augmentation.turn)
    scale = 1 / (1 + augmentation.zoom * zoom)
    zero = torch.zeros_like(angle)
    rows = [
        torch.stack([scale * angle.cos(), -scale * angle.sin(), zero], -1),
        torch.stack([scale * angle.sin(), scale * angle.cos(), zero], -1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _jitter_colors(images: Tensor, strength: float, random: torch.Generator) -> Tensor:
    factors = 1 + strength * (2 * torch.rand(3, len(images), 1, 1, 1, generator=random) - 1)
    brightness, contrast, saturation = factors
    mean = images.mean((1, 2, 3), keepdim=True)
    images = ((images - mean) * contrast + mean) * brightness
    gray = images.mean(1, keepdim=True)  # for a gray image this is the image itself
    return ((images - gray) * saturation + gray).clamp(0, 1)


def _cut_out(images: Tensor, edge: int, random: torch.Generator) -> Tensor:
    """Fill a square around a random pixel with the image's mean. It may reach over the border."""
    size = images.shape[-1]
    center = torch.randint(size, (2, len(images), 1), generator=random)
    covered = (torch.arange(size) - center + edge // 2) // edge == 0  # (2, B, size)
    hidden = covered[0][:, None, :, None] & covered[1][:, None, None, :]
    return torch.where(hidden, images.mean((1, 2, 3), keepdim=True), images)
