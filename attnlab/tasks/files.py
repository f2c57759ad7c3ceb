"""The files that tasks add to a run folder. Does not import torch."""

from __future__ import annotations

FILES = {
    "seen.safetensors": "digests of the images that it learned from",
    "skipped.txt": "images that could not be read",
}
"""What each is for, by name or pattern."""

RESULTS = (
    "test.html", "test.json", "validation.html", "validation.json", "train.html", "train.json",
    "test-*.json", "compared.json", "seen.safetensors", "skipped.txt", "audit.html", "audit.json",
    "known.json",
)  # fmt: skip
"""What commands of all tasks write about the trained weights: removed when a run is replaced."""
