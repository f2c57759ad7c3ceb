"""An evaluation for people: a report for a page and the terminal, made from its scores."""

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
from attnlab.tasks.vision._scoring import Report as Scores
from attnlab.tasks.vision._scoring import confusions

SHOWN = 12  # rows of a table
DRAWN = 24  # classes of a matrix: of more only those with most mistakes
WRITTEN = 12  # classes of a matrix whose squares have room for their counts
NAMES = {"vit": "ViT", "convnet": "ConvNet"}
WORDS = {
    "test": "test images",
    "validation": "validation images",
    "train": "training images",
    "all": "images",
}


def score_report(scores: Scores, pixels: Sequence[Tensor] = ()) -> Report:
    """What was found, what is taken for what, and the worst mistakes, if their pixels are given."""
    return Report(
        "vision-scores",
        f"What it takes for what: {scores['run']}",
        [
            Section("summary", "In short", summary(scores), tiles=_tiles(scores)),
            _matrix(scores),
            *([_mistakes(scores, pixels)] if len(pixels) == len(scores["mistakes"]) else []),
            _classes(scores),
            _calibration(scores),
        ],
    )


def print_score(scores: Scores, console: Console) -> None:
    """The summary, what is taken for what, and the commonest confusions."""
    print_report(score_report(scores), console, charts=False, sections=("summary", "confusions"))


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def summary(scores: Scores) -> list[str]:
    """What the tiles and the tables cannot say."""
    base = scores["baseline"]
    what = WORDS[scores["part"]] + (f" of {scores['data']}" if scores["foreign"] else "")
    words = [
        f"{scores['right']:,} of {scores['images']:,} {what} were named rightly: "
        f"{percent(scores['accuracy'])}. Saying “{base['class']}” every time would be right in "
        f"{percent(base['accuracy'])}.",
    ]
    if scores["foreign"]:
        measured = (
            "its own test set is measured"
            if scores["part"] == "test"
            else "it has no test set of its own, so all its images are measured"
        )
        words.append(f"{scores['data']} is not what it was trained on: {measured}.")
    words += _overlap(scores["left_out"])
    if scores["part"] in ("validation", "train"):
        words.append("These are not the test images: the model was chosen or trained by them.")
    return words


def _overlap(left_out: int | None) -> list[str]:
    if left_out is None:
        return [
            "Whether the run has learned from some of these images could not be checked: it was "
            "made before runs kept digests of what they learn from."
        ]
    if not left_out:
        return []
    if left_out == 1:
        return ["1 image was left out, because the run was trained on it or chosen by it."]
    return [
        f"{left_out:,} images were left out, because the run was trained on them or chosen by them."
    ]


def _tiles(scores: Scores) -> list[Tile]:
    interval = " to ".join(map(percent, scores["interval"]))
    known = [each for each in scores["classes"] if each["accuracy"] is not None]
    hardest = min(known, key=lambda each: each["accuracy"])
    return [
        Tile("Right", percent(scores["accuracy"]), f"95% interval {interval}"),
        Tile("Images", format_number(scores["images"]), WORDS[scores["part"]]),
        Tile("Hardest class", hardest["name"], f"{percent(hardest['accuracy'])} right"),
        Tile("Calibration error", percent(scores["calibration_error"]), "confidence and accuracy"),
        Tile("Parameters", format_number(scores["parameters"]), NAMES[scores["model"]]),
        Tile(
            "Trained on", format_number(scores["trained_on"]), f"images of {scores['trained_data']}"
        ),
    ]


def _matrix(scores: Scores) -> Section:
    counts = scores["confusion"]
    wrong = [
        sum(row) - row[k] + sum(other[k] for other in counts) - row[k]
        for k, row in enumerate(counts)
    ]
    chosen = sorted(sorted(range(len(counts)), key=lambda k: -wrong[k])[:DRAWN])
    names = [scores["classes"][k]["name"] for k in chosen]
    plot = Heatmap(
        "what was said",
        "what it is",
        "images",
        names,
        names,
        [[counts[i][j] for j in chosen] for i in chosen],
        texts=[
            [f"{names[i]}, said {names[j]}: {counts[a][b]:,} of {sum(counts[a]):,}"
             for j, b in enumerate(chosen)]
            for i, a in enumerate(chosen)
        ],
        written=len(chosen) <= WRITTEN,
    )  # fmt: skip
    note = "What is off the diagonal is a mistake."
    if len(chosen) < len(counts):
        note += f" Only the {len(chosen)} classes with most mistakes of {len(counts)} are drawn."
    rows: list[list[Cell]] = [
        [label, said, count, percent(count / total)]
        for label, said, count, total in confusions(scores)[:SHOWN]
    ]
    header = ["it is", "it said", "images", "of that class"]
    table = Table("Taken for something else", header, rows, "the commonest first")
    figure = Figure("Images by what they show and what was said", plot, note)
    blocks: list[Block] = [figure, *([table] if rows else [])]
    return Section("confusions", "What is taken for what", blocks=blocks)


def _mistakes(scores: Scores, pixels: Sequence[Tensor]) -> Section:
    title = "The worst mistakes"
    pictures = [
        Picture(
            encode_png(image),
            f"{each['label']}, said {each['said']}",
            f"{each['confidence']:.0%} sure; right one {each['right_confidence']:.0%}; "
            f"number {each['number']}",
        )
        for each, image in zip(scores["mistakes"], pixels, strict=True)
    ]
    if not pictures:
        return Section("mistakes", title, ["It made no mistake."])
    wrong = scores["images"] - scores["right"]
    findings = [
        f"It was surest of these, and wrong: {len(pictures)} of {wrong:,} mistakes. The first name "
        "is what the data set says. Some of them may be labeled wrongly there."
    ]
    return Section("mistakes", title, findings, blocks=[Gallery("", pictures)])


def _classes(scores: Scores) -> Section:
    known = [each for each in scores["classes"] if each["accuracy"] is not None]
    known.sort(key=lambda each: each["accuracy"])
    plot = Bars(
        "right",
        {each["name"]: Estimate(each["accuracy"], *each["interval"]) for each in known[:DRAWN]},
        [Mark(f"all: {percent(scores['accuracy'])}", y=scores["accuracy"])],
        percent=True,
    )
    rows = [
        [each["name"], f"{each['right']} of {each['images']}", percent(each["precision"])]
        for each in known
    ]
    note = "Classes whose 95% intervals overlap widely need not differ."
    blocks: list[Block] = [
        Figure("Share named rightly, hardest first", plot, note, in_table=True),
        Table("", ["class", "named rightly", "right when said"], rows),
    ]
    return Section("classes", "Class by class", blocks=blocks)


def _calibration(scores: Scores) -> Section:
    finding = (
        "Weighted by the number of images, confidence and accuracy lie "
        f"{100 * scores['calibration_error']:.1f} percentage points apart."
    )
    blocks = reliability_blocks(scores["reliability"], "Share right by confidence")
    return Section("calibration", "Does it know when it is right?", [finding], blocks=blocks)
