"""Make a readable report, for a page and the terminal, from the scores of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from torch import Tensor

from attnlab._confidence_intervals import Estimate, format_number
from attnlab._image_files import encode_png
from attnlab.report import (
    Bars,
    Block,
    Cell,
    Figure,
    Gallery,
    Heatmap,
    Mark,
    Picture,
    Report,
    Section,
    Table,
    Tile,
    print_report,
)
from attnlab.report._calibration_section import reliability_blocks
from attnlab.tasks.vision._scoring import ScoreData, confusions

MAX_ROWS = 12  # rows of a table
MAX_CLASSES = 24  # classes in a plot; if there are more, those with most mistakes
MAX_WITH_COUNTS = 12  # classes in a matrix whose cells show their counts
MODEL_NAMES = {"vit": "ViT", "convnet": "ConvNet"}
PART_NAMES = {
    "test": "test images",
    "validation": "validation images",
    "train": "training images",
    "all": "images",
}


def score_report(scores: ScoreData, pixels: Sequence[Tensor] = ()) -> Report:
    """The report with the confusion matrix, and the worst mistakes if you pass their pixels."""
    return Report(
        "vision-scores",
        f"Confusions: {scores['run']}",
        [
            Section("summary", "In short", summary(scores), tiles=_tiles(scores)),
            _matrix(scores),
            *([_mistakes(scores, pixels)] if len(pixels) == len(scores["mistakes"]) else []),
            _classes(scores),
            _calibration(scores),
        ],
    )


def print_score(scores: ScoreData, console: Console) -> None:
    """Print the summary, the confusion matrix and the most frequent confusions."""
    print_report(score_report(scores), console, charts=False, sections=("summary", "confusions"))


def percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{fraction:.1%}"


def summary(scores: ScoreData) -> list[str]:
    """Sentences about what tiles and tables do not show."""
    baseline = scores["baseline"]
    images = PART_NAMES[scores["part"]] + (f" of {scores['data']}" if scores["foreign"] else "")
    sentences = [
        f"{scores['right']:,} of {scores['images']:,} {images} were classified correctly: "
        f"{percent(scores['accuracy'])}. Always answering “{baseline['class']}” would be right in "
        f"{percent(baseline['accuracy'])}.",
    ]
    if scores["foreign"]:
        explanation = (
            "its own test set is scored"
            if scores["part"] == "test"
            else "it has no test set of its own, so all its images are scored"
        )
        sentences.append(
            f"{scores['data']} is not the data that the run was trained on: {explanation}."
        )
    sentences += _left_out_sentences(scores["left_out"])
    if scores["part"] in ("validation", "train"):
        sentences.append("These are not test images: the model was trained or chosen with them.")
    return sentences


def _left_out_sentences(left_out: int | None) -> list[str]:
    if left_out is None:
        return [
            "attnlab cannot check whether the run was trained on some of these images: the run is "
            "older than the digests that runs now keep of their training images."
        ]
    if not left_out:
        return []
    if left_out == 1:
        return ["1 image was left out, because the run was trained or validated on it."]
    return [f"{left_out:,} images were left out, because the run was trained or validated on them."]


def _tiles(scores: ScoreData) -> list[Tile]:
    interval = " to ".join(map(percent, scores["interval"]))
    scored = [row for row in scores["classes"] if row["accuracy"] is not None]
    hardest = min(scored, key=lambda row: row["accuracy"])
    return [
        Tile("Right", percent(scores["accuracy"]), f"95% interval {interval}"),
        Tile("Images", format_number(scores["images"]), PART_NAMES[scores["part"]]),
        Tile("Hardest class", hardest["name"], f"{percent(hardest['accuracy'])} right"),
        Tile("Calibration error", percent(scores["calibration_error"]), "confidence and accuracy"),
        Tile("Parameters", format_number(scores["parameters"]), MODEL_NAMES[scores["model"]]),
        Tile(
            "Trained on", format_number(scores["trained_on"]), f"images of {scores['trained_data']}"
        ),
    ]


def _matrix(scores: ScoreData) -> Section:
    counts = scores["confusion"]
    wrong = [
        sum(row) - row[k] + sum(other[k] for other in counts) - row[k]
        for k, row in enumerate(counts)
    ]
    shown = sorted(sorted(range(len(counts)), key=lambda k: -wrong[k])[:MAX_CLASSES])
    names = [scores["classes"][k]["name"] for k in shown]
    plot = Heatmap(
        "predicted class",
        "true class",
        "images",
        names,
        names,
        [[counts[i][j] for j in shown] for i in shown],
        texts=[
            [f"{names[i]} classified as {names[j]}: {counts[a][b]:,} of {sum(counts[a]):,}"
             for j, b in enumerate(shown)]
            for i, a in enumerate(shown)
        ],
        written=len(shown) <= MAX_WITH_COUNTS,
    )  # fmt: skip
    note = "Everything off the diagonal is a mistake."
    if len(shown) < len(counts):
        note += f" It shows the {len(shown)} classes with most mistakes, of {len(counts)}."
    rows: list[list[Cell]] = [
        [label, predicted, count, percent(count / total)]
        for label, predicted, count, total in confusions(scores)[:MAX_ROWS]
    ]
    header = ["true class", "predicted", "images", "of that class"]
    table = Table("Most frequent confusions", header, rows)
    figure = Figure("Images by true and predicted class", plot, note)
    blocks: list[Block] = [figure, *([table] if rows else [])]
    return Section("confusions", "Confusion matrix", blocks=blocks)


def _mistakes(scores: ScoreData, pixels: Sequence[Tensor]) -> Section:
    title = "The worst mistakes"
    pictures = [
        Picture(
            encode_png(image),
            f"{mistake['label']} classified as {mistake['said']}",
            f"confidence {mistake['confidence']:.0%}, in the true class "
            f"{mistake['right_confidence']:.0%}; number {mistake['number']}",
        )
        for mistake, image in zip(scores["mistakes"], pixels, strict=True)
    ]
    if not pictures:
        return Section("mistakes", title, ["The model made no mistake."])
    wrong = scores["images"] - scores["right"]
    findings = [
        f"The {len(pictures)} most confident of {wrong:,} mistakes. The first name is the label in "
        "the data set, which may be wrong."
    ]
    return Section("mistakes", title, findings, blocks=[Gallery("", pictures)])


def _classes(scores: ScoreData) -> Section:
    scored = [row for row in scores["classes"] if row["accuracy"] is not None]
    scored.sort(key=lambda row: row["accuracy"])
    plot = Bars(
        "right",
        {row["name"]: Estimate(row["accuracy"], *row["interval"]) for row in scored[:MAX_CLASSES]},
        [Mark(f"all: {percent(scores['accuracy'])}", y=scores["accuracy"])],
        percent=True,
    )
    rows = [
        [row["name"], f"{row['right']} of {row['images']}", percent(row["precision"])]
        for row in scored
    ]
    note = "Classes whose 95% intervals overlap widely need not differ."
    blocks: list[Block] = [
        Figure("Accuracy by class, hardest first", plot, note, in_table=True),
        Table("", ["class", "correct", "precision"], rows),
    ]
    return Section("classes", "Class by class", blocks=blocks)


def _calibration(scores: ScoreData) -> Section:
    finding = (
        "Weighted by the number of images, confidence and accuracy lie "
        f"{100 * scores['calibration_error']:.1f} percentage points apart."
    )
    blocks = reliability_blocks(scores["reliability"], "Accuracy by confidence")
    return Section("calibration", "Does it know when it is right?", [finding], blocks=blocks)
