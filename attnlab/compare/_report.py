"""A comparison as a report: verdicts, the best setting of each contender, curves, all runs."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab._confidence_intervals import Estimate
from attnlab.compare._conclusions import BestSetting, Conclusions, Difference, displayed_sweep_value
from attnlab.compare._findings import (
    findings,
    format_difference,
    format_estimate,
    format_metric,
    format_place,
    format_signed,
    format_whole,
    interval_ends,
    rank,
)
from attnlab.compare._runs import Attempt, ComparisonRun, Failure
from attnlab.compare._training_curves import curve_figures
from attnlab.report import (
    Block,
    Cell,
    Figure,
    Lines,
    Mark,
    Report,
    Section,
    Series,
    Table,
    Value,
)
from attnlab.tasks.comparison import Comparison, TrainingBudget


def comparison_report(
    comparison: Comparison,
    budget: TrainingBudget,
    planned: int,
    attempts: Sequence[Attempt],
    conclusions: Conclusions,
) -> Report:
    sentences = findings(comparison, attempts, conclusions)
    if len(attempts) < planned:
        sentences.append(f"{len(attempts)} of {planned} runs are done; --resume continues.")
    ranking_metric = comparison.metrics[0]
    methods = [f"Every run had {_spent(budget, attempts)}. {comparison.describe()}".strip()]
    if conclusions.differences:
        methods.append(
            f"Two match if the 95% interval of their difference in {ranking_metric.title} lies "
            f"between {format_signed(-comparison.margin, ranking_metric)} and "
            f"{format_difference(Estimate(comparison.margin), ranking_metric)}."
        )
    blocks: list[Block] = [
        *_sweep_figures(comparison, conclusions),
        *_state_figures(comparison, conclusions),
        _best_table(comparison, conclusions),
    ]
    if conclusions.differences and comparison.sweep_title:
        blocks.append(_difference_table(comparison, conclusions))
    curves = curve_figures(comparison, attempts, conclusions)
    sections = [
        Section("result", "Result", findings=[*sentences, *methods], blocks=blocks),
        *([Section("curves", "During training", blocks=curves)] if curves else []),
        Section(
            "runs",
            "All runs",
            blocks=[_run_table(comparison, attempts)],
            measurements=[measurement(comparison, attempt) for attempt in attempts],
        ),
    ]
    return Report("comparison", comparison.title, sections)


def _spent(budget: TrainingBudget, attempts: Sequence[Attempt]) -> str:
    """The budget; a run that learned its task may have ended before."""
    runs = [attempt for attempt in attempts if isinstance(attempt, ComparisonRun)]
    early = any(run.outcome.steps < (budget.steps or 0) for run in runs)
    return f"at most {budget}" if early else str(budget)


def _best_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    """Each contender at its best setting, sorted from the best, then the baseline."""
    ranking_metric = comparison.metrics[0]
    has_state = any(best.state_bytes is not None for best in conclusions.best)
    rows: list[list[Cell]] = [
        [
            *([format_place(best.place)] if comparison.sweep_title else []),
            best.variant,
            best.rate,
            best.seeds,
            *(format_estimate(best.metrics[metric.name], metric) for metric in comparison.metrics),
            format_whole(best.parameters),
            *([format_whole(best.state_bytes)] if has_state else []),
            format_whole(best.steps),
            round(best.minutes, 2),
        ]
        for best in sorted(
            conclusions.best, key=lambda best: (best.place or 0, rank(best, ranking_metric))
        )
    ]
    sweep = [comparison.sweep_title] if comparison.sweep_title else []
    titles = [metric.title for metric in comparison.metrics]
    sizes = ["parameters", *(["state bytes"] if has_state else [])]
    header = [*sweep, "mechanism", "rate", "seeds", *titles, *sizes, "steps", "minutes"]
    baselines = conclusions.baselines
    if conclusions.baseline is not None:
        baselines = [(None, *conclusions.baseline)]
    for place, name, metrics in baselines:
        cells = [
            format_metric(metrics[metric.name], metric) if metric.name in metrics else None
            for metric in comparison.metrics
        ]
        rest = [None] * (len(sizes) + 2)
        rows.append([*([format_place(place)] if sweep else []), name, None, None, *cells, *rest])
    note = "Means over seeds with their 95% intervals, on test data."
    if any(best.seeds == 1 and best.metrics[ranking_metric.name].low is not None
           for best in conclusions.best):  # fmt: skip
        note = "On test data. With one seed the interval covers only the test examples."
    note += " rate: factor of the task's learning rates."
    if has_state:
        note += " state bytes: the decoding state of one row after the longest test row."
    return Table(
        "Best setting of each",
        header,
        rows,
        note,
        drop=("rate", "seeds", "steps", "minutes", "parameters", "state bytes"),
    )


def _difference_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    metric = comparison.metrics[0]

    def row(difference: Difference) -> list[Cell]:
        text = format_difference(difference.metrics[metric.name], metric, "")
        return [format_place(difference.place), difference.contender, text, difference.verdict]

    against = conclusions.contenders[0]
    return Table(
        f"Difference from {against} in {metric.title}",
        [comparison.sweep_title, "mechanism", "difference", "verdict"],
        [row(difference) for difference in conclusions.differences],
        "Mean over seeds with its 95% interval.",
        drop=("verdict",),
    )


def _run_table(comparison: Comparison, attempts: Sequence[Attempt]) -> Table:
    sweep = [comparison.sweep_title] if comparison.sweep_title else []
    titles = [metric.title for metric in comparison.metrics]
    failed = any(isinstance(attempt, Failure) for attempt in attempts)

    def row(attempt: Attempt) -> list[Cell]:
        trial = attempt.trial
        value = displayed_sweep_value(comparison, trial)
        start: list[Cell] = [*([format_place(value)] if sweep else []), trial.variant]
        start += [trial.rate, trial.seed]
        if isinstance(attempt, Failure):
            return [*start, *[None] * (len(titles) + 3), attempt.problem]
        outcome = attempt.outcome
        return [
            *start,
            *(format_metric(outcome.metrics[metric.name], metric) for metric in comparison.metrics),
            format_metric(outcome.validation, comparison.metrics[0]),
            format_whole(outcome.steps),
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


def measurement(comparison: Comparison, attempt: Attempt) -> dict[str, Value]:
    """One run as a flat row, for CSV and JSON."""
    trial = attempt.trial
    row: dict[str, Value] = {"contender": trial.contender, "mechanism": trial.variant}
    sizes: dict[str, Value] = dict(trial.model)
    if swept := comparison.sweep_title:
        row[swept] = displayed_sweep_value(comparison, trial)
        if swept in sizes:  # equal states may change the swept width itself
            sizes[f"own {swept}"] = sizes.pop(swept)
    row |= {"rate": trial.rate, "seed": trial.seed, "run": trial.folder, **sizes}
    if isinstance(attempt, Failure):
        return {**row, "problem": attempt.problem}
    outcome = attempt.outcome
    row |= {metric.name: outcome.metrics[metric.name] for metric in comparison.metrics}
    row |= {"validation": outcome.validation, "parameters": outcome.parameters}
    row |= {"state_bytes": outcome.state_bytes, "steps": outcome.steps, "minutes": outcome.minutes}
    return row


def _sweep_figures(comparison: Comparison, conclusions: Conclusions) -> list[Figure]:
    """The first metric over the sweep."""
    if not comparison.sweep_title or len({best.place for best in conclusions.best}) < 2:
        return []
    values = [(best, float(best.place or 0)) for best in conclusions.best]
    name = comparison.metrics[0].name
    floors = {
        title: [
            (float(place or 0), metrics[name])
            for place, other, metrics in conclusions.baselines
            if other == title and name in metrics
        ]
        for _, title, _ in conclusions.baselines
    }
    series = [Series(title, points) for title, points in floors.items() if points]
    return [_metric_figure(comparison, conclusions, comparison.sweep_title, values, series)]


def _state_figures(comparison: Comparison, conclusions: Conclusions) -> list[Figure]:
    """The first metric over the size of the decoding state: how much memory buys how much."""
    sizes = [(best, float(best.state_bytes)) for best in conclusions.best if best.state_bytes]
    if len({size for _, size in sizes}) < 2:
        return []
    return [_metric_figure(comparison, conclusions, "bytes of decoding state", sizes)]


def _metric_figure(
    comparison: Comparison,
    conclusions: Conclusions,
    title: str,
    values: Sequence[tuple[BestSetting, float]],
    more: Sequence[Series] = (),
) -> Figure:
    """The first metric of each contender over these values, and more curves."""
    metric = comparison.metrics[0]
    series = []
    for name in conclusions.contenders:
        rows = [(best, value) for best, value in values if best.contender == name]
        rows.sort(key=lambda row: row[1])
        points = [(value, best.metrics[metric.name].value) for best, value in rows]
        bands = [interval_ends(best.metrics[metric.name], metric) for best, _ in rows]
        if points:
            series.append(Series(name, points, bands, error_bars=True))
    name, floor = conclusions.baseline or ("", {})
    marks = [Mark(name, y=floor[metric.name])] if metric.name in floor else []
    log = all(value > 0 for _, value in values)
    series += more
    plot = Lines(title, metric.title, series, x_log=log, y_percent=metric.percent, marks=marks)
    return Figure(f"{metric.title} over {title}", plot)
