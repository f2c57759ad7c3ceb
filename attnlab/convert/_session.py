"""One conversion: measures, trains the stages, measures again, and writes the run.

Everything that is not finished is in `.conversion` inside the folder, so the folder holds a whole
run or none. Each stage is a training run of its own there, which resumes by itself.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from attnlab._notes import warn_caller
from attnlab._safe_files import read_json, write_json, write_text
from attnlab._short_repr import short_repr
from attnlab._tensor_files import load_tensors, save_tensors
from attnlab.convert._generation_costs import generation_costs
from attnlab.convert._low_rank import merge_adapters
from attnlab.convert._plan import Plan
from attnlab.convert._replace_layers import replace_layers
from attnlab.convert._report import convert_report
from attnlab.convert._results import LABELS, ORIGINAL, RANDOM, REPLACED, Conversion, Results
from attnlab.convert._settings import ADAPTERS, CONTROL, TRANSFER, ConvertSettings
from attnlab.convert._source import Source, Texts
from attnlab.convert._stages import (
    Adapters,
    ModelPair,
    Stage,
    StageModel,
    Transfer,
    adapter_model,
    randomize_features,
    token_losses,
    transfer_model,
)
from attnlab.report import Report, render_page, to_json
from attnlab.run_folder import StartMode
from attnlab.run_folder._file_names import CONFIG, FORMAT, METRICS, TOKENIZER, VERSION, WEIGHTS
from attnlab.run_folder._removal import removal
from attnlab.tasks.language.kind import CONVERSION, CONVERSION_PAGE, LANGUAGE
from attnlab.training import Run, Settings, train
from attnlab.training._checkpoint import load_model_tensors, model_tensors
from attnlab.training._machine import choose_device
from attnlab.training._trained_run import versions

WORK, SETTINGS_FILE, MEASURED = ".conversion", "settings.json", "measured.json"
JSON_BYTES = 2**24
MAY_CHANGE = {"device", "lengths", "minutes", "save_every"}
"""Settings of a resumed conversion that may differ."""


@dataclass
class Session:
    """One conversion."""

    path: Path
    source: Source
    pair: ModelPair
    plan: Plan
    texts: Texts
    settings: ConvertSettings
    out: Path
    start: StartMode
    quiet: bool

    def __post_init__(self) -> None:
        self.begin_time, self.work = time.perf_counter(), self.out / WORK
        model = self.pair.converted
        parts = [self.pair.attention(layer).mechanism for layer in self.pair.layers]
        count = sum(parameter.numel() for part in parts for parameter in part.parameters())
        self.results = Results(
            Conversion(
                self.source.task.get("imported") or self.path.resolve().name,
                self.plan, model.config.layers, self.settings, len(self.texts.train), count,
            )
        )  # fmt: skip
        self.device = choose_device(self.settings.device)
        for each in (self.pair.original.requires_grad_(False), model):
            each.to(self.device)

    def run(self) -> Report:
        self._begin()
        self._measure_before()
        if self.settings.control and self.settings.adapters:
            self._control()
        learns = transfer_model(self.pair).parameter_count() > 0
        if self.settings.adapters < 1 and learns:
            kept = min(self.settings.kept_texts, len(self.texts.train))
            stage = Transfer(self.pair, self.texts, kept, self.settings.reuse)
            self._train(TRANSFER, stage, transfer_model(self.pair))
            self.results.losses[LABELS[TRANSFER]] = self._losses(TRANSFER)
        elif not learns:
            warn_caller(f"{self.plan[min(self.plan)]} learns nothing, so only adapters are trained")
        if self.settings.adapters:
            self._train_adapters(ADAPTERS, features=True)
            for layer in self.pair.layers:
                merge_adapters(self.pair.attention(layer))
        if self.settings.lengths:
            self._print("measuring generation")
            for name in ("original", "converted"):
                model = getattr(self.pair, name)
                self.results.costs[name] = generation_costs(model, self.settings.lengths)
        return self._finish()

    def _begin(self) -> None:
        """Start with nothing, or check that a resumed conversion is the same."""
        now = {
            name: value for name, value in asdict(self.settings).items() if name not in MAY_CHANGE
        }
        now["plan"] = {str(layer): spec for layer, spec in self.plan.items()}
        now["model"], now["text"] = self.results.conversion.label, self.texts.digest
        if self.start is StartMode.RESUME:
            before = read_content(self.work / SETTINGS_FILE)
            for name, value in now.items():
                was = before.get(name)
                if was != value:
                    raise ValueError(
                        f"{self.out}: the conversion has {name} {short_repr(was)}, not "
                        f"{short_repr(value)}; resume with the same settings"
                    )
            return
        if self.start is StartMode.OVERWRITE and self.out.exists():
            with removal(self.out, CONFIG):
                shutil.rmtree(self.work, ignore_errors=True)
                Run(self.out).delete()
        self.work.mkdir(parents=True, exist_ok=True)
        write_json(self.work / SETTINGS_FILE, now)

    def _measure_before(self) -> None:
        """Losses and errors without training."""
        pair, results = self.pair, self.results
        file = self.work / MEASURED
        if not file.exists():
            self._print(f"measuring the loss on {len(self.texts.held_out)} held-out texts")
            losses = {
                ORIGINAL: token_losses(pair.original, self.texts.held_out),
                REPLACED: token_losses(pair.converted, self.texts.held_out),
                RANDOM: self._random_losses(),
            }
            errors = Transfer(pair, self.texts).evaluate(pair.converted)
            write_json(file, {"losses": losses, "errors": _by_layer(errors)})
        measured = read_content(file)
        results.losses |= measured["losses"]
        results.errors[REPLACED] = {int(k): v for k, v in measured["errors"].items()}

    def _random_losses(self) -> list[float]:
        """With favor's random features, as many as the size of its state allows."""
        plan = dict.fromkeys(self.plan, f"favor:features={2 * self.pair.attention(0).head_dim}")
        random = replace_layers(self.pair.original, plan)
        return token_losses(random.to(self.device), self.texts.held_out)

    def _control(self) -> None:
        """Adapters around random features, in another copy of the model."""
        converted = replace_layers(self.pair.original, self.plan).to(self.device)
        pair = ModelPair(self.pair.original, converted, self.pair.layers, self.settings.precision)
        if randomize_features(pair, self.settings.seed + 1):
            self._train_adapters(CONTROL, features=False, pair=pair)

    def _train_adapters(self, name: str, *, features: bool, pair: ModelPair | None = None) -> None:
        pair = pair or self.pair
        torch.manual_seed(self.settings.seed)
        model = adapter_model(pair, self.settings.rank, features=features)
        stage = Adapters(pair, self.texts, distillation=self.settings.distillation)
        self._train(name, stage, model)
        self.results.losses[LABELS[name]] = self._losses(name)

    def _train(self, name: str, stage: Stage, model: StageModel) -> None:
        """Train a stage, or load it if it is finished."""
        settings, folder = self.settings, self.work / name
        self._print(f"stage {name}: {model.parameter_count():,} parameters")
        length: dict[str, Any] = settings.length(TRANSFER if name == TRANSFER else ADAPTERS)
        transfer = name == TRANSFER
        model.parts.requires_grad_(True)
        training = Settings(
            **length,
            batch_size=settings.batch_size,
            accumulation_steps=settings.batch_size,  # one text at a time
            learning_rate=settings.learning_rate if transfer else settings.adapter_learning_rate,
            warmup_steps=5,
            weight_decay=0.0,
            max_gradient_norm=None if transfer else 1.0,  # layers do not depend on each other
            seed=settings.seed,
            device=settings.device,
            save_every=settings.save_every,
            keep_checkpoints=1,
        )
        run = Run(folder)
        if not run.finished:
            results = {MEASURED: lambda: self._measure_stage(name, stage, model)}
            start = self.start.for_part(folder)
            train(stage, model, training, run, start=start, quiet=self.quiet, results=results)
        load_model_tensors(model, load_learned(folder / WEIGHTS, model))
        model.parts.requires_grad_(False)
        measured = read_content(folder / MEASURED)
        self.results.training[name] = measured["training"]
        if transfer:
            self.results.errors[LABELS[name]] = {int(k): v for k, v in measured["errors"].items()}

    def _measure_stage(self, name: str, stage: Stage, model: StageModel) -> dict[str, Any]:
        last = Run(self.work / name).metrics()[-1]
        facts = {key: float(last[key]) for key in ("step", "tokens", "seconds")}
        facts["steps"] = facts.pop("step")
        known = stage.losses if isinstance(stage, Adapters) else None
        content: dict[str, Any] = {
            "losses": known or token_losses(stage.pair.converted, self.texts.held_out),
            "training": {"parameters": float(model.parameter_count()), **facts},
        }
        if name == TRANSFER:
            content["errors"] = _by_layer(last["validation"])
        return content

    def _losses(self, name: str) -> list[float]:
        losses: list[float] = read_content(self.work / name / MEASURED)["losses"]
        return losses

    def _finish(self) -> Report:
        """Write the run, and remove what was needed to resume."""
        model, run = self.pair.converted, Run(self.out)
        report = convert_report(self.results, str(self.out), time.perf_counter() - self.begin_time)
        steps = {name: len(Run(self.work / name).metrics()) for name in (TRANSFER, ADAPTERS)}
        config = {
            "format": FORMAT,
            "version": VERSION,
            "task": {
                "name": LANGUAGE.name,
                "headline": "loss",
                "better": "lower",
                "objective": "causal",
                **self.source.task,
                "converted": {str(layer): spec for layer, spec in self.plan.items()},
            },
            "model": model.description(),
            "training": {"steps": sum(steps.values()), "seed": self.settings.seed},
            "parameters": model.parameter_count(),
            "versions": versions(),
        }
        tensors, rows = model_tensors(model), self._metrics()
        page, content = render_page(report), to_json(report, indent=1) + "\n"
        run.begin(
            config,
            StartMode.OVERWRITE,  # removes what a kill left here
            {
                TOKENIZER: self.source.tokenizer.save,
                METRICS: lambda part: write_text(part, rows),
                CONVERSION: lambda part: write_text(part, content),
                CONVERSION_PAGE: lambda part: write_text(part, page),
                WEIGHTS: lambda part: save_tensors(tensors, part),
            },
        )
        shutil.rmtree(self.work, ignore_errors=True)
        return report

    def _metrics(self) -> str:
        """The rows of both stages, one after the other. The first one's loss is no loss of a model,
        so it has another name."""
        rows: list[dict[str, Any]] = []
        for name in (TRANSFER, ADAPTERS):
            done = len(rows)
            for row in Run(self.work / name).metrics():
                if name == TRANSFER:
                    row["attention_error"] = row.pop("loss")
                    row.pop("validation", None)
                rows.append({**row, "step": done + row["step"], "stage": name})
        if rows:
            rows[-1]["validation"] = {"loss": self.results.mean(self.results.final)}
        return "".join(json.dumps(row) + "\n" for row in rows)

    def _print(self, sentence: str) -> None:
        if not self.quiet:
            minutes = (time.perf_counter() - self.begin_time) / 60
            print(f"[{minutes:.1f} min] {sentence}", file=sys.stderr, flush=True)


def _by_layer(metrics: dict[str, float]) -> dict[str, float]:
    """The errors of layers, as `Transfer.evaluate` names them, by number."""
    return {
        name.removeprefix("layer "): value
        for name, value in metrics.items()
        if name.startswith("layer ")
    }


def read_content(path: Path) -> dict[str, Any]:
    """A JSON file of an unfinished conversion."""
    try:
        content = read_json(path, JSON_BYTES)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; give --overwrite to start again") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: is damaged; give --overwrite to start again")
    return content


def load_learned(path: Path, model: StageModel) -> dict[str, torch.Tensor]:
    """What a finished stage learned."""
    tensors, expected = load_tensors(path), model_tensors(model)
    shapes = [{name: x.shape for name, x in each.items()} for each in (tensors, expected)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{path}: does not fit the model; give --overwrite to start again")
    return tensors
