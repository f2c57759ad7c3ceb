"""The task `vision`, as the rest of attnlab knows it."""

from __future__ import annotations

from attnlab.tasks.kind import Capability, Example, TaskKind

SEEN, SKIPPED, TESTED = "seen.safetensors", "skipped.txt", "compared.json"

VISION = TaskKind(
    name="vision",
    help="Images: train a ViT or a ConvNet, evaluate, classify, compare.",
    headline="accuracy",
    better="higher",
    example=Example(
        "Train a small vision transformer on the embedded digits:",
        "attnlab vision train --out",
        "vision",
    ),
    commands="attnlab.tasks.vision.commands:app",
    can={"classify": Capability("attnlab.tasks.vision.serving:Classifying")},
    files={
        SEEN: "digests of the images that it learned from",
        SKIPPED: "images that could not be read",
        TESTED: "what a comparison measured",
    },
    results=(
        *(SEEN, SKIPPED, TESTED, "test.html", "test.json", "test-*.json"),
        *("validation.html", "validation.json", "train.html", "train.json"),
    ),
)
