"""The training loop."""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.models import Model
from attnlab.run_folder import StartMode
from attnlab.run_folder._checkpoints import (
    TrainingProgress,
    newest_intact_checkpoint,
    prune_checkpoints,
)
from attnlab.run_folder._file_names import FORMAT, VERSION
from attnlab.run_folder._folder import SaveFile
from attnlab.training._batches import BatchLoader, TrainingTask, mix_seeds
from attnlab.training._checkpoint import (
    load_best,
    load_checkpoint,
    load_model_tensors,
    model_tensors,
    save_checkpoint,
)
from attnlab.training._distributed import ProcessGroup, process_group, reshard, wrap_model
from attnlab.training._machine import autocast, choose_device, matmul_peak
from attnlab.training._optimizers import (
    WeightAverage,
    learning_rate_factor,
    make_optimizers,
    scale_learning_rates,
)
from attnlab.training._progress import Reporter
from attnlab.training._settings import Settings
from attnlab.training._trained_run import Run, versions


def train(
    task: TrainingTask,
    model: Model,
    settings: Settings,
    run: Run,
    *,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
    files: Mapping[str, SaveFile | None] | None = None,
    results: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, float]:
    """Train the model, save everything in the run's folder, and return the last metrics.

    `files` are further files of the run, such as the tokenizer: how to write each, or None for one
    that this run lacks. `results` are JSON files about the trained weights: how to compute each. A
    folder with config.json has all files, and one with the final weights has all results.

    >>> import torch
    >>> from torch.nn import functional as F
    >>> from attnlab.models import Decoder, StackConfig
    >>> from attnlab.training import Run, Settings, TrainingTask, train
    >>> class Repeat(TrainingTask):
    ...     name = "repeat"
    ...     def lengths(self, epoch):
    ...         return [8] * 64
    ...     def collate(self, rows, epoch):
    ...         ids = torch.tensor([[row % 5] * 8 for row in rows])
    ...         return {"ids": ids, "keys": torch.ones_like(ids, dtype=torch.bool)}
    ...     def loss(self, forward, batch):
    ...         logits = forward(batch["ids"])[:, :-1]
    ...         return F.cross_entropy(logits.mT, batch["ids"][:, 1:], reduction="sum")
    ...     def targets(self, batch):
    ...         return batch["ids"][:, 1:].numel()
    ...     def evaluate(self, model):
    ...         batch = self.collate(range(5), 0)
    ...         return {"loss": float(self.loss(model, batch)) / self.targets(batch)}
    >>> model = Decoder(StackConfig(vocabulary=5, context=8, width=16, layers=1, heads=2))
    >>> settings = Settings(steps=40, learning_rate=0.01, warmup_steps=2, device="cpu")
    >>> train(Repeat(), model, settings, Run("run"), quiet=True)["loss"] < 0.5
    True
    """
    device, start = choose_device(settings.device), StartMode(start)
    with process_group(device) as group, run.locked() if group.is_main else nullcontext():
        if group.is_main:
            run.begin(describe(task, model, settings), start, files)
        group.wait()
        return _train(task, model, settings, run, group, device, start, quiet, results or {})


def describe(task: TrainingTask, model: Model, settings: Settings) -> dict[str, Any]:
    """The content of config.json."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "task": {
            "name": task.name,
            "headline": task.headline,
            "better": task.better,
            **task.describe(),
        },
        "model": model.description(),
        "training": dataclasses.asdict(settings),
        "parameters": model.parameter_count(),
        "versions": versions(),
    }


def _train(
    task: TrainingTask,
    model: Model,
    settings: Settings,
    run: Run,
    group: ProcessGroup,
    device: torch.device,
    start: StartMode,
    quiet: bool,
    results: Mapping[str, Callable[[], Any]],
) -> dict[str, float]:
    model.to(device)
    wrapped = wrap_model(model, group, settings.shard, device)
    optimizers = make_optimizers(model, settings)
    average = None if settings.ema_decay is None else WeightAverage(model, settings.ema_decay)
    best: dict[str, torch.Tensor] | None = None  # weights of the best validation, with keep_best
    progress, newest = TrainingProgress(), None
    reporter = Reporter(
        settings.steps, 0, matmul_peak(device), quiet or not group.is_main, task.unit
    )
    if start is StartMode.RESUME:
        newest, problems = newest_intact_checkpoint(run.checkpoints)
        for problem in problems:
            reporter.print_message(problem)
        if newest is not None:
            progress = load_checkpoint(newest, model, optimizers, average)
            best = load_best(newest, model)
        elif problems:
            raise ValueError(
                f"{run.folder}: has no intact checkpoint to resume from; give --overwrite to "
                "start again"
            )
        if progress.step > settings.steps and settings.minutes is None:
            raise ValueError(
                f"{run.folder}: has already done {progress.step} steps; "
                f"give --steps {progress.step} or more"
            )
        reporter = Reporter(settings.steps, progress.step, reporter.peak, reporter.quiet, task.unit)
    clock = Clock(settings, progress, group, task.better)
    if group.is_main and start is StartMode.RESUME:
        if newest is not None:
            prune_checkpoints(newest, settings.keep_checkpoints)
        config, unfinished = describe(task, model, settings), clock.done < 1
        for problem in run.rewind(progress.step, config, unfinished=unfinished, results=results):
            reporter.print_message(problem)
    group.wait()
    if settings.compile:
        wrapped.compile(dynamic=True)
    loader = BatchLoader(task, settings, progress.epoch, progress.position)
    last_saved = None if newest is None else progress.step
    metrics: dict[str, float] = {}

    def save() -> None:
        nonlocal last_saved
        progress.epoch, progress.position = loader.epoch, loader.position
        progress.elapsed = clock.elapsed()
        if log is not None:
            log.sync()
        save_checkpoint(
            run.checkpoints,
            model,
            optimizers,
            average,
            progress,
            group,
            settings.keep_checkpoints,
            best,
        )
        last_saved = progress.step

    log_file = run.append_metrics() if group.is_main else nullcontext()
    with reporter, log_file as log, delay_signals() as interrupted:
        model.train()
        if last_saved is None:
            save()  # so that a run can be resumed from its first step
        clock = Clock(settings, progress, group, task.better)  # start the time now
        while clock.done < 1:
            begin = time.perf_counter()
            torch.manual_seed(mix_seeds(settings.seed, progress.step, group.rank))  # dropout
            batch, epoch = loader.next()
            count = task.targets(batch)
            tokens = int(batch["keys"].sum())
            rate = learning_rate_factor(progress.step, settings, clock.fraction)
            scale_learning_rates(optimizers, rate)
            loss = 0.0
            for part in split_batch(
                batch, settings.accumulation_steps
            ):  # equally many in each process
                rows = {name: x.to(device) for name, x in group.local_rows(part).items()}
                with autocast(device):
                    part_loss = task.loss(wrapped, rows) / max(1, count)
                # DDP and FSDP average over processes, but each has a part of one sum
                (part_loss * group.size).backward()
                loss += float(part_loss.detach())
            loss = group.sum(loss)
            if not math.isfinite(loss):
                raise TrainingStoppedError(
                    _not_finite(loss, progress.step, last_saved, run, "loss")
                )
            norm = clip_gradients(model, settings.max_gradient_norm)
            if not math.isfinite(norm):
                raise TrainingStoppedError(
                    _not_finite(norm, progress.step, last_saved, run, "gradient")
                )
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if average is not None:
                average.update(model)
            seconds = time.perf_counter() - begin
            progress.step += 1
            progress.tokens += tokens
            progress.seconds += seconds
            clock.tick(progress)
            last = clock.done >= 1
            row: dict[str, Any] = {
                "step": progress.step,
                "epoch": epoch,
                "loss": loss,
                "rate": rate,
                "norm": norm,
                "tokens": progress.tokens,
                "padding": 1 - tokens / batch["keys"].numel(),
                "seconds": round(progress.seconds, 4),
            }
            if last or is_due(progress.step, settings.evaluate_every) or clock.reached_evaluation():
                metrics = evaluate(task, model, average)
                value = metrics[task.headline]
                progress.best = better_value(task, value, progress.best)
                if settings.keep_best and progress.best == value:
                    best = averaged_tensors(model, average)
                row["validation"] = metrics
                reporter.print_message(_format_validation(progress.step, metrics))
                clock.stop_early(progress.best)
                last = clock.done >= 1
            if log is not None:
                log.append(row)
            flops = task.flops(model, batch) / seconds
            reporter.steps = round(clock.steps)
            reporter.update(progress.step, loss, tokens / seconds, flops)
            stop = group.any(bool(interrupted))
            if stop or last or is_due(progress.step, settings.save_every):
                save()
            if stop and not last:
                raise InterruptedTraining(
                    f"{run.folder}: stopped and saved at step {progress.step} of "
                    f"{clock.steps:.0f}; continue with --resume",
                    interrupted[0] if interrupted else signal.SIGTERM,
                )
    if not metrics:  # the run was finished already
        metrics = evaluate(task, model, average)
    if average is not None:
        average.swap(model)
    if best is not None:
        load_model_tensors(model, best)
        metrics = evaluate(task, model, None)
    model.eval()
    contents = {name: compute() for name, compute in results.items()}  # in all processes
    tensors = model_tensors(model)
    if group.is_main:
        for name, content in contents.items():
            run.write_json(name, content)
        run.finish(tensors)
    group.wait()
    return metrics


def split_batch(batch: dict[str, torch.Tensor], parts: int) -> list[dict[str, torch.Tensor]]:
    """The batch in parts of about equally many rows."""
    rows = len(batch["keys"])
    if parts == 1 or rows < 2:
        return [batch]
    chunks = {name: x.tensor_split(min(parts, rows)) for name, x in batch.items()}
    return [{name: x[i] for name, x in chunks.items()} for i in range(min(parts, rows))]


def clip_gradients(model: nn.Module, max_norm: float | None) -> float:
    """Scale the gradient down to `max_norm`; return its norm before."""
    limit = math.inf if max_norm is None else max_norm
    norm: Any = nn.utils.clip_grad_norm_(model.parameters(), limit)
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0


class Clock:
    """How much of a run is done: by steps, or by time if `minutes` is set. A run whose best
    validation reached `stop_at` is done."""

    def __init__(
        self,
        settings: Settings,
        progress: TrainingProgress,
        group: ProcessGroup,
        better: str = "lower",
    ) -> None:
        self.settings, self.group, self.better = settings, group, better
        self.fraction: float | None = None
        before = progress.seconds if progress.elapsed is None else progress.elapsed
        self.begin = time.perf_counter() - before  # a resumed run counts its earlier time
        self.done = 0.0
        self.tick(progress)

    def tick(self, progress: TrainingProgress) -> None:
        self.before = self.done
        if self.settings.minutes is None:
            self.steps = float(self.settings.steps)
            self.done = progress.step / self.settings.steps
        else:
            steps_only = self.settings.training_time_only
            seconds = self.mean(progress.seconds) if steps_only else self.elapsed()
            done = seconds / (60 * self.settings.minutes)
            self.done = self.fraction = done if progress.step else 0.0  # at least one step
            self.steps = progress.step / max(1e-9, min(1.0, self.done))  # an estimate
        self.stop_early(progress.best)

    def stop_early(self, best: float | None) -> None:
        """Ends the run if this validation reaches the value to stop at."""
        goal = self.settings.stop_at
        if best is not None and goal is not None:
            reached = best <= goal if self.better == "lower" else best >= goal
            self.done = max(1.0, self.done) if reached else self.done

    def elapsed(self) -> float:
        return self.mean(time.perf_counter() - self.begin)

    def mean(self, seconds: float) -> float:
        """The mean over all processes, so that all end at the same step."""
        return self.group.sum(seconds) / self.group.size

    def reached_evaluation(self) -> bool:
        """Whether the last tick passed one of the `evaluations` spread over the run."""
        parts = self.settings.evaluations or 0
        return int(parts * self.done) > int(parts * self.before)


def evaluate(
    task: TrainingTask, model: nn.Module, average: WeightAverage | None
) -> dict[str, float]:
    """Metrics with the averaged weights, if there are any; the model stays unchanged."""
    training = model.training
    model.eval()
    if average is not None:
        average.swap(model)
    with torch.no_grad():
        metrics = task.evaluate(model)
    reshard(model)
    if average is not None:
        average.swap(model)
    model.train(training)
    return metrics


def averaged_tensors(model: nn.Module, average: WeightAverage | None) -> dict[str, torch.Tensor]:
    """A copy of the weights that `evaluate` measures: the averaged ones, if there are any."""
    if average is not None:
        average.swap(model)
    tensors = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
    if average is not None:
        average.swap(model)
    return tensors


def better_value(task: TrainingTask, value: float, best: float | None) -> float:
    if best is None:
        return value
    return min(value, best) if task.better == "lower" else max(value, best)


@contextmanager
def delay_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list, so that the current step can end and be saved."""
    received: list[int] = []
    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda n, _: received.append(n))
    except ValueError:  # not the main thread, which handles signals
        pass
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _format_validation(step: int, metrics: dict[str, float]) -> str:
    facts = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    return f"step {step}: validation {facts}"


def _not_finite(value: float, step: int, saved: int | None, run: Run, name: str) -> str:
    last = "there is no checkpoint yet" if saved is None else f"the last checkpoint is step {saved}"
    return (
        f"{run.folder}: the {name} became {value} at step {step + 1}; {last}; "
        "try a lower --learning-rate, more --warmup-steps or a smaller --max-gradient-norm"
    )
