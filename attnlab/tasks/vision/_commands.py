"""attnlab vision train | evaluate | classify"""

from __future__ import annotations

import json as json_format
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab._command_options import (
    Json,
    Out,
    Overwrite,
    RunFolder,
    given,
    grouped,
    one_or_each,
    options_of,
    several,
    start_mode,
    told,
)
from attnlab.models import ConvNetConfig, ViTConfig
from attnlab.run_folder._file_names import CONFIG
from attnlab.tasks.vision import _training as recipe
from attnlab.tasks.vision._training import VisionSettings
from attnlab.tasks.vision.kind import VISION
from attnlab.training import Settings

app = App(name=VISION.name, help=VISION.help, help_format="plaintext")

Data = Annotated[
    str | None,
    Parameter(
        help="digits (they come along), fashion (Debian's package), an .npz file, or a folder: "
        "idx files, CIFAR batches, PNG sheets with labels, images in a folder for each class."
    ),
]
Attention = Annotated[
    list[str] | None,
    several(
        "vit: mechanism of all layers, or one for each; options behind a colon: window:window=3."
    ),
]
Epochs = Annotated[float | None, Parameter(help="Passes over the training images.")]
Resume = Annotated[bool, Parameter(negative="", help="Go on with what is in --out.")]

SET = ("classes", "image_size", "channels", "attention", "mean", "deviation")  # by the data
ViTOptions: Any = options_of(ViTConfig, without=SET, unset=True)
ConvNetOptions: Any = options_of(ConvNetConfig, without=(*SET, "width", "dropout"), unset=True)
VisionOptions: Any = options_of(VisionSettings)
ComparedOptions: Any = options_of(VisionSettings, without=("fraction",))  # it has --fractions
TrainingOptions: Any = options_of(Settings, without=("batch_tokens",), unset=True)


@app.command
@grouped(vision=VisionOptions, sizes=ViTOptions, stages=ConvNetOptions, training=TrainingOptions)
def train(
    data: Data = None,
    /,
    *,
    model: Annotated[str, Parameter(help="vit, or convnet: as many parameters.")] = "vit",
    attention: Attention = None,
    epochs: Epochs = None,
    out: Out = Path("runs/vision"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    vision: Any = VisionOptions(),  # noqa: B008 (a frozen value)
    sizes: Any = ViTOptions(),  # noqa: B008
    stages: Any = ConvNetOptions(),  # noqa: B008
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Train a classifier of images; without data on 1,797 handwritten digits."""
    metrics = recipe.train_vision(
        data,
        out=out,
        model=model,
        attention=one_or_each(attention),
        vision=VisionSettings(**given(vision)),
        epochs=epochs,
        sizes={**given(sizes, unset=True), **given(stages, unset=True)},
        training=given(training, unset=True),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics, "validation ")


@app.command
def evaluate(
    run: RunFolder,
    /,
    *,
    data: Annotated[
        str | None,
        Parameter(
            help="Other images of the same classes and size: their own test set, or all of them; "
            "without those that the run has learned from."
        ),
    ] = None,
    part: Annotated[str, Parameter(help="test, validation or train.")] = "test",
    out: Annotated[
        Path | None,
        Parameter(
            help="The page; default RUN/PART.html, of other data RUN/test-NAME.html; .json beside "
            "it."
        ),
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the page.")] = False,
    json: Json = False,
) -> None:
    """Measure a run: accuracy, a confusion matrix and the worst mistakes, as a page of pictures."""
    from rich.console import Console

    from attnlab._safe_files import write_json
    from attnlab.report._page import check_page, save_page
    from attnlab.tasks.vision._score_report import print_score, score_report
    from attnlab.tasks.vision._scoring import measured, subject_of

    subject = subject_of(run, data, part)
    out = out or run / f"{subject.name}.html"
    figures = out.with_suffix(".json")
    check_page(out, overwrite)
    _check_figures(figures, overwrite)
    report, pixels = measured(subject)
    lines = recipe.skipped_lines(report["skipped"], f"; all in {figures}")
    for line in (*report["notes"], *lines):
        print(line, file=sys.stderr)
    save_page(out, score_report(report, pixels), overwrite)
    write_json(figures, report)
    if json:
        print(json_format.dumps(report, indent=2))
        return
    print_score(report, Console())
    print(f"{out}\n{figures}")


def _check_figures(path: Path, overwrite: bool) -> None:
    """What is written beside a page, by the same rule; a run's own file is never replaced."""
    if path.name == CONFIG:
        raise ValueError(
            f"{path}: is how a run is known, and the figures go beside the page; name it otherwise"
        )
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: is there already; give --overwrite or another name")


@app.command
def classify(
    run: RunFolder,
    /,
    *images: Annotated[Path, Parameter(help="Files that Pillow reads.")],
    test: Annotated[
        list[int] | None,
        several("Test images of the run's data, by number."),
    ] = None,
    top: Annotated[int, Parameter(help="So many classes of each.")] = 3,
    explain: Annotated[
        Path | None,
        Parameter(
            help="Write what each patch attends to there, as NAME.html; NAME-1.html, NAME-2.html "
            "for several images."
        ),
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --explain.")] = False,
    json: Json = False,
) -> None:
    """Say what images show; --explain: per layer and head which patches are looked at."""
    from rich.console import Console

    from attnlab._image_files import png
    from attnlab.report._page import check_page
    from attnlab.report._terminal import plain
    from attnlab.report._text import clean
    from attnlab.tasks.vision._classify import classify as read
    from attnlab.tasks.vision._classify import classify_test

    if top < 1:
        raise ValueError(f"--top {top}; give 1 or more")
    if run.is_file():
        raise ValueError(f"{run}: a file; the folder of a run comes first, then images")
    count = len(images) + len(test or [])
    if not count:
        raise ValueError("give images, or --test and numbers of test images")
    pages = _pages(explain, count)
    for page in pages:
        check_page(page, overwrite)
    found, console = read(run, images) if images else [], Console()
    files = list(images)
    with tempfile.TemporaryDirectory() as folder:
        if test:
            told, pixels = classify_test(run, test)
            found += told
            for number, image in zip(test, pixels, strict=True):
                files.append(Path(folder) / f"test-{number}.png")
                files[-1].write_bytes(png(image))
        if json:
            rows = [
                {"image": f.image, "label": f.label, "chances": dict(f.chances[:top])}
                for f in found
            ]
            print(json_format.dumps(rows, indent=2))
        else:
            for each in found:
                said = ", ".join(f"{name} {chance:.1%}" for name, chance in each.chances[:top])
                label = "" if each.label is None else f" (it is {each.label})"
                print(plain(clean(f"{each.image}: {said}{label}"), console))
        for file, page, each in zip(files, pages, found, strict=False):
            name, chance = each.chances[0]
            title = f"{run.resolve().name}: {file.name} is {name} ({chance:.0%})"
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

    seen = look(str(run), image=image, title=title)
    seen.opening("image").save(page, overwrite=overwrite)
