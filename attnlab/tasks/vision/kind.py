"""The task `vision`, as the rest of attnlab knows it."""

from __future__ import annotations

from attnlab.tasks.kind import Capability, Example, TaskKind

SEEN, SKIPPED = "seen.safetensors", "skipped.txt"

VISION = TaskKind(
    name="vision",
    help="Train image classifiers (ViT or ConvNet), evaluate them and classify images.",
    headline="accuracy",
    better="higher",
    example=Example(
        "Train a small vision transformer on the embedded digits:",
        "attnlab vision train --out",
        "vision",
    ),
    commands="attnlab.tasks.vision._commands:app",
    comparison="attnlab.tasks.vision._comparison:VisionComparison",
    can={"classify": Capability("attnlab.tasks.vision._serving:Classifying")},
    files={
        SEEN: "digests of the images that it learned from",
        SKIPPED: "images that could not be read",
    },
    results=(
        *(SEEN, SKIPPED, "compared.json", "test.html", "test.json", "test-*.json"),
        *("validation.html", "validation.json", "train.html", "train.json"),
    ),
)
