"""Assigns a mechanism to each head of a model, and measures how the model's output then changes.

The choice is the cheapest mechanism within the tolerance, softmax if there is none. It is made on
one part of the text. On another part the model runs with it, and with controls that must do worse:
the same mechanisms on other heads, one window for all heads, uniform weights for all heads.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from attnlab._confidence_intervals import Estimate, mean_interval
from attnlab._create_mechanism import create_heads
from attnlab.bench._error_bench import UNIFORM
from attnlab.bench._measure_costs import one_thread
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.heads._measured_heads import Head, MeasuredHeads
from attnlab.heads._mechanism_errors import SEED_STRIDE, UNIFORM_SPEC, shift_seed, with_scale
from attnlab.heads._model_reader import InputWindow, ModelReader
from attnlab.huggingface import attend_with, is_huggingface
from attnlab.layers import MultiHead
from attnlab.mechanisms._mechanism_per_head_group import name_of, scale_of

SOFTMAX = "softmax"
SHUFFLES = 3
BY_CHANCE = "by chance"
Plan = Mapping[str, Sequence[str]]
"""For each layer's name the mechanism of each head."""


def choose_mechanisms(measured: MeasuredHeads, tolerance: float) -> dict[str, list[str]]:
    """For each head the cheapest mechanism within the tolerance that is cheaper than softmax."""
    return {
        layer: [_cheapest(head, tolerance) for head in measured.heads_in(layer)]
        for layer in measured.layers
    }


def _cheapest(head: Head, tolerance: float) -> str:
    exact = head.cost(SOFTMAX)
    candidate_specs = [
        (head.cost(spec), head.error(spec), spec)
        for spec in head.errors
        if spec != UNIFORM and head.error(spec) <= tolerance
    ]
    cheaper = (candidate for candidate in candidate_specs if candidate[0] < exact)
    return min(cheaper, default=(exact, 0.0, SOFTMAX))[2]


def plan_cost(plan: Plan, measured: MeasuredHeads) -> float:
    """The cost of all measured heads as a fraction of softmax's; uniform weights cost nothing."""
    total = exact = 0.0
    for head in measured.heads:
        spec = plan[head.name][head.head]
        exact += head.cost(SOFTMAX)
        total += 0.0 if spec == UNIFORM_SPEC else head.cost(spec)
    return total / exact


def shuffle_plan(plan: Plan, measured: MeasuredHeads, seed: int) -> dict[str, list[str]]:
    """The same mechanisms on random heads in the same part of the model, at the same cost."""
    generator, specs_by_part = random.Random(seed), dict[str, list[str]]()
    for head in measured.heads:
        specs_by_part.setdefault(head.part, []).append(plan[head.name][head.head])
    for specs in specs_by_part.values():
        generator.shuffle(specs)
    return {
        layer: [specs_by_part[head.part].pop() for head in measured.heads_in(layer)]
        for layer in measured.layers
    }


def single_mechanism_plan(measured: MeasuredHeads, spec: str) -> dict[str, list[str]]:
    """One mechanism for all heads that support it; softmax for the others."""
    return {
        layer: [spec if spec == UNIFORM_SPEC or spec in head.errors else SOFTMAX for head in heads]
        for layer in measured.layers
        for heads in [measured.heads_in(layer)]
    }


def control_window(plan: Plan, measured: MeasuredHeads, specs: Sequence[str]) -> str | None:
    """The most frequent window of the plan, else the middle one of those cheaper than softmax: a
    window that sees all keys is no control."""
    windows = [
        spec
        for spec in specs
        if spec.startswith("window")
        and any(
            spec in head.errors and head.cost(spec) < head.cost(SOFTMAX) for head in measured.heads
        )
    ]
    counts = Counter(spec for layer in plan.values() for spec in layer if spec in windows)
    if counts:
        return counts.most_common(1)[0][0]
    return windows[len(windows) // 2] if windows else None


def with_new_seeds(plan: Plan, seed: int) -> dict[str, list[str]]:
    """The plan with random seeds that the choice did not use, different in each layer. (A layer of
    transformers adds its number once more.)"""
    return {
        layer: [shift_seed(spec, SEED_STRIDE * seed + 1 + number) for spec in specs]
        for number, (layer, specs) in enumerate(plan.items())
    }


@contextmanager
def apply_plan(model: nn.Module, plan: Plan) -> Iterator[None]:
    """Inside the block, each head of these layers has its mechanism in the plan."""
    if is_huggingface(model):
        with attend_with(model, plan):
            yield
        return
    layers = _multi_head_layers(model)
    before = {name: layers[name].mechanism for name in plan}
    try:
        for name, specs in plan.items():
            layer = layers[name]
            beta = scale_of(layer.mechanism)
            device = next(layer.parameters()).device
            mechanism = create_heads(
                [with_scale(spec, beta) for spec in specs], head_dim=layer.head_dim
            ).to(device)
            layer.mechanism = mechanism.train(layer.training)
        yield
    finally:
        for name, mechanism in before.items():
            layers[name].mechanism = mechanism


def _multi_head_layers(model: nn.Module) -> dict[str, MultiHead]:
    modules = model.named_modules()
    return {name: module for name, module in modules if isinstance(module, MultiHead)}


@dataclass(frozen=True)
class PlanOutcome:
    """Scores of the model under one plan, one for each window."""

    name: str
    scores: list[float]
    """Losses, or distances from the output of the unchanged model."""
    before: list[float]
    """Scores of the unchanged model."""
    replaced: float
    """Fraction of heads that are not softmax."""
    cost: float
    """Multiplications of attention, as a fraction of softmax's."""
    seconds: float
    control: bool = False
    """A control must do worse than the choice."""

    @property
    def score(self) -> Estimate:
        return mean_interval(self.scores)

    @property
    def score_increase(self) -> Estimate:
        """The mean increase over the unchanged model, window by window."""
        return self.increase_over(self.before)

    def increase_over(self, others: Sequence[float]) -> Estimate:
        pairs = zip(self.scores, others, strict=True)
        return mean_interval([score - other for score, other in pairs])


class PlanCheck:
    """Runs a model under plans, on windows that the choice did not use."""

    def __init__(
        self,
        reader: ModelReader,
        windows: Sequence[InputWindow],
        measured: MeasuredHeads,
        progress: BenchProgress,
    ) -> None:
        self.reader, self.windows, self.measured = reader, windows, measured
        self.progress = progress
        self.unchanged = [reader.evaluate(window, i) for i, window in enumerate(windows)]
        self.before = [reader.score(result, result) for result in self.unchanged]

    def unchanged_outcome(self) -> PlanOutcome:
        return self._outcome("as it is", self._scores(), {})

    def outcome(self, name: str, *plans: Plan, control: bool = False) -> PlanOutcome:
        """Scores under a plan; of several plans the mean for each window."""
        results = []
        for plan in plans:
            self.progress.step(name)
            with apply_plan(self.reader.model, with_new_seeds(plan, self.reader.seed)):
                results.append(self._scores())
        windows = zip(*(scores for scores, _ in results), strict=True)
        means = [sum(scores) / len(scores) for scores in windows]
        return self._outcome(name, (means, results[0][1]), plans[0], control)

    def _outcome(
        self, name: str, result: tuple[list[float], float], plan: Plan, control: bool = False
    ) -> PlanOutcome:
        scores, seconds = result
        heads = [spec for specs in plan.values() for spec in specs]
        replaced = sum(spec != SOFTMAX for spec in heads) / len(heads) if heads else 0.0
        flops = plan_cost(plan, self.measured) if plan else 1.0
        return PlanOutcome(name, scores, self.before, replaced, flops, seconds, control)

    def _scores(self) -> tuple[list[float], float]:
        """The score of each window, and the mean CPU seconds of a window."""
        start = time.process_time()
        with one_thread():
            results = [self.reader.evaluate(window, i) for i, window in enumerate(self.windows)]
        seconds = (time.process_time() - start) / len(self.windows)
        pairs = zip(results, self.unchanged, strict=True)
        return [self.reader.score(result, unchanged) for result, unchanged in pairs], seconds


def check_softmax_replacement(reader: ModelReader, window: InputWindow) -> float:
    """Raises an error if the model's output changes with attnlab's softmax in place of its own
    attention: some models do more than softmax. Returns the relative change. Call it first, since
    measuring may take hours."""
    with torch.no_grad():
        original = reader.run(window)
        try:
            with _replace_with_softmax(reader.model):
                replaced = reader.run(window)
        except ValueError as problem:  # from transformers, with advice that does not apply here
            reason = str(problem).partition(";")[0].removeprefix(f"{reader.label}: ")
            raise ValueError(
                f"{reader.label}: {reason}; mechanisms cannot be compared in it"
            ) from None
    change = float((replaced - original).norm() / original.norm())
    if change > 1e-2:
        raise ValueError(
            f"{reader.label}: its output changes by {change:.1%} with attnlab's softmax in place "
            "of its attention, so the model does more than softmax; mechanisms cannot be compared "
            "in it"
        )
    return change


@contextmanager
def _replace_with_softmax(model: nn.Module) -> Iterator[None]:
    """Inside the block, attnlab's softmax replaces the model's own."""
    if is_huggingface(model):
        with attend_with(model, SOFTMAX):
            yield
        return
    layers = _multi_head_layers(model)
    plan = {
        name: [SOFTMAX] * layer.heads
        for name, layer in layers.items()
        if name_of(layer.mechanism) == SOFTMAX
    }
    with apply_plan(model, plan):
        yield


def evaluate_plans(
    reader: ModelReader,
    windows: Sequence[InputWindow],
    measured: MeasuredHeads,
    specs: Sequence[str],
    tolerance: float,
    progress: BenchProgress = NO_PROGRESS,
) -> list[PlanOutcome]:
    """Outcomes of the unchanged model, of the choice at half, once and twice the tolerance, and of
    the controls. A control that equals the choice is left out."""
    check = PlanCheck(reader, windows, measured, progress)
    choice = choose_mechanisms(measured, tolerance)
    window = control_window(choice, measured, specs)
    progress.begin("check", 5 + SHUFFLES)
    outcomes = [check.unchanged_outcome()]
    for allowed in (tolerance / 2, tolerance, 2 * tolerance):
        plan = choose_mechanisms(measured, allowed)
        outcomes.append(check.outcome(f"within {allowed:g}", plan))
    shuffled_plans = [shuffle_plan(choice, measured, seed) for seed in range(SHUFFLES)]
    controls = {f"{tolerance:g} on heads {BY_CHANCE}": shuffled_plans}
    if window is not None:
        controls[f"all {window}"] = [single_mechanism_plan(measured, window)]
    controls[f"all {UNIFORM}"] = [single_mechanism_plan(measured, UNIFORM_SPEC)]
    for name, plans in controls.items():
        others = [plan for plan in plans if plan != choice]
        if others:
            outcomes.append(check.outcome(name, *others, control=True))
    return outcomes
