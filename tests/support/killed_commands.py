"""The commands that train, with tiny models and step budgets, and what they leave on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.compare._output_folder import check_output_folder
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._run_list import find_runs
from attnlab.tasks.knowledge._learn import check_learn_folder
from attnlab.tasks.knowledge._presets import PRESETS, Preset
from attnlab.training._machine import matmul_peak
from tests.support.command_line import call
from tests.support.file_kills import Outcome, run_forked
from tests.support.image_files import write_npz
from tests.support.summary_runs import write_rows

SIZES = "--width 8 --layers 1 --heads 2"
BUDGET = "--steps 2 --save-every 2 --keep-checkpoints 1 --device cpu"
CORPUS = "--corpus world/corpus.txt"
TIMES = {"seconds", "elapsed", "minutes", "curves", "checksum"}
AT_THE_END = {"model.safetensors", "metrics.jsonl", "known.json"}


@dataclass(frozen=True)
class TrainingCommand:
    """A command that writes into a folder `out`."""

    line: str
    holds: str = "config.json"
    """The file that says that the folder holds a run or a comparison."""
    check: Callable[[Path, StartMode], None] = check_folder

    def run(self, out: Path, options: str = "", **kill: Any) -> Outcome:
        return run_forked(f"{self.line} --out {out.name} {options}", out, **kill)

    def can_resume(self, out: Path) -> bool:
        """Whether --resume is right. Otherwise the same command without it must be."""
        holds = (out / self.holds).exists()
        reader = any((out / "readers").glob("*/config.json")) and not (out / ".removing").exists()
        right, wrong = (StartMode.RESUME, StartMode.NEW)[:: 1 if holds or reader else -1]
        self.check(out, right)
        message = "; give --resume" if right is StartMode.RESUME else "; start without --resume"
        with pytest.raises(ValueError, match=message):
            self.check(out, wrong)
        return right is StartMode.RESUME


COMPARE = {"holds": "compare.json", "check": check_output_folder}
COMMANDS = {
    "language": TrainingCommand(
        f"language train text.txt {SIZES} --context 8 --batch-tokens 64 {BUDGET}"
    ),
    "pretrain": TrainingCommand(
        f"knowledge pretrain {CORPUS} --tokenizer characters {SIZES} --batch-size 2 {BUDGET}"
    ),
    "finetune": TrainingCommand(
        f"knowledge finetune pretrained --pairs world/train.tsv --batch-size 2 {BUDGET}"
    ),
    "learn": TrainingCommand(
        f"knowledge learn {CORPUS} --pairs world/train.tsv --tokenizer characters {SIZES} "
        "--reader-epochs 0.2 --remember-epochs 0.2 --save-every 2 --device cpu",
        check=check_learn_folder,
    ),
    "vision": TrainingCommand(f"vision train set.npz {SIZES} --batch-size 4 {BUDGET}"),
    "summary": TrainingCommand(
        "summary train --data rows.jsonl --vocabulary 300 --width 8 --heads 2 --encoder-layers 1 "
        "--decoder-layers 1 --text-tokens 16 --summary-tokens 8 --held-out 0.1 --batch-tokens 64 "
        f"{BUDGET}"
    ),
    "compare vision": TrainingCommand(
        f"compare vision --data set.npz {SIZES} --fractions 1 --steps 2 --seeds 1 --no-convnet "
        "--attention softmax elu --processes 0",
        **COMPARE,  # type: ignore[arg-type]
    ),
    "compare knowledge": TrainingCommand(
        f"compare knowledge {CORPUS} --pairs world/train.tsv --evaluation-pairs world/dev.tsv "
        "--attention softmax --seeds 1 --steps 4 --no-unpretrained --processes 0",
        **COMPARE,  # type: ignore[arg-type]
    ),
}


def tiny_preset() -> Preset:
    """The default preset of the knowledge commands, for a comparison that takes no sizes."""
    preset = PRESETS["small"]
    sizes = {**preset.model, "width": 8, "layers": 1, "heads": 2}
    return replace(preset, tokenizer="bpe:300", model=sizes)


def prepare(folder: Path) -> None:
    """Write the data, and compute what every forked process needs."""
    matmul_peak(torch.device("cpu"))
    (folder / "text.txt").write_text("to be or not to be. " * 40)
    write_npz(folder / "set.npz", 30)
    write_rows(folder / "rows.jsonl", 60)
    with chdir(folder):
        assert call("knowledge world --out world --people 24") == 0
        assert call(f"{COMMANDS['pretrain'].line} --out pretrained") == 0


def read_tree(folder: Path) -> dict[str, Any]:
    """Every file and folder with its content, except for times and process numbers."""
    paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {re.sub(r"[0-9]+-[0-9a-f]+(?=\.part)", "", n): _content(p) for n, p in paths.items()}


def _content(path: Path) -> Any:
    if not path.is_file():
        return "no file"
    if path.suffix in (".html", ".svg", ".csv"):
        return "picture"  # with times
    try:
        if path.suffix == ".jsonl":
            return [_without_times(json.loads(line)) for line in path.read_text().splitlines()]
        if path.suffix == ".json":
            return _without_times(json.loads(path.read_text()))
    except ValueError:
        return "cut short"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(each) for name, each in value.items() if name not in TIMES}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def check_complete(out: Path, whole: Path) -> None:
    """Each run has all of its files, and if it has its final weights, all results too."""
    for run in find_runs(out):
        finished = (run / "model.safetensors").exists()
        files = {path.name for path in (whole / run.relative_to(out)).iterdir() if path.is_file()}
        missing = files - {path.name for path in run.iterdir()}
        assert missing <= (set() if finished else AT_THE_END), (run, missing)
