"""A small world with one run of each kind, and how to compare folders."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import torch
from safetensors.torch import load_file

from tests.support.command_line import call

SIZES = "--width 16 --layers 1 --heads 2"
PRETRAIN = f"knowledge pretrain --corpus world/corpus.txt {SIZES} --tokenizer characters --steps 6"
FINETUNE = "knowledge finetune pretrained --pairs world/train.tsv --held-out 0"
LEARN = (
    f"knowledge learn --corpus world/corpus.txt --pairs world/train.tsv {SIZES} "
    "--tokenizer bpe:300 --reader-epochs 1 --remember-epochs 2"
)


def make_runs(folder: Path) -> None:
    (folder / "text.txt").write_text("to be or not to be. " * 40)
    with chdir(folder):
        for arguments in (
            "knowledge world --out world --people 24",
            f"{PRETRAIN} --out pretrained",
            f"{FINETUNE} --steps 4 --out finetuned",
            f"{LEARN} --out learned",
            f"language train text.txt {SIZES} --context 16 --steps 1 --out language",
        ):
            assert call(arguments) == 0, arguments


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def same_weights(one: Path, other: Path) -> bool:
    left, right = (load_file(folder / "model.safetensors") for folder in (one, other))
    return all(torch.equal(left[name], right[name]) for name in left | right)
