"""Which mechanism each head of a model gets, and what the model then says of itself.

The choice is the cheapest mechanism within the tolerance, softmax where there is none. It is made
on one part of a text; on another part the model is run with it, and with controls that must do
worse: the same mechanisms on other heads, one window for all, uniform weights for all.
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

from attnlab._confidence_intervals import Estimate, over
from attnlab._create_mechanism import create_heads
from attnlab.bench._error_bench import UNIFORM
from attnlab.bench._measure_costs import one_thread
from attnlab.bench._progress import SILENT, Progress
from attnlab.heads._measured_heads import Head, Measured
from attnlab.heads._mechanism_errors import DRAWS, EVEN, redrawn, scaled
from attnlab.heads._model_reader import Reader, Window
from attnlab.huggingface import attend_with, is_huggingface
from attnlab.layers import MultiHead
from attnlab.mechanisms._head_groups import name_of, scale_of

SOFTMAX = "softmax"
SHUFFLES = 3
BY_CHANCE = "by chance"
Plan = Mapping[str, Sequence[str]]
"""For each layer's name the mechanism of each head."""


def choose(measured: Measured, tolerance: float) -> dict[str, list[str]]:
    """The cheapest mechanism of each head that stays within the tolerance and below softmax."""
    return {
        layer: [_best(head, tolerance) for head in measured.of(layer)] for layer in measured.layers
    }


def _best(head: Head, tolerance: float) -> str:
    exact = head.cost(SOFTMAX)
    found = [
        (head.cost(spec), head.error(spec), spec)
        for spec in head.errors
        if spec != UNIFORM and head.error(spec) <= tolerance
    ]
    return min((each for each in found if each[0] < exact), default=(exact, 0.0, SOFTMAX))[2]


def plan_cost(plan: Plan, measured: Measured) -> float:
    """Of all heads that were measured, as a share of softmax's; uniform weights cost nothing."""
    total = exact = 0.0
    for head in measured.heads:
        spec = plan[head.name][head.head]
        exact += head.cost(SOFTMAX)
        total += 0.0 if spec == EVEN else head.cost(spec)
    return total / exact


def shuffled(plan: Plan, measured: Measured, seed: int) -> dict[str, list[str]]:
    """The same mechanisms, each as often, on heads that chance picks in the same part of the model:
    so they cost the same."""
    chance, piles = random.Random(seed), dict[str, list[str]]()
    for head in measured.heads:
        piles.setdefault(head.part, []).append(plan[head.name][head.head])
    for pile in piles.values():
        chance.shuffle(pile)
    return {
        layer: [piles[head.part].pop() for head in measured.of(layer)] for layer in measured.layers
    }


def same_for_all(measured: Measured, spec: str) -> dict[str, list[str]]:
    """One mechanism for all heads that can have it."""
    return {
        layer: [spec if spec == EVEN or spec in head.errors else SOFTMAX for head in heads]
        for layer in measured.layers
        for heads in [measured.of(layer)]
    }


def usual_window(plan: Plan, measured: Measured, specs: Sequence[str]) -> str | None:
    """The window that the plan has most often, else the middle one of those that save something:
    one that sees all is no control."""
    windows = [
        spec
        for spec in specs
        if spec.startswith("window")
        and any(spec in h.errors and h.cost(spec) < h.cost(SOFTMAX) for h in measured.heads)
    ]
    counts = Counter(spec for each in plan.values() for spec in each if spec in windows)
    if counts:
        return counts.most_common(1)[0][0]
    return windows[len(windows) // 2] if windows else None


def with_new_draws(plan: Plan, seed: int) -> dict[str, list[str]]:
    """With draws that nothing was chosen on, others in each layer (a layer of transformers adds
    its number once more)."""
    return {
        layer: [redrawn(spec, DRAWS * seed + 1 + number) for spec in specs]
        for number, (layer, specs) in enumerate(plan.items())
    }


@contextmanager
def apply_plan(model: nn.Module, plan: Plan) -> Iterator[None]:
    """Inside, each head of these layers has the mechanism that the plan gives it."""
    if is_huggingface(model):
        with attend_with(model, plan):
            yield
        return
    layers = {name: each for name, each in model.named_modules() if isinstance(each, MultiHead)}
    before = {name: layers[name].mechanism for name in plan}
    try:
        for name, specs in plan.items():
            layer = layers[name]
            beta = scale_of(layer.mechanism)
            same = [scaled(spec, beta) for spec in specs]
            made = create_heads(same, head_dim=layer.head_dim).to(next(layer.parameters()).device)
            layer.mechanism = made.train(layer.training)
        yield
    finally:
        for name, mechanism in before.items():
            layers[name].mechanism = mechanism


@dataclass(frozen=True)
class Outcome:
    """What the model said under one plan, window by window."""

    name: str
    scores: list[float]
    """Losses, or distances from the model's own vectors."""
    before: list[float]
    share: float
    """Of heads that are not softmax."""
    cost: float
    """Of attention's multiplications, as a share of softmax's."""
    seconds: float
    control: bool = False
    """It must do worse than what was chosen."""

    @property
    def score(self) -> Estimate:
        return over(self.scores)

    @property
    def worse(self) -> Estimate:
        """By how much, each window against itself."""
        return self.worse_than(self.before)

    def worse_than(self, others: Sequence[float]) -> Estimate:
        pairs = zip(self.scores, others, strict=True)
        return over([own - other for own, other in pairs])


class Check:
    """Runs a model on windows that nothing was chosen on."""

    def __init__(
        self, reader: Reader, windows: Sequence[Window], measured: Measured, progress: Progress
    ) -> None:
        self.reader, self.windows, self.measured = reader, windows, measured
        self.progress = progress
        self.own = [reader.judge(window, i) for i, window in enumerate(windows)]
        self.before = [reader.score(each, each) for each in self.own]

    def as_it_is(self) -> Outcome:
        return self._outcome("as it is", self._scores(), {})

    def outcome(self, name: str, *plans: Plan, control: bool = False) -> Outcome:
        """Under a plan; of several, the mean of each window."""
        found = []
        for plan in plans:
            self.progress.step(name)
            with apply_plan(self.reader.model, with_new_draws(plan, self.reader.seed)):
                found.append(self._scores())
        scores = [sum(each) / len(each) for each in zip(*(s for s, _ in found), strict=True)]
        return self._outcome(name, (scores, found[0][1]), plans[0], control)

    def _outcome(
        self, name: str, found: tuple[list[float], float], plan: Plan, control: bool = False
    ) -> Outcome:
        scores, seconds = found
        heads = [spec for specs in plan.values() for spec in specs]
        share = sum(spec != SOFTMAX for spec in heads) / len(heads) if heads else 0.0
        flops = plan_cost(plan, self.measured) if plan else 1.0
        return Outcome(name, scores, self.before, share, flops, seconds, control)

    def _scores(self) -> tuple[list[float], float]:
        """Of each window, and the CPU seconds that one of them took."""
        begin = time.process_time()
        with one_thread():
            judged = [self.reader.judge(window, i) for i, window in enumerate(self.windows)]
        seconds = (time.process_time() - begin) / len(self.windows)
        pairs = zip(judged, self.own, strict=True)
        return [self.reader.score(each, own) for each, own in pairs], seconds


def check_exchange(reader: Reader, window: Window) -> float:
    """With softmax in the place of its own attention a model must say the same; by how much, as a
    share, its output moves. Told before hours of measuring: some models ask for more."""
    with torch.no_grad():
        own = reader.run(window)
        try:
            with _softmax(reader.model):
                found = reader.run(window)
        except ValueError as problem:  # in transformers' words, or those for its users
            reason = str(problem).partition(";")[0].removeprefix(f"{reader.label}: ")
            raise ValueError(
                f"{reader.label}: {reason}; mechanisms cannot be compared in it"
            ) from None
    moved = float((found - own).norm() / own.norm())
    if moved > 1e-2:
        raise ValueError(
            f"{reader.label}: with attnlab's softmax in the place of its attention its output "
            f"moves by {moved:.1%}, so the model does more than softmax; mechanisms cannot be "
            "compared in it"
        )
    return moved


@contextmanager
def _softmax(model: nn.Module) -> Iterator[None]:
    """Inside, attnlab's softmax takes the place of the model's own."""
    if is_huggingface(model):
        with attend_with(model, SOFTMAX):
            yield
        return
    layers = {name: each for name, each in model.named_modules() if isinstance(each, MultiHead)}
    own = {n: [SOFTMAX] * x.heads for n, x in layers.items() if name_of(x.mechanism) == SOFTMAX}
    with apply_plan(model, own):
        yield


def check_plans(
    reader: Reader,
    windows: Sequence[Window],
    measured: Measured,
    specs: Sequence[str],
    tolerance: float,
    progress: Progress = SILENT,
) -> list[Outcome]:
    """The model as it is, with what was chosen at half, once and twice the tolerance, and with
    the controls; one that is the same as what was chosen is none, and left out."""
    check = Check(reader, windows, measured, progress)
    chosen = choose(measured, tolerance)
    window = usual_window(chosen, measured, specs)
    progress.begin("check", 5 + SHUFFLES)
    found = [check.as_it_is()]
    for allowed in (tolerance / 2, tolerance, 2 * tolerance):
        plan = choose(measured, allowed)
        found.append(check.outcome(f"within {allowed:g}", plan))
    dealt = [shuffled(chosen, measured, seed) for seed in range(SHUFFLES)]
    controls = {f"{tolerance:g} on heads {BY_CHANCE}": dealt}
    if window is not None:
        controls[f"all {window}"] = [same_for_all(measured, window)]
    controls[f"all {UNIFORM}"] = [same_for_all(measured, EVEN)]
    for name, plans in controls.items():
        others = [plan for plan in plans if plan != chosen]
        if others:
            found.append(check.outcome(name, *others, control=True))
    return found
