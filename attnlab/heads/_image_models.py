"""Models that read images.

Letters: C channels, K classes, N tokens, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab._image_files import middle_square, to_channels
from attnlab.heads._inputs import Material, Shown, read_images
from attnlab.heads._model_reader import IMAGES, Reader, Window, Windows, halves
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.interpret._inspected_model import Subject, at_home
from attnlab.models import ViT

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import HuggingFaceSubject

COUNT = 16  # images to choose on
USUAL = 224  # pixels, where a model does not say


class ImageReader(Reader):
    """Judged by the images' classes where it knows them, else by how far its output moves."""

    reads = IMAGES
    name: str
    """Of its input."""
    only_held = False
    """Whether it may have been trained on the rest of a data set, divided as here."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.measure = "distance"

    @property
    @abstractmethod
    def size(self) -> int:
        """Pixels of its images."""

    @property
    @abstractmethod
    def classes(self) -> list[str]: ...

    @abstractmethod
    def pixels(self, shown: Shown) -> Tensor:
        """(1, C, height, width) as it takes them."""

    def _windows(self, material: Material, settings: HeadSettings) -> Windows:
        assert material.images is not None
        most = 2 * settings.count(COUNT)
        found = read_images(material.images, self.size, most, self.only_held)
        self.notes += found.notes
        shown = found.shown[: len(found.shown) // 2 * 2]
        known = {name.lower(): number for number, name in enumerate(self.classes)}
        wanted = [known.get((each.name or "").lower()) for each in shown]
        windows = [Window(at_home(self.model, {self.name: self.pixels(each)})) for each in shown]
        with torch.no_grad():
            out = self.run(windows[0])
        judged = None not in wanted and out.shape == (1, len(self.classes))
        self.measure = "loss of the classes" if judged else "distance"
        if judged:
            labels = torch.tensor(wanted, device=out.device)[:, None]  # (windows, 1)
            windows = [replace(each, wanted=x) for each, x in zip(windows, labels, strict=True)]
        return halves(windows)


class OwnImages(ImageReader):
    """A ViT of attnlab."""

    subject: OwnSubject
    name = "images"
    only_held = True

    @property
    def vit(self) -> ViT:
        assert isinstance(self.subject.model, ViT)
        return self.subject.model

    @property
    def size(self) -> int:
        return self.vit.config.image_size

    @property
    def classes(self) -> list[str]:
        return list(self.subject.classes)

    def pixels(self, shown: Shown) -> Tensor:
        config, picture = self.vit.config, shown.picture
        if not isinstance(picture, Tensor):
            return to_channels(middle_square(picture, self.size), config.channels)[None]
        if len(picture) != config.channels:
            three = picture.expand(3, -1, -1).permute(1, 2, 0)
            picture = to_channels(three, config.channels) * 255
        values = picture[None].float() / 255  # (1, C, height, width)
        if values.shape[2:] == (self.size, self.size):
            return values
        self.note(f"Images of {picture.shape[2]} pixels were resized to {self.size}.")
        size = (self.size, self.size)
        return F.interpolate(values, size, mode="bicubic", antialias=True).clamp(0, 1)

    def run(self, window: Window) -> Tensor:
        out: Tensor = self.vit(window.inputs["images"])
        return out


class HuggingFaceImages(ImageReader):
    """A model of images of the transformers library."""

    subject: HuggingFaceSubject
    name = "pixel_values"

    @property
    def config(self) -> Any:
        whole: Any = self.subject.model.config
        return getattr(whole, "vision_config", whole)

    @property
    def size(self) -> int:
        found = getattr(self.config, "image_size", None)
        return found if isinstance(found, int) else USUAL

    @property
    def classes(self) -> list[str]:
        named: Any = getattr(self.config, "id2label", None) or {}
        return [str(named[number]) for number in sorted(named)]

    def pixels(self, shown: Shown) -> Tensor:
        picture, gray = shown.picture, getattr(self.config, "num_channels", 3) == 1
        if not isinstance(picture, Tensor):
            picture = picture.convert("L") if gray else picture
        elif gray and len(picture) == 3:
            three = to_channels(picture.permute(1, 2, 0), 1) * 255
            picture = three.round().to(torch.uint8)
        elif not gray:
            picture = picture.expand(3, -1, -1)
        changes = {"input_data_format": "channels_first"} if isinstance(picture, Tensor) else {}
        with self.subject.told():
            read = self.subject.reader(images=picture, return_tensors="pt", **changes)
        found: Tensor = read["pixel_values"]
        return found

    def run(self, window: Window) -> Tensor:
        with self.subject.told():
            out: Any = self.model(**window.inputs, return_dict=True)
        logits = getattr(out, "logits", None)
        if logits is not None and logits.dim() == 2:
            found: Tensor = logits
            return found
        last: Tensor = getattr(out, "last_hidden_state", out[0])
        return last.flatten(1, -2) if last.dim() > 3 else last
