"""How good a run is: accuracy with its interval, what is taken for what, and the worst mistakes.

Letters: N images, K classes.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab._calibration import expected_calibration_error, reliability_bins
from attnlab._confidence_intervals import wilson_interval
from attnlab.models import Model
from attnlab.tasks.vision._dataset import Dataset, Images, Parts, join
from attnlab.tasks.vision._seen_images import seen_by
from attnlab.tasks.vision._task import logits_of
from attnlab.tasks.vision._training import load_vision, open_like, own_parts, parts_of
from attnlab.training import Run

PARTS = ("test", "validation", "train")
MISTAKES = 48  # that are kept
Report = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A run, and the images that it is to be measured on."""

    model: Model
    images: Images
    numbers: Tensor
    """(N,) of each image, in the part that it is of."""
    classes: list[str]
    about: Report
    name: str
    """Of the page: other data never take the place of the run's own test report."""


def evaluate(
    run: str | Path, data: str | Path | None = None, part: str = "test"
) -> tuple[Report, list[Tensor]]:
    """A report for JSON and pages, and the pixels of its worst mistakes.

    The test images are for the last figure: nothing may be chosen by them. Of other `data` those
    images are left out that the run has learned from or chosen by.
    """
    return measured(subject_of(run, data, part))


def subject_of(run: str | Path, data: str | Path | None = None, part: str = "test") -> Subject:
    """What `measured` is to measure; all that can be wrong is said here."""
    if part not in PARTS:
        raise ValueError(f"part {part!r}; there are {', '.join(PARTS)}")
    model, config = load_vision(run)
    if not Run(run).finished:  # it will be measured when it is, and once
        raise ValueError(
            f"{run}: its training is not finished; go on with vision train --resume, then measure"
        )
    task = config["task"]
    source = str(task["data"] if data is None else data)
    own: Parts | None
    if data is None:
        dataset, own = parts_of(config)
    else:
        dataset = open_like(config, data)
        own = own_parts(config, dataset)
    if own is None:
        part, images = foreign(dataset, part)
        numbers, left_out = unseen(run, images, source)
    else:
        images = getattr(own, part)
        numbers, left_out = torch.arange(len(images)), 0
    about = {
        "run": str(run),
        "model": config["model"]["model"],
        "parameters": model.parameter_count(),
        "data": source,
        "part": part,
        "foreign": own is None,
        "trained_on": task["images"],
        "trained_data": task["data"],
        "left_out": left_out,  # None: not known
        "skipped": dataset.skipped,
        "notes": dataset.notes,
    }
    name = f"test-{_file_name(source)}" if own is None else part
    return Subject(model, images.select(numbers), numbers, dataset.classes, about, name)


def _file_name(source: str) -> str:
    """What a file or folder is called, in letters that may stand in any name."""
    path = Path(source).resolve()
    return re.sub(r"[^\w.-]+", "-", path.stem if path.is_file() else path.name) or "other"


def foreign(dataset: Dataset, part: str) -> tuple[str, Images]:
    """Of images that a run was not trained on: their own test set, or all of them.

    They need not be divided: nothing is learned from them.
    """
    if part != "test":
        raise ValueError(
            f"{dataset.source}: is not what the run was trained on, and has no {part} images of "
            "that training; leave --split out"
        )
    if dataset.test is not None:
        return "test", dataset.test
    rest = [] if dataset.validation is None else [dataset.validation]
    return "all", join([dataset.train, *rest])


def unseen(run: str | Path, images: Images, source: str) -> tuple[Tensor, int | None]:
    """Numbers of the images that a run has not learned from, and how many are not among them."""
    seen = seen_by(run, images)
    if seen is None:
        return torch.arange(len(images)), None
    numbers = (~seen).nonzero()[:, 0]
    if not len(numbers):
        raise ValueError(
            f"{source}: the run was trained on all of these {len(images):,} images, or chosen by "
            "them; give others"
        )
    return numbers, int(seen.sum())


def measured(subject: Subject) -> tuple[Report, list[Tensor]]:
    """As `evaluate`."""
    images = subject.images
    report = score(logits_of(subject.model, images.pixels), images.labels, subject.classes)
    pixels = [images.pixels[each["number"]] for each in report["mistakes"]]
    for each in report["mistakes"]:
        each["number"] = int(subject.numbers[each["number"]])
    return {**subject.about, **report}, pixels


def score(logits: Tensor, labels: Tensor, classes: list[str]) -> Report:
    """Logits (N, K) against labels (N,)."""
    K = len(classes)
    chances = logits.double().softmax(-1)
    sure, said = chances.max(-1)
    right = said == labels
    matrix = torch.bincount(labels * K + said, minlength=K * K).view(K, K)
    hits = int(right.sum())
    common = int(torch.bincount(labels, minlength=K).argmax())
    confidence, correct = sure.numpy(), right.numpy()
    return {
        "images": len(labels),
        "right": hits,
        "accuracy": hits / len(labels),
        "interval": list(wilson_interval(hits, len(labels))),
        "loss": float(F.cross_entropy(logits.double(), labels)),
        "baseline": {
            "class": classes[common],
            "accuracy": float((labels == common).double().mean()),
        },
        "calibration_error": expected_calibration_error(confidence, correct),
        "reliability": [asdict(each) for each in reliability_bins(confidence, correct)],
        "classes": [_class(matrix, k, name) for k, name in enumerate(classes)],
        "confusion": matrix.tolist(),
        "mistakes": _mistakes(chances, labels, classes),
    }


def _class(matrix: Tensor, k: int, name: str) -> Report:
    count, hits, said = int(matrix[k].sum()), int(matrix[k, k]), int(matrix[:, k].sum())
    return {
        "name": name,
        "images": count,
        "right": hits,
        "accuracy": hits / count if count else None,
        "interval": list(wilson_interval(hits, count)),
        "said": said,
        "precision": hits / said if said else None,
    }


def _mistakes(chances: Tensor, labels: Tensor, classes: list[str]) -> list[Report]:
    """The surest first: what it was sure of and wrong about."""
    sure, said = chances.max(-1)
    wrong = (said != labels).nonzero()[:, 0]
    order = wrong[sure[wrong].argsort(descending=True, stable=True)]
    return [
        {
            "number": row,
            "label": classes[int(labels[row])],
            "said": classes[int(said[row])],
            "confidence": float(sure[row]),
            "right_confidence": float(chances[row, labels[row]]),
        }
        for row in order[:MISTAKES].tolist()
    ]


def confusions(report: Report) -> list[tuple[str, str, int, int]]:
    """Which class was taken for which, how often and of how many; the commonest first."""
    names = [each["name"] for each in report["classes"]]
    found = [
        (names[i], names[j], count, sum(row))
        for i, row in enumerate(report["confusion"])
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(found, key=lambda each: (-each[2], each[0], each[1]))
