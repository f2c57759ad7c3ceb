"""The sentences of a comparison's report, and how it writes numbers."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab._confidence_intervals import Estimate, format_number
from attnlab._join_words import join_words
from attnlab.compare._conclusions import (
    BETTER,
    MATCHES,
    UNLEARNED,
    WORSE,
    BestSetting,
    Conclusions,
    Difference,
)
from attnlab.compare._runs import Attempt, Failure
from attnlab.tasks.comparison import Comparison, Metric

UNEQUAL = 0.02  # numbers of parameters that differ by more are reported
SENTENCES = {
    MATCHES: "{contender} matches {against}",
    WORSE: "{contender} is worse than {against}",
    BETTER: "{contender} is better than {against}",
}
UNDECIDED_SENTENCE = "It is undecided whether {contender} matches {against}"


def findings(
    comparison: Comparison, attempts: Sequence[Attempt], conclusions: Conclusions
) -> list[str]:
    """Sentences that follow from the numbers."""
    return [
        *_leader_sentence(comparison, conclusions),
        *_verdict_sentences(comparison, conclusions),
        *_crossover_sentences(comparison, conclusions),
        *_size_sentences(conclusions),
        *_failure_sentences(attempts),
    ]


def _leader_sentence(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """The best contender; for a sweep the best at its last value."""
    ranking_metric = comparison.metrics[0]
    last = [best for best in conclusions.best if best.place == conclusions.best[-1].place]
    if len(last) < 2:
        return []
    first, second = sorted(last, key=lambda best: rank(best, ranking_metric))[:2]
    if rank(first, ranking_metric) == rank(second, ranking_metric):
        return []
    value = format_estimate(first.metrics[ranking_metric.name], ranking_metric)
    return [
        f"{first.contender} did best{_where(comparison, first)}: {ranking_metric.title} {value}."
    ]


def rank(best: BestSetting, metric: Metric) -> float:
    value = best.metrics[metric.name].value
    return -value if metric.better == "higher" else value


def _where(comparison: Comparison, row: BestSetting | Difference) -> str:
    if row.place is None:
        return ""
    return f" with {comparison.with_sweep_title(format_place(row.place) or '')}"


def _verdict_sentences(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """One sentence for each contender; for a sweep at its last value (a table has the others)."""
    last = {difference.contender: difference for difference in conclusions.differences}
    sentences = []
    for difference in last.values():
        text = SENTENCES.get(difference.verdict, UNDECIDED_SENTENCE).format(
            contender=difference.contender, against=difference.against
        )
        differences = ", ".join(
            f"{metric.title} {format_difference(difference.metrics[metric.name], metric)}"
            for metric in comparison.metrics
        )
        count = difference.seeds
        seeds = f"over {count} seeds" if count > 1 else "with 1 seed, so no interval"
        text = f"{text}{_where(comparison, difference)}: {differences}, {seeds}."
        if difference.verdict == UNLEARNED:
            name = (conclusions.baseline_at(difference.place) or ("", {}))[0]
            text += (
                f" {difference.against} has not learned enough to compare with: it does not beat "
            )
            text += f"the baseline ({name})."
        sentences.append(text)
    return sentences


def _crossover_sentences(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    sentences = []
    for crossover in conclusions.crossovers:
        pair = f"The curves of {crossover['contender']} and {crossover['against']}"
        if crossover["places"]:
            listed = join_words([f"{value:,.0f}" for value in crossover["places"]])
            text = f"{pair} cross at about {comparison.with_sweep_title(listed)}"
        elif crossover["ahead"] is None:
            text = f"{pair} end level"
        else:
            text = f"{pair} do not cross: {crossover['ahead']} is ahead"
        if crossover["low"] is not None:
            last = "last " if len(crossover["places"]) > 1 else ""
            ends = " to ".join(f"{crossover[end]:,.0f}" for end in ("low", "high"))
            text += (
                f". Of random samples from the spread of the seeds {crossover['share']:.0%} cross; "
                f"the 95% interval of the {last}crossing is {comparison.with_sweep_title(ends)}"
            )
        elif crossover["share"] is not None:
            text += ". Of random samples from the spread of the seeds none cross"
        sentences.append(f"{text}.")
    return sentences


def _size_sentences(conclusions: Conclusions) -> list[str]:
    """Contenders whose number of parameters differs from that of the first; at the last value of a
    sweep."""
    last = {best.contender: best for best in conclusions.best}
    first = last.get(conclusions.contenders[0])
    if first is None:
        return []
    different = [
        f"{name} ({best.parameters / first.parameters - 1:+.0%})".replace("-", "−")
        for name, best in last.items()
        if abs(best.parameters / first.parameters - 1) > UNEQUAL
    ]
    if not different:
        return []
    listed = join_words(different)
    return [f"Compared with {first.contender}, these differ in parameters: {listed}."]


def _failure_sentences(attempts: Sequence[Attempt]) -> list[str]:
    failed = [attempt for attempt in attempts if isinstance(attempt, Failure)]
    if not failed:
        return []
    names = join_words(list(dict.fromkeys(failure.trial.variant for failure in failed)))
    count = "1 run" if len(failed) == 1 else f"{len(failed)} runs"
    return [
        f"{count} failed and could not be measured: {names}. The table of all runs has the reasons."
    ]


def format_metric(value: float, metric: Metric) -> str:
    return format_number(value, metric.percent)


def format_place(value: float | None) -> str | None:
    """A value of a sweep: a whole number with all its digits, or a short fraction."""
    if value is None:
        return None
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.3g}"


def format_whole(value: float | None) -> str | None:
    """A whole number with all its digits, which the page would round."""
    return None if value is None else f"{value:,.0f}"


def format_estimate(estimate: Estimate, metric: Metric) -> str:
    if estimate.low is None or estimate.high is None:
        return format_metric(estimate.value, metric)
    ends = " to ".join(format_metric(end, metric) for end in interval_ends(estimate, metric))
    return f"{format_metric(estimate.value, metric)} ({ends})"


def format_difference(estimate: Estimate, metric: Metric, interval: str = "95% interval ") -> str:
    """A difference with its interval; fractions in percentage points."""
    value = format_signed(estimate.value, metric) + (" points" if metric.percent else "")
    if estimate.low is None or estimate.high is None:
        return value
    ends = " to ".join(format_signed(end, metric) for end in estimate.ends)
    return f"{value} ({interval}{ends})"


def format_signed(value: float, metric: Metric) -> str:
    return f"{'+' if value > 0 else ''}{format_metric(value, metric).removesuffix('%')}"


def interval_ends(estimate: Estimate, metric: Metric) -> tuple[float, float]:
    """The interval, cut at 0 and 1 for a fraction."""
    low, high = estimate.ends
    return (max(0.0, low), min(1.0, high)) if metric.percent else (low, high)
