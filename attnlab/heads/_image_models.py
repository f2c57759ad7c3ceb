"""Readers for image models.

Letters: C channels, K classes, N tokens, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab._image_files import center_crop, to_channels
from attnlab.heads._inputs import HeadInputs, LabeledImage, read_images
from attnlab.heads._model_reader import IMAGES, InputWindow, ModelReader, WindowSplit, split_in_half
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.interpret._inspected_model import InspectedModel, move_to_model
from attnlab.models import ViT

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel

COUNT = 16  # images to choose on
DEFAULT_SIZE = 224  # pixels, if a model does not give its size


class ImageReader(ModelReader):
    """Scored by the loss of the images' classes if the model knows them, else by how far its output
    moves."""

    reads = IMAGES
    input_name: str
    """The name of the model's image argument."""
    held_out_only = False
    """Whether to use only held-out images, if the model may have been trained on the others."""

    def __init__(self, inspected: InspectedModel) -> None:
        super().__init__(inspected)
        self.measure = "distance"

    @property
    @abstractmethod
    def size(self) -> int:
        """Width and height of its images in pixels."""

    @property
    @abstractmethod
    def classes(self) -> list[str]: ...

    @abstractmethod
    def pixels(self, image: LabeledImage) -> Tensor:
        """The model's input, (1, C, height, width)."""

    def _create_windows(self, inputs: HeadInputs, settings: HeadSettings) -> WindowSplit:
        assert inputs.images is not None
        most = 2 * settings.count(COUNT)
        loaded = read_images(inputs.images, self.size, most, self.held_out_only)
        self.notes += loaded.notes
        images = loaded.images[: len(loaded.images) // 2 * 2]
        indices = {name.lower(): index for index, name in enumerate(self.classes)}
        classes = [indices.get((image.name or "").lower()) for image in images]
        windows = [
            InputWindow(move_to_model(self.model, {self.input_name: self.pixels(image)}))
            for image in images
        ]
        with torch.no_grad():
            out = self.run(windows[0])
        has_labels = None not in classes and out.shape == (1, len(self.classes))
        self.measure = "loss of the classes" if has_labels else "distance"
        if has_labels:
            labels = torch.tensor(classes, device=out.device)[:, None]  # (windows, 1)
            pairs = zip(windows, labels, strict=True)
            windows = [replace(window, labels=label) for window, label in pairs]
        return split_in_half(windows)


class AttnlabImageReader(ImageReader):
    """A ViT of attnlab."""

    inspected: InspectedAttnlabModel
    input_name = "images"
    held_out_only = True

    @property
    def vit(self) -> ViT:
        assert isinstance(self.inspected.model, ViT)
        return self.inspected.model

    @property
    def size(self) -> int:
        return self.vit.config.image_size

    @property
    def classes(self) -> list[str]:
        return list(self.inspected.classes)

    def pixels(self, image: LabeledImage) -> Tensor:
        config, picture = self.vit.config, image.picture
        if not isinstance(picture, Tensor):
            return to_channels(center_crop(picture, self.size), config.channels)[None]
        if len(picture) != config.channels:
            rgb = picture.expand(3, -1, -1).permute(1, 2, 0)
            picture = to_channels(rgb, config.channels) * 255
        values = picture[None].float() / 255  # (1, C, height, width)
        if values.shape[2:] == (self.size, self.size):
            return values
        self.note(f"Images of {picture.shape[2]} pixels were resized to {self.size}.")
        size = (self.size, self.size)
        return F.interpolate(values, size, mode="bicubic", antialias=True).clamp(0, 1)

    def run(self, window: InputWindow) -> Tensor:
        out: Tensor = self.vit(window.inputs["images"])
        return out


class HuggingFaceImageReader(ImageReader):
    """An image model of the transformers library."""

    inspected: InspectedHuggingFaceModel
    input_name = "pixel_values"

    @property
    def config(self) -> Any:
        config: Any = self.inspected.model.config
        return getattr(config, "vision_config", config)

    @property
    def size(self) -> int:
        size = getattr(self.config, "image_size", None)
        return size if isinstance(size, int) else DEFAULT_SIZE

    @property
    def classes(self) -> list[str]:
        names: Any = getattr(self.config, "id2label", None) or {}
        return [str(names[index]) for index in sorted(names)]

    def pixels(self, image: LabeledImage) -> Tensor:
        picture, gray = image.picture, getattr(self.config, "num_channels", 3) == 1
        if not isinstance(picture, Tensor):
            picture = picture.convert("L") if gray else picture
        elif gray and len(picture) == 3:
            gray_pixels = to_channels(picture.permute(1, 2, 0), 1) * 255
            picture = gray_pixels.round().to(torch.uint8)
        elif not gray:
            picture = picture.expand(3, -1, -1)
        changes = {"input_data_format": "channels_first"} if isinstance(picture, Tensor) else {}
        with self.inspected.one_line_errors():
            processed = self.inspected.processor(images=picture, return_tensors="pt", **changes)
        pixels: Tensor = processed["pixel_values"]
        return pixels

    def run(self, window: InputWindow) -> Tensor:
        with self.inspected.one_line_errors():
            out: Any = self.model(**window.inputs, return_dict=True)
        logits = getattr(out, "logits", None)
        if logits is not None and logits.dim() == 2:
            class_logits: Tensor = logits
            return class_logits
        last: Tensor = getattr(out, "last_hidden_state", out[0])
        return last.flatten(1, -2) if last.dim() > 3 else last
