"""A comparison as a report: verdicts, the best setting of each contender, curves, all runs."""

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
    displayed_sweep_value,
)
from attnlab.compare._runs import Attempt, Failure
from attnlab.compare._training_curves import curve_figures
from attnlab.report import Block, Cell, Figure, Lines, Report, Section, Series, Table
from attnlab.tasks.comparison import Comparison, Metric, TrainingBudget

SENTENCES = {
    MATCHES: "{contender} matches {against}",
    WORSE: "{contender} is worse than {against}",
    BETTER: "{contender} is better than {against}",
}
UNDECIDED_SENTENCE = "It is undecided whether {contender} matches {against}"


def comparison_report(
    comparison: Comparison,
    budget: TrainingBudget,
    planned: int,
    attempts: Sequence[Attempt],
    conclusions: Conclusions,
) -> Report:
    findings = [
        *_leader_sentence(comparison, conclusions),
        *_verdict_sentences(comparison, conclusions),
        *_crossover_sentences(comparison, conclusions),
        *_failure_sentences(attempts),
    ]
    if len(attempts) < planned:
        findings.append(f"{len(attempts)} of {planned} runs are done; --resume continues.")
    ranking_metric = comparison.metrics[0]
    methods = [f"Every run had {budget}. {comparison.describe()}".strip()]
    if conclusions.differences:
        methods.append(
            f"Two match if the 95% interval of their difference in {ranking_metric.title} lies "
            f"between {_format_signed(-comparison.margin, ranking_metric)} and "
            f"{_format_difference(Estimate(comparison.margin), ranking_metric)}."
        )
    blocks: list[Block] = [
        *_sweep_figures(comparison, conclusions),
        _best_table(comparison, conclusions),
    ]
    if conclusions.differences and comparison.sweep:
        blocks.append(_difference_table(comparison, conclusions))
    curves = [] if comparison.sweep else curve_figures(comparison, attempts, conclusions)
    sections = [
        Section("result", "Result", findings=[*findings, *methods], blocks=blocks),
        *([Section("curves", "During training", blocks=curves)] if curves else []),
        Section("runs", "All runs", blocks=[_run_table(comparison, attempts)]),
    ]
    return Report("comparison", comparison.title, sections)


def _leader_sentence(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """The best contender; for a sweep the best at its last value."""
    ranking_metric = comparison.metrics[0]
    last = [best for best in conclusions.best if best.place == conclusions.best[-1].place]
    if len(last) < 2:
        return []
    first, second = sorted(last, key=lambda best: _rank(best, ranking_metric))[:2]
    if _rank(first, ranking_metric) == _rank(second, ranking_metric):
        return []
    value = _format_estimate(first.metrics[ranking_metric.name], ranking_metric)
    return [
        f"{first.contender} did best{_where(comparison, first)}: {ranking_metric.title} {value}."
    ]


def _rank(best: BestSetting, metric: Metric) -> float:
    value = best.metrics[metric.name].value
    return -value if metric.better == "higher" else value


def _where(comparison: Comparison, row: BestSetting | Difference) -> str:
    return "" if row.place is None else f" with {row.place:,.0f} {comparison.sweep}"


def _verdict_sentences(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """One sentence for each contender; for a sweep at its last value (a table has the others)."""
    last = {difference.contender: difference for difference in conclusions.differences}
    sentences = []
    for difference in last.values():
        text = SENTENCES.get(difference.verdict, UNDECIDED_SENTENCE).format(
            contender=difference.contender, against=difference.against
        )
        differences = ", ".join(
            f"{metric.title} {_format_difference(difference.metrics[metric.name], metric)}"
            for metric in comparison.metrics
        )
        count = difference.seeds
        seeds = f"over {count} seeds" if count > 1 else "with 1 seed, so no interval"
        text = f"{text}{_where(comparison, difference)}: {differences}, {seeds}."
        if difference.verdict == UNLEARNED:
            name = (conclusions.baseline or ("", {}))[0]
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
            text = f"{pair} cross at about {listed} {comparison.sweep}"
        elif crossover["ahead"] is None:
            text = f"{pair} end level"
        else:
            text = f"{pair} do not cross: {crossover['ahead']} is ahead"
        if crossover["low"] is not None:
            last = "last " if len(crossover["places"]) > 1 else ""
            text += (
                f". Of random samples from the spread of the seeds {crossover['share']:.0%} cross; "
                f"the 95% interval of the {last}crossing is {crossover['low']:,.0f} to "
                f"{crossover['high']:,.0f} {comparison.sweep}"
            )
        elif crossover["share"] is not None:
            text += ". Of random samples from the spread of the seeds none cross"
        sentences.append(f"{text}.")
    return sentences


def _failure_sentences(attempts: Sequence[Attempt]) -> list[str]:
    failed = [attempt for attempt in attempts if isinstance(attempt, Failure)]
    if not failed:
        return []
    names = join_words(list(dict.fromkeys(failure.trial.variant for failure in failed)))
    count = "1 run" if len(failed) == 1 else f"{len(failed)} runs"
    return [
        f"{count} failed and could not be measured: {names}. The table of all runs has the reasons."
    ]


def _format_metric(value: float, metric: Metric) -> str:
    return format_number(value, metric.percent)


def _format_whole(value: float | None) -> str | None:
    """A whole number with all its digits, which the page would round."""
    return None if value is None else f"{value:,.0f}"


def _format_estimate(estimate: Estimate, metric: Metric) -> str:
    if estimate.low is None or estimate.high is None:
        return _format_metric(estimate.value, metric)
    ends = " to ".join(_format_metric(end, metric) for end in _ends(estimate, metric))
    return f"{_format_metric(estimate.value, metric)} ({ends})"


def _format_difference(estimate: Estimate, metric: Metric, interval: str = "95% interval ") -> str:
    """A difference with its interval; fractions in percentage points."""
    value = _format_signed(estimate.value, metric) + (" points" if metric.percent else "")
    if estimate.low is None or estimate.high is None:
        return value
    ends = " to ".join(_format_signed(end, metric) for end in estimate.ends)
    return f"{value} ({interval}{ends})"


def _format_signed(value: float, metric: Metric) -> str:
    return f"{'+' if value > 0 else ''}{_format_metric(value, metric).removesuffix('%')}"


def _best_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    """Each contender at its best setting, sorted from the best, then the baseline."""
    ranking_metric = comparison.metrics[0]
    rows: list[list[Cell]] = [
        [
            *([_format_whole(best.place)] if comparison.sweep else []),
            best.variant,
            best.rate,
            best.seeds,
            *(_format_estimate(best.metrics[metric.name], metric) for metric in comparison.metrics),
            _format_whole(best.parameters),
            _format_whole(best.steps),
            round(best.minutes, 2),
        ]
        for best in sorted(
            conclusions.best, key=lambda best: (best.place or 0, _rank(best, ranking_metric))
        )
    ]
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    header = [*sweep, "mechanism", "rate", "seeds", *titles, "parameters", "steps", "minutes"]
    if conclusions.baseline is not None:
        name, metrics = conclusions.baseline
        cells = [
            _format_metric(metrics[metric.name], metric) if metric.name in metrics else None
            for metric in comparison.metrics
        ]
        rows.append([*([None] if sweep else []), name, None, None, *cells, None, None, None])
    note = "Means over seeds with their 95% intervals, on test data."
    if any(best.seeds == 1 and best.metrics[ranking_metric.name].low is not None
           for best in conclusions.best):  # fmt: skip
        note = "On test data. With one seed the interval covers only the test examples."
    note += " rate: factor of the task's learning rates."
    return Table(
        "Best setting of each",
        header,
        rows,
        note,
        drop=("rate", "seeds", "steps", "minutes", "parameters"),
    )


def _difference_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    metric = comparison.metrics[0]

    def row(difference: Difference) -> list[Cell]:
        text = _format_difference(difference.metrics[metric.name], metric, "")
        return [_format_whole(difference.place), difference.contender, text, difference.verdict]

    against = conclusions.contenders[0]
    return Table(
        f"Difference from {against} in {metric.title}",
        [comparison.sweep, "mechanism", "difference", "verdict"],
        [row(difference) for difference in conclusions.differences],
        "Mean over seeds with its 95% interval.",
        drop=("verdict",),
    )


def _run_table(comparison: Comparison, attempts: Sequence[Attempt]) -> Table:
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    failed = any(isinstance(attempt, Failure) for attempt in attempts)

    def row(attempt: Attempt) -> list[Cell]:
        trial = attempt.trial
        value = displayed_sweep_value(comparison, trial)
        start: list[Cell] = [*([_format_whole(value)] if sweep else []), trial.variant]
        start += [trial.rate, trial.seed]
        if isinstance(attempt, Failure):
            return [*start, *[None] * (len(titles) + 3), attempt.problem]
        outcome = attempt.outcome
        return [
            *start,
            *(
                _format_metric(outcome.metrics[metric.name], metric)
                for metric in comparison.metrics
            ),
            _format_metric(outcome.validation, comparison.metrics[0]),
            _format_whole(outcome.steps),
            round(outcome.minutes, 2),
            *([None] if failed else []),
        ]

    header = [*sweep, "mechanism", "rate", "seed", *titles, "validation", "steps", "minutes"]
    title = comparison.metrics[0].title
    return Table(
        "Runs",
        [*header, *(["problem"] if failed else [])],
        [row(attempt) for attempt in attempts],
        f"validation: {title} on validation data, which chooses the best setting.",
        drop=("minutes", "rate", "steps", "validation"),
    )


def _sweep_figures(comparison: Comparison, conclusions: Conclusions) -> list[Figure]:
    """The first metric over the sweep."""
    if not comparison.sweep or len({best.place for best in conclusions.best}) < 2:
        return []
    metric = comparison.metrics[0]
    series = []
    for name in conclusions.contenders:
        rows = [best for best in conclusions.best if best.contender == name]
        points = [(float(best.place or 0), best.metrics[metric.name].value) for best in rows]
        series.append(
            Series(
                name,
                points,
                [_ends(best.metrics[metric.name], metric) for best in rows],
                error_bars=True,
            )
        )
    plot = Lines(comparison.sweep, metric.title, series, x_log=True, y_percent=metric.percent)
    return [Figure(f"{metric.title} over {comparison.sweep}", plot)]


def _ends(estimate: Estimate, metric: Metric) -> tuple[float, float]:
    """The interval, cut at 0 and 1 for a fraction."""
    low, high = estimate.ends
    return (max(0.0, low), min(1.0, high)) if metric.percent else (low, high)
