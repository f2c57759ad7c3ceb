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
from attnlab.tasks.serving import Request, SendEvent, continue_text
from attnlab.tasks.simple import IGNORE, Row, SimpleTask
from attnlab.tokenizer import Tokenizer
from attnlab.training import Batch, Run, Settings, TrainingTask, is_main_process, pad_rows, train
from attnlab.training._batches import Forward
from attnlab.training._trained_run import resumed_settings

EVALUATION_ROWS = 256  # rows of an evaluation batch


class RowTask(TrainingTask):
    """The rows of a `SimpleTask` in the form that the training loop needs."""

    def __init__(
        self, task: SimpleTask, train_rows: Sequence[Row], validation: Sequence[Row]
    ) -> None:
        self.task, self.train_rows, self.validation = task, train_rows, validation
        self.name, self.headline, self.better = task.name, task.headline, task.better

    def describe(self) -> dict[str, Any]:
        return {"rows": len(self.train_rows), "data": digest(self.train_rows)}

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [len(row.ids) for row in self.train_rows]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        del epoch
        return make_batch([self.train_rows[row] for row in rows])

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        logits = compute_logits(forward, batch, self.task.causal).flatten(0, 1)  # (B T, V)
        target = batch["target"].flatten()
        return F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum")

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != IGNORE).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return measure_rows(self.task, model, self.validation)


def make_batch(rows: Sequence[Row]) -> Batch:
    ids, keys = pad_rows([torch.tensor(row.ids) for row in rows], 0)  # (B, T)
    target, _ = pad_rows([torch.tensor(row.targets) for row in rows], IGNORE)  # (B, T)
    return {"ids": ids, "keys": keys, "target": target}


def compute_logits(forward: Forward, batch: Batch, causal: bool) -> Tensor:
    """(B, T, V). Padding is on the right, where a causal model never looks."""
    keys = batch["keys"]
    whole = causal or bool(keys.all())
    return (forward(batch["ids"]) if whole else forward(batch["ids"], keys)).float()


@torch.no_grad()
def measure_rows(task: SimpleTask, model: nn.Module, rows: Sequence[Row]) -> dict[str, float]:
    """The task's own metrics, and the mean loss per target in nats."""
    device = next(model.parameters()).device
    predictions: list[list[int]] = []
    total, count = 0.0, 0
    for start in range(0, len(rows), EVALUATION_ROWS):
        part = rows[start : start + EVALUATION_ROWS]
        batch = {name: x.to(device) for name, x in make_batch(part).items()}
        logits, target = compute_logits(model, batch, task.causal), batch["target"]
        loss = F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        total, count = total + float(loss), count + int((target != IGNORE).sum())
        predicted = logits.argmax(-1).tolist()  # (B, T)
        predictions += [ids[: len(row.ids)] for row, ids in zip(part, predicted, strict=True)]
    return {**task.measure(rows, predictions), "loss": total / max(1, count)}


def make_rows(task: SimpleTask, part: str, seed: int = 0) -> Sequence[Row]:
    """The rows of one part. An error names the first row that is wrong."""
    rows = task.rows(part, Random(f"{task.name} {part} {seed}"))
    if not rows:
        raise ValueError(f"task {task.name}: has no rows for {part}; give one or more")
    vocabulary = vocabulary_size(task)
    for number, row in enumerate(rows, 1):
        where = f"task {task.name}: row {number} of {part}"
        if not row.ids or len(row.ids) != len(row.targets):
            sizes = f"{len(row.ids)} ids and {len(row.targets)} targets"
            raise ValueError(f"{where} has {sizes}; give the same number of each, at least one")
        targets = [token for token in row.targets if token != IGNORE]
        if not targets:
            raise ValueError(f"{where} has no target; give at least one that is not {IGNORE}")
        wrong = [token for token in (*row.ids, *targets) if not 0 <= token < vocabulary]
        if wrong:
            raise ValueError(f"{where} has the id {wrong[0]}; ids run from 0 to {vocabulary - 1}")
    return rows


def vocabulary_size(task: SimpleTask) -> int:
    size = task.vocabulary if task.tokenizer is None else task.tokenizer.vocabulary
    if size < 1:
        raise ValueError(f"task {task.name}: has no alphabet and no vocabulary; set one of them")
    return size


def digest(rows: Sequence[Row]) -> str:
    """Identifies a set of rows, so that a run is not resumed with other data."""
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
    overrides = dict(training or {})
    if resume and "seed" not in overrides:  # the rows depend on it
        overrides["seed"] = Run(out).config()["training"].get("seed", 0)
    settings = replace(default_settings(task), **overrides)
    train_rows, validation = make_rows(task, "train", settings.seed), make_rows(task, "validation")
    all_rows = [*train_rows, *validation, *make_rows(task, "test")]
    network = make_model(task, all_rows, attention, model or {}, settings.seed)
    if resume:
        settings = resumed_settings(settings, out, overrides)
    if is_main_process() and not quiet:
        print(
            f"{len(train_rows):,} rows, {vocabulary_size(task):,} token ids; "
            f"{network.parameter_count():,} parameters",
            file=sys.stderr,
        )
    tokens = task.tokenizer
    return train(
        RowTask(task, train_rows, validation),
        network,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        files={TOKENIZER: None if tokens is None else tokens.save},
    )


def default_settings(task: SimpleTask) -> Settings:
    """The task's training settings. A name that is not a setting raises an error."""
    check_names(task, "training", task.training, Settings)
    return Settings(**task.training)


def check_names(task: SimpleTask, what: str, settings: Mapping[str, Any], kind: type[Any]) -> None:
    known_names = [setting.name for setting in fields(kind)]
    for name in settings:
        if name not in known_names:
            close = get_close_matches(name, known_names, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known_names)}"
            raise ValueError(f"task {task.name}: {what} has no setting {name!r}; {hint}")


def make_model(
    task: SimpleTask,
    rows: Sequence[Row],
    attention: str | list[str],
    changes: Mapping[str, Any],
    seed: int,
) -> Model:
    """An untrained model whose context fits the longest row."""
    kind = StackConfig if task.causal else EncoderConfig
    check_names(task, "model", {**task.model, **changes}, kind)
    longest = max(len(row.ids) for row in rows)
    settings = {"context": longest, **task.model, **changes}
    settings |= {"vocabulary": vocabulary_size(task), "attention": attention}
    torch.manual_seed(seed)
    return Decoder(StackConfig(**settings)) if task.causal else Encoder(EncoderConfig(**settings))


def evaluate_simple(task: SimpleTask, folder: Path) -> dict[str, float]:
    run = Run(folder)
    run.config_of(task.name)
    model, kind = run.model(), Decoder if task.causal else Encoder
    if not isinstance(model, kind) or model.config.vocabulary < vocabulary_size(task):
        raise ValueError(f"{folder}: its model does not fit the task; train the run again")
    return measure_rows(task, model, make_rows(task, "test"))


@dataclass(frozen=True)
class SimpleGenerationService:
    """Writes the answer to a prompt, for the studio."""

    model: Decoder
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> SimpleGenerationService:
        run = Run(folder)
        model = run.model()
        if not isinstance(model, Decoder):
            raise ValueError(
                f"{folder.name}: its model is an encoder, which cannot write; train it with "
                "causal = True"
            )
        return cls(model, run.tokenizer(model))

    def __call__(self, request: Request, send: SendEvent) -> Any:
        prompt = self.tokenizer.encode(request["text"])
        continue_text(self.model, self.tokenizer, prompt, request, send)
        return {}
