"""Knowledge on the real course data: right answers by minutes of training.

    python benchmarks/knowledge.py learn --seeds 0 1 2    read and remember, at most 20 minutes
    python benchmarks/knowledge.py long                   more readers and a chooser, at most 60
    python benchmarks/knowledge.py plain                  pretraining and finetuning, at most 60
    python benchmarks/knowledge.py curve                  the same with 2, 5, 10 and 20 minutes
    python benchmarks/knowledge.py none                   finetuning alone
    python benchmarks/knowledge.py objectives             each by the same minutes, embedded world
    python benchmarks/knowledge.py chooser                the chooser alone, training pairs, 5 folds
    python benchmarks/knowledge.py baseline
    python benchmarks/knowledge.py speed                  500 questions at once against one by one

The data are in the folder ATTNLAB_DATA. Each training is a cold start: a new process for every
command, with everything included. No setting was chosen on the evaluation set. If RUNS names a
folder, the runs stay there. Other options go to the training command and replace those given here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("birth_places_train.tsv", "birth_dev.tsv", "wiki.txt")
LEARN = ["--readers", "3"]
LONG = [
    "--readers", "4", "--reader-epochs", "10", "--width", "192", "--heads", "6",
    "--remember-epochs", "40", "--chooser", "0.5", "--sharpen", "3",
]  # fmt: skip
PLAIN = ["--minutes", "50"]
LENGTHS = ("--minutes", "--steps", "--epochs")  # of training: one of them is enough
CURVE = (2, 5, 10, 20)  # minutes of pretraining


def data() -> tuple[Path, Path, Path]:
    """The paths of training pairs, evaluation pairs and corpus."""
    folder = Path(os.environ.get("ATTNLAB_DATA", "")) / "knowledge"
    paths = tuple(folder / name for name in NAMES)
    if "ATTNLAB_DATA" not in os.environ or not all(path.exists() for path in paths):
        sys.exit(f"set ATTNLAB_DATA to the folder that has knowledge/ with {', '.join(NAMES)}")
    return paths[0], paths[1], paths[2]


def attnlab(*arguments: object) -> str:
    """Runs the command line in a separate process, with visible progress."""
    command = [sys.executable, "-m", "attnlab", "knowledge", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def merge_options(defaults: list[str], options: list[str]) -> list[str]:
    """The defaults of a benchmark (names and values), unless replaced, then the options."""
    names = {*options, *(LENGTHS if set(LENGTHS) & set(options) else ())}
    pairs = zip(defaults[::2], defaults[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in names for word in pair] + options


def length_options(options: list[str]) -> list[str]:
    """The options that set the length of the training."""
    pairs = zip(options[:1] + options, options, strict=False)
    return [word for before, word in pairs if {word, before} & set(LENGTHS)]


def train_and_evaluate(train: Callable[[Path], Path], name: str, *dev: object) -> dict[str, Any]:
    """Trains and evaluates: the minutes of training and the number of right answers."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("RUNS", temporary)) / name
        start = time.perf_counter()
        run = train(folder)
        minutes = (time.perf_counter() - start) / 60
        scores = json.loads(attnlab("evaluate", run, *dev, "--json"))
    return {"minutes": round(minutes, 2), "right": scores["right"], "of": scores["questions"]}


def learn(seed: int, options: list[str]) -> dict[str, Any]:
    pairs, dev, corpus = data()

    def train(folder: Path) -> Path:
        files = ["--corpus", corpus, "--pairs", pairs]
        attnlab("learn", *files, "--out", folder / "run", "--seed", seed, *options)
        return folder / "run"

    return {
        "what": "learn",
        "seed": seed,
        **train_and_evaluate(train, f"learn-{seed}", "--pairs", dev),
    }


def plain(seed: int, options: list[str], name: str = "plain") -> dict[str, Any]:
    pairs, dev, corpus = data()

    def train(folder: Path) -> Path:
        out = folder / "pretrained"
        attnlab("pretrain", "--corpus", corpus, "--out", out, "--seed", seed, *options)
        attnlab("finetune", out, "--pairs", pairs, "--out", folder / "run", "--seed", seed)
        return folder / "run"

    return {
        "what": "pretrain + finetune",
        "seed": seed,
        **train_and_evaluate(train, f"{name}-{seed}", "--pairs", dev),
    }


def curve(seed: int, options: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"what": "minutes of pretraining: right of 500", "seed": seed}
    for minutes in CURVE:
        row = plain(seed, merge_options(["--minutes", str(minutes)], options), f"curve-{minutes}")
        result[str(minutes)] = row["right"]
        print(json.dumps(row), file=sys.stderr)
    return result


def none(seed: int, options: list[str]) -> dict[str, Any]:
    pairs, dev, corpus = data()

    def train(folder: Path) -> Path:
        files = ["--corpus", corpus, "--pairs", pairs]
        attnlab("finetune", "scratch", *files, "--out", folder / "run", "--seed", seed, *options)
        return folder / "run"

    return {
        "what": "no pretraining",
        "seed": seed,
        **train_and_evaluate(train, f"none-{seed}", "--pairs", dev),
    }


OBJECTIVES = ("span", "lines", "lm", "entities:foreign=0", "entities", "entities+lm")


def objectives(seed: int, options: list[str]) -> dict[str, Any]:
    """Questions about people that were not in the training, after equal minutes; embedded world."""
    trained = " ".join(length_options(options)) or "1.5 minutes of pretraining"
    result: dict[str, Any] = {"what": "objectives", "seed": seed, "trained": trained}
    for objective in OBJECTIVES:

        def train(folder: Path, objective: str = objective) -> Path:
            pretraining = merge_options(["--objective", objective, "--minutes", "1.5"], options)
            finetuning = merge_options(["--minutes", "0.5"], length_options(options))
            out = folder / "pretrained"
            attnlab("pretrain", "--out", out, "--seed", seed, *pretraining)
            attnlab("finetune", out, "--out", folder / "run", "--seed", seed, *finetuning)
            return folder / "run"

        row = train_and_evaluate(train, f"{objective.replace(':', '-')}-{seed}")
        result[objective] = f"{row['right']} of {row['of']}"
    return result


FOLDS = 5


def chooser(seed: int, options: list[str]) -> dict[str, Any]:
    """Five-fold cross-validation on the training pairs; each question is in one fold."""
    from attnlab.tasks.knowledge._answer_chooser import Chooser
    from attnlab.tasks.knowledge._data import (
        Library,
        name_in,
        read_corpus,
        read_pairs,
        relations_in,
    )

    del options
    paths = data()
    pairs, library = read_pairs(paths[0]), Library(read_corpus(paths[2]))
    relations = relations_in([question for question, _ in pairs], library)
    about = [name_in(question, relations) for question, _ in pairs]
    questions = sorted({question for question, _ in pairs})
    random.Random(seed).shuffle(questions)
    fold_of = {question: index % FOLDS for index, question in enumerate(questions)}
    start, right, readable = time.perf_counter(), 0, 0
    for fold in range(FOLDS):
        for relation in relations:
            own = [
                pair
                for pair, match in zip(pairs, about, strict=True)
                if match is not None and match[1] == relation
            ]
            known = [pair for pair in own if fold_of[pair[0]] != fold]
            learned = Chooser(known, library, relation)
            for question, answer in own:
                if fold_of[question] == fold:
                    choices = learned.choose(question)
                    best = max(choices, key=lambda choice: choice.probability, default=None)
                    right += best is not None and best.text == answer
                    readable += any(each.in_document and each.text == answer for each in choices)
        print(f"fold {fold + 1}: {right} right so far", file=sys.stderr)
    minutes = round((time.perf_counter() - start) / 60, 2)
    result = {"what": "chooser alone, five folds", "seed": seed, "minutes": minutes}
    return {**result, "right": right, "offered": readable, "of": len(pairs)}


def baseline(seed: int, options: list[str]) -> dict[str, Any]:
    del seed, options
    pairs, dev, _ = data()
    scores = json.loads(attnlab("baseline", "--pairs", pairs, "--evaluation-pairs", dev, "--json"))
    what = f'always "{scores["answer"]}"'
    return {"what": what, "minutes": 0, "right": scores["right"], "of": scores["questions"]}


def speed(seed: int, options: list[str]) -> dict[str, Any]:
    """The course preset in one process, finetuned a little so that its answers end."""
    import torch

    from attnlab.tasks.knowledge._answers import answer_greedily
    from attnlab.tasks.knowledge._data import read_pairs
    from attnlab.tasks.knowledge._load import load_knowledge
    from attnlab.tasks.knowledge._training import finetune
    from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding

    pairs, dev, corpus = data()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        epochs = float(options[0]) if options else 15.0
        finetune(
            pairs=pairs, corpus=corpus, out=out, preset="course", epochs=epochs, quiet=True,
            training={"seed": seed},
        )  # fmt: skip
        model, tokens, _ = load_knowledge(out)
    encoding, questions = (
        KnowledgeTextEncoding(tokens),
        [question for question, _ in read_pairs(dev)],
    )

    def at_once() -> list[str]:
        return answer_greedily(model, encoding, questions)

    @torch.no_grad()
    def one_by_one() -> list[str]:
        """As in the course: 32 forward passes over the whole text for each question."""
        answers = []
        for question in questions:
            ids = torch.tensor([encoding.encode_question(question)])
            start = ids.shape[1]
            for _ in range(32):
                ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
            written = encoding.tokenizer.decode(ids[0, start:].tolist())
            answers.append(written.partition("\u2047")[0].strip())
        return answers

    at_once()
    ratios, same = [], True
    for _ in range(3):
        start = time.perf_counter()
        fast = at_once()
        middle = time.perf_counter()
        slow = one_by_one()
        end = time.perf_counter()
        ratios.append((end - middle) / (middle - start))
        same = same and fast == slow
        print(f"at once {middle - start:.2f} s, one by one {end - middle:.1f} s", file=sys.stderr)
    return {
        "what": "500 questions at once",
        "times as fast": round(statistics.median(ratios), 1),
        "from": round(min(ratios), 1),
        "to": round(max(ratios), 1),
        "same answers": same,
        "threads": torch.get_num_threads(),
    }


PARTS: dict[str, tuple[Callable[[int, list[str]], dict[str, Any]], list[str]]] = {
    "learn": (learn, LEARN),
    "long": (learn, LONG),
    "plain": (plain, PLAIN),
    "curve": (curve, []),
    "none": (none, []),
    "objectives": (objectives, []),
    "chooser": (chooser, []),
    "baseline": (baseline, []),
    "speed": (speed, []),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, others = parser.parse_known_args()
    part, options = PARTS[arguments.part]
    rows = []
    for seed in arguments.seeds:
        rows.append(part(seed, merge_options(options, others)))
        print(json.dumps(rows[-1]), flush=True)
    fractions = [row["right"] / row["of"] for row in rows if "right" in row]
    if len(fractions) > 1:
        spread = statistics.stdev(fractions)
        print(f"mean {statistics.mean(fractions):.1%}, standard deviation {spread:.1%}")


if __name__ == "__main__":
    main()
