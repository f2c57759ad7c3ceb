"""The names of the files in a run folder. Each task declares further files of its own."""

from __future__ import annotations

from pathlib import Path

FORMAT, VERSION = "attnlab-run", 3

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
REMOVING = ".removing"  # the old config.json, while the rest of its run is removed

PURPOSES = {
    CONFIG: "all settings, seed and versions",
    WEIGHTS: "the trained weights",
    TOKENIZER: "the tokenizer",
    METRICS: "one row for each step",
    CHECKPOINTS: "what --resume continues from",
}

# In each folder checkpoints/step-N, beside the weights.
OPTIMIZER, STATE, BEST = "optimizer.safetensors", "state.json", "best.safetensors"
OLD_OPTIMIZER = "optimiser.safetensors"  # up to version 2


def has_run(folder: Path) -> bool:
    """Whether a run began here. `read_config` checks whether it can be read."""
    return (folder / CONFIG).exists()
