"""The results of measuring a model's heads, and up to three sentences that sum them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlab._confidence_intervals import Estimate, format_number
from attnlab._join_words import join_words
from attnlab.heads._assignment import BY_CHANCE, SOFTMAX, PlanOutcome, choose_mechanisms, plan_cost
from attnlab.heads._measured_heads import Head, MeasuredHeads
from attnlab.heads._model_reader import TEXT, ModelReader
from attnlab.heads._settings import HeadSettings


@dataclass(frozen=True)
class HeadResults:
    """Everything that the report shows."""

    reader: ModelReader
    measured: MeasuredHeads
    specs: Sequence[str]
    outcomes: Sequence[PlanOutcome]
    settings: HeadSettings

    @cached_property
    def plan(self) -> dict[str, list[str]]:
        return choose_mechanisms(self.measured, self.settings.tolerance)

    @property
    def heads(self) -> list[Head]:
        return self.measured.heads

    def choice(self, head: Head) -> str:
        return self.plan[head.name][head.head]

    def heads_supporting(self, spec: str) -> list[Head]:
        """The heads that the mechanism can replace."""
        return [head for head in self.heads if spec in head.errors]

    def heads_above_rank(self, rank: int) -> list[Head]:
        """The heads with more queries and keys than this rank."""
        return [head for head in self.heads if rank in head.ranks and rank < head.rank_tokens]

    @property
    def ranks(self) -> list[int]:
        """The ranks below the number of tokens of some head."""
        return [rank for rank in self.settings.ranks if self.heads_above_rank(rank)]

    def supported_specs(self, head: Head) -> list[str]:
        return [spec for spec in self.specs if spec in head.errors]

    def relative_cost(self, spec: str, *heads: Head) -> float:
        """The cost as a fraction of softmax's."""
        exact = sum(head.cost(SOFTMAX) for head in heads)
        return sum(head.cost(spec) for head in heads) / exact

    def closest(self, head: Head) -> tuple[float, str] | None:
        """The least error of the mechanisms that are cheaper than softmax on this head."""
        cheaper = (
            spec for spec in self.supported_specs(head) if self.relative_cost(spec, head) < 1
        )
        return min(((head.error(spec), spec) for spec in cheaper), default=None)

    def outcome(self, name: str) -> PlanOutcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)


def findings(results: HeadResults) -> list[str]:
    """How many heads can be replaced, how the loss changes, and whether controls do worse."""
    tolerance, heads, size = (
        results.settings.tolerance,
        results.heads,
        results.measured.lengths_text,
    )
    replaced = [head for head in heads if results.choice(head) != SOFTMAX]
    first = (
        f"Within an error of {tolerance:.0%}, {len(replaced)} of {len(heads)} heads can use "
        f"something cheaper than softmax at {size}"
    )
    if replaced:
        used = join_words(sorted({results.choice(head) for head in replaced}))
        fraction = plan_cost(results.plan, results.measured)
        first += f" ({used}); attention then needs {fraction:.0%} of its multiplications."
    else:
        best = min(filter(None, map(results.closest, heads)), default=None)
        first += (
            f". The closest is {best[1]}, with an error of {format_number(best[0])}."
            if best
            else "."
        )
    return list(filter(None, [first, *_check_findings(results, bool(replaced))]))


def _check_findings(results: HeadResults, replaced: bool) -> list[str]:
    reader, after = results.reader, results.outcome(f"within {results.settings.tolerance:g}")
    controls = [outcome for outcome in results.outcomes if outcome.control]
    conclusion = control_verdict(after, controls, reader.reads)
    if not replaced:
        return [conclusion]
    if not any(control.name.endswith(BY_CHANCE) for control in controls):
        conclusion += (
            " The control of the same mechanisms on random heads is left out: it is the same plan."
        )
    before = results.outcome("as it is")
    increase = format_change(after.score_increase)
    return [
        f"Checked on other {reader.reads}: the {reader.measure} goes from "
        f"{before.score.value:.4g} to {after.score.value:.4g} ({increase}).",
        conclusion.strip(),
    ]


def control_verdict(choice: PlanOutcome, controls: Sequence[PlanOutcome], reads: str = TEXT) -> str:
    """Sentences on the controls: they must do worse than the choice, or the check shows nothing."""
    gaps = {control.name: control.increase_over(choice.scores) for control in controls}
    windows, sentences = len(choice.scores), []
    not_worse = [name for name, gap in gaps.items() if gap.value <= 0]
    uncertain = [
        name for name, gap in gaps.items() if gap.value > 0 and (windows == 1 or gap.ends[0] <= 0)
    ]
    if not_worse:
        sentences.append(
            f"A control did no worse than the choice ({join_words(not_worse)}): "
            f"{'this text' if reads == TEXT else 'these images'} cannot show whether the choice is "
            "right."
        )
    if uncertain:
        sentences.append(
            f"Worse than the choice, but within the uncertainty over {windows} "
            f"{unit_name(reads, windows)}: {join_words(uncertain)}; give more --windows."
        )
    if controls and not sentences:
        sentences.append("All controls do worse than the choice, as they must.")
    return " ".join(sentences)


def unit_name(reads: str, count: int = 2) -> str:
    """The word for what the model reads at once, in singular or plural."""
    return ("windows" if reads == TEXT else reads)[: -1 if count == 1 else None]


def format_change(difference: Estimate) -> str:
    """A difference with half the width of its interval: +0.003 ± 0.006."""
    half = "" if difference.high is None else f" ± {difference.high - difference.value:.2g}"
    return f"{difference.value:+.3g}{half}".replace("-", "−")
