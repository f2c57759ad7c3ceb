"""What was measured of a model's heads, and what that means, in three sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlab._confidence_intervals import Estimate, number
from attnlab._number_words import joined
from attnlab.heads._assignment import BY_CHANCE, SOFTMAX, Outcome, choose, plan_cost
from attnlab.heads._measured_heads import Head, Measured
from attnlab.heads._model_reader import TEXT, Reader
from attnlab.heads._settings import HeadSettings


@dataclass(frozen=True)
class Results:
    """All that the report is made from."""

    reader: Reader
    measured: Measured
    specs: Sequence[str]
    outcomes: Sequence[Outcome]
    settings: HeadSettings

    @cached_property
    def plan(self) -> dict[str, list[str]]:
        return choose(self.measured, self.settings.tolerance)

    @property
    def heads(self) -> list[Head]:
        return self.measured.heads

    def chosen(self, head: Head) -> str:
        return self.plan[head.name][head.head]

    def fitting(self, spec: str) -> list[Head]:
        """The heads that can have it."""
        return [head for head in self.heads if spec in head.errors]

    def ranked(self, rank: int) -> list[Head]:
        """Heads with more queries and keys than that."""
        return [head for head in self.heads if rank in head.ranks and rank < head.rank_tokens]

    @property
    def ranks(self) -> list[int]:
        """Those that leave something of a head's weights."""
        return [rank for rank in self.settings.ranks if self.ranked(rank)]

    def tried(self, head: Head) -> list[str]:
        return [spec for spec in self.specs if spec in head.errors]

    def cost(self, spec: str, *heads: Head) -> float:
        """As a share of softmax's."""
        exact = sum(head.cost(SOFTMAX) for head in heads)
        return sum(head.cost(spec) for head in heads) / exact

    def closest(self, head: Head) -> tuple[float, str] | None:
        """The least error of the mechanisms that save something on this head."""
        cheaper = (spec for spec in self.tried(head) if self.cost(spec, head) < 1)
        return min(((head.error(spec), spec) for spec in cheaper), default=None)

    def outcome(self, name: str) -> Outcome:
        return next(each for each in self.outcomes if each.name == name)


def findings(found: Results) -> list[str]:
    """How many heads can be replaced, what the model's loss then is, and whether controls fail."""
    tolerance, heads, size = found.settings.tolerance, found.heads, found.measured.size
    replaced = [head for head in heads if found.chosen(head) != SOFTMAX]
    first = (
        f"Within an error of {tolerance:.0%}, {len(replaced)} of {len(heads)} heads can do with "
        f"something cheaper than softmax at {size}"
    )
    if replaced:
        used = joined(sorted({found.chosen(head) for head in replaced}))
        share = plan_cost(found.plan, found.measured)
        first += f" ({used}); attention then takes {share:.0%} of its products."
    else:
        best = min((each for each in map(found.closest, heads) if each), default=None)
        first += f". The closest is {best[1]}, with an error of {number(best[0])}." if best else "."
    return list(filter(None, [first, *_checked(found, bool(replaced))]))


def _checked(found: Results, replaced: bool) -> list[str]:
    reader, after = found.reader, found.outcome(f"within {found.settings.tolerance:g}")
    controls = [each for each in found.outcomes if each.control]
    judged = verdict(after, controls, reader.reads)
    if not replaced:
        return [judged]
    if not any(each.name.endswith(BY_CHANCE) for each in controls):
        judged += (
            " The same mechanisms on heads by chance are the same plan, so this control is left "
            "out."
        )
    own = found.outcome("as it is")
    return [
        f"Checked on {reader.reads} that nothing was chosen on: the {reader.measure} goes from "
        f"{own.score.value:.4g} to {after.score.value:.4g} ({change(after.worse)}).",
        judged.strip(),
    ]


def verdict(chosen: Outcome, controls: Sequence[Outcome], reads: str = TEXT) -> str:
    """Controls must do worse than what was chosen, or the check has shown nothing."""
    gaps = {each.name: each.worse_than(chosen.scores) for each in controls}
    windows, sentences = len(chosen.scores), []
    passed = [name for name, gap in gaps.items() if gap.value <= 0]
    unsure = [
        name for name, gap in gaps.items() if gap.value > 0 and (windows == 1 or gap.ends[0] <= 0)
    ]
    if passed:
        sentences.append(
            f"A control did no worse than what was chosen ({joined(passed)}): "
            f"{'this text' if reads == TEXT else 'these images'} cannot tell whether the choice is "
            "right."
        )
    if unsure:
        sentences.append(
            f"Worse than what was chosen, but not surely so over {windows} "
            f"{pieces_of(reads, windows)}: {joined(unsure)}; more --windows would tell."
        )
    if controls and not sentences:
        sentences.append("All controls do worse than what was chosen, as they must.")
    return " ".join(sentences)


def pieces_of(reads: str, count: int = 2) -> str:
    """What is read at once."""
    return ("windows" if reads == TEXT else reads)[: -1 if count == 1 else None]


def change(figure: Estimate) -> str:
    """With half of its interval, in as many digits as count."""
    half = "" if figure.high is None else f" ± {figure.high - figure.value:.2g}"
    return f"{figure.value:+.3g}{half}".replace("-", "−")
