"""Does another mechanism match softmax? Same minutes for each, several settings and seeds.

The best setting of a mechanism is chosen on validation texts; what is compared is measured on test
texts, seed by seed.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attnlab.create import create_attention, mechanism_options
from attnlab.intervals import over
from attnlab.tasks.summary.baselines import first_words
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
from attnlab.tasks.summary.task import SummaryTask, rows_of
from attnlab.tasks.summary.writing import GREEDY, write_all
from attnlab.training import Run, Settings, speaks
from attnlab.training.run import check_folder

STOPS = 6  # validations on the way
MARGIN = 0.1  # nats per token: closer than this is a match
TESTED = 300  # test texts
PIECES = 40  # points of a loss curve
PLACES = ("encoder", "all")

Report = dict[str, Any]


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
    def setting(self) -> tuple[str, float]:
        return self.spec, self.rate

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
    features: Sequence[int] = (),
    rates: Sequence[float] = (1.0,),
    seeds: int = 2,
    limit: int | None = None,
    model: SummaryModel = MODEL,
    training: dict[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Train every mechanism with every setting and seed for `budget` minutes each."""
    entries = entries_of(attention, features, rates, seeds)
    if not 0 < budget < math.inf:
        raise ValueError(f"budget is {budget}; give minutes above 0")
    settings = settled({**(training or {}), "minutes": budget})
    for entry in entries:  # everything that can be wrong, before the first minute is spent
        check_folder(Path(out) / entry.folder, False, overwrite)
        placed(model, entry.spec, where).build(model.vocabulary, 0)
    source = material(data, columns, held_out=SHARE, limit=limit, quiet=quiet)
    tokens = learned(source.split.train, model.vocabulary)
    _say(f"{len(entries)} runs of {budget:g} minutes: {len(entries) * budget:g} minutes", quiet)
    rows: list[Report] = []
    speed = 60.0  # steps per minute, until one was measured
    for number, entry in enumerate(entries, 1):
        folder = Path(out) / entry.folder
        _say(f"{number} of {len(entries)}: {entry.folder}", quiet)
        mine = replace(
            scaled(settings, entry.rate),
            seed=entry.seed,
            evaluate_every=max(1, round(speed * budget / STOPS)),
        )
        train_on(
            source, out=folder, model=placed(model, entry.spec, where), settings=mine,
            tokens=tokens, overwrite=overwrite, quiet=quiet,
        )  # fmt: skip
        rows.append(measured(entry, folder, source.split.test[:TESTED]))
        speed = rows[-1]["steps"] / max(rows[-1]["minutes"], 1e-3)
    return {
        "budget": budget,
        "data": str(data),
        "where": where,
        "margin": MARGIN,
        "texts": len(source.split.train),
        "test_texts": min(TESTED, len(source.split.test)),
        "first_words": _first_words(source),
        "runs": rows,
        "best": [best_setting(rows, name) for name in attention],
        "comparisons": [against(rows, name, attention[0]) for name in attention[1:]],
    }


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


def measured(entry: Entry, folder: Path, pairs: Sequence[Pair]) -> Report:
    """What a run came to, and its curves over minutes."""
    model, wording, config = load_summary(folder)
    task = SummaryTask([], [], wording, smoothing=0.0, about={})
    with torch.no_grad():
        found = task.measure(model, rows_of(pairs, wording)[0])
    written = write_all(model, wording, [pair.text for pair in pairs], GREEDY)
    scores = score([rows[0].text for rows in written], [pair.summary for pair in pairs])
    rows = Run(folder).metrics()
    checks = [row for row in rows if "validation" in row]
    return {
        "attention": entry.attention,
        "spec": entry.spec,
        "rate": entry.rate,
        "seed": entry.seed,
        "folder": str(folder),
        "parameters": config["parameters"],
        "steps": rows[-1]["step"],
        "minutes": rows[-1]["seconds"] / 60,
        "validation_loss": checks[-1]["validation"]["loss"],
        "loss": found["loss"],
        "accuracy": found["accuracy"],
        "rougeL": scores.mean["rougeL"],
        "loss_curve": _thinned([(row["seconds"] / 60, row["loss"]) for row in rows]),
        "rouge_curve": [[c["seconds"] / 60, c["validation"]["rougeL"]] for c in checks],
        "validation_curve": [[c["seconds"] / 60, c["validation"]["loss"]] for c in checks],
    }


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
    """Means of neighbours: the loss of a single batch says little."""
    size = max(1, math.ceil(len(points) / PIECES))
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [[part[-1][0], statistics.fmean(y for _, y in part)] for part in parts]


def best_setting(rows: Sequence[Report], attention: str) -> Report:
    """Of one mechanism: the lowest mean validation loss over seeds."""
    settings: dict[tuple[str, float], list[Report]] = {}
    for row in rows:
        if row["attention"] == attention:
            settings.setdefault((row["spec"], row["rate"]), []).append(row)
    chosen = min(settings.values(), key=lambda each: _mean(each, "validation_loss"))
    return {
        "attention": attention,
        "spec": chosen[0]["spec"],
        "rate": chosen[0]["rate"],
        "settings": len(settings),
        **{name: _mean(chosen, name) for name in ("loss", "accuracy", "rougeL", "steps")},
    }


def against(rows: Sequence[Report], attention: str, other: str) -> Report:
    """The best of both, seed by seed: differences in test loss and ROUGE-L with intervals."""
    one, two = (_by_seed(rows, name) for name in (attention, other))
    seeds = sorted(one.keys() & two.keys())
    differences = {
        name: [one[seed][name] - two[seed][name] for seed in seeds] for name in ("loss", "rougeL")
    }
    found: Report = {"attention": attention, "against": other, "seeds": len(seeds)}
    for name, values in differences.items():
        ends = over(values).ends if len(values) > 1 else None
        found[name] = {"mean": statistics.fmean(values), "interval": ends and list(ends)}
    found["verdict"] = verdict(found["loss"]["interval"])
    return found


def verdict(interval: Sequence[float] | None) -> str:
    """Of a difference in loss: within the margin is a match; one seed has no interval."""
    if interval is None:
        return "undecided"
    low, high = interval
    if low >= -MARGIN and high <= MARGIN:
        return "matches"
    if low > 0:
        return "worse"
    return "better" if high < 0 else "undecided"


def _by_seed(rows: Sequence[Report], attention: str) -> dict[int, Report]:
    best = best_setting(rows, attention)
    return {
        row["seed"]: row
        for row in rows
        if (row["attention"], row["spec"], row["rate"]) == (attention, best["spec"], best["rate"])
    }


def _mean(rows: Sequence[Report], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def _first_words(source: Material) -> float:
    pairs, count = source.split.test[:TESTED], source.about["first_words"]
    texts = [first_words(pair.text, count) for pair in pairs]
    return score(texts, [pair.summary for pair in pairs]).mean["rougeL"]


def _say(text: str, quiet: bool) -> None:
    if speaks() and not quiet:
        print(text, file=sys.stderr)
