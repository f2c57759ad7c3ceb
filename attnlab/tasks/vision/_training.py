"""Train an image classifier."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch

from attnlab._help_groups import HelpGroup
from attnlab._safe_files import write_text
from attnlab._short_repr import one_line, short_repr
from attnlab.models import ConvNet, ConvNetConfig, Model, ViT, ViTConfig
from attnlab.models.vision import matched_convnet
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import CONFIG
from attnlab.run_folder._folder import SaveFile
from attnlab.tasks.vision._augmentation import Augmentation, find_recipe
from attnlab.tasks.vision._dataset import (
    Dataset,
    Images,
    Parts,
    digest,
    split_dataset,
    take_fraction,
)
from attnlab.tasks.vision._equals_softmax import softmax_notes
from attnlab.tasks.vision._open_data import is_resized, open_data, source_of
from attnlab.tasks.vision._seen_images import save_seen_images
from attnlab.tasks.vision._size_checks import check_patch, check_stages, max_stages
from attnlab.tasks.vision._task import VisionTask
from attnlab.tasks.vision.kind import SEEN, SKIPPED
from attnlab.training import Run, Settings, is_main_process, train
from attnlab.training._trained_run import resumed_settings

MODELS = ("vit", "convnet")
MAX_LISTED = 3  # unreadable images that are named
VALIDATIONS = 10  # during a training
SMALL_DATASET = 5000  # images; smaller sets get more epochs and smaller batches
TINY_IMAGE = 16  # pixels along an image


@dataclass(frozen=True)
class VisionSettings:
    """How images are learned from. The command line's help is made from this."""

    fraction: Annotated[
        float, "Fraction of the training images of each class to use.", HelpGroup.DATA
    ] = 1.0
    augmentation: Annotated[
        str | None,
        "Image augmentation: none, mirror, light (mirror and shift) or strong. Without it, the "
        "size and color of the images decide.",
        HelpGroup.DATA,
    ] = None
    flip: Annotated[
        bool | None,
        "Mirror images at random. Without it, the augmentation decides; digits and letters are "
        "never mirrored.",
        HelpGroup.DATA,
    ] = None
    smoothing: Annotated[
        float,
        "Label smoothing: the fraction of each target that is spread over all classes.",
        HelpGroup.TRAINING,
    ] = 0.0
    image_size: Annotated[
        int | None,
        "Resize the images of a folder to this height and width in pixels.",
        HelpGroup.DATA,
    ] = None


# chosen with the validation images of each data set (docs/vision.md)
TRAINING = {
    "vit": Settings(
        batch_size=64, optimizer="muon", learning_rate=2e-3, muon_learning_rate=0.02,
        weight_decay=0.05, schedule="cosine", warmup_steps=50, keep_best=True,
    ),
    "convnet": Settings(
        batch_size=64, learning_rate=3e-3, weight_decay=0.05, schedule="cosine", warmup_steps=50,
        keep_best=True,
    ),
}  # fmt: skip


def train_vision(
    data: str | Path | None = None,
    *,
    out: str | Path,
    model: str = "vit",
    attention: str | list[str] = "softmax",
    vision: VisionSettings | None = None,
    epochs: float | None = None,
    sizes: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on these images, by default handwritten digits, and return the validation metrics.

    `sizes` are settings of ViTConfig or ConvNetConfig; a ConvNet without a width has as many
    parameters as the ViT would have.

    >>> from attnlab.tasks.vision import train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train_vision("digits", out="run", **small)
    >>> 0 <= metrics["accuracy"] <= 1
    True
    """
    vision = vision or VisionSettings()
    check_folder(out, start)
    dataset = open_data(data, vision.image_size)
    parts = split_dataset(dataset)
    task, network, settings = prepare_training(
        dataset, parts, source_of(data), model, attention, vision, epochs, sizes or {},
        training or {},
    )  # fmt: skip
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    if is_main_process() and not quiet:
        print_overview(dataset, task, network, settings)
    return train(
        task, network, settings, Run(out), start=start, quiet=quiet,
        files=image_lists(dataset, task),
    )  # fmt: skip


def image_lists(dataset: Dataset, task: VisionTask) -> dict[str, SaveFile | None]:
    """Files of a run: which images were used, and which could not be read."""
    lines = "".join(f"{line}\n" for line in dataset.skipped)
    return {
        SEEN: lambda path: save_seen_images([task.train, task.validation], path),
        SKIPPED: (lambda path: write_text(path, lines)) if lines else None,
    }


def prepare_training(
    dataset: Dataset,
    parts: Parts,
    source: str,
    model: str,
    attention: str | list[str],
    vision: VisionSettings,
    epochs: float | None,
    sizes: dict[str, Any],
    training: dict[str, Any],
) -> tuple[VisionTask, Model, Settings]:
    """The task, the model and the settings of a training. It raises all errors before the first
    step."""
    if model not in MODELS:
        raise ValueError(f"model is {model!r}; choose from {', '.join(MODELS)}")
    seed = int(training.get("seed", 0))
    images = take_fraction(parts.train, vision.fraction, seed)
    settings = resolve_settings(model, len(images), epochs, training)
    torch.manual_seed(settings.seed)
    network = make_model(model, dataset, images, attention, sizes)
    augmentation = choose_augmentation(vision, dataset)
    task = VisionTask(
        images,
        parts.validation,
        augmentation=augmentation,
        smoothing=vision.smoothing,
        seed=settings.seed,
        batch=settings.batch_size or 1,
        about={
            "data": source,
            "classes": dataset.classes,
            "image_size": dataset.train.size,
            "channels": dataset.train.channels,
            "images": len(images),
            "fraction": vision.fraction,
            "validation": len(parts.validation),
            "test": len(parts.test),
            "skipped": len(dataset.skipped),
            "augmentation": asdict(augmentation),
            "smoothing": vision.smoothing,
            "content": digest(parts.train, parts.validation, parts.test),
        },
    )
    return task, network, settings


def choose_augmentation(vision: VisionSettings, dataset: Dataset) -> Augmentation:
    """The augmentation that you chose, or a default. In tiny images a shift by one pixel does more
    harm than good, and gray images (MNIST and similar) are centered in the test set too."""
    default = "mirror" if dataset.train.channels == 1 else "light"
    default = "none" if dataset.train.size < TINY_IMAGE else default
    augmentation = find_recipe(vision.augmentation or default)
    flip = augmentation.flip and dataset.can_be_mirrored if vision.flip is None else vision.flip
    return replace(augmentation, flip=flip)


def make_model(
    model: str,
    dataset: Dataset,
    images: Images,
    attention: str | list[str],
    sizes: dict[str, Any],
    parameters: int | None = None,
) -> Model:
    """An untrained model that normalizes pixels by the statistics of these training images.

    A ConvNet without a width gets `parameters` parameters, by default as many as the default ViT.
    """
    kinds: dict[str, type[Any]] = {"vit": ViTConfig, "convnet": ConvNetConfig}
    known = {field.name for field in dataclasses.fields(kinds[model])}
    unknown = [name for name in sizes if name not in known]
    if unknown:
        option = unknown[0].replace("_", "-")
        raise ValueError(f"--{option} is not a setting of a {model}; leave it out")
    if model == "convnet" and attention != "softmax":
        raise ValueError("--attention is for a vit; a convnet has no attention")
    size, classes = dataset.train.size, len(dataset.classes)
    mean, deviation = pixel_statistics(images)
    shared: dict[str, Any] = {
        "channels": dataset.train.channels,
        "mean": mean,
        "deviation": deviation,
    }
    if model == "vit":
        vit_sizes = {**default_sizes(size), **sizes}
        check_patch(dataset, vit_sizes["patch"], "patch" in sizes)
        return ViT(ViTConfig(classes, size, attention=attention, **{**shared, **vit_sizes}))
    stages = sizes.get("stages", min(2 if size < TINY_IMAGE else 3, max_stages(size)))
    check_stages(dataset, stages)
    convnet_sizes = {**shared, **sizes, "stages": stages}
    if "width" not in sizes:
        if parameters is None:
            with torch.device("meta"):
                vit = ViT(ViTConfig(classes, size, **{**shared, **default_sizes(size)}))
            parameters = vit.parameter_count()
        matched = matched_convnet(
            parameters, classes, convnet_sizes["channels"], stages, sizes.get("blocks")
        )
        convnet_sizes |= {"width": matched.width, "blocks": matched.blocks}
    return ConvNet(ConvNetConfig(classes, **convnet_sizes))


def default_sizes(size: int) -> dict[str, int]:
    """About seven patches along an image, 14 along a large one and four along a tiny one.

    It takes the nearest ratio, with at least four patches if the image has four pixels.
    """
    target = 4 if size < TINY_IMAGE else 7 if size <= 64 else 14
    patches = [p for p in range(1, size + 1) if size % p == 0 and size // p >= min(size, 4)]
    patch = min(patches, key=lambda p: abs(math.log(size / p / target)))
    return {"patch": patch, "width": 64 if size < TINY_IMAGE else 96, "layers": 4, "heads": 4}


def pixel_statistics(images: Images) -> tuple[float, float]:
    """Exact mean and standard deviation of all pixels, scaled from 0 to 1."""
    counts = torch.bincount(images.pixels.flatten(), minlength=256).double()
    values = torch.arange(256) / 255
    mean = float((counts * values).sum() / counts.sum())
    variance = float((counts * (values - mean) ** 2).sum() / counts.sum())
    return round(mean, 6), round(max(math.sqrt(variance), 1e-3), 6)


def resolve_settings(
    model: str, images: int, epochs: float | None, changes: dict[str, Any]
) -> Settings:
    """The default settings with your changes. Epochs become steps."""
    changes = {name: value for name, value in changes.items() if value is not None}
    if "batch_tokens" in changes:
        raise ValueError(
            "--batch-tokens is for texts; give --batch-size, the number of images per step"
        )
    small_batch = {"batch_size": 32} if images < SMALL_DATASET else {}
    settings = replace(TRAINING[model], **{**small_batch, **changes})
    if len({"steps", "minutes"} & changes.keys()) + (epochs is not None) > 1:
        raise ValueError("epochs, steps and minutes exclude each other; give one of them")
    if epochs is not None and not 0 < epochs < math.inf:
        raise ValueError(f"epochs is {epochs}; give a number above 0")
    assert settings.batch_size is not None
    steps_per_epoch = max(1, images // settings.batch_size)
    if not {"steps", "minutes"} & changes.keys():
        passes = default_epochs(images) if epochs is None else epochs
        settings = replace(settings, steps=max(1, round(passes * steps_per_epoch)))
    if "warmup_steps" not in changes:
        settings = replace(
            settings, warmup_steps=min(settings.warmup_steps, max(1, settings.steps // 5))
        )
    if "evaluate_every" not in changes:
        # with --minutes the number of steps is unknown: validate after each epoch
        interval = (
            settings.steps / VALIDATIONS if settings.minutes is None else max(50, steps_per_epoch)
        )
        settings = replace(settings, evaluate_every=max(1, math.ceil(interval)))
    return settings


def default_epochs(images: int) -> float:
    """10 epochs, up to 30 for a small data set."""
    return min(30.0, max(10.0, 10.0 * SMALL_DATASET / images))


def print_overview(dataset: Dataset, task: VisionTask, model: Model, settings: Settings) -> None:
    """Print data, model size and training length, and all notes."""
    length = (
        f"{settings.steps:,} steps" if settings.minutes is None else f"{settings.minutes:g} minutes"
    )
    size = dataset.train.size
    print(
        f"{len(task.train):,} images of {size} x {size} pixels, {len(dataset.classes)} classes; "
        f"{len(task.validation):,} for validation; {model.parameter_count():,} parameters; "
        f"{length}",
        file=sys.stderr,
    )
    notes = [*dataset.notes, *softmax_notes(model)]
    for line in (*notes, *skipped_lines(dataset.skipped, f"; all in {SKIPPED} of the run")):
        print(line, file=sys.stderr)


def skipped_lines(skipped: Sequence[str], where: str) -> list[str]:
    """Lines about images that could not be read. `where` says where all of them are listed."""
    if not skipped:
        return []
    count = "1 image" if len(skipped) == 1 else f"{len(skipped):,} images"
    more = f"; the first {MAX_LISTED} are listed above{where}" if len(skipped) > MAX_LISTED else ""
    return [*skipped[:MAX_LISTED], f"{count} could not be read{more}"]


# what later commands need from a run's config.json, with the types
LARGEST_IMAGE = 4096  # pixels
NEEDED: dict[str, dict[str, type]] = {
    "task": {"data": str, "classes": list, "image_size": int, "channels": int, "images": int,
             "content": str},
    "model": {"model": str},
}  # fmt: skip


def load_vision(folder: str | Path) -> tuple[Model, dict[str, Any]]:
    """Model and configuration of a vision run.

    >>> from attnlab.tasks.vision import load_vision, train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train_vision("digits", out="run", **small)
    >>> model, config = load_vision("run")
    >>> model.kind
    'vit'
    """
    run = Run(folder)
    config = run.config_of(VisionTask.name)
    for part, names in NEEDED.items():
        for name, kind in names.items():
            if type(config[part].get(name)) is not kind:
                raise ValueError(
                    f"{run.folder / CONFIG}: has no valid {name} of the {part}; train the run again"
                )
    model, task = run.model(), config["task"]
    classes, size = task["classes"], task["image_size"]
    if not isinstance(model, ViT | ConvNet) or not all(isinstance(name, str) for name in classes):
        fits = False
    else:
        images = (model.config.classes, model.config.channels)
        sizes = (model.config.image_size,) if isinstance(model, ViT) else range(1, LARGEST_IMAGE)
        fits = images == (len(classes), task["channels"]) and size in sizes
    if not fits:
        raise ValueError(
            f"{run.folder / CONFIG}: its classes or images do not match its model; train the run "
            "again"
        )
    return model, config


def open_run_data(config: dict[str, Any]) -> tuple[Dataset, Parts]:
    """The data set that a run was trained on, and its split."""
    source = config["task"]["data"]
    try:
        dataset = open_matching_data(config, source)
    except OSError as error:  # such as a name that is too long
        raise ValueError(f"the run's data cannot be opened ({one_line(error)})") from None
    parts = split_like_run(config, dataset)
    if parts is None:
        raise ValueError(
            f"{source}: has changed since the run was trained on it; give --data to use it anyway"
        )
    return dataset, parts


def open_matching_data(config: dict[str, Any], source: str | Path) -> Dataset:
    """Open a data set that must have the classes and the image size of a run."""
    task = config["task"]
    size = task["image_size"]
    dataset = open_data(source, size if is_resized(source) else None)
    shape = (len(dataset.classes), dataset.train.size, dataset.train.channels)
    if shape != (len(task["classes"]), size, task["channels"]):
        raise ValueError(
            f"{source}: has {len(dataset.classes)} classes, {dataset.train.size} pixels and "
            f"{dataset.train.channels} channels; the run has {len(task['classes'])} classes, "
            f"{size} pixels and {task['channels']} channels"
        )
    for number, (name, expected) in enumerate(
        zip(dataset.classes, task["classes"], strict=True), 1
    ):
        if name != expected:
            raise ValueError(
                f"{source}: class {number} is {short_repr(name)}, but {short_repr(expected)} in "
                "the run; give images with the same class names"
            )
    return dataset


def split_like_run(config: dict[str, Any], dataset: Dataset) -> Parts | None:
    """The split of these images in the run, or None if it was not trained on them."""
    try:
        parts = split_dataset(dataset)
    except ValueError:  # too few images to split
        return None
    content = digest(parts.train, parts.validation, parts.test)
    return parts if content == config["task"]["content"] else None
