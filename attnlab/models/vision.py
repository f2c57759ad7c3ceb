"""Image models: a vision transformer, and a convolutional network to compare it with.

Letters: B batch, C channels, N patches, W width, K classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._create_mechanism import resolve_all
from attnlab._help_groups import ATTENTION_HELP, COMMON, MODEL
from attnlab.feed_forward import create_norm
from attnlab.layers import Block, Dropout, attention_per_layer, initialize
from attnlab.mask import Mask
from attnlab.models._memory_check import block_weights, check_counts, check_memory
from attnlab.models._model import Model
from attnlab.position import LearnedPositions, SinusoidalPositions

POSITIONS = ("learned", "sinusoidal", "sinusoidal-2d", "none")
LARGEST_PATCHES, LARGEST_TABLE = 2**14, 2**24
LARGEST_STAGES = 16  # each one doubles the width


def _check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}; give a fraction from 0 to below 1")


def _check_scale(mean: float, deviation: float) -> None:
    if not (math.isfinite(mean) and 0 < deviation < math.inf):
        raise ValueError(
            f"mean is {mean}, deviation {deviation}; give finite numbers, deviation above 0"
        )


@dataclass(frozen=True)
class ViTConfig:
    classes: Annotated[int, "Number of classes.", MODEL]
    image_size: Annotated[int, "Height and width of the images in pixels.", MODEL] = 32
    channels: Annotated[int, "Number of color channels: 1 for gray, 3 for color.", MODEL] = 3
    patch: Annotated[int, "Height and width of a patch in pixels.", MODEL] = 4
    width: Annotated[int, "Size of each patch's vector.", MODEL, COMMON] = 128
    layers: Annotated[int, "Number of transformer blocks.", MODEL, COMMON] = 6
    heads: Annotated[int, "Number of attention heads in each block.", MODEL] = 4
    attention: Annotated[
        str | list[str],
        ATTENTION_HELP,
        MODEL,
        COMMON,
    ] = "softmax"
    position: Annotated[
        str,
        "Position encoding: learned, sinusoidal (along the rows), sinusoidal-2d or none.",
        MODEL,
    ] = "learned"
    pooling: Annotated[
        str,
        "Vector for the whole image: the class token (class) or the mean of all patches (mean).",
        MODEL,
    ] = "class"
    feed_forward: Annotated[
        str,
        "Feed-forward layers: gelu, gelu_tanh, relu, relu2, or gated ones: swiglu, geglu, "
        "geglu_tanh.",
        MODEL,
    ] = "gelu"
    norm: Annotated[str, "Normalization: layer (LayerNorm) or rms (RMSNorm).", MODEL] = "layer"
    dropout: Annotated[
        float, "Dropout of embeddings, residual connections and attention weights.", MODEL
    ] = 0.0
    mean: Annotated[
        float, "Mean to subtract from the pixels, which are between 0 and 1.", MODEL
    ] = 0.0
    deviation: Annotated[float, "Standard deviation to divide the pixels by.", MODEL] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "attention", resolve_all(self.attention))
        _check_scale(self.mean, self.deviation)
        check_counts(self, "classes", "image_size", "channels", "width", "layers", "heads")
        _check_dropout(self.dropout)
        if self.patch < 1 or self.image_size % self.patch:
            raise ValueError(
                f"patch is {self.patch}; give a divisor of image_size {self.image_size}"
            )
        if (self.image_size // self.patch) ** 2 > LARGEST_PATCHES:
            raise ValueError(
                f"image_size is {self.image_size}, patch {self.patch}; give at most "
                f"{LARGEST_PATCHES:,} patches"
            )
        if self.position not in POSITIONS:
            raise ValueError(f"position is {self.position!r}; choose from {', '.join(POSITIONS)}")
        if self.pooling not in ("class", "mean"):
            raise ValueError(f"pooling is {self.pooling!r}; choose from class, mean")


class ViT(Model):
    """A vision transformer: patches as tokens, in an encoder with any mechanism."""

    kind = "vit"
    config_class = ViTConfig
    config: ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, rows = config.width, config.image_size // config.patch
        sizes = {"width": width, "layers": config.layers}
        check_memory(block_weights(**sizes) + width * rows**2, sizes)
        self.config = config
        # a strided convolution applies one linear map to each flattened patch
        self.patches = nn.Conv2d(config.channels, width, config.patch, config.patch)
        self.first = int(config.pooling == "class")  # tokens before the patches
        self.length = rows * rows + self.first
        self.class_token = nn.Parameter(torch.empty(1, 1, width)) if self.first else None
        self.position = _make_positions(config.position, rows, width, self.first)
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
            for attention in attention_per_layer(config.attention, config.layers)
        )
        self.norm = create_norm(config.norm, width)
        self.head = nn.Linear(width, config.classes)
        self._initialize()

    @classmethod
    def depth(cls, config: ViTConfig) -> int:
        return config.layers

    def _initialize(self) -> None:
        """Give patches, positions and class token equal norms. With N(0, 0.02) for all, as in text
        models, positions outweigh patches of a few pixels, and training is slow."""
        self.apply(initialize)
        nn.init.normal_(self.patches.weight, std=self.patches.weight[0].numel() ** -0.5)
        if isinstance(self.position, _LearnedTable):
            nn.init.normal_(self.position.table)
        if self.class_token is not None:
            nn.init.normal_(self.class_token)
        for layer in self.blocks.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.5 * layer.in_features**-0.5)

    def encode(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, N or N+1, W), the class token first."""
        expected = (self.config.channels, self.config.image_size, self.config.image_size)
        if images.dim() != 4 or images.shape[1:] != expected:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; this model takes (batch, {expected[0]}, "
                f"{expected[1]}, {expected[2]})"
            )
        images = (images - self.config.mean) / self.config.deviation
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


class _FixedPositions(nn.Module):
    """Position encodings that are not learned: (1, N, W)."""

    code: Tensor

    def __init__(self, code: Tensor) -> None:
        super().__init__()
        self.register_buffer("code", code, persistent=False)

    def forward(self) -> Tensor:
        return self.code


class _LearnedTable(LearnedPositions):
    def forward(self, position: Tensor | None = None) -> Tensor:
        del position
        return self.table[None]


def _make_positions(kind: str, rows: int, width: int, first: int) -> nn.Module:
    if kind == "learned":
        return _LearnedTable(rows * rows + first, width)
    if kind == "none":
        return _FixedPositions(torch.zeros(1, 1, width))
    if rows * rows * width > LARGEST_TABLE:
        raise ValueError(
            f"{kind} positions: {rows * rows} patches of width {width} are too many; "
            "give larger patches"
        )
    if kind == "sinusoidal":
        return _FixedPositions(SinusoidalPositions(width)(torch.arange(rows * rows + first)[None]))
    if width % 4:
        raise ValueError(f"width is {width}; sinusoidal-2d positions need a multiple of 4")
    # base 100, because with 10,000 most slow waves would hardly change over so few rows
    half = SinusoidalPositions(width // 2, base=100.0)(torch.arange(rows)[None])[0]  # (rows, W/2)
    by_row = half[:, None].expand(rows, rows, -1)
    by_column = half[None].expand(rows, rows, -1)
    code = torch.cat([by_row, by_column], dim=-1).flatten(0, 1)  # (rows^2, W): row, then column
    return _FixedPositions(F.pad(code, (0, 0, first, 0))[None])


@dataclass(frozen=True)
class ConvNetConfig:
    classes: Annotated[int, "Number of classes.", MODEL]
    channels: Annotated[int, "Number of color channels: 1 for gray, 3 for color.", MODEL] = 3
    width: Annotated[
        int, "Number of channels in the first stage. Each later stage has twice as many.", MODEL
    ] = 32
    stages: Annotated[
        int, "Number of stages of a ConvNet. Each one after the first halves the image.", MODEL
    ] = 3
    blocks: Annotated[int, "Number of residual blocks in each stage of a ConvNet.", MODEL] = 2
    dropout: Annotated[float, "Dropout before the classifier.", MODEL] = 0.0
    mean: Annotated[
        float, "Mean to subtract from the pixels, which are between 0 and 1.", MODEL
    ] = 0.0
    deviation: Annotated[float, "Standard deviation to divide the pixels by.", MODEL] = 1.0

    def __post_init__(self) -> None:
        _check_scale(self.mean, self.deviation)
        check_counts(self, "classes", "channels", "width", "stages", "blocks")
        _check_dropout(self.dropout)
        if self.stages > LARGEST_STAGES:
            raise ValueError(f"stages is {self.stages:,}; give at most {LARGEST_STAGES}")


class ConvNet(Model):
    """A small residual network: 3 x 3 convolutions, group norm, GELU, mean pooling."""

    kind = "convnet"
    config_class = ConvNetConfig
    config: ConvNetConfig

    def __init__(self, config: ConvNetConfig) -> None:
        super().__init__()
        check_memory(_convolution_weights(config), {"width": config.width})
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

    @classmethod
    def depth(cls, config: ConvNetConfig) -> int:
        return config.stages * config.blocks

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> logits (B, K)"""
        smallest = 2 ** (self.config.stages - 1)
        if images.dim() != 4 or images.shape[1] != self.config.channels:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; this model takes (batch, "
                f"{self.config.channels}, height, width)"
            )
        if min(images.shape[2:]) < smallest:
            raise ValueError(
                f"images of {images.shape[3]} x {images.shape[2]} pixels cannot be halved "
                f"{self.config.stages - 1} times; give fewer stages"
            )
        images = (images - self.config.mean) / self.config.deviation
        x = F.gelu(self.norm(self.body(images))).mean((2, 3))
        return self.head(self.dropout(x))


def _convolution_weights(config: ConvNetConfig) -> int:
    """About how many weights the residual blocks have: two 3 x 3 convolutions each."""
    widths = [config.width * 2**stage for stage in range(config.stages)]
    return config.blocks * sum(2 * 9 * width**2 for width in widths)


class Residual(nn.Module):
    """Two convolutions, each after a norm. The second starts at zero: the block is the identity."""

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
    parameters: int,
    classes: int,
    channels: int,
    stages: int = 3,
    blocks: int | None = None,
) -> ConvNetConfig:
    """The ConvNet configuration whose size is nearest to `parameters`, at most 5% away.

    It fits the width for this many blocks per stage. Without `blocks` it tries two, and where no
    width comes near enough, as in very small networks, other numbers.
    """
    candidates = []
    for count in USUAL_BLOCKS if blocks is None else (blocks,):
        config = _fit_width(parameters, ConvNetConfig(classes, channels, 1, stages, count))
        if abs(_size(config) / parameters - 1) <= TOLERANCE:
            return config
        candidates.append(config)
    nearest = min(map(_size, candidates), key=lambda size: abs(size - parameters))
    per_stage = "" if blocks is None else f" with {blocks} blocks in each"
    raise ValueError(
        f"no ConvNet of {stages} stages{per_stage} has about {parameters:,} parameters "
        f"({nearest:,} is nearest); give fewer stages, other blocks or another number of parameters"
    )


TOLERANCE = 0.05  # of the parameters
USUAL_BLOCKS = (2, 1, 3, 4, 5, 6, 7, 8)


def _fit_width(parameters: int, config: ConvNetConfig) -> ConvNetConfig:
    low, high = 1, 2
    while _size(replace(config, width=high)) < parameters:
        low, high = high, 2 * high
    while high - low > 1:  # low is too small, high is large enough
        middle = (low + high) // 2
        enough = _size(replace(config, width=middle)) >= parameters
        low, high = (low, middle) if enough else (middle, high)
    both = (replace(config, width=low), replace(config, width=high))
    return min(both, key=lambda config: abs(_size(config) - parameters))


def _size(config: ConvNetConfig) -> int:
    with torch.device("meta"):
        return ConvNet(config).parameter_count()
