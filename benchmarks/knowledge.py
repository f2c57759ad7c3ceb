"""Knowledge access on the real course data: how much is answered, after how many minutes.

    python benchmarks/knowledge.py learn --seeds 0 1 2    read and remember, at most 20 minutes
    python benchmarks/knowledge.py long                   more readers and a chooser, at most 60
    python benchmarks/knowledge.py plain                  pretraining and finetuning, at most 60
    python benchmarks/knowledge.py curve                  the same with 2, 5, 10 and 20 minutes
    python benchmarks/knowledge.py none                   finetuning alone
    python benchmarks/knowledge.py objectives             each by the same minutes, embedded world
    python benchmarks/knowledge.py chooser                the chooser alone, training pairs, 5 folds
    python benchmarks/knowledge.py baseline
    python benchmarks/knowledge.py speed                  500 questions at once against one by one

Data comes from the folder in ATTNLAB_DATA. Each training is a cold start: a new process for every
command, everything included. No choice looks at the evaluation set. With RUNS set to a folder the
runs stay there; further options go to the training command, in the place of those chosen here.
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
    """Training pairs, evaluation pairs, corpus."""
    folder = Path(os.environ.get("ATTNLAB_DATA", "")) / "knowledge"
    paths = tuple(folder / name for name in NAMES)
    if "ATTNLAB_DATA" not in os.environ or not all(path.exists() for path in paths):
        sys.exit(f"set ATTNLAB_DATA to the folder that has knowledge/ with {', '.join(NAMES)}")
    return paths[0], paths[1], paths[2]


def attnlab(*arguments: object) -> str:
    """Run the command line in a process of its own; its progress stays visible."""
    command = [sys.executable, "-m", "attnlab", "knowledge", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def chosen(own: list[str], given: list[str]) -> list[str]:
    """Options of a benchmark, pairs of name and value, and what was given, which goes before."""
    names = {*given, *(LENGTHS if set(LENGTHS) & set(given) else ())}
    kept = zip(own[::2], own[1::2], strict=True)
    return [word for name, value in kept if name not in names for word in (name, value)] + given


def lengths_in(given: list[str]) -> list[str]:
    """How long to train, if that was given."""
    return [word for i, word in enumerate(given) if {word, given[max(0, i - 1)]} & set(LENGTHS)]


def measured(train: Callable[[Path], Path], name: str, *dev: object) -> dict[str, Any]:
    """Minutes of training, then the share of right answers; RUNS keeps the run folders."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("RUNS", temporary)) / name
        begin = time.perf_counter()
        run = train(folder)
        minutes = (time.perf_counter() - begin) / 60
        found = json.loads(attnlab("evaluate", run, *dev, "--json"))
    return {"minutes": round(minutes, 2), "right": found["right"], "of": found["questions"]}


def learn(seed: int, options: list[str]) -> dict[str, Any]:
    pairs, dev, corpus = data()

    def train(folder: Path) -> Path:
        files = ["--corpus", corpus, "--pairs", pairs]
        attnlab("learn", *files, "--out", folder / "run", "--seed", seed, *options)
        return folder / "run"

    return {"what": "learn", "seed": seed, **measured(train, f"learn-{seed}", "--pairs", dev)}


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
        **measured(train, f"{name}-{seed}", "--pairs", dev),
    }


def curve(seed: int, options: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"what": "minutes of pretraining: right of 500", "seed": seed}
    for minutes in CURVE:
        row = plain(seed, chosen(["--minutes", str(minutes)], options), f"curve-{minutes}")
        found[str(minutes)] = row["right"]
        print(json.dumps(row), file=sys.stderr)
    return found


def none(seed: int, options: list[str]) -> dict[str, Any]:
    pairs, dev, corpus = data()

    def train(folder: Path) -> Path:
        files = ["--corpus", corpus, "--pairs", pairs]
        attnlab("finetune", "scratch", *files, "--out", folder / "run", "--seed", seed, *options)
        return folder / "run"

    return {
        "what": "no pretraining",
        "seed": seed,
        **measured(train, f"none-{seed}", "--pairs", dev),
    }


OBJECTIVES = ("span", "lines", "lm", "entities:foreign=0", "entities", "entities+lm")


def objectives(seed: int, options: list[str]) -> dict[str, Any]:
    """People of the embedded world who were never asked about, after the same minutes of each."""
    trained = " ".join(lengths_in(options)) or "1.5 minutes of pretraining"
    found: dict[str, Any] = {"what": "objectives", "seed": seed, "trained": trained}
    for objective in OBJECTIVES:

        def train(folder: Path, objective: str = objective) -> Path:
            reading = chosen(["--objective", objective, "--minutes", "1.5"], options)
            asking = chosen(["--minutes", "0.5"], lengths_in(options))
            out = folder / "pretrained"
            attnlab("pretrain", "--out", out, "--seed", seed, *reading)
            attnlab("finetune", out, "--out", folder / "run", "--seed", seed, *asking)
            return folder / "run"

        row = measured(train, f"{objective.replace(':', '-')}-{seed}")
        found[objective] = f"{row['right']} of {row['of']}"
    return found


FOLDS = 5


def chooser(seed: int, options: list[str]) -> dict[str, Any]:
    """Five-fold cross-validation on the training pairs; a question stays in one fold."""
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
    fold_of = {question: place % FOLDS for place, question in enumerate(questions)}
    begin, right, readable = time.perf_counter(), 0, 0
    for fold in range(FOLDS):
        for relation in relations:
            own = [
                pair
                for pair, found in zip(pairs, about, strict=True)
                if found is not None and found[1] == relation
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
    minutes = round((time.perf_counter() - begin) / 60, 2)
    found = {"what": "chooser alone, five folds", "seed": seed, "minutes": minutes}
    return {**found, "right": right, "offered": readable, "of": len(pairs)}


def always(seed: int, options: list[str]) -> dict[str, Any]:
    del seed, options
    pairs, dev, _ = data()
    found = json.loads(attnlab("baseline", "--pairs", pairs, "--evaluation-pairs", dev, "--json"))
    what = f'always "{found["answer"]}"'
    return {"what": what, "minutes": 0, "right": found["right"], "of": found["questions"]}


def speed(seed: int, options: list[str]) -> dict[str, Any]:
    """The course's model, finetuned a little so that answers end, in one process."""
    import torch

    from attnlab.tasks.knowledge._answers import answer_greedily
    from attnlab.tasks.knowledge._data import read_pairs
    from attnlab.tasks.knowledge._load import load_knowledge
    from attnlab.tasks.knowledge._rows import KnowledgeTextEncoding
    from attnlab.tasks.knowledge._training import finetune

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
        """As the course does it: 32 forward passes over all so far, for each question."""
        said = []
        for question in questions:
            ids = torch.tensor([encoding.encode_question(question)])
            begin = ids.shape[1]
            for _ in range(32):
                ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
            written = encoding.tokenizer.decode(ids[0, begin:].tolist())
            said.append(written.partition("\u2047")[0].strip())
        return said

    at_once()
    ratios, same = [], True
    for _ in range(3):
        begin = time.perf_counter()
        fast = at_once()
        middle = time.perf_counter()
        slow = one_by_one()
        end = time.perf_counter()
        ratios.append((end - middle) / (middle - begin))
        same = same and fast == slow
        print(f"at once {middle - begin:.2f} s, one by one {end - middle:.1f} s", file=sys.stderr)
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
    "baseline": (always, []),
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
        rows.append(part(seed, chosen(options, others)))
        print(json.dumps(rows[-1]), flush=True)
    shares = [row["right"] / row["of"] for row in rows if "right" in row]
    if len(shares) > 1:
        spread = statistics.stdev(shares)
        print(f"mean {statistics.mean(shares):.1%}, standard deviation {spread:.1%}")


if __name__ == "__main__":
    main()
