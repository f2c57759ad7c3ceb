"""attnlab vision train | evaluate | classify"""

from __future__ import annotations

import json as json_format
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import (
    Attention,
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    create_app,
    flag,
    flatten_options,
    layer_attention,
    list_option,
    option,
    option_values,
    options_of,
    print_training_result,
    start_mode,
)
from attnlab.models import ConvNetConfig, ViTConfig
from attnlab.run_folder._file_names import CONFIG
from attnlab.tasks.vision import _training as recipe
from attnlab.tasks.vision._training import VisionSettings
from attnlab.tasks.vision.kind import VISION
from attnlab.training import Settings

app = create_app(VISION.name, VISION.help)

Data = Annotated[
    str | None,
    option(
        "Images: digits (built in), fashion (a Debian package), an .npz file, or a folder of idx "
        "files, CIFAR batches, PNG sheets with labels, or images in one folder per class. Without "
        "it, digits."
    ),
]
Epochs = Annotated[float | None, option("Number of passes over the training images.")]

SET_BY_DATA = ("classes", "image_size", "channels", "attention", "mean", "deviation")
ViTOptions: Any = options_of(ViTConfig, without=SET_BY_DATA, optional=True, common=("layers",))
ConvNetOptions: Any = options_of(
    ConvNetConfig, without=(*SET_BY_DATA, "width", "dropout"), optional=True
)
VisionOptions: Any = options_of(VisionSettings)
ComparedOptions: Any = options_of(VisionSettings, without=("fraction",))  # it has --fractions
TrainingOptions: Any = options_of(Settings, without=("batch_tokens",), optional=True)


@app.command
@flatten_options(
    vision=VisionOptions, sizes=ViTOptions, stages=ConvNetOptions, training=TrainingOptions
)
def train(
    data: Data = None,
    /,
    *,
    model: Annotated[
        str,
        option(
            "Model: vit (a vision transformer), or a convnet with about the same number of "
            "parameters."
        ),
    ] = "vit",
    attention: Attention = None,
    sizes: Any = ViTOptions(),  # noqa: B008 (a frozen value)
    stages: Any = ConvNetOptions(),  # noqa: B008
    vision: Any = VisionOptions(),  # noqa: B008
    epochs: Epochs = None,
    training: Any = TrainingOptions(),  # noqa: B008
    out: Out = Path("runs/vision"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train an image classifier. Without data, on 1,797 handwritten digits.

    The model and the size of the images decide the settings that you leave out.
    """
    metrics = recipe.train_vision(
        data,
        out=out,
        model=model,
        attention=layer_attention(attention),
        vision=VisionSettings(**option_values(vision)),
        epochs=epochs,
        sizes={**option_values(sizes, set_only=True), **option_values(stages, set_only=True)},
        training=option_values(training, set_only=True),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics, "validation ")


@app.command
def evaluate(
    run: RunFolder,
    /,
    *,
    data: Annotated[
        str | None,
        option(
            "Other images of the same classes and size to evaluate on. If they have a test set, "
            "only that is used. Images that the run was trained on are left out."
        ),
    ] = None,
    split: Annotated[str, option("Split to evaluate on: test, validation or train.")] = "test",
    out: Annotated[
        Path | None,
        option(
            "Page to write, with a .json file of the same name. Without it, RUN/SPLIT.html, or "
            "RUN/test-NAME.html for other data."
        ),
    ] = None,
    overwrite: Annotated[bool, flag("Replace the files of --out.")] = False,
    json: Json = False,
) -> None:
    """Evaluate a run: accuracy, confusion matrix and worst mistakes, also as a page of images."""
    from rich.console import Console

    from attnlab._safe_files import write_json
    from attnlab.report._page import check_page, save_page
    from attnlab.tasks.vision._score_report import print_score, score_report
    from attnlab.tasks.vision._scoring import prepare_scoring, score_images

    scoring_input = prepare_scoring(run, data, split)
    out = out or run / f"{scoring_input.name}.html"
    figures = out.with_suffix(".json")
    check_page(out, overwrite)
    _check_figures(figures, overwrite)
    report, pixels = score_images(scoring_input)
    lines = recipe.skipped_lines(report["skipped"], f"; all in {figures}")
    for line in (*report["notes"], *lines):
        print(line, file=sys.stderr)
    write_json(figures, report)  # first: --overwrite finds the page of a report by its figures
    save_page(out, score_report(report, pixels), overwrite)
    if json:
        print(json_format.dumps(report, indent=2))
        return
    print_score(report, Console())
    print(f"{out}\n{figures}")


def _check_figures(path: Path, overwrite: bool) -> None:
    """The JSON file beside a page. A run's own config.json is never replaced."""
    if path.name == CONFIG:
        raise ValueError(f"{path}: would replace the settings of a run; choose another name")
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: already exists; give --overwrite or another name")


@app.command
def classify(
    run: RunFolder,
    /,
    *images: Annotated[Path, option("Image files.")],
    test: Annotated[
        list[int] | None, list_option("Numbers of test images of the run's data to classify.")
    ] = None,
    top: Annotated[int, option("Number of classes to print for each image.")] = 3,
    explain: Annotated[
        Path | None,
        option(
            "Page to write about what each patch attends to. Several images give NAME-1.html, "
            "NAME-2.html and so on."
        ),
    ] = None,
    overwrite: Annotated[bool, flag("Replace the page of --explain.")] = False,
    json: Json = False,
) -> None:
    """Classify images. --explain shows what each patch attends to, by layer and head."""
    from rich.console import Console

    from attnlab._image_files import encode_png
    from attnlab.report._page import check_page
    from attnlab.report._terminal import plain_text
    from attnlab.report._text import clean
    from attnlab.tasks.vision._classify import classify as read
    from attnlab.tasks.vision._classify import classify_test

    if top < 1:
        raise ValueError(f"--top is {top}; give 1 or more")
    if run.is_file():
        raise ValueError(f"{run}: is a file; give the folder of a run first, then images")
    count = len(images) + len(test or [])
    if not count:
        raise ValueError("no images; give image files, or --test with numbers of test images")
    pages = _pages(explain, count)
    for page in pages:
        check_page(page, overwrite)
    predictions, console = read(run, images) if images else [], Console()
    files = list(images)
    with tempfile.TemporaryDirectory() as folder:
        if test:
            test_predictions, pixels = classify_test(run, test)
            predictions += test_predictions
            for number, image in zip(test, pixels, strict=True):
                files.append(Path(folder) / f"test-{number}.png")
                files[-1].write_bytes(encode_png(image))
        if json:
            rows = [
                {
                    "image": each.image,
                    "label": each.label,
                    "chances": dict(each.probabilities[:top]),
                }
                for each in predictions
            ]
            print(json_format.dumps(rows, indent=2))
        else:
            for prediction in predictions:
                classes = ", ".join(f"{name} {p:.1%}" for name, p in prediction.probabilities[:top])
                label = "" if prediction.label is None else f" (it is {prediction.label})"
                print(plain_text(clean(f"{prediction.image}: {classes}{label}"), console))
        for file, page, prediction in zip(files, pages, predictions, strict=False):
            title = f"{run.resolve().name}: {file.name} is classified as {prediction.describe()}"
            _explain(run, file, page, title, overwrite)
            if not json:
                print(page)


def _pages(explain: Path | None, count: int) -> list[Path]:
    if explain is None:
        return []
    if count == 1:
        return [explain]
    return [explain.with_stem(f"{explain.stem}-{i + 1}") for i in range(count)]


def _explain(run: Path, image: Path, page: Path, title: str, overwrite: bool) -> None:
    from attnlab.interpret._look import look

    looked = look(str(run), image=image, title=title)
    looked.open_at("image").save(page, overwrite=overwrite)
