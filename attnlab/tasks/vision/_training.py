"""From images to a trained classifier."""

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
from attnlab.models import ConvNet, ConvNetConfig, Model, ViT, ViTConfig
from attnlab.models.vision import matched_convnet
from attnlab.run_folder import RunFolder, StartMode, check_folder
from attnlab.run_folder._file_names import CONFIG
from attnlab.tasks.vision._augmentation import Augmentation, recipe_named
from attnlab.tasks.vision._dataset import Dataset, Images, Parts, digest, divided, fraction
from attnlab.tasks.vision._model_notes import softmax_notes
from attnlab.tasks.vision._open_data import is_resized, open_data, source_of
from attnlab.tasks.vision._seen_images import keep_seen
from attnlab.tasks.vision._size_checks import check_patch, check_stages, most_stages
from attnlab.tasks.vision._task import VisionTask
from attnlab.tasks.vision.kind import SKIPPED
from attnlab.training import Run, Settings, is_main_process, train
from attnlab.training._run import resumed_settings

MODELS = ("vit", "convnet")
SHOWN = 3  # images that could not be read, by name
STOPS = 10  # validations on the way
FEW = 5000  # images: fewer are small sets, which bear more epochs and smaller batches
TINY = 16  # pixels along an image


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


# chosen on the validation images of each set (docs/vision.md)
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
    """Train on these images, or on handwritten digits; returns the metrics on validation.

    `sizes` are settings of ViTConfig or ConvNetConfig; a ConvNet without a width has as many
    parameters as the ViT would have.
    """
    vision = vision or VisionSettings()
    check_folder(out, start)
    dataset = open_data(data, vision.image_size)
    parts = divided(dataset)
    task, made, settings = prepared(
        dataset, parts, source_of(data), model, attention, vision, epochs, sizes or {},
        training or {},
    )  # fmt: skip
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    if is_main_process() and not quiet:
        tell(dataset, task, made, settings)
    return train(
        task, made, settings, Run(out), start=start, quiet=quiet,
        on_begin=lambda: keep_beside(dataset, task, Path(out)),
    )  # fmt: skip


def keep_beside(dataset: Dataset, task: VisionTask, folder: Path) -> None:
    """In the run's folder: which images were learned from or chosen by, and which could not be
    read."""
    keep_seen([task.train, task.validation], folder)
    run = RunFolder(folder)
    run.remove(SKIPPED)  # of a run that stood here
    if dataset.skipped:
        run.write_text(SKIPPED, "".join(f"{each}\n" for each in dataset.skipped))


def prepared(
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
    """What is to be trained, and how: all that can be wrong is said before the first step."""
    if model not in MODELS:
        raise ValueError(f"model {model!r}; there are {', '.join(MODELS)}")
    seed = int(training.get("seed", 0))
    learned = fraction(parts.train, vision.fraction, seed)
    settings = settled(model, len(learned), epochs, training)
    torch.manual_seed(settings.seed)
    made = make_model(model, dataset, learned, attention, sizes)
    how = augmentation_of(vision, dataset)
    task = VisionTask(
        learned,
        parts.validation,
        augmentation=how,
        smoothing=vision.smoothing,
        seed=settings.seed,
        batch=settings.batch_size or 1,
        about={
            "data": source,
            "classes": dataset.classes,
            "image_size": dataset.train.size,
            "channels": dataset.train.channels,
            "images": len(learned),
            "fraction": vision.fraction,
            "validation": len(parts.validation),
            "test": len(parts.test),
            "skipped": len(dataset.skipped),
            "augmentation": asdict(how),
            "smoothing": vision.smoothing,
            "content": digest(parts.train, parts.validation, parts.test),
        },
    )
    return task, made, settings


def augmentation_of(vision: VisionSettings, dataset: Dataset) -> Augmentation:
    """Where a pixel is a large part of the image, moving by one costs more than it teaches; and
    gray ones (MNIST and its kin) show one thing in the middle, where it stays in the test."""
    usual = "mirror" if dataset.train.channels == 1 else "light"
    usual = "none" if dataset.train.size < TINY else usual
    how = recipe_named(vision.augmentation or usual)
    flip = how.flip and dataset.mirrored if vision.flip is None else vision.flip
    return replace(how, flip=flip)


def make_model(
    model: str,
    dataset: Dataset,
    learned: Images,
    attention: str | list[str],
    sizes: dict[str, Any],
    parameters: int | None = None,
) -> Model:
    """Pixels are scaled by what those to be learned from are like.

    A ConvNet without a width gets as many parameters as the usual ViT has, or `parameters`.
    """
    kinds: dict[str, type[Any]] = {"vit": ViTConfig, "convnet": ConvNetConfig}
    named = {field.name for field in dataclasses.fields(kinds[model])}
    strange = [name for name in sizes if name not in named]
    if strange:
        option = strange[0].replace("_", "-")
        raise ValueError(f"--{option} is no setting of a {model}; leave it out")
    if model == "convnet" and attention != "softmax":
        raise ValueError("--attention is for a vit; a convnet has none")
    size, classes = dataset.train.size, len(dataset.classes)
    mean, deviation = scale_of(learned)
    shared: dict[str, Any] = {
        "channels": dataset.train.channels,
        "mean": mean,
        "deviation": deviation,
    }
    if model == "vit":
        usual = {**usual_sizes(size), **sizes}
        check_patch(dataset, usual["patch"], "patch" in sizes)
        return ViT(ViTConfig(classes, size, attention=attention, **{**shared, **usual}))
    stages = sizes.get("stages", min(2 if size < TINY else 3, most_stages(size)))
    check_stages(dataset, stages)
    given = {**shared, **sizes, "stages": stages}
    if "width" not in sizes:
        if parameters is None:
            with torch.device("meta"):
                vit = ViT(ViTConfig(classes, size, **{**shared, **usual_sizes(size)}))
            parameters = vit.parameter_count()
        found = matched_convnet(parameters, classes, given["channels"], stages, sizes.get("blocks"))
        given |= {"width": found.width, "blocks": found.blocks}
    return ConvNet(ConvNetConfig(classes, **given))


def usual_sizes(size: int) -> dict[str, int]:
    """About seven patches along an image, fourteen of a large one; four of a very small one.

    Nearest by ratio, and four at least, where an image has as many pixels.
    """
    wanted = 4 if size < TINY else 7 if size <= 64 else 14
    patches = [p for p in range(1, size + 1) if size % p == 0 and size // p >= min(size, 4)]
    patch = min(patches, key=lambda p: abs(math.log(size / p / wanted)))
    return {"patch": patch, "width": 64 if size < TINY else 96, "layers": 4, "heads": 4}


def scale_of(images: Images) -> tuple[float, float]:
    """Mean and deviation of all pixels from 0 to 1, counted exactly."""
    counts = torch.bincount(images.pixels.flatten(), minlength=256).double()
    values = torch.arange(256) / 255
    mean = float((counts * values).sum() / counts.sum())
    square = float((counts * (values - mean) ** 2).sum() / counts.sum())
    return round(mean, 6), round(max(math.sqrt(square), 1e-3), 6)


def settled(model: str, images: int, epochs: float | None, changes: dict[str, Any]) -> Settings:
    """The usual settings with the user's; epochs become steps."""
    changes = {name: value for name, value in changes.items() if value is not None}
    if "batch_tokens" in changes:
        raise ValueError("--batch-tokens is for texts; give --batch-size, the images of a step")
    rows = {"batch_size": 32} if images < FEW else {}
    settings = replace(TRAINING[model], **{**rows, **changes})
    if len({"steps", "minutes"} & changes.keys()) + (epochs is not None) > 1:
        raise ValueError("epochs, steps and minutes; give one of them")
    if epochs is not None and not 0 < epochs < math.inf:
        raise ValueError(f"epochs is {epochs}; give a number above 0")
    assert settings.batch_size is not None
    each = max(1, images // settings.batch_size)
    if not {"steps", "minutes"} & changes.keys():
        passes = usual_epochs(images) if epochs is None else epochs
        settings = replace(settings, steps=max(1, round(passes * each)))
    if "warmup_steps" not in changes:
        settings = replace(
            settings, warmup_steps=min(settings.warmup_steps, max(1, settings.steps // 5))
        )
    if "evaluate_every" not in changes:
        # by the clock nobody knows how many steps there will be: after each epoch
        stops = settings.steps / STOPS if settings.minutes is None else max(50, each)
        settings = replace(settings, evaluate_every=max(1, math.ceil(stops)))
    return settings


def usual_epochs(images: int) -> float:
    """Ten, and more of a small set, up to 30."""
    return min(30.0, max(10.0, 10.0 * FEW / images))


def tell(dataset: Dataset, task: VisionTask, model: Model, settings: Settings) -> None:
    length = (
        f"{settings.steps:,} steps" if settings.minutes is None else f"{settings.minutes:g} minutes"
    )
    side = dataset.train.size
    print(
        f"{len(task.train):,} images of {side} x {side} pixels, {len(dataset.classes)} classes; "
        f"{len(task.validation):,} to choose by; {model.parameter_count():,} parameters; {length}",
        file=sys.stderr,
    )
    notes = [*dataset.notes, *softmax_notes(model)]
    for line in (*notes, *skipped_lines(dataset.skipped, f"; all in {SKIPPED} of the run")):
        print(line, file=sys.stderr)


def skipped_lines(skipped: Sequence[str], where: str) -> list[str]:
    """Which images could not be read; `where` all of them are named."""
    if not skipped:
        return []
    count = "1 image" if len(skipped) == 1 else f"{len(skipped):,} images"
    more = f", {SHOWN} of them named above{where}" if len(skipped) > SHOWN else ""
    return [*skipped[:SHOWN], f"{count} left out{more}"]


# what later commands need of a run's configuration, and of which type
NEEDED: dict[str, dict[str, type]] = {
    "task": {"data": str, "classes": list, "image_size": int, "channels": int, "images": int,
             "content": str},
    "model": {"model": str},
}  # fmt: skip


def load_vision(folder: str | Path) -> tuple[Model, dict[str, Any]]:
    """Model and configuration of a vision run."""
    run = Run(folder)
    config = run.config()
    if config["task"].get("name") != VisionTask.name:
        raise ValueError(f"{folder}: a run of task {config['task'].get('name')!r}, not vision")
    for part, names in NEEDED.items():
        for name, kind in names.items():
            if not isinstance(config[part].get(name), kind):
                raise ValueError(
                    f"{run.folder / CONFIG}: has no {name} of the {part}; train it anew"
                )
    model, classes = run.model(), config["task"]["classes"]
    fits = isinstance(model, ViT | ConvNet) and model.config.classes == len(classes)
    if not fits or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"{run.folder / CONFIG}: its classes are not its model's; train it anew")
    return model, config


def parts_of(config: dict[str, Any]) -> tuple[Dataset, Parts]:
    """The images that a run was trained on, and how they were divided."""
    source = config["task"]["data"]
    dataset = open_like(config, source)
    parts = own_parts(config, dataset)
    if parts is None:
        raise ValueError(f"{source}: is not what the run was trained on; give --data to use it")
    return dataset, parts


def open_like(config: dict[str, Any], source: str | Path) -> Dataset:
    """These images, which must be of the classes and size that a run knows."""
    task = config["task"]
    size = task["image_size"]
    dataset = open_data(source, size if is_resized(source) else None)
    found = (len(dataset.classes), dataset.train.size, dataset.train.channels)
    if found != (len(task["classes"]), size, task["channels"]):
        raise ValueError(
            f"{source}: {len(dataset.classes)} classes of {dataset.train.size} pixels with "
            f"{dataset.train.channels} channels; the run has {len(task['classes'])}, {size} and "
            f"{task['channels']}"
        )
    for number, (here, known) in enumerate(zip(dataset.classes, task["classes"], strict=True), 1):
        if here != known:
            raise ValueError(
                f"{source}: class {number} is {here!r}, that of the run {known!r}; give images of "
                "the same classes, named alike"
            )
    return dataset


def own_parts(config: dict[str, Any], dataset: Dataset) -> Parts | None:
    """How a run divided these images; None where it was not trained on them."""
    try:
        parts = divided(dataset)
    except ValueError:  # too few to be divided
        return None
    content = digest(parts.train, parts.validation, parts.test)
    return parts if content == config["task"]["content"] else None
