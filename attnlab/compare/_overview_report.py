"""The overview as a report: a heat map of mechanisms and abilities, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnlab._confidence_intervals import Estimate, format_percent
from attnlab._join_words import join_words
from attnlab.compare._findings import format_estimate, format_metric
from attnlab.compare._plan import ComparisonResult
from attnlab.compare._report import measurement
from attnlab.compare._runs import Failure
from attnlab.report import Cell, Figure, Heatmap, Report, Section, Table, Value
from attnlab.tasks.comparison import Metric

SOLVED = 0.95
NEAR_CHANCE = 0.2
"""How far the interval of a mechanism that guesses may reach, from chance (0) to perfect (1)."""


@dataclass(frozen=True)
class OverviewCell:
    """One mechanism on one ability: its estimate, or why there is none."""

    mechanism: str
    ability: str
    metric: Metric
    chance: float | None
    estimate: Estimate | None
    problem: str = ""
    waiting: bool = False
    seeds: int = 1

    @property
    def spread(self) -> str:
        """Why the interval is wide."""
        return "seeds differ" if self.seeds > 1 else "few test rows"

    @property
    def text(self) -> str:
        if self.estimate is None:
            return "not trained yet" if self.waiting else f"failed: {self.problem}"
        return format_estimate(self.estimate, self.metric)

    def describe(self) -> dict[str, Any]:
        """The cell as plain data, for JSON."""
        estimate = None if self.estimate is None else asdict(self.estimate)
        names = {"mechanism": self.mechanism, "ability": self.ability, "metric": self.metric.name}
        return {**names, "estimate": estimate, "chance": self.chance, "problem": self.problem}

    @property
    def verdict(self) -> str:
        """solved, chance, undecided (the interval reaches from chance to far above), partly, or
        other for a metric that is no fraction."""
        if self.estimate is None:
            return "waiting" if self.waiting else "failed"
        if not self.metric.percent:
            return "other"
        if self.estimate.value >= SOLVED:
            return "solved"
        low, high = self.estimate.ends
        if self.chance is None or low > self.chance:
            return "partly"
        near = high <= self.chance + NEAR_CHANCE * (1 - self.chance)
        return "chance" if near else "undecided"


def create_cells(
    attention: Sequence[str], results: Mapping[str, ComparisonResult]
) -> list[list[OverviewCell]]:
    """A row for each mechanism, with a cell for each ability."""
    return [
        [_cell(name, ability, result) for ability, result in results.items()] for name in attention
    ]


def overview_report(
    attention: Sequence[str], results: Mapping[str, ComparisonResult], quick: bool
) -> Report:
    cells = create_cells(attention, results)
    done = sum(len(result.attempts) for result in results.values())
    planned = sum(len(result.trials) for result in results.values())
    findings = [_sentence(row) for row in cells]
    if done < planned:
        findings.append(f"{done} of {planned} runs are done; --resume continues.")
    findings.append(_method(results, quick))
    measurements: list[dict[str, Value]] = [
        {"ability": ability, **measurement(result.comparison, attempt)}
        for ability, result in results.items()
        for attempt in result.attempts
    ]
    section = Section(
        "overview",
        "What each mechanism can do",
        findings=findings,
        blocks=[_heatmap(cells), _table(cells)],
        measurements=measurements,
    )
    details = [_problems(cells)] if any(cell.problem for row in cells for cell in row) else []
    sections = [section, *details, *_sizes(attention, results)]
    return Report("overview", "Attention mechanisms compared: abilities", sections)


def _cell(name: str, ability: str, result: ComparisonResult) -> OverviewCell:
    metric = result.comparison.metrics[0]
    baseline = result.conclusions.baseline
    chance = None if baseline is None else baseline[1].get(metric.name)
    best = [best for best in result.conclusions.best if best.contender == name]
    attempts = [attempt for attempt in result.attempts if attempt.trial.contender == name]
    failures = [attempt.problem for attempt in attempts if isinstance(attempt, Failure)]
    return OverviewCell(
        name,
        ability,
        metric,
        chance,
        best[-1].metrics[metric.name] if best else None,
        problem=failures[0] if failures else "",
        waiting=not attempts,
        seeds=best[-1].seeds if best else 0,
    )


def _sentence(cells: Sequence[OverviewCell]) -> str:
    """What follows from the numbers of one mechanism."""
    by_verdict: dict[str, list[OverviewCell]] = {}
    for cell in cells:
        by_verdict.setdefault(cell.verdict, []).append(cell)
    parts = []
    if "solved" in by_verdict:
        parts.append(f"solves {join_words([cell.ability for cell in by_verdict['solved']])}")
    if "partly" in by_verdict:
        listed = [
            f"{cell.ability} ({format_percent(cell.estimate.value)})"
            for cell in by_verdict["partly"]
            if cell.estimate is not None
        ]
        parts.append(f"learns a part of {join_words(listed)}")
    if "undecided" in by_verdict:
        listed = [
            f"{cell.ability} ({format_percent(cell.estimate.value)}, {cell.spread})"
            for cell in by_verdict["undecided"]
            if cell.estimate is not None
        ]
        parts.append(f"is undecided on {join_words(listed)}")
    if "chance" in by_verdict:
        listed = [cell.ability for cell in by_verdict["chance"]]
        parts.append(f"does not beat guessing on {join_words(listed)}")
    if "other" in by_verdict:
        listed = [
            f"{format_metric(cell.estimate.value, cell.metric)} ({cell.metric.title}) on "
            f"{cell.ability}"
            for cell in by_verdict["other"]
            if cell.estimate is not None
        ]
        parts.append(f"reaches {join_words(listed)}")
    if "failed" in by_verdict:
        parts.append(f"failed on {join_words([cell.ability for cell in by_verdict['failed']])}")
    if "waiting" in by_verdict:
        waiting = [cell.ability for cell in by_verdict["waiting"]]
        parts.append(f"is not trained on {join_words(waiting)} yet")
    return f"{cells[0].mechanism} {join_words(parts)}."


def _method(results: Mapping[str, ComparisonResult], quick: bool) -> str:
    seeds = {trial.seed for result in results.values() for trial in result.trials}
    intervals = "over seeds" if len(seeds) > 1 else "over the test rows, from one seed"
    budgets = join_words([f"{name} {result.budget}" for name, result in results.items()])
    shorter = " This is the quick variant: longer training may change the picture." if quick else ""
    return (
        f"Solved means at least {SOLVED:.0%}. Intervals are 95%, {intervals}. Budget of each run: "
        f"{budgets}.{shorter}"
    )


def _heatmap(cells: Sequence[Sequence[OverviewCell]]) -> Figure:
    columns = list(zip(*cells, strict=True))
    scores = [_scores(column) for column in columns]
    chances = [column[0].chance if column[0].metric.percent else None for column in columns]
    plot = Heatmap(
        "ability",
        "mechanism",
        "score",
        [cell.ability for cell in cells[0]],
        [*(row[0].mechanism for row in cells), "chance"],
        [
            *([column[i] for column in scores] for i in range(len(cells))),
            [None if chance is None else round(chance, 3) for chance in chances],
        ],
        texts=[*([cell.text for cell in row] for row in cells), _chances(cells[0])],
        written=True,
    )
    note = "The score is the accuracy. An empty cell has no result; the table says why."
    if any(not cell.metric.percent for cell in cells[0]):
        note += " For a task whose metric is no fraction, the score is its ratio to the best."
    return Figure("Mechanisms and abilities", plot, note, in_table=True)


def _scores(column: Sequence[OverviewCell]) -> list[float | None]:
    """Accuracies; for other metrics the ratio to the best, which is 1."""
    values = [None if cell.estimate is None else cell.estimate.value for cell in column]
    metric = column[0].metric
    known = [value for value in values if value is not None]
    if metric.percent or not known:
        return [None if value is None else round(value, 3) for value in values]
    if metric.better == "higher":
        return [None if value is None else round(value / (max(known) or 1), 3) for value in values]
    return [None if value is None else round(min(known) / (value or 1), 3) for value in values]


def _table(cells: Sequence[Sequence[OverviewCell]]) -> Table:
    rows: list[list[Cell]] = [[row[0].mechanism, *(_short(cell) for cell in row)] for row in cells]
    rows.append(["chance", *_chances(cells[0])])
    titles = [
        cell.ability if cell.metric.percent else f"{cell.ability}: {cell.metric.title}"
        for cell in cells[0]
    ]
    return Table("Accuracy of each mechanism", ["mechanism", *titles], rows)


def _chances(cells: Sequence[OverviewCell]) -> list[str]:
    """The chance level of each ability; a dash for a task without one."""
    return [
        "–" if cell.chance is None else format_metric(cell.chance, cell.metric) for cell in cells
    ]


def _short(cell: OverviewCell) -> str:
    return "failed" if cell.verdict == "failed" else cell.text


def _problems(cells: Sequence[Sequence[OverviewCell]]) -> Section:
    rows: list[list[Cell]] = [
        [cell.mechanism, cell.ability, cell.problem]
        for row in cells
        for cell in row
        if cell.problem
    ]
    table = Table("Runs that failed", ["mechanism", "ability", "reason"], rows)
    return Section("failed", "Failed runs", blocks=[table])


def _sizes(attention: Sequence[str], results: Mapping[str, ComparisonResult]) -> list[Section]:
    """Parameters, bytes of state and minutes of each mechanism, by ability; nothing if all runs
    failed."""
    rows: list[list[Cell]] = []
    for ability, result in results.items():
        for name in attention:
            best = [best for best in result.conclusions.best if best.contender == name]
            if best:
                last = best[-1]
                steps, minutes = f"{last.steps:,.0f}", round(last.minutes, 2)
                state = None if last.state_bytes is None else f"{last.state_bytes:,}"
                rows.append([ability, name, f"{last.parameters:,}", state, steps, minutes])
    header = ["ability", "mechanism", "parameters", "state bytes", "steps", "minutes"]
    note = "Of one run. state bytes: the decoding state of one row after the longest test row."
    table = Table("Sizes", header, rows, note)
    return [Section("sizes", "Sizes and time", blocks=[table])] if rows else []
