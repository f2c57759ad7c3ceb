"""Is it knowledge or a guess? One report about the answers of a run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from attnlab._calibration import (
    expected_calibration_error,
    reliability_bins,
    risk_coverage,
    roc_area,
    threshold_for,
)
from attnlab._confidence_intervals import wilson_interval
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import (
    Answer,
    answer_with_confidence,
    check_questions,
    reach,
    sample,
)
from attnlab.tasks.knowledge._certainty import Certainty
from attnlab.tasks.knowledge._data import name_in
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._name_matching import NameIndex, ngram_groups
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge._scoring import histogram_of_answers, questions_for, top_share
from attnlab.tasks.knowledge._world import made_up_names

Report = dict[str, Any]
EXAMPLES = 8


def ask(folder: str | Path, questions: Sequence[str]) -> list[tuple[Answer, str]]:
    """Each answer with "known", "unsure" or "guess"."""
    model, tokens, _ = load_knowledge(folder)
    certainty = Certainty.load(Path(folder))
    said = answer_with_confidence(model, Wording(tokens), questions)
    return [(each, certainty.verdict(each.confidence)) for each in said]


def audit(
    folder: str | Path,
    pairs: str | Path | None = None,
    *,
    samples: int = 8,
    temperature: float = 1.0,
    made_up: int = 200,
    groups: int = 6,
    seed: int = 0,
) -> Report:
    """The report; what needs right answers is None where the file has none."""
    if samples < 1 or made_up < 1 or groups < 1:
        raise ValueError(
            f"samples {samples}, made-up names {made_up}, groups {groups}; give 1 or more of each"
        )
    model, tokens, config = load_knowledge(folder)
    wording, certainty = Wording(tokens), Certainty.load(Path(folder))
    questions, golds = questions_for(folder, config, pairs)
    said = answer_with_confidence(model, wording, questions)
    drawn = sample(model, wording, questions, samples=samples, temperature=temperature, seed=seed)
    names = [_name(question, certainty) for question in questions]
    correct = None if golds is None else [a.text == g for a, g in zip(said, golds, strict=True)]
    report: Report = {
        "run": str(folder),
        "pairs": len(questions),
        "thresholds": {
            "known": certainty.known,
            "guess": certainty.guess,
            "fitted_on": certainty.fitted_on,
        },
        "answers": _answers(said, golds, drawn, names, certainty),
        **_scores(said, golds, correct, certainty),
        **_places(said, golds, certainty),
        "origins": [] if correct is None else _origins(names, correct, groups, seed),
        "made_up": _made_up(model, wording, certainty, made_up, seed),
        "sampling": {
            "temperature": temperature,
            "samples": samples,
            **_agreement(said, drawn, correct),
        },
    }
    return report


def _name(question: str, certainty: Certainty) -> str:
    found = name_in(question, certainty.relations)
    return question if found is None else found[0]


def _answers(
    said: Sequence[Answer],
    golds: Sequence[str] | None,
    drawn: Sequence[Sequence[str]],
    names: Sequence[str],
    certainty: Certainty,
) -> list[Report]:
    seen = set(certainty.answers)
    index = NameIndex(certainty.names) if certainty.names else None
    found = []
    for i, each in enumerate(said):
        gold = None if golds is None else golds[i]
        found.append(
            {
                "question": each.question,
                "answer": each.text,
                "gold": gold,
                "confidence": each.confidence,
                "margin": each.margin,
                "runner_up": each.other,
                "verdict": certainty.verdict(each.confidence),
                "correct": None if gold is None else each.text == gold,
                "seen_place": each.text in seen,
                "nearest": [list(pair) for pair in index.nearest(names[i])] if index else [],
                "sampled": {
                    "agreement": sum(text == each.text for text in drawn[i]) / len(drawn[i]),
                    "distinct": len(set(drawn[i])),
                },
            }
        )
    return found


def _scores(
    said: Sequence[Answer],
    golds: Sequence[str] | None,
    correct: Sequence[bool] | None,
    certainty: Certainty,
) -> Report:
    sure = [each.confidence for each in said]
    verdicts = [certainty.verdict(each) for each in sure]
    counts = Counter(verdicts)
    shares: dict[str, Report] = {}
    for verdict in ("known", "unsure", "guess"):
        accuracy = None
        if correct is not None and counts[verdict]:
            right = sum(c for c, v in zip(correct, verdicts, strict=True) if v == verdict)
            accuracy = right / counts[verdict]
        shares[verdict] = {"count": counts[verdict], "accuracy": accuracy}
    if correct is None or golds is None:
        nothing: Report = dict.fromkeys(
            ("accuracy", "interval", "baseline", "ece", "roc_area", "precision95")
        )
        return {**nothing, "reliability": [], "risk_coverage": [], "verdicts": shares}
    right = sum(correct)
    best = threshold_for(0.95, sure, correct)
    return {
        "accuracy": right / len(correct),
        "interval": list(wilson_interval(right, len(correct))),
        "baseline": {
            "answer": certainty.commonest,
            "accuracy": sum(gold == certainty.commonest for gold in golds) / len(golds),
        },
        "reliability": [asdict(each) for each in reliability_bins(sure, correct)],
        "ece": expected_calibration_error(sure, correct),
        "roc_area": roc_area(sure, correct),
        "risk_coverage": [list(astuple(each)) for each in risk_coverage(sure, correct)],
        "precision95": None if best is None else asdict(best),
        "verdicts": shares,
    }


def _places(said: Sequence[Answer], golds: Sequence[str] | None, certainty: Certainty) -> Report:
    seen = set(certainty.answers)
    invented = [each.text for each in said if each.text not in seen]
    histogram = histogram_of_answers(each.text for each in said)
    return {
        "invented": {
            "count": len(invented),
            "examples": list(dict.fromkeys(invented))[:EXAMPLES],
        },
        "histogram": [list(pair) for pair in histogram],
        "top_three_share": top_share(histogram),
        "gold_histogram": [list(pair) for pair in histogram_of_answers(golds or [])],
    }


def _origins(names: Sequence[str], correct: Sequence[bool], groups: int, seed: int) -> list[Report]:
    """Accuracy by how names are spelled."""
    places, found = ngram_groups(names, min(groups, len(set(names))), seed)
    made = []
    for number, group in enumerate(found):
        mine = [c for c, place in zip(correct, places, strict=True) if place == number]
        made.append(
            {
                "label": group.label,
                "examples": list(group.examples),
                "count": len(mine),
                "accuracy": sum(mine) / max(1, len(mine)),
                "interval": list(wilson_interval(sum(mine), len(mine))),
            }
        )
    return made


def _made_up(
    model: Decoder, wording: Wording, certainty: Certainty, count: int, seed: int
) -> Report:
    """A control: about people who do not exist nothing can be known."""
    names, questions = [], []
    relations, chance = certainty.relations, random.Random(seed)
    for name in made_up_names(2 * count, seed, set(certainty.names)) if relations else []:
        question = chance.choice(relations).ask(name)
        try:
            check_questions([question], wording, reach(model))
        except ValueError:  # too long, or a letter that the model never saw
            continue
        names.append(name)
        questions.append(question)
    names, questions = names[:count], questions[:count]
    if not names:
        return {"count": 0, "mean_confidence": None, "known_share": None, "examples": []}
    said = answer_with_confidence(model, wording, questions)
    known = sum(certainty.verdict(each.confidence) == "known" for each in said)
    return {
        "count": len(names),
        "mean_confidence": sum(each.confidence for each in said) / len(said),
        "known_share": known / len(said),
        "examples": [
            {"name": name, "answer": each.text, "confidence": each.confidence}
            for name, each in list(zip(names, said, strict=True))[:EXAMPLES]
        ],
    }


def _agreement(
    said: Sequence[Answer], drawn: Sequence[Sequence[str]], correct: Sequence[bool] | None
) -> Report:
    """How often a drawn answer is the likeliest one."""
    shares = [
        sum(text == each.text for text in texts) / len(texts)
        for each, texts in zip(said, drawn, strict=True)
    ]

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    def among(wanted: bool) -> float | None:
        return mean([s for s, c in zip(shares, correct or [], strict=False) if c is wanted])

    return {
        "mean_agreement": mean(shares),
        "agreement_when_right": among(True),
        "agreement_when_wrong": among(False),
    }
