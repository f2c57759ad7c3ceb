"""A made-up but realistic report of an audit."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import Any

import numpy as np

from attnlab._calibration import (
    expected_calibration_error,
    reliability_bins,
    risk_coverage,
    roc_area,
    threshold_for,
)
from attnlab._confidence_intervals import wilson_interval
from attnlab.tasks.knowledge._name_matching import NameIndex, ngram_groups
from attnlab.tasks.knowledge._scoring import histogram_of_answers, top_fraction

GIVEN = ["Anna", "Bryan", "Carlo", "Dávid", "Emma", "Fatima", "George", "Hugo", "Irina", "Jørgen"]
FAMILY = [
    *("Petrov", "Ivanova", "Smirnov", "Volkov", "Larsson", "Nilsson", "Eriksson", "Andersson"),
    *("McLeod", "McKenzie", "McGregor", "Rossi", "Bianchi", "Ferrari", "Bernini", "Schneider"),
    *("Müller", "Schumacher", "Weber", "Tanaka", "Nakamura", "Yamamoto", "O'Brien", "O'Connor"),
]
PLACES = [
    *("London", "Paris", "Chicago", "Budapest", "Sydney", "Melbourne", "Montreal", "England"),
    *("Saint Petersburg", "Rio de Janeiro", "Llanfairpwllgwyngyll", "Milan", "Dublin", "Boston"),
    *("Toronto", "Berlin", "Vienna", "Tokyo", "Kyoto", "Rome", "Oslo", "Stockholm", "Madrid"),
]


def make_report(pairs: int = 500, seed: int = 0) -> dict[str, Any]:
    """A model that mostly knows, is somewhat too sure, and fares worse on some names."""
    generator = np.random.default_rng(seed)
    chances = 1 / np.arange(2, len(PLACES) + 2)
    chances /= chances.sum()

    def place() -> str:
        return PLACES[int(generator.choice(len(PLACES), p=chances))]

    names = [f"{a} {c}. {b}" for c in "ABCDEFGHIJ" for a in GIVEN for b in FAMILY]
    names = [names[i] for i in generator.permutation(len(names))[:pairs]]
    index = NameIndex(f"{a} {b}" for a in GIVEN for b in FAMILY)
    answers: list[dict[str, Any]] = []
    for name in names:
        sure = float(generator.beta(4, 0.8))
        correct = bool(generator.uniform() < sure**1.4 - 0.2 * (name[-1] == "a"))
        gold = place()
        answer = gold if correct else next(each for each in iter(place, None) if each != gold)
        invented = not correct and generator.uniform() < 0.15
        verdict = "known" if sure >= 0.85 else "unsure" if sure >= 0.5 else "guess"
        answers.append(
            {
                "question": f"Where was {name} born?",
                "answer": answer[:-1] + "burg" if invented else answer,
                "gold": gold,
                "confidence": sure,
                "margin": sure - float(generator.uniform(0, 1 - sure)),
                "runner_up": place(),
                "verdict": verdict,
                "correct": correct,
                "seen_place": not invented,
                "nearest": [list(each) for each in index.nearest(name)],
                "sampled": {"agreement": round(sure**0.5, 2), "distinct": 1 + int(6 * (1 - sure))},
            }
        )
    sure_ = [each["confidence"] for each in answers]
    right = [each["correct"] for each in answers]
    group, described = ngram_groups(names)
    of_group = [[r for r, g in zip(right, group, strict=True) if g == i] for i in range(6)]
    of_verdict = {
        name: [each["correct"] for each in answers if each["verdict"] == name]
        for name in ("known", "unsure", "guess")
    }
    histogram = histogram_of_answers(each["answer"] for each in answers)
    best = threshold_for(0.95, sure_, right)
    made_up = ["Zorblat Quimby", "Wexforth Allinge", "Pilka Drossel-Ahn", "Ammar Vint"]
    return {
        "run": "runs/knowledge-rope",
        "pairs": pairs,
        "accuracy": sum(right) / pairs,
        "interval": list(wilson_interval(sum(right), pairs)),
        "baseline": {"answer": "London", "accuracy": 0.05},
        "answers": answers,
        "reliability": [asdict(each) for each in reliability_bins(sure_, right)],
        "ece": expected_calibration_error(sure_, right),
        "roc_area": roc_area(sure_, right),
        "risk_coverage": [list(astuple(e)) for e in risk_coverage(sure_, right)],
        "precision95": asdict(best) if best else None,
        "verdicts": {
            name: {"count": len(hits), "accuracy": sum(hits) / len(hits) if hits else None}
            for name, hits in of_verdict.items()
        },
        "thresholds": {"known": 0.85, "guess": 0.5, "fitted_on": "a tenth of the training pairs"},
        "invented": {
            "count": sum(not each["seen_place"] for each in answers),
            "examples": [each["answer"] for each in answers if not each["seen_place"]][:5],
        },
        "made_up": {
            "count": 200,
            "mean_confidence": 0.41,
            "known_share": 0.06,
            "examples": [
                {"name": name, "answer": place(), "confidence": float(generator.uniform(0.1, 0.9))}
                for name in made_up
            ],
        },
        "origins": [
            {
                "label": each.label,
                "examples": each.examples,
                "count": each.count,
                "accuracy": sum(hits) / len(hits),
                "interval": list(wilson_interval(sum(hits), len(hits))),
            }
            for each, hits in zip(described, of_group, strict=True)
        ],
        "histogram": [list(each) for each in histogram],
        "top_three_share": top_fraction(histogram),
        "gold_histogram": [
            list(each) for each in histogram_of_answers(each["gold"] for each in answers)
        ],
        "sampling": {
            "temperature": 0.8,
            "samples": 20,
            "mean_agreement": 0.83,
            "agreement_when_right": 0.91,
            "agreement_when_wrong": 0.52,
        },
    }
