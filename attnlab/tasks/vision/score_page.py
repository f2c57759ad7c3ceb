"""An evaluation for people: a page with pictures, and a shorter account for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from torch import Tensor

from attnlab.charts import Bar, bar_chart, clean, matrix_chart, number, reliability_chart
from attnlab.page import Figure, Picture, Section, Table, Tile, page
from attnlab.pictures import png
from attnlab.tasks.vision.scoring import Report, confusions

SHOWN = 12  # rows of a table
DRAWN = 24  # classes of a matrix: of more only those with most mistakes
NAMES = {"vit": "ViT", "convnet": "ConvNet"}
WORDS = {
    "test": "test images",
    "validation": "validation images",
    "train": "training images",
    "all": "images",
}


def score_page(report: Report, pixels: Sequence[Tensor]) -> str:
    """One HTML file: what was found, what is taken for what, the worst mistakes."""
    sections = [Section("In short", summary(report), tiles=_tiles(report)), _matrix(report)]
    sections.append(_mistakes(report, pixels))
    sections += [_classes(report), _calibration(report)]
    return page(f"What it takes for what: {report['run']}", sections)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def summary(report: Report) -> list[str]:
    low, high = report["interval"]
    base = report["baseline"]
    what = WORDS[report["part"]] + (f" of {report['data']}" if report["foreign"] else "")
    words = [
        f"{report['right']:,} of {report['images']:,} {what} were named rightly: "
        f"{percent(report['accuracy'])} (95% interval {percent(low)} to {percent(high)}). Saying "
        f"“{base['class']}” every time would be right in {percent(base['accuracy'])}.",
        f"The model is a {NAMES[report['model']]} of {report['parameters']:,} parameters, trained "
        f"on {report['trained_on']:,} images of {report['trained_data']}.",
    ]
    if report["foreign"]:
        measured = (
            "its own test set is measured"
            if report["part"] == "test"
            else "it has no test set of its own, so all its images are measured"
        )
        words.append(f"{report['data']} is not what it was trained on: {measured}.")
    words += _overlap(report["left_out"])
    worst = confusions(report)[:1]
    if worst:
        label, said, count, total = worst[0]
        words.append(f"Taken for another most often: {label} for {said}, {count:,} of {total:,}.")
    else:
        words.append("There is no mistake to show.")
    if report["part"] in ("validation", "train"):
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


def _tiles(report: Report) -> list[Tile]:
    low, high = report["interval"]
    known = [each for each in report["classes"] if each["accuracy"] is not None]
    hardest = min(known, key=lambda each: each["accuracy"])
    return [
        Tile("Right", percent(report["accuracy"]), f"{percent(low)} to {percent(high)}"),
        Tile("Images", number(report["images"]), WORDS[report["part"]]),
        Tile("Hardest class", hardest["name"], f"{percent(hardest['accuracy'])} right"),
        Tile("Calibration error", percent(report["calibration_error"]), "confidence and accuracy"),
        Tile("Parameters", number(report["parameters"]), NAMES[report["model"]]),
    ]


def _matrix(report: Report) -> Section:
    counts = report["confusion"]
    wrong = [
        sum(row) - row[k] + sum(other[k] for other in counts) - row[k]
        for k, row in enumerate(counts)
    ]
    chosen = sorted(sorted(range(len(counts)), key=lambda k: -wrong[k])[:DRAWN])
    names = [report["classes"][k]["name"] for k in chosen]
    chart = matrix_chart(
        names,
        [[counts[i][j] for j in chosen] for i in chosen],
        title="Images by what they show and what was said",
        rows="what it is",
        columns="what was said",
    )
    prose = [
        "A row has all images of one class; the squares say what they were taken for. What is off "
        "the diagonal is a mistake. The stronger a square, the larger its share of the row."
    ]
    if len(chosen) < len(counts):
        prose.append(
            f"Only the {len(chosen)} classes with most mistakes of {len(counts)} are drawn."
        )
    rows = [
        (label, said, str(count), percent(count / total))
        for label, said, count, total in confusions(report)[:SHOWN]
    ]
    header = ("it is", "it said", "images", "of that class")
    tables = [Table(header, rows, "Taken for something else", "the commonest first")]
    return Section(
        "What is taken for what",
        prose,
        figures=[Figure(chart)],
        tables=tables if rows else [],
    )


def _mistakes(report: Report, pixels: Sequence[Tensor]) -> Section:
    pictures = [
        Picture(
            png(image),
            f"{each['label']}, said {each['said']}",
            f"{each['confidence']:.0%} sure; right one {each['right_confidence']:.0%}; "
            f"number {each['number']}",
        )
        for each, image in zip(report["mistakes"], pixels, strict=True)
    ]
    wrong = report["images"] - report["right"]
    prose = [
        f"It was surest of these, and wrong: {len(pictures)} of {wrong:,} mistakes. The first name "
        "is what the data set says. Some of them may be labelled wrongly there."
        if pictures
        else "It made no mistake."
    ]
    return Section("The worst mistakes", prose, pictures=pictures)


def _classes(report: Report) -> Section:
    known = [each for each in report["classes"] if each["accuracy"] is not None]
    known.sort(key=lambda each: each["accuracy"])
    bars = [Bar(each["name"], each["accuracy"], tuple(each["interval"])) for each in known[:DRAWN]]
    chart = bar_chart(
        bars,
        title="Share named rightly, hardest first",
        label="class",
        value="right",
        percent=True,
        mark=(f"all: {percent(report['accuracy'])}", report["accuracy"]),
    )
    rows = [
        (each["name"], f"{each['right']} of {each['images']}", percent(each["precision"]))
        for each in known
    ]
    header = ("class", "named rightly", "right when said")
    prose = [
        "The thin lines are 95% intervals: classes whose lines overlap widely need not differ."
    ]
    table = Table(header, rows)
    return Section("Class by class", prose, figures=[Figure(chart)], tables=[table])


def _calibration(report: Report) -> Section:
    chart = reliability_chart(report["reliability"], title="Share right by confidence")
    prose = [
        "What is said with 80% confidence should be right 80 times of 100. Bars below the dashed "
        "line are images it was too sure of, bars above it those it doubted too much.",
        "Weighted by the number of images, confidence and accuracy lie "
        f"{100 * report['calibration_error']:.1f} percentage points apart.",
    ]
    return Section("Does it know when it is right?", prose, figures=[Figure(chart)])


def print_score(report: Report, console: Console) -> None:
    """The summary, and the commonest confusions."""
    for sentence in summary(report):
        console.print(plain(sentence, console))
    rows = confusions(report)[: SHOWN // 2]
    if not rows:
        return
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for heading in ("it is", "it said", "images", "of"):
        table.add_column(heading, justify="left" if heading.startswith("it") else "right")
    for label, said, count, total in rows:
        table.add_row(plain(label, console), plain(said, console), str(count), str(total))
    console.print()
    console.print(table)


def plain(text: str, console: Console) -> Text:
    """Text is never read as markup; what the console cannot encode becomes a question mark."""
    simple = clean(text).translate(str.maketrans("“”–", '""-'))
    return Text(simple.encode(console.encoding, "replace").decode(console.encoding))
