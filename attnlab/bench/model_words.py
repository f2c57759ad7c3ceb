"""What a model's heads could do with, in words; all that its report is made from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from attnlab.bench.assigning import BY_CHANCE, SOFTMAX, Outcome, choose, plan_cost
from attnlab.bench.error import UNIFORM, name_of
from attnlab.bench.heads import Head, Measured
from attnlab.bench.readers import TEXT
from attnlab.bench.settings import ModelSettings
from attnlab.charts import number
from attnlab.intervals import Estimate
from attnlab.words import joined


@dataclass(frozen=True)
class Found:
    """All that the report is made from."""

    label: str
    reads: str
    """text or images."""
    measure: str
    measured: Measured
    specs: Sequence[str]
    outcomes: Sequence[Outcome]
    settings: ModelSettings
    notes: Sequence[str]

    @cached_property
    def plan(self) -> dict[str, list[str]]:
        return choose(self.measured, self.settings.tolerance)

    @property
    def heads(self) -> list[Head]:
        return self.measured.heads

    def chosen(self, head: Head) -> str:
        return self.plan[head.name][head.head]

    @property
    def pieces(self) -> str:
        return pieces_of(self.reads)

    def fitting(self, spec: str) -> list[Head]:
        """The heads that can have it."""
        return [head for head in self.heads if spec in head.errors]

    @property
    def ranks(self) -> list[int]:
        """Those that leave something of a head's weights."""
        return [rank for rank in self.settings.ranks if self.ranked(rank)]

    def ranked(self, rank: int) -> list[Head]:
        """Heads with more queries and keys than that."""
        return [head for head in self.heads if rank in head.ranks and rank < head.rank_tokens]

    def tried(self, head: Head) -> list[str]:
        return [spec for spec in self.specs if spec in head.errors]

    def cost(self, spec: str, *heads: Head) -> float:
        """As a share of softmax's."""
        exact = sum(head.cost(SOFTMAX) for head in heads)
        return sum(head.cost(spec) for head in heads) / exact

    def cheaper(self, head: Head) -> list[str]:
        """The mechanisms that save something on this head."""
        return [spec for spec in self.tried(head) if self.cost(spec, head) < 1]

    def outcome(self, name: str) -> Outcome:
        return next(each for each in self.outcomes if each.name == name)


def pieces_of(reads: str, count: int = 2) -> str:
    """What is read at once."""
    return ("windows" if reads == TEXT else reads)[: -1 if count == 1 else None]


def findings(found: Found) -> list[str]:
    s, heads = found.settings, found.heads
    kept = [head for head in heads if found.chosen(head) != SOFTMAX]
    share = plan_cost(found.plan, found.measured)
    used = sorted({found.chosen(head) for head in kept})
    even = sum(head.error(UNIFORM) <= s.tolerance for head in heads)
    told = [
        f"Within an error of {s.tolerance:.0%}, {len(kept)} of {len(heads)} heads can do with "
        f"something cheaper than softmax at {found.measured.size}"
        + (f" ({joined(used)}); attention then takes {share:.0%} of its products." if kept else ".")
    ]
    told.append(
        f"Uniform weights, the control, are within it on {even} head{'' if even == 1 else 's'}: "
        f"{'there nothing is looked for' if even else 'every head looks for something'}."
    )
    if not kept:
        best = min(
            ((head.error(spec), spec) for head in heads for spec in found.cheaper(head)),
            default=None,
        )
        if best is not None:
            told.append(
                f"The closest of those cheaper than softmax is {best[1]}, with an error of "
                f"{number(best[0])}."
            )
    told += [*_checked(found, bool(kept)), *_random_words(found)]
    told += [_rank_words(found, rank) for rank in found.ranks]
    return told


def _checked(found: Found, replaced: bool) -> list[str]:
    own = found.outcome("as it is")
    after = found.outcome(f"within {found.settings.tolerance:g}")
    others = [f"{each.name} {_signed(each.worse.value)}" for each in found.outcomes if each.control]
    told = [f"What the {found.measure} would be with less: {'; '.join(others)}."]
    if replaced:
        told = [
            f"Checked on {found.reads} that nothing was chosen on: the {found.measure} goes from "
            f"{own.score.value:.4g} to {after.score.value:.4g} ({change(after.worse)}). "
            f"Controls: {'; '.join(others)}."
        ]
        if not any(each.name.endswith(BY_CHANCE) for each in found.outcomes):
            told.append(
                "The same mechanisms on heads by chance would be what was chosen, so this control "
                "is left out."
            )
    controls = [each for each in found.outcomes if each.control]
    return [*told, *verdict(after, controls, found.reads)]


def verdict(chosen: Outcome, controls: Sequence[Outcome], reads: str = TEXT) -> list[str]:
    """Controls must do worse than what was chosen, or the check has shown nothing."""
    gaps = {each.name: each.worse_than(chosen.scores) for each in controls}
    if len(chosen.scores) == 1 and gaps:
        gaps = {name: Estimate(gap.value, -math.inf, math.inf) for name, gap in gaps.items()}
    passed = [name for name, gap in gaps.items() if gap.value <= 0]
    unsure = [name for name, gap in gaps.items() if gap.value > 0 >= gap.ends[0]]
    if not passed and not unsure:
        return ["All controls do worse than what was chosen, as they must."] if controls else []
    told = []
    if passed:
        told.append(
            f"A control did no worse than what was chosen ({joined(passed)}): "
            f"{'this text' if reads == TEXT else 'these images'} cannot tell whether the choice is "
            "right."
        )
    if unsure:
        told.append(
            f"Worse than what was chosen, but not surely so over {len(chosen.scores)} "
            f"{pieces_of(reads, len(chosen.scores))}: "
            f"{joined(unsure)}; more --windows would tell."
        )
    return told


def _random_words(found: Found) -> list[str]:
    """Whether random features find more than doing nothing does."""
    told = []
    for family in ("favor", "fourier"):
        specs = [spec for spec in found.specs if name_of(spec) == family]
        if specs:
            better = sum(
                min(head.error(spec) for spec in specs) < head.error(UNIFORM)
                for head in found.fitting(specs[0])
            )
            told.append(f"{family} on {better}")
    if not told:
        return []
    return [
        f"Random features are nearer than uniform weights, of {len(found.heads)} heads: "
        f"{joined(told)}."
    ]


def _rank_words(found: Found, rank: int) -> str:
    heads = found.ranked(rank)
    ranked = [head.ranks[rank] for head in heads]
    weights, output = (statistics.median(each[i] for each in ranked) for i in (0, 1))
    within = sum(each[1] <= found.settings.tolerance for each in ranked)
    return (
        f"The best projection of rank {rank} that is possible leaves, over "
        f"{'all' if len(heads) == len(found.heads) else f'{len(heads)} longer'} heads, a median "
        f"of {weights:.0%} of the weights and {output:.0%} of the output, and is within the "
        f"tolerance on {within} of them; a low-rank mechanism can come near it only if it learns it"
        f"{', and none is causal' if all(head.causal for head in found.heads) else ''}."
    )


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def change(figure: Estimate) -> str:
    """With half of its interval, in as many digits as tell."""
    if figure.high is None:
        return _signed(figure.value)
    return f"{_signed(figure.value)} ± {figure.high - figure.value:.2g}".replace("-", "−")


def advice(found: Found) -> list[str]:
    """Layer by layer; layers in which all heads need softmax together."""
    parts = found.measured.parts
    lines = []
    for part, layers in parts.items():
        name = "Layer" if len(parts) == 1 else f"{part.capitalize()} layer"
        lines += _part_advice(found, name, layers)
    return lines


def _part_advice(found: Found, name: str, layers: Sequence[str]) -> list[str]:
    lines, whole = [], []
    for layer in layers:
        heads, place = found.measured.of(layer), found.measured.number(layer)
        groups = {spec: [h.head for h in heads if found.chosen(h) == spec] for spec in found.specs}
        exact = [h.head for h in heads if found.chosen(h) == SOFTMAX]
        if len(exact) == len(heads):
            whole.append(place)
            continue
        told = [f"{_places('head', at)}: {spec}" for spec, at in groups.items() if at]
        if exact:
            needs = "need" if len(exact) > 1 else "needs"
            told.append(f"{_places('head', exact)} {needs} softmax")
        lines.append(f"{name} {place}: {'; '.join(told)}.")
    if whole:
        at = f"within {found.settings.tolerance:g}, at {found.measured.size}"
        lines.append(f"{_places(name, whole)}: all heads need softmax ({at}).")
    return lines


def _places(what: str, places: Sequence[int]) -> str:
    """heads 0, 2-4"""
    runs = []
    for _, group in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        at = [place for _, place in group]
        runs.append(f"{at[0]}" if len(at) == 1 else f"{at[0]}-{at[-1]}")
    return f"{what}{'s' * (len(places) > 1)} {', '.join(runs)}"
