"""Image models: a vision transformer, and a convolutional network to compare it with.

Letters: B batch, C channels, N patches, W width, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.layers import NORMS, Block, Dropout, every_layer, initialise
from attnlab.mask import Mask
from attnlab.models.base import Model
from attnlab.position import Learned, Sinusoidal


@dataclass(frozen=True)
class ViTConfig:
    classes: Annotated[int, "number of classes"]
    image_size: Annotated[int, "height and width in pixels"] = 32
    channels: Annotated[int, "1 for grey, 3 for colour"] = 3
    patch: Annotated[int, "height and width of a patch"] = 4
    width: Annotated[int, "size of a patch's vector"] = 128
    layers: Annotated[int, "number of blocks"] = 6
    heads: Annotated[int, "attention heads of a block"] = 4
    attention: Annotated[str | list[str], "mechanism of all layers, or one for each"] = "softmax"
    position: Annotated[str, "learned, sinusoidal (along rows) or sinusoidal-2d"] = "learned"
    pooling: Annotated[str, "class (a token of its own) or mean"] = "class"
    feed_forward: Annotated[str, "gelu, relu2 or swiglu"] = "gelu"
    norm: Annotated[str, "layer or rms"] = "layer"
    dropout: Annotated[float, "on embeddings, residual paths and attention weights"] = 0.0

    def __post_init__(self) -> None:
        if self.image_size % self.patch:
            raise ValueError(
                f"patches of {self.patch} do not tile an image of {self.image_size} pixels"
            )
        if self.position not in ("learned", "sinusoidal", "sinusoidal-2d"):
            raise ValueError(
                f"position {self.position!r}; there are learned, sinusoidal, sinusoidal-2d"
            )
        if self.pooling not in ("class", "mean"):
            raise ValueError(f"pooling {self.pooling!r}; there are class, mean")


class ViT(Model):
    """Patches as tokens, in an encoder with any mechanism."""

    kind = "vit"
    config_class = ViTConfig
    config: ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        width, side = config.width, config.image_size // config.patch
        # a strided convolution is one linear map of each flattened patch
        self.patches = nn.Conv2d(config.channels, width, config.patch, config.patch)
        self.first = int(config.pooling == "class")  # tokens before the patches
        self.length = side * side + self.first
        self.class_token = nn.Parameter(torch.empty(1, 1, width)) if self.first else None
        self.position = _positions(config.position, side, width, self.first)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                attention,
                feed_forward=config.feed_forward,
                norm=config.norm,
                dropout=config.dropout,
                max_length=self.length,
            )
            for attention in every_layer(config.attention, config.layers)
        )
        self.norm = NORMS[config.norm](width)
        self.head = nn.Linear(width, config.classes)
        self.apply(initialise)
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)

    def encode(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, N or N+1, W), the class token first."""
        wanted = (self.config.channels, self.config.image_size, self.config.image_size)
        if images.dim() != 4 or images.shape[1:] != wanted:
            raise ValueError(
                f"images {tuple(images.shape)}; this model takes (batch, {wanted[0]}, "
                f"{wanted[1]}, {wanted[2]})"
            )
        x = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, W)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.dropout(x + self.position())
        for block in self.blocks:
            x = block(x, Mask())
        return self.norm(x)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> logits (B, K)"""
        x = self.encode(images)
        return self.head(x[:, 0] if self.first else x.mean(1))


class _Fixed(nn.Module):
    """Position codes that do not depend on the input: (1, N, W)."""

    code: Tensor

    def __init__(self, code: Tensor) -> None:
        super().__init__()
        self.register_buffer("code", code, persistent=False)

    def forward(self) -> Tensor:
        return self.code


class _Table(Learned):
    def forward(self, position: Tensor | None = None) -> Tensor:
        del position
        return self.table[None]


def _positions(kind: str, side: int, width: int, first: int) -> nn.Module:
    if kind == "learned":
        return _Table(side * side + first, width)
    if kind == "sinusoidal":
        return _Fixed(Sinusoidal(width)(torch.arange(side * side + first)[None]))
    if width % 4:
        raise ValueError(f"sinusoidal-2d positions: width is {width}; give a multiple of 4")
    half = Sinusoidal(width // 2)(torch.arange(side)[None])[0]  # (side, W/2)
    rows = half[:, None].expand(side, side, -1)
    columns = half[None].expand(side, side, -1)
    code = torch.cat([rows, columns], dim=-1).flatten(0, 1)  # (side^2, W): row, then column
    return _Fixed(F.pad(code, (0, 0, first, 0))[None])


@dataclass(frozen=True)
class ConvNetConfig:
    classes: Annotated[int, "number of classes"]
    channels: Annotated[int, "1 for grey, 3 for colour"] = 3
    width: Annotated[int, "channels of the first stage; each later stage has twice as many"] = 32
    stages: Annotated[int, "each halves the image"] = 3
    blocks: Annotated[int, "residual blocks of a stage"] = 2
    dropout: Annotated[float, "before the classifier"] = 0.0


class ConvNet(Model):
    """A small residual network: 3 x 3 convolutions, group norm, GELU, mean pooling."""

    kind = "convnet"
    config_class = ConvNetConfig
    config: ConvNetConfig

    def __init__(self, config: ConvNetConfig) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = [nn.Conv2d(config.channels, config.width, 3, padding=1)]
        width = config.width
        for stage in range(config.stages):
            if stage:
                layers.append(nn.Conv2d(width, 2 * width, 2, stride=2))
                width *= 2
            layers += [Residual(width) for _ in range(config.blocks)]
        self.body = nn.Sequential(*layers)
        self.norm = _group_norm(width)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(width, config.classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> logits (B, K)"""
        x = F.gelu(self.norm(self.body(images))).mean((2, 3))
        return self.head(self.dropout(x))


class Residual(nn.Module):
    """Norm before each of two convolutions; the second starts at zero, so the block at identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_one, self.norm_two = _group_norm(width), _group_norm(width)
        self.one = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.two = nn.Conv2d(width, width, 3, padding=1, bias=False)
        nn.init.zeros_(self.two.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(F.gelu(self.norm_two(self.one(F.gelu(self.norm_one(x))))))


def _group_norm(width: int) -> nn.GroupNorm:
    groups = next(n for n in (8, 4, 2, 1) if width % n == 0)
    return nn.GroupNorm(groups, width)


def matched_convnet(
    parameters: int, classes: int, channels: int, stages: int = 3, blocks: int = 2
) -> ConvNetConfig:
    """The configuration whose size is nearest to this many parameters."""

    def size(width: int) -> int:
        with torch.device("meta"):
            return ConvNet(
                ConvNetConfig(classes, channels, width, stages, blocks)
            ).parameter_count()

    width = min(range(4, 512), key=lambda w: abs(size(w) - parameters))
    return ConvNetConfig(classes, channels, width, stages, blocks)
