"""The declaration of the task `vision`."""

from __future__ import annotations

from attnlab.tasks.kind import Capability, Example, TaskKind

SEEN, SKIPPED = "seen.safetensors", "skipped.txt"

VISION = TaskKind(
    name="vision",
    help="Train image classifiers (ViT or ConvNet), evaluate them and classify images.",
    headline="accuracy",
    better="higher",
    example=Example(
        "Train a small vision transformer on the digits that come with attnlab:",
        "attnlab vision train --out",
        "vision",
    ),
    commands="attnlab.tasks.vision._commands:app",
    comparison="attnlab.tasks.vision._comparison:VisionComparison",
    capabilities={"classify": Capability("attnlab.tasks.vision._serving:ClassificationService")},
    files={
        SEEN: "digests of the images that the run was trained on",
        SKIPPED: "images that could not be read",
    },
    results=(
        *(SEEN, SKIPPED, "compared.json", "test.html", "test.json", "test-*.json"),
        *("validation.html", "validation.json", "train.html", "train.json"),
    ),
)
