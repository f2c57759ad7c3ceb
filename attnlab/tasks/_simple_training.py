"""Training and measuring a `SimpleTask`.

Letters: B batch, T tokens, V vocabulary, n targets.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.models import Decoder, Encoder, EncoderConfig, Model, StackConfig
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.serving import Request, Tell, continue_text
from attnlab.tasks.simple import IGNORE, Row, SimpleTask
from attnlab.tokenizer import Tokenizer, load_tokenizer
from attnlab.training import Batch, Run, Settings, TrainingTask, is_main_process, pad_rows, train
from attnlab.training._batches import Forward
from attnlab.training._run import resumed_settings

AT_ONCE = 256  # rows that are measured together


class RowTask(TrainingTask):
    """The rows of a `SimpleTask`, as the training loop takes them."""

    def __init__(self, task: SimpleTask, learned: Sequence[Row], validation: Sequence[Row]) -> None:
        self.task, self.learned, self.validation = task, learned, validation
        self.name, self.headline, self.better = task.name, task.headline, task.better

    def describe(self) -> dict[str, Any]:
        return {"rows": len(self.learned), "data": digest(self.learned)}

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [len(row.ids) for row in self.learned]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        del epoch
        return batch_of([self.learned[row] for row in rows])

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        logits = logits_of(forward, batch, self.task.causal).flatten(0, 1)  # (B T, V)
        target = batch["target"].flatten()
        return F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum")

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != IGNORE).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return measured(self.task, model, self.validation)


def batch_of(rows: Sequence[Row]) -> Batch:
    ids, keys = pad_rows([torch.tensor(row.ids) for row in rows], 0)  # (B, T)
    target, _ = pad_rows([torch.tensor(row.targets) for row in rows], IGNORE)  # (B, T)
    return {"ids": ids, "keys": keys, "target": target}


def logits_of(forward: Forward, batch: Batch, causal: bool) -> Tensor:
    """(B, T, V). Padding stands on the right, where no causal token looks."""
    keys = batch["keys"]
    whole = causal or bool(keys.all())
    return (forward(batch["ids"]) if whole else forward(batch["ids"], keys)).float()


@torch.no_grad()
def measured(task: SimpleTask, model: nn.Module, rows: Sequence[Row]) -> dict[str, float]:
    """The task's own metrics, and the loss of each target in nats."""
    device = next(model.parameters()).device
    predictions: list[list[int]] = []
    total, count = 0.0, 0
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        batch = {name: x.to(device) for name, x in batch_of(part).items()}
        logits, target = logits_of(model, batch, task.causal), batch["target"]
        loss = F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        total, count = total + float(loss), count + int((target != IGNORE).sum())
        found = logits.argmax(-1).tolist()  # (B, T)
        predictions += [each[: len(row.ids)] for row, each in zip(part, found, strict=True)]
    return {**task.measure(rows, predictions), "loss": total / max(1, count)}


def rows_of(task: SimpleTask, part: str, seed: int = 0) -> Sequence[Row]:
    """Checked: a mistake in a task of one's own is told by its row."""
    rows = task.rows(part, Random(f"{task.name} {part} {seed}"))
    if not rows:
        raise ValueError(f"task {task.name}: has no rows for {part}; give one or more")
    most = vocabulary_of(task)
    for number, row in enumerate(rows, 1):
        where = f"task {task.name}: row {number} of {part}"
        if not row.ids or len(row.ids) != len(row.targets):
            sizes = f"{len(row.ids)} ids and {len(row.targets)} targets"
            raise ValueError(f"{where} has {sizes}; give as many of each, one or more")
        targets = [each for each in row.targets if each != IGNORE]
        if not targets:
            raise ValueError(f"{where} has no target; give one that is not {IGNORE}")
        wrong = [each for each in (*row.ids, *targets) if not 0 <= each < most]
        if wrong:
            raise ValueError(f"{where} has the id {wrong[0]}; ids run from 0 to {most - 1}")
    return rows


def vocabulary_of(task: SimpleTask) -> int:
    size = task.vocabulary if task.tokenizer is None else task.tokenizer.vocabulary
    if size < 1:
        raise ValueError(f"task {task.name}: has no alphabet and no vocabulary; give one of them")
    return size


def digest(rows: Sequence[Row]) -> str:
    """Tells one set of rows from another: a run must not go on with the wrong one."""
    text = repr([(list(row.ids), list(row.targets)) for row in rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def train_simple(
    task: SimpleTask,
    out: Path,
    *,
    attention: str | list[str] = "softmax",
    model: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    check_folder(out, start)
    resume = start is StartMode.RESUME
    given = dict(training or {})
    if resume and "seed" not in given:  # the rows follow it
        given["seed"] = Run(out).config()["training"].get("seed", 0)
    settings = replace(usual_settings(task), **given)
    learned, validation = rows_of(task, "train", settings.seed), rows_of(task, "validation")
    every = [*learned, *validation, *rows_of(task, "test")]
    made = make_model(task, every, attention, model or {}, settings.seed)
    if resume:
        settings = resumed_settings(settings, out, given)
    if is_main_process() and not quiet:
        print(
            f"{len(learned):,} rows, {vocabulary_of(task):,} token ids; "
            f"{made.parameter_count():,} parameters",
            file=sys.stderr,
        )
    tokens = task.tokenizer
    return train(
        RowTask(task, learned, validation),
        made,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        on_begin=None if resume or tokens is None else lambda: tokens.save(out / TOKENIZER),
    )


def usual_settings(task: SimpleTask) -> Settings:
    """The task's own; a name that is no setting is told."""
    check_names(task, "training", task.training, Settings)
    return Settings(**task.training)


def check_names(task: SimpleTask, what: str, given: Mapping[str, Any], kind: type[Any]) -> None:
    known = [each.name for each in fields(kind)]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"task {task.name}: {what} has no setting {name!r}; {hint}")


def make_model(
    task: SimpleTask,
    rows: Sequence[Row],
    attention: str | list[str],
    changes: Mapping[str, Any],
    seed: int,
) -> Model:
    """It reads the longest row of all."""
    kind = StackConfig if task.causal else EncoderConfig
    check_names(task, "model", {**task.model, **changes}, kind)
    longest = max(len(row.ids) for row in rows)
    settings = {"context": longest, **task.model, **changes}
    settings |= {"vocabulary": vocabulary_of(task), "attention": attention}
    torch.manual_seed(seed)
    return Decoder(StackConfig(**settings)) if task.causal else Encoder(EncoderConfig(**settings))


def evaluate_simple(task: SimpleTask, folder: Path) -> dict[str, float]:
    run = Run(folder)
    name = run.config()["task"].get("name")
    if name != task.name:
        raise ValueError(f"{folder}: a run of task {name!r}, not {task.name}")
    return measured(task, run.model(), rows_of(task, "test"))


@dataclass(frozen=True)
class Generating:
    """A run whose task is a text with an answer: it writes the answer, in the studio."""

    model: Decoder
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> Generating:
        model = Run(folder).model()
        if not isinstance(model, Decoder):
            raise ValueError(f"{folder.name}: its model is no decoder, so it cannot write")
        return cls(model, load_tokenizer(folder))

    def __call__(self, request: Request, tell: Tell) -> Any:
        prompt = self.tokenizer.encode(request["text"])
        continue_text(self.model, self.tokenizer, prompt, request, tell)
        return {}
