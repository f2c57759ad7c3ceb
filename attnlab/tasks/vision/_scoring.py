"""Score a run: accuracy with its interval, the confusion matrix and the worst mistakes.

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
from attnlab.tasks.vision._seen_images import was_seen_by
from attnlab.tasks.vision._task import compute_logits
from attnlab.tasks.vision._training import (
    load_vision,
    open_matching_data,
    open_run_data,
    split_like_run,
)
from attnlab.training import Run

PARTS = ("test", "validation", "train")
MAX_MISTAKES = 48  # mistakes in the report
ScoreData = dict[str, Any]


@dataclass(frozen=True)
class ScoringInput:
    """A model and the images to score it on."""

    model: Model
    images: Images
    numbers: Tensor
    """(N,) the number of each image in its part of the data set."""
    classes: list[str]
    description: ScoreData
    name: str
    """Name of the report, so that other data never replace the run's own test report."""


def evaluate(
    run: str | Path, data: str | Path | None = None, part: str = "test"
) -> tuple[ScoreData, list[Tensor]]:
    """Score a run on images. Returns the scores and the pixels of the worst mistakes.

    Use the test images only for the final number, never to choose anything. With other
    `data`, images that the run was trained or validated on are left out.

    >>> from attnlab.tasks.vision import evaluate, train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train_vision("digits", out="run", **small)
    >>> scores, mistakes = evaluate("run")
    >>> 0 <= scores["accuracy"] <= 1
    True
    """
    return score_images(prepare_scoring(run, data, part))


def prepare_scoring(
    run: str | Path, data: str | Path | None = None, part: str = "test"
) -> ScoringInput:
    """The input of `score_images`. It raises all errors about the run and the data."""
    if part not in PARTS:
        raise ValueError(f"part is {part!r}; choose from {', '.join(PARTS)}")
    model, config = load_vision(run)
    if not Run(run).finished:  # score a run once, when it is finished
        raise ValueError(
            f"{run}: its training is not finished; continue it with vision train --resume, then "
            "evaluate"
        )
    task = config["task"]
    source = str(task["data"] if data is None else data)
    own_split: Parts | None
    if data is None:
        dataset, own_split = open_run_data(config)
    else:
        dataset = open_matching_data(config, data)
        own_split = split_like_run(config, dataset)
    if own_split is None:
        part, images = other_images(dataset, part)
        numbers, left_out = find_unseen(run, images, source)
    else:
        images = getattr(own_split, part)
        numbers, left_out = torch.arange(len(images)), 0
    description = {
        "run": str(run),
        "model": config["model"]["model"],
        "parameters": model.parameter_count(),
        "data": source,
        "part": part,
        "foreign": own_split is None,
        "trained_on": task["images"],
        "trained_data": task["data"],
        "left_out": left_out,  # None if it is not known
        "skipped": dataset.skipped,
        "notes": dataset.notes,
    }
    name = f"test-{_file_name(source)}" if own_split is None else part
    return ScoringInput(model, images.select(numbers), numbers, dataset.classes, description, name)


def _file_name(source: str) -> str:
    """The name of a file or folder, reduced to characters that are safe in a file name."""
    path = Path(source).resolve()
    return re.sub(r"[^\w.-]+", "-", path.stem if path.is_file() else path.name) or "other"


def other_images(dataset: Dataset, part: str) -> tuple[str, Images]:
    """The images to score of a data set that the run was not trained on: its test set, or all.

    There is no need to split it, because nothing is learned from it.
    """
    if part != "test":
        raise ValueError(
            f"{dataset.source}: the run was not trained on it, so it has no {part} images; "
            "leave out --split"
        )
    if dataset.test is not None:
        return "test", dataset.test
    rest = [] if dataset.validation is None else [dataset.validation]
    return "all", join([dataset.train, *rest])


def find_unseen(run: str | Path, images: Images, source: str) -> tuple[Tensor, int | None]:
    """The numbers of the images that a run was not trained on, and how many were left out."""
    seen = was_seen_by(run, images)
    if seen is None:
        return torch.arange(len(images)), None
    numbers = (~seen).nonzero()[:, 0]
    if not len(numbers):
        raise ValueError(
            f"{source}: the run was trained or validated on all {len(images):,} images; give "
            "other images"
        )
    return numbers, int(seen.sum())


def score_images(scoring_input: ScoringInput) -> tuple[ScoreData, list[Tensor]]:
    """Scores and the pixels of the worst mistakes, as `evaluate` returns them."""
    images = scoring_input.images
    report = score(
        compute_logits(scoring_input.model, images.pixels), images.labels, scoring_input.classes
    )
    pixels = [images.pixels[mistake["number"]] for mistake in report["mistakes"]]
    for mistake in report["mistakes"]:
        mistake["number"] = int(scoring_input.numbers[mistake["number"]])
    return {**scoring_input.description, **report}, pixels


def score(logits: Tensor, labels: Tensor, classes: list[str]) -> ScoreData:
    """Compare logits (N, K) with labels (N,)."""
    K = len(classes)
    probabilities = logits.double().softmax(-1)
    top, predicted = probabilities.max(-1)
    is_right = predicted == labels
    matrix = torch.bincount(labels * K + predicted, minlength=K * K).view(K, K)
    correct_count = int(is_right.sum())
    common = int(torch.bincount(labels, minlength=K).argmax())
    confidence, correct = top.numpy(), is_right.numpy()
    return {
        "images": len(labels),
        "right": correct_count,
        "accuracy": correct_count / len(labels),
        "interval": list(wilson_interval(correct_count, len(labels))),
        "loss": float(F.cross_entropy(logits.double(), labels)),
        "baseline": {
            "class": classes[common],
            "accuracy": float((labels == common).double().mean()),
        },
        "calibration_error": expected_calibration_error(confidence, correct),
        "reliability": [asdict(bin_) for bin_ in reliability_bins(confidence, correct)],
        "classes": [_class_scores(matrix, k, name) for k, name in enumerate(classes)],
        "confusion": matrix.tolist(),
        "mistakes": _worst_mistakes(probabilities, labels, classes),
    }


def _class_scores(matrix: Tensor, k: int, name: str) -> ScoreData:
    count, correct, predicted = int(matrix[k].sum()), int(matrix[k, k]), int(matrix[:, k].sum())
    return {
        "name": name,
        "images": count,
        "right": correct,
        "accuracy": correct / count if count else None,
        "interval": list(wilson_interval(correct, count)),
        "said": predicted,
        "precision": correct / predicted if predicted else None,
    }


def _worst_mistakes(probabilities: Tensor, labels: Tensor, classes: list[str]) -> list[ScoreData]:
    """Wrong predictions, the most confident first."""
    confidence, predicted = probabilities.max(-1)
    wrong = (predicted != labels).nonzero()[:, 0]
    order = wrong[confidence[wrong].argsort(descending=True, stable=True)]
    return [
        {
            "number": row,
            "label": classes[int(labels[row])],
            "said": classes[int(predicted[row])],
            "confidence": float(confidence[row]),
            "right_confidence": float(probabilities[row, labels[row]]),
        }
        for row in order[:MAX_MISTAKES].tolist()
    ]


def confusions(report: ScoreData) -> list[tuple[str, str, int, int]]:
    """(class, predicted class, count, images of the class), the most frequent first."""
    names = [row["name"] for row in report["classes"]]
    rows = [
        (names[i], names[j], count, sum(row))
        for i, row in enumerate(report["confusion"])
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))
