"""What the runs of a comparison say: each mechanism's best setting, and whether it matches.

The setting is chosen on validation texts; what is compared is measured on test texts, seed by seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from attnlab.intervals import over

MARGIN = 0.1  # nats per token: closer than this is a match

Report = dict[str, Any]


def conclusions(rows: Sequence[Report], attention: Sequence[str], first_words: float) -> Report:
    """As far as there are runs; the first mechanism is what the others are compared with.

    `first_words`: the ROUGE-L that needs no learning.
    """
    there = [name for name in attention if any(row["attention"] == name for row in rows)]
    pairs = [(name, attention[0]) for name in there if name != attention[0]]
    found = [against(rows, *pair, first_words) for pair in pairs if attention[0] in there]
    return {
        "margin": MARGIN,
        "best": [best_setting(rows, name) for name in there],
        "comparisons": [each for each in found if each is not None],
    }


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
        "seeds": len(chosen),
        **{name: _mean(chosen, name) for name in ("loss", "accuracy", "rougeL", "steps")},
    }


def against(
    rows: Sequence[Report], attention: str, other: str, first_words: float
) -> Report | None:
    """The best of both, seed by seed: differences in test loss and ROUGE-L with intervals.

    None while no seed of both is done.
    """
    one, two = (_by_seed(rows, name) for name in (attention, other))
    seeds = sorted(one.keys() & two.keys())
    if not seeds:
        return None
    found: Report = {"attention": attention, "against": other, "seeds": len(seeds)}
    for name in ("loss", "rougeL"):
        values = [one[seed][name] - two[seed][name] for seed in seeds]
        ends = over(values).ends if len(values) > 1 else None
        found[name] = {"mean": statistics.fmean(values), "interval": ends and list(ends)}
    found["learned"] = _mean([two[seed] for seed in seeds], "rougeL") > first_words
    found["verdict"] = verdict(found["loss"]["interval"], found["learned"])
    return found


def verdict(interval: Sequence[float] | None, learned: bool) -> str:
    """Of a difference in loss: within the margin is a match; one seed has no interval.

    Models that have learned nothing yet are all alike, so a match counts only where the one that
    is compared with has `learned`: its summaries are better than the first words.
    """
    within = interval is not None and interval[0] >= -MARGIN and interval[1] <= MARGIN
    if interval is not None and not within and (interval[0] > 0 or interval[1] < 0):
        return "worse" if interval[0] > 0 else "better"
    if not learned:
        return "unlearned"
    return "matches" if within else "undecided"


def _by_seed(rows: Sequence[Report], attention: str) -> dict[int, Report]:
    best = best_setting(rows, attention)
    return {
        row["seed"]: row
        for row in rows
        if (row["attention"], row["spec"], row["rate"]) == (attention, best["spec"], best["rate"])
    }


def _mean(rows: Sequence[Report], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)
