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
from attnlab.tasks.knowledge._certainty import AnswerVerdict
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
VERDICTS = [str(verdict) for verdict in AnswerVerdict]


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
        name: [each["correct"] for each in answers if each["verdict"] == name] for name in VERDICTS
    }
    histogram = histogram_of_answers(each["answer"] for each in answers)
    best = threshold_for(0.95, sure_, right)
    unknown = [
        _unknown(kind, 100, known, generator)
        for kind, known in (("parts recombined", 9), ("new spellings", 3))
    ]
    counts = {name: sum(kind["verdicts"][name] for kind in unknown) for name in VERDICTS}
    off_topic = _unknown("", 40, 0, generator)
    relation: dict[str, Any] = {"relation": "Where was ... born?", "count": pairs}
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
        "thresholds": {
            "known": 0.85,
            "guess": 0.5,
            "doubt": 0.2,
            "unread": 0.5,
            "fitted": True,
            "fitted_on": "a tenth of the training pairs",
        },
        "relations": [
            {
                **relation,
                "accuracy": sum(right) / pairs,
                "interval": list(wilson_interval(sum(right), pairs)),
                "known": len(of_verdict["known"]),
                "known_accuracy": 0.97,
                "right_known_share": 0.86,
            }
        ],
        "risk_coverage_unknown": [[0.9, 0.3, 0.99], [0.1, 1.0, 0.46]],
        "off_topic": {k: v for k, v in off_topic.items() if k != "kind"},
        "invented": {
            "count": sum(not each["seen_place"] for each in answers),
            "examples": [each["answer"] for each in answers if not each["seen_place"]][:5],
        },
        "made_up": {
            "count": 200,
            "mean_confidence": 0.41,
            "known_share": 0.06,
            "verdicts": counts,
            "examples": unknown[0]["examples"],
            "kinds": unknown,
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


def _unknown(kind: str, count: int, known: int, generator: Any) -> dict[str, Any]:
    names = ["Zorblat Quimby", "Wexforth Allinge", "Pilka Drossel-Ahn", "Ammar Vint"]
    return {
        "kind": kind,
        "count": count,
        "mean_confidence": 0.41,
        "known_share": known / count,
        "verdicts": {**dict.fromkeys(VERDICTS, 0), "known": known, "unsure": count - known},
        "examples": [
            {
                "question": f"Where was {name} born?",
                "answer": "Turin",
                "confidence": float(generator.uniform(0.1, 0.9)),
                "verdict": "not in what I read",
            }
            for name in names
        ],
    }
