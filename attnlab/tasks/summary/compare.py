"""Does another mechanism match softmax? Same minutes for each, several settings and seeds.

The minutes are of training steps alone: validations, as many in each run, do not count.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.create import create_attention, mechanism_options
from attnlab.files import write_json
from attnlab.report.html import write_page
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder.config import MAY_CHANGE
from attnlab.tasks.summary.baselines import first_words
from attnlab.tasks.summary.compare_page import comparison_page
from attnlab.tasks.summary.pairs import USUAL, Columns, Pair
from attnlab.tasks.summary.presets import MODEL, SummaryModel
from attnlab.tasks.summary.recipe import (
    SHARE,
    Material,
    learned,
    load_summary,
    material,
    settled,
    train_on,
)
from attnlab.tasks.summary.rouge import score
from attnlab.tasks.summary.scoring import measured
from attnlab.tasks.summary.task import rows_of
from attnlab.tasks.summary.verdicts import Report, conclusions
from attnlab.tasks.summary.wording import Wording
from attnlab.tasks.summary.writing import GREEDY
from attnlab.training import Run, Settings, speaks

STOPS = 6  # validations on the way
TESTED = 300  # test texts
PIECES = 40  # points of a loss curve
PLACES = ("encoder", "all")
FEATURES, RATES, SEEDS = (64, 256), (1.0, 0.5), 3
REPORT, PAGE = "compare.json", "compare.html"


@dataclass(frozen=True)
class Entry:
    """One training run of the comparison."""

    attention: str
    """As it was asked for."""
    spec: str
    """With its features."""
    rate: float
    """Times the usual learning rates."""
    seed: int

    @property
    def folder(self) -> str:
        letters = f"{self.spec}-rate{self.rate:g}-seed{self.seed}"
        return "".join(c if c.isalnum() or c in "-_=." else "-" for c in letters)


def compare(
    attention: Sequence[str],
    *,
    budget: float,
    out: str | Path,
    data: str | Path = "docstrings",
    columns: Columns = USUAL,
    where: str = "encoder",
    features: Sequence[int] = FEATURES,
    rates: Sequence[float] = RATES,
    seeds: int = SEEDS,
    limit: int | None = None,
    model: SummaryModel = MODEL,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> Report:
    """Train every mechanism with every setting and seed for `budget` minutes each.

    compare.json and compare.html in `out` are written after each run; `StartMode.RESUME` goes on
    after the runs that are done.
    """
    entries, folder = entries_of(attention, features, rates, seeds), Path(out)
    if not 0 < budget < math.inf:
        raise ValueError(f"budget is {budget}; give minutes above 0")
    settings = settled({**(training or {}), "minutes": budget})
    settings = replace(settings, training_only=True, evaluate_every=None, evaluations=STOPS)
    start = StartMode(start)
    check_out(folder, entries, start)
    for entry in entries:  # everything that can be wrong, before the first minute is spent
        placed(model, entry.spec, where).build(model.vocabulary, 0)
    source = material(data, columns, held_out=SHARE, limit=limit, quiet=quiet)
    plan = planned(source, budget, where, model, settings)
    rows = finished(folder, plan) if start is StartMode.RESUME else []
    done = {(row["spec"], row["rate"], row["seed"]) for row in rows}
    left = [each for each in entries if (each.spec, each.rate, each.seed) not in done]
    _say(_length(len(entries), len(left), budget), quiet)
    tokens = learned(source.split.train, model.vocabulary)
    check_summaries(source, Wording(tokens, model.text_tokens, model.summary_tokens))
    report = reported(folder, plan, attention, len(entries), rows)
    for number, entry in enumerate(left, len(entries) - len(left) + 1):
        _say(f"{number} of {len(entries)}: {entry.folder}", quiet)
        path = folder / entry.folder
        train_on(
            source, out=path, model=placed(model, entry.spec, where),
            settings=replace(scaled(settings, entry.rate), seed=entry.seed), tokens=tokens,
            start=start.for_part(path), quiet=quiet,
        )  # fmt: skip
        rows.append(row_of(entry, path, source.split.test[:TESTED]))
        report = reported(folder, plan, attention, len(entries), rows)
    return report


def check_out(folder: Path, entries: Sequence[Entry], start: StartMode) -> None:
    """Before anything is read or computed."""
    check_folder(folder, StartMode.OVERWRITE)  # a file, perhaps
    there = (folder / REPORT).exists()
    if start is StartMode.RESUME and not there:
        raise ValueError(f"{folder}: holds no comparison to go on with; {REPORT} is missing")
    if there and start is StartMode.NEW:
        raise ValueError(
            f"{folder}: holds a comparison already; "
            "give --resume to go on, --overwrite to begin anew, or another folder"
        )
    for entry in entries:
        part = StartMode.NEW if start is StartMode.NEW else StartMode.OVERWRITE
        check_folder(folder / entry.folder, part)


def planned(
    source: Material, budget: float, where: str, model: SummaryModel, settings: Settings
) -> Report:
    """What all runs have in common; to go on, it must be the same."""
    training = {name: each for name, each in asdict(settings).items() if name not in MAY_CHANGE}
    test = source.split.test[:TESTED]
    return {
        "budget": budget,
        "data": source.about["data"],
        "where": where,
        "texts": len(source.split.train),
        "test_texts": len(test),
        "first_words": _first_words(test, source.about["first_words"]),
        "settings": {
            "budget": budget,
            "where": where,
            **source.about,
            **asdict(model),
            **training,
        },
    }


def finished(folder: Path, plan: Report) -> list[Report]:
    """The runs that a comparison has done already."""
    path = folder / REPORT
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        was, rows = dict(old["settings"]), list(old["runs"])
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: not a comparison to go on with ({error}); give --overwrite"
        ) from None
    for name, now in json.loads(json.dumps(plan["settings"])).items():
        if was.get(name) != now:
            raise ValueError(
                f"{path}: the comparison has {name} {was.get(name)!r}, not {now!r}; "
                "resume with the same settings"
            )
    return rows


def check_summaries(source: Material, wording: Wording) -> None:
    """Losses must be of something."""
    parts = {"validation": source.split.validation, "test": source.split.test[:TESTED]}
    for name, pairs in parts.items():
        if not rows_of(pairs, wording)[0]:
            raise ValueError(
                f"none of {len(pairs)} {name} texts has a summary of at most "
                f"{wording.longest_summary} tokens; give more pairs or more --summary-tokens"
            )


def reported(
    folder: Path, plan: Report, attention: Sequence[str], runs: int, rows: list[Report]
) -> Report:
    """What is known so far, also as files: a comparison that is cut short has told its part."""
    found = conclusions(rows, attention, plan["first_words"])
    report = {**plan, "planned": runs, "runs": rows, **found}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, report)
    if rows:
        write_page(folder / PAGE, comparison_page(report), overwrite=True)
    else:
        (folder / PAGE).unlink(missing_ok=True)  # of a comparison that begins anew
    return report


def entries_of(
    attention: Sequence[str], features: Sequence[int], rates: Sequence[float], seeds: int
) -> list[Entry]:
    """Every run: seeds outermost, so that a comparison cut short has all mechanisms."""
    if not attention or len(set(attention)) < len(attention):
        raise ValueError("give the mechanisms to compare, each once")
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}; give 1 or more")
    if not rates or any(not 0 < rate < math.inf for rate in rates):
        raise ValueError("rates multiply the usual learning rates; give numbers above 0")
    if any(count < 1 for count in features):
        raise ValueError(f"features {min(features)}; give 1 or more")
    specs = {}
    for name in attention:
        create_attention(name, head_dim=16, heads=4, max_length=64)  # says what is wrong
        plain = name.isidentifier()
        takes = plain and any(each.name == "features" for each in mechanism_options(name))
        specs[name] = [f"{name}:features={n}" for n in features] if takes and features else [name]
    return [
        Entry(name, spec, rate, seed)
        for seed in range(seeds)
        for name in attention
        for spec in specs[name]
        for rate in rates
    ]


def placed(model: SummaryModel, spec: str, where: str) -> SummaryModel:
    """The model with this mechanism in the encoder, or in all layers."""
    if where not in PLACES:
        raise ValueError(f"where {where!r}; there are {', '.join(PLACES)}")
    if where == "encoder":
        return replace(model, attention=spec)
    return replace(model, attention=spec, decoder_attention=spec, cross_attention=spec)


def scaled(settings: Settings, rate: float) -> Settings:
    return replace(settings, rate=rate * settings.rate, muon_rate=rate * settings.muon_rate)


def row_of(entry: Entry, folder: Path, pairs: Sequence[Pair]) -> Report:
    """What a run came to, and its curves over minutes."""
    model, wording, config = load_summary(folder)
    found = measured(model, wording, pairs, GREEDY)
    rows = Run(folder).metrics()
    checks = [(row["seconds"] / 60, row["validation"]) for row in rows if "validation" in row]
    return {
        **asdict(entry),
        "folder": str(folder),
        "parameters": config["parameters"],
        "steps": rows[-1]["step"],
        "minutes": rows[-1]["seconds"] / 60,
        "validation_loss": checks[-1][1]["loss"],
        "loss": found.loss,
        "accuracy": found.accuracy,
        "rougeL": found.scores.mean["rougeL"],
        "loss_curve": _thinned([(row["seconds"] / 60, row["loss"]) for row in rows]),
        "rouge_curve": [[minutes, each["rougeL"]] for minutes, each in checks],
        "validation_curve": [[minutes, each["loss"]] for minutes, each in checks],
    }


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
    """Means of neighbours: the loss of a single batch says little."""
    size = max(1, math.ceil(len(points) / PIECES))
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [[part[-1][0], statistics.fmean(y for _, y in part)] for part in parts]


def _first_words(pairs: Sequence[Pair], count: int) -> float:
    texts = [first_words(pair.text, count) for pair in pairs]
    return score(texts, [pair.summary for pair in pairs]).mean["rougeL"]


def _length(runs: int, left: int, budget: float) -> str:
    done = f", {runs - left} of them done" if left < runs else ""
    return (
        f"{runs} runs of {budget:g} minutes of training{done}: {left * budget:g} minutes, "
        "and the validations besides"
    )


def _say(text: str, quiet: bool) -> None:
    if speaks() and not quiet:
        print(text, file=sys.stderr)
