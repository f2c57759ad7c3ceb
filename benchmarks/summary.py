"""Summaries of Debian's packages: ROUGE after 40 minutes, copying or not, 1,000 texts at once.

    python benchmarks/summary.py debian --seeds 0       a cold start of at most 40 minutes
    python benchmarks/summary.py copying --minutes 5    with and without the copy head
    python benchmarks/summary.py ways RUN               greedy and beams, on validation texts
    python benchmarks/summary.py speed RUN              1,000 texts at once against one by one
    python benchmarks/summary.py compare --minutes 10   softmax and Performers, three seeds
    python benchmarks/summary.py curves RUN             docs/pictures/summary-loss.svg, -rouge.svg
    python benchmarks/summary.py compared FOLDER        docs/pictures/summary-compared-*.svg

Each training is a separate process with everything included: gathering pairs from apt's lists,
training the tokenizer, summarizing the test texts. Without CACHE it is a cold start, which gathers
the pairs again. If RUNS names a folder, the runs stay there. Other options go to the training
command. No setting was chosen on the test texts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
LIMIT = 40.0  # minutes
TRAINING = 36.0  # of them; the rest is for gathering, the tokenizer and measuring
GENERATION_METHODS: tuple[list[str], ...] = (
    ["--beams", "1"],
    ["--beams", "1", "--block-repeats", "0"],
    ["--beams", "4", "--length-penalty", "0"],
    ["--beams", "4", "--length-penalty", "0.5"],
    ["--beams", "4", "--length-penalty", "1"],
    ["--beams", "8", "--length-penalty", "1"],
)


def attnlab(*arguments: object, cache: str | None = None) -> str:
    """Runs the command line in a separate process, with visible progress."""
    command = [sys.executable, "-m", "attnlab", *map(str, arguments)]
    environment = os.environ | ({} if cache is None else {"XDG_CACHE_HOME": cache})
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout


def figures(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The scores of an evaluation to print."""
    scores = evaluation["scores"]
    return {
        **{name: round(row["rougeL"], 2) for name, row in scores.items()},
        "interval": [round(x, 2) for x in scores["model"]["interval"]["rougeL"]],
        "ratio": round(evaluation["ratio_to_first_words"], 3),
        **{name: evaluation[name] for name in ("texts", "unfinished", "looping", "first_words")},
        "loss": round(evaluation["loss"], 3),
        "accuracy": round(evaluation["accuracy"], 4),
    }


def debian(seed: int, options: Sequence[str]) -> dict[str, Any]:
    """Trains and evaluates; the minutes count from the first process to the last."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(os.environ.get("RUNS", temporary)) / f"debian-{seed}"
        cache = os.environ.get("CACHE") or str(Path(temporary) / "cache")
        start = time.perf_counter()
        train_options = ["--data", "debian", "--out", out, "--seed", seed, "--evaluate-every", 500]
        minutes = [] if "--minutes" in options or "--steps" in options else ["--minutes", TRAINING]
        attnlab("summary", "train", *train_options, *minutes, *options, cache=cache)
        trained = (time.perf_counter() - start) / 60
        scores = json.loads(attnlab("summary", "evaluate", out, "--json", cache=cache))
        total = (time.perf_counter() - start) / 60
    for example in scores["examples"]:
        text = " ".join(example["text"].split())[:160]
        right, written = example["right"], example["written"]
        print(f"{text}\n  right   {right}\n  written {written}\n", file=sys.stderr)
    return {
        "what": "debian",
        "seed": seed,
        "minutes": round(total, 2),
        "training": round(trained, 2),
        "within": total <= LIMIT,
        **figures(scores),
    }


def copying(seed: int, options: Sequence[str]) -> dict[str, Any]:
    """Scores on validation texts, by which the default was chosen."""
    row: dict[str, Any] = {"what": "copying, validation ROUGE-L and loss", "seed": seed}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("RUNS", temporary))
        for choice in ("--copy", "--no-copy"):
            out = folder / f"copying{choice}-{seed}"
            attnlab(
                "summary", "train", "--data", "debian", "--out", out, "--seed", seed, choice,
                *options, cache=os.environ.get("CACHE"),
            )  # fmt: skip
            scores = json.loads(
                attnlab("summary", "evaluate", out, "--split", "validation", "--json",
                        cache=os.environ.get("CACHE"))
            )  # fmt: skip
            row[choice.removeprefix("--")] = figures(scores)
    return row


def generation_methods(run: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"what": "methods of generation, validation ROUGE-L"}
    for method in GENERATION_METHODS:
        scores = json.loads(
            attnlab("summary", "evaluate", run, "--split", "validation", "--limit", 500, *method,
                    "--json", cache=os.environ.get("CACHE"))
        )  # fmt: skip
        row[" ".join(method)] = figures(scores)
    return row


def speed(run: Path, count: int = 1000, subset: int = 20) -> dict[str, Any]:
    """All texts in one call, compared with full passes for every token of each text, one by one.

    The reference summarizes a subset, evenly spread over the texts sorted by length; its time is
    scaled up. Both must generate the same summaries.
    """
    import torch

    from attnlab.tasks.summary._generation import GenerationMethod, write_summaries
    from attnlab.tasks.summary._scoring import load_held_out_pairs
    from attnlab.tasks.summary._training import load_summary

    model, encoding, config = load_summary(run)
    pairs = load_held_out_pairs(run, config["task"], "test", quiet=True)
    texts = sorted((pair.text for pair in (pairs * 10)[:count]), key=len)
    method, end = GenerationMethod(beams=1, block_repeats=0), encoding.tokenizer.end

    def slowly(text: str) -> list[int]:
        source, ids = torch.tensor([encoding.encode_source(text)[0]]), [end]
        with torch.no_grad():
            for _ in range(encoding.longest_summary):
                token = int(model(source, torch.tensor([ids]))[0, -1].argmax())
                if token == end:
                    break
                ids.append(token)
        return ids[1:]

    write_summaries(model, encoding, texts[:8], method)  # warm
    start = time.perf_counter()
    summaries = write_summaries(model, encoding, texts, method)
    batched_seconds = time.perf_counter() - start
    step = max(1, len(texts) // subset)
    start = time.perf_counter()
    reference = [slowly(text) for text in texts[::step]]
    reference_seconds = (time.perf_counter() - start) * len(texts) / len(reference)
    same = sum(a == b[0].ids for a, b in zip(reference, summaries[::step], strict=True))
    return {
        "what": "speed",
        "texts": len(texts),
        "attnlab, s": round(batched_seconds, 2),
        "one by one, s": round(reference_seconds, 1),
        "ratio": round(reference_seconds / batched_seconds, 1),
        "equal": f"{same} of {len(reference)}",
    }


def compare(options: Sequence[str], minutes: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(os.environ.get("RUNS", temporary)) / "compared"
        output = attnlab(
            "compare", "summary", "--data", "debian", "--attention", "softmax", "favor",
            "--features", 64, 256, "--minutes", minutes, "--out", out, *options,
            cache=os.environ.get("CACHE"),
        )  # fmt: skip
        print(output, file=sys.stderr)
        report = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    return {"what": "compare", "best": report["best"], "differences": report["differences"]}


def curves(run: Path) -> dict[str, Any]:
    """Plots of a training for docs/summary.md."""
    from attnlab.report import Figure, Lines, Series
    from attnlab.training import Run

    rows = Run(run).metrics()
    size = max(1, len(rows) // 60)
    parts = [rows[i : i + size] for i in range(0, len(rows) - size + 1, size)]
    minutes = [part[-1]["seconds"] / 60 for part in parts]
    losses = [sum(row["loss"] for row in part) / size for part in parts]
    checks = [(row["seconds"] / 60, row["validation"]) for row in rows if "validation" in row]
    series_by_name = {
        "loss": [
            Series("training", list(zip(minutes, losses, strict=True))),
            Series("validation", [(at, scores["loss"]) for at, scores in checks]),
        ],
        "rouge": [Series("ROUGE-L", [(at, scores["rougeL"]) for at, scores in checks])],
    }
    labels = {"loss": "loss, nats per token", "rouge": "ROUGE-L on validation texts, greedy"}
    figures_by_name = {
        name: Figure(labels[name], Lines("minutes", labels[name], series))
        for name, series in series_by_name.items()
    }
    return {"what": "curves", "written": save_pictures(figures_by_name)}


def compared(folder: Path) -> dict[str, Any]:
    """Plots of a comparison for docs/summary.md."""
    written = []
    for metric, name in (("loss", "loss"), ("rougeL", "rouge")):
        written.append(str(PICTURES / f"summary-compared-{name}.svg"))
        shutil.copyfile(folder / f"compare-validation-{metric}.svg", written[-1])
    return {"what": "compared", "written": written}


def save_pictures(figures_by_name: dict[str, Any]) -> list[str]:
    from attnlab.report import save_figure

    written = [PICTURES / f"summary-{name}.svg" for name in figures_by_name]
    for path, figure in zip(written, figures_by_name.values(), strict=True):
        save_figure(figure.plot, path, figure.title, overwrite=True)
    return list(map(str, written))


RUN_PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "ways": generation_methods,
    "speed": speed,
    "curves": curves,
    "compared": compared,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=["debian", "copying", "compare", *RUN_PARTS])
    parser.add_argument(
        "run", nargs="?", type=Path, help="Run folder, for ways, speed, curves and compared."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--minutes", type=float)
    arguments, options = parser.parse_known_args()
    if arguments.what in RUN_PARTS:
        if arguments.run is None:
            parser.error(f"{arguments.what} needs a run folder")
        print(json.dumps(RUN_PARTS[arguments.what](arguments.run)))
        return
    if arguments.what == "compare":
        print(json.dumps(compare(options, arguments.minutes or 10.0)))
        return
    if arguments.minutes is not None:
        options = ["--minutes", str(arguments.minutes), *options]
    for seed in arguments.seeds:
        print(json.dumps((debian if arguments.what == "debian" else copying)(seed, options)))


if __name__ == "__main__":
    main()
