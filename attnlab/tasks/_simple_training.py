"""Training and measuring a `SimpleTask`.

Letters: B batch, T tokens, V vocabulary, n targets of a batch.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.models import Decoder, Encoder, EncoderConfig, Model, StackConfig
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks._task_options import task_options, with_run_options
from attnlab.tasks.serving import Request, SendEvent, continue_text
from attnlab.tasks.simple import IGNORE, ArrayRows, Row, SimpleTask
from attnlab.tokenizer import Tokenizer
from attnlab.training import Batch, Run, Settings, TrainingTask, is_main_process, pad_rows, train
from attnlab.training._batches import Forward
from attnlab.training._trained_run import resumed_settings

EVALUATION_ROWS = 256  # rows of an evaluation batch


class RowTask(TrainingTask):
    """The rows of a `SimpleTask` in the form that the training loop needs."""

    def __init__(
        self, task: SimpleTask, train_rows: Sequence[Row], validation: Sequence[Row], seed: int = 0
    ) -> None:
        self.task, self.validation, self.seed = task, validation, seed
        self.first_rows = train_rows
        self.name, self.headline, self.better = task.name, task.headline, task.better
        self._newest: tuple[int, Sequence[Row]] = (0, train_rows)  # epoch and its rows

    def describe(self) -> dict[str, Any]:
        facts = {"rows": len(self.first_rows), "data": digest(self.first_rows)}
        return {**task_options(self.task), **facts}

    def rows(self, epoch: int) -> Sequence[Row]:
        if not self.task.fresh_rows or epoch == 0:
            return self.first_rows
        if self._newest[0] != epoch:
            self._newest = (epoch, make_rows(self.task, "train", self.seed, epoch))
        return self._newest[1]

    def lengths(self, epoch: int) -> list[int]:
        rows = self.rows(epoch)
        if isinstance(rows, ArrayRows):
            return [rows.ids.shape[1]] * len(rows)
        return [len(row.ids) for row in rows]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        return make_batch(self.rows(epoch), rows)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        logits = self.task.target_logits(forward, batch)  # (n, V)
        target = batch["target"]
        return F.cross_entropy(logits, target[target != IGNORE], reduction="sum")

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != IGNORE).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return measure_rows(self.task, model, self.validation)


def make_batch(rows: Sequence[Row], chosen: Sequence[int]) -> Batch:
    """The chosen rows as tensors (B, T)."""
    if isinstance(rows, ArrayRows):
        index = np.asarray(chosen)
        ids, target = (torch.from_numpy(each[index]).long() for each in (rows.ids, rows.targets))
        return {"ids": ids, "keys": torch.ones_like(ids, dtype=torch.bool), "target": target}
    part = [rows[each] for each in chosen]
    ids, keys = pad_rows([torch.tensor(row.ids) for row in part], 0)
    target, _ = pad_rows([torch.tensor(row.targets) for row in part], IGNORE)
    return {"ids": ids, "keys": keys, "target": target}


def compute_logits(forward: Forward, batch: Batch, causal: bool) -> Tensor:
    """(n, V). Padding is on the right, where a causal model never looks."""
    at = batch["target"] != IGNORE
    if causal:
        return forward(batch["ids"], at=at).float()
    keys = batch["keys"]
    whole = bool(keys.all())
    return (forward(batch["ids"]) if whole else forward(batch["ids"], keys))[at].float()


@torch.no_grad()
def predict_rows(
    task: SimpleTask, model: nn.Module, rows: Sequence[Row]
) -> tuple[list[list[int]], float]:
    """The prediction for every target, IGNORE elsewhere, and the mean loss per target in nats."""
    device = next(model.parameters()).device
    predictions: list[list[int]] = []
    total, count = 0.0, 0
    for start in range(0, len(rows), EVALUATION_ROWS):
        chosen = range(start, min(start + EVALUATION_ROWS, len(rows)))
        batch = {name: x.to(device) for name, x in make_batch(rows, chosen).items()}
        target = batch["target"]  # (B, T)
        logits = task.target_logits(model, batch)  # (n, V)
        at = target != IGNORE
        total += float(F.cross_entropy(logits, target[at], reduction="sum"))
        count += len(logits)
        predicted = torch.full_like(target, IGNORE).masked_scatter(at, logits.argmax(-1))  # (B, T)
        lengths = batch["keys"].sum(1).tolist()
        predictions += [
            ids[:length] for ids, length in zip(predicted.tolist(), lengths, strict=True)
        ]
    return predictions, total / max(1, count)


def measure_rows(task: SimpleTask, model: nn.Module, rows: Sequence[Row]) -> dict[str, float]:
    """The task's own metrics, and the mean loss per target in nats."""
    predictions, loss = predict_rows(task, model, rows)
    return {**task.measure(rows, predictions), "loss": loss}


def make_rows(task: SimpleTask, part: str, seed: int = 0, epoch: int = 0) -> Sequence[Row]:
    """The rows of one part. An error names the first row that is wrong."""
    later = f" epoch {epoch}" if epoch else ""
    rows = task.rows(part, Random(f"{task.name} {part} {seed}{later}"))
    if not rows:
        raise ValueError(f"task {task.name}: has no rows for {part}; give one or more")
    vocabulary = vocabulary_size(task)
    for index in _suspects(rows, vocabulary):
        row, where = rows[index], f"task {task.name}: row {index + 1} of {part}"
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


def _suspects(rows: Sequence[Row], vocabulary: int) -> Iterable[int]:
    """The indices of rows that may be wrong: all of a list, few of arrays."""
    if not isinstance(rows, ArrayRows) or rows.ids.shape != rows.targets.shape:
        return range(len(rows))
    ids, targets = rows.ids, rows.targets
    has_target = targets != IGNORE
    wrong = (
        (ids < 0) | (ids >= vocabulary) | (has_target & ((targets < 0) | (targets >= vocabulary)))
    )
    return np.flatnonzero(wrong.any(1) | ~has_target.any(1)).tolist()


def vocabulary_size(task: SimpleTask) -> int:
    size = task.vocabulary if task.tokenizer is None else task.tokenizer.vocabulary
    if size < 1:
        raise ValueError(f"task {task.name}: has no alphabet and no vocabulary; set one of them")
    return size


def digest(rows: Sequence[Row]) -> str:
    """Identifies a set of rows, so that a run is not resumed with other data."""
    if isinstance(rows, ArrayRows):
        both = np.stack([rows.ids, rows.targets]).astype("<i8")  # (2, rows, T)
        return hashlib.sha256(repr(both.shape).encode() + both.tobytes()).hexdigest()[:16]
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
    longest = max(map(longest_row, (train_rows, validation, make_rows(task, "test"))))
    network = make_model(task, longest, attention, model or {}, settings.seed)
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
        RowTask(task, train_rows, validation, settings.seed),
        network,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        files={TOKENIZER: None if tokens is None else tokens.save},
    )


def longest_row(rows: Sequence[Row]) -> int:
    if isinstance(rows, ArrayRows):
        return int(rows.ids.shape[1])
    return max(len(row.ids) for row in rows)


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
    longest: int,
    attention: str | list[str],
    changes: Mapping[str, Any],
    seed: int,
) -> Model:
    """An untrained model. Its context is `longest`, the tokens of the longest row."""
    kind = StackConfig if task.causal else EncoderConfig
    check_names(task, "model", {**task.model, **changes}, kind)
    settings = {"context": longest, **task.model, **changes}
    settings |= {"vocabulary": vocabulary_size(task), "attention": attention}
    torch.manual_seed(seed)
    return Decoder(StackConfig(**settings)) if task.causal else Encoder(EncoderConfig(**settings))


def task_of_run(task: SimpleTask, folder: Path) -> SimpleTask:
    """The task with the options of this run, which must be a run of it."""
    return with_run_options(task, Run(folder).config_of(task.name)["task"], folder)


def evaluate_simple(task: SimpleTask, folder: Path) -> dict[str, float]:
    return evaluate_counts(task, folder)[0]


def evaluate_counts(
    task: SimpleTask, folder: Path
) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """The metrics on the test rows, and for fractions how many of how many were right."""
    task = task_of_run(task, folder)
    model, kind = Run(folder).model(), Decoder if task.causal else Encoder
    if not isinstance(model, kind) or model.config.vocabulary < vocabulary_size(task):
        raise ValueError(f"{folder}: its model does not fit the task; train the run again")
    rows = make_rows(task, "test")
    predictions, loss = predict_rows(task, model, rows)
    metrics = {**task.measure(rows, predictions), "loss": loss}
    return metrics, task.count_correct(rows, predictions)


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
