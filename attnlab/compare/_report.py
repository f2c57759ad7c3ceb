"""A comparison as a report: verdicts, the best setting of each contender, curves, all runs."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab._confidence_intervals import Estimate, number
from attnlab._number_words import joined
from attnlab.compare._conclusions import (
    BETTER,
    MATCHES,
    UNLEARNED,
    WORSE,
    Best,
    Conclusions,
    Difference,
    shown,
)
from attnlab.compare._runs import Attempt, Failure
from attnlab.compare._training_curves import curve_figures
from attnlab.report import Block, Cell, Figure, Lines, Report, Section, Series, Table
from attnlab.tasks.comparison import Budget, Comparison, Metric

SENTENCES = {
    MATCHES: "{contender} matches {against}",
    WORSE: "{contender} is worse than {against}",
    BETTER: "{contender} is better than {against}",
}
OPEN = "It is undecided whether {contender} matches {against}"


def comparison_report(
    comparison: Comparison,
    budget: Budget,
    planned: int,
    attempts: Sequence[Attempt],
    conclusions: Conclusions,
) -> Report:
    findings = [
        *_leader(comparison, conclusions),
        *_verdicts(comparison, conclusions),
        *_crossings(comparison, conclusions),
        *_failures(attempts),
    ]
    if len(attempts) < planned:
        findings.append(f"{len(attempts)} of {planned} runs are done; --resume continues.")
    decides = comparison.metrics[0]
    how = [f"Every run had {budget}. {comparison.describe()}".strip()]
    if conclusions.differences:
        how.append(
            f"Two match if the 95% interval of their difference in {decides.title} lies between "
            f"{_sign(-comparison.margin, decides)} and "
            f"{_signed(Estimate(comparison.margin), decides)}."
        )
    blocks: list[Block] = [
        *_sweep_figures(comparison, conclusions),
        _best_table(comparison, conclusions),
    ]
    if conclusions.differences and comparison.sweep:
        blocks.append(_difference_table(comparison, conclusions))
    curves = [] if comparison.sweep else curve_figures(comparison, attempts, conclusions)
    sections = [
        Section("result", "Result", findings=[*findings, *how], blocks=blocks),
        *([Section("curves", "During training", blocks=curves)] if curves else []),
        Section("runs", "All runs", blocks=[_run_table(comparison, attempts)]),
    ]
    return Report("comparison", comparison.title, sections)


def _leader(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """Who comes first; of a sweep at its last place."""
    decides = comparison.metrics[0]
    here = [each for each in conclusions.best if each.place == conclusions.best[-1].place]
    if len(here) < 2:
        return []
    first, second = sorted(here, key=lambda each: _rank(each, decides))[:2]
    if _rank(first, decides) == _rank(second, decides):
        return []
    value = _cell(first.metrics[decides.name], decides)
    return [f"{first.contender} did best{_where(comparison, first)}: {decides.title} {value}."]


def _rank(best: Best, metric: Metric) -> float:
    value = best.metrics[metric.name].value
    return -value if metric.better == "higher" else value


def _where(comparison: Comparison, at: Best | Difference) -> str:
    return "" if at.place is None else f" with {at.place:,.0f} {comparison.sweep}"


def _verdicts(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """One sentence for each contender; of a sweep for its last place, the table has the others."""
    last = {each.contender: each for each in conclusions.differences}
    sentences = []
    for each in last.values():
        text = SENTENCES.get(each.verdict, OPEN).format(
            contender=each.contender, against=each.against
        )
        differences = ", ".join(
            f"{metric.title} {_signed(each.metrics[metric.name], metric)}"
            for metric in comparison.metrics
        )
        seeds = f"over {each.seeds} seeds" if each.seeds > 1 else "with 1 seed, so no interval"
        text = f"{text}{_where(comparison, each)}: {differences}, {seeds}."
        if each.verdict == UNLEARNED:
            name = (conclusions.baseline or ("", {}))[0]
            text += f" {each.against} has not learned enough to compare with: it does not beat "
            text += f"the baseline ({name})."
        sentences.append(text)
    return sentences


def _crossings(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    sentences = []
    for each in conclusions.crossovers:
        pair = f"The curves of {each['contender']} and {each['against']}"
        if each["places"]:
            listed = joined([f"{place:,.0f}" for place in each["places"]])
            text = f"{pair} cross at about {listed} {comparison.sweep}"
        elif each["ahead"] is None:
            text = f"{pair} end level"
        else:
            text = f"{pair} do not cross: {each['ahead']} is ahead"
        if each["low"] is not None:
            last = " for the last time" if len(each["places"]) > 1 else ""
            text += (
                f". Of draws from the spread of the seeds {each['share']:.0%} cross, the middle "
                f"95% of them{last} between {each['low']:,.0f} and {each['high']:,.0f} "
                f"{comparison.sweep}"
            )
        elif each["share"] is not None:
            text += ". Of draws from the spread of the seeds none cross"
        sentences.append(f"{text}.")
    return sentences


def _failures(attempts: Sequence[Attempt]) -> list[str]:
    failed = [each for each in attempts if isinstance(each, Failure)]
    if not failed:
        return []
    names = joined(list(dict.fromkeys(each.trial.variant for each in failed)))
    count = "1 run" if len(failed) == 1 else f"{len(failed)} runs"
    return [f"{count} failed and could not be measured: {names}. The table of all runs says why."]


def _shown(value: float, metric: Metric) -> str:
    return number(value, metric.percent)


def _whole(value: float | None) -> str | None:
    """With all its digits, which a page would round."""
    return None if value is None else f"{value:,.0f}"


def _cell(estimate: Estimate, metric: Metric) -> str:
    if estimate.low is None or estimate.high is None:
        return _shown(estimate.value, metric)
    ends = " to ".join(_shown(end, metric) for end in _ends(estimate, metric))
    return f"{_shown(estimate.value, metric)} ({ends})"


def _signed(estimate: Estimate, metric: Metric, interval: str = "95% interval ") -> str:
    """A difference; of shares in percentage points."""
    value = _sign(estimate.value, metric) + (" points" if metric.percent else "")
    if estimate.low is None or estimate.high is None:
        return value
    ends = " to ".join(_sign(end, metric) for end in estimate.ends)
    return f"{value} ({interval}{ends})"


def _sign(value: float, metric: Metric) -> str:
    return f"{'+' if value > 0 else ''}{_shown(value, metric).removesuffix('%')}"


def _best_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    """Each contender at its best setting, the best first, then the baseline."""
    decides = comparison.metrics[0]
    rows: list[list[Cell]] = [
        [
            *([_whole(each.place)] if comparison.sweep else []),
            each.variant,
            each.rate,
            each.seeds,
            *(_cell(each.metrics[metric.name], metric) for metric in comparison.metrics),
            _whole(each.parameters),
            _whole(each.steps),
            round(each.minutes, 2),
        ]
        for each in sorted(
            conclusions.best,
            key=lambda each: (each.place or 0, _rank(each, decides)),
        )
    ]
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    header = [*sweep, "mechanism", "rate", "seeds", *titles, "parameters", "steps", "minutes"]
    if conclusions.baseline is not None:
        name, known = conclusions.baseline
        cells = [
            _shown(known[metric.name], metric) if metric.name in known else None
            for metric in comparison.metrics
        ]
        rows.append([*([None] if sweep else []), name, None, None, *cells, None, None, None])
    note = "Means over seeds with their 95% intervals, on test data."
    if any(each.seeds == 1 and each.metrics[decides.name].low is not None
           for each in conclusions.best):  # fmt: skip
        note = "On test data. The interval of one seed is that of the test examples alone."
    note += " rate multiplies the usual learning rates."
    return Table(
        "Best setting of each",
        header,
        rows,
        note,
        drop=("rate", "seeds", "steps", "minutes", "parameters"),
    )


def _difference_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    metric = comparison.metrics[0]

    def row(each: Difference) -> list[Cell]:
        difference = _signed(each.metrics[metric.name], metric, "")
        return [_whole(each.place), each.contender, difference, each.verdict]

    against = conclusions.contenders[0]
    return Table(
        f"Difference from {against} in {metric.title}",
        [comparison.sweep, "mechanism", "difference", "verdict"],
        [row(each) for each in conclusions.differences],
        "Mean over seeds with its 95% interval.",
        drop=("verdict",),
    )


def _run_table(comparison: Comparison, attempts: Sequence[Attempt]) -> Table:
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    failed = any(isinstance(each, Failure) for each in attempts)

    def row(each: Attempt) -> list[Cell]:
        trial = each.trial
        start: list[Cell] = [*([_whole(shown(comparison, trial))] if sweep else []), trial.variant]
        start += [trial.rate, trial.seed]
        if isinstance(each, Failure):
            return [*start, *[None] * (len(titles) + 3), each.problem]
        outcome = each.outcome
        return [
            *start,
            *(_shown(outcome.metrics[metric.name], metric) for metric in comparison.metrics),
            _shown(outcome.validation, comparison.metrics[0]),
            _whole(outcome.steps),
            round(outcome.minutes, 2),
            *([None] if failed else []),
        ]

    header = [*sweep, "mechanism", "rate", "seed", *titles, "validation", "steps", "minutes"]
    note = f"validation: {comparison.metrics[0].title} on validation data, by which settings are "
    return Table(
        "Runs",
        [*header, *(["problem"] if failed else [])],
        [row(each) for each in attempts],
        f"{note}chosen.",
        drop=("minutes", "rate", "steps", "validation"),
    )


def _sweep_figures(comparison: Comparison, conclusions: Conclusions) -> list[Figure]:
    """The deciding metric over the sweep."""
    if not comparison.sweep or len({each.place for each in conclusions.best}) < 2:
        return []
    metric = comparison.metrics[0]
    series = []
    for name in conclusions.contenders:
        mine = [each for each in conclusions.best if each.contender == name]
        points = [(float(each.place or 0), each.metrics[metric.name].value) for each in mine]
        series.append(
            Series(
                name,
                points,
                [_ends(each.metrics[metric.name], metric) for each in mine],
                error_bars=True,
            )
        )
    plot = Lines(comparison.sweep, metric.title, series, x_log=True, y_percent=metric.percent)
    return [Figure(f"{metric.title} over {comparison.sweep}", plot)]


def _ends(estimate: Estimate, metric: Metric) -> tuple[float, float]:
    """A share is never below 0 or above 1, whatever its interval says."""
    low, high = estimate.ends
    return (max(0.0, low), min(1.0, high)) if metric.percent else (low, high)
