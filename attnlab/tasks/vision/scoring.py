"""How good a run is: accuracy with its interval, what is taken for what, and the worst mistakes.

Letters: N images, K classes.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.calibration import expected_calibration_error, reliability
from attnlab.intervals import wilson
from attnlab.tasks.vision.images import Images
from attnlab.tasks.vision.recipe import load_vision, parts_of
from attnlab.tasks.vision.task import logits_of

PARTS = ("test", "validation", "train")
MISTAKES = 48  # that are kept
Report = dict[str, Any]


def evaluate(
    run: str | Path, data: str | Path | None = None, part: str = "test"
) -> tuple[Report, list[Tensor]]:
    """A report for JSON and pages, and the pixels of its worst mistakes.

    The test images are for the last figure: nothing may be chosen by them.
    """
    if part not in PARTS:
        raise ValueError(f"part {part!r}; there are {', '.join(PARTS)}")
    model, config = load_vision(run)
    dataset, parts, source = parts_of(config, data)
    images: Images = getattr(parts, part)
    logits = logits_of(model, images.pixels)
    report = score(logits, images.labels, dataset.classes)
    about = {
        "run": str(run),
        "model": config["model"]["model"],
        "parameters": config["parameters"],
        "data": source,
        "part": part,
        "trained_on": config["task"]["images"],
        "skipped": dataset.skipped,
        "notes": dataset.notes,
    }
    pixels = [images.pixels[each["number"]] for each in report["mistakes"]]
    return {**about, **report}, pixels


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
        "interval": list(wilson(hits, len(labels))),
        "loss": float(F.cross_entropy(logits.double(), labels)),
        "baseline": {
            "class": classes[common],
            "accuracy": float((labels == common).double().mean()),
        },
        "calibration_error": expected_calibration_error(confidence, correct),
        "reliability": [asdict(each) for each in reliability(confidence, correct)],
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
        "interval": list(wilson(hits, count)),
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
