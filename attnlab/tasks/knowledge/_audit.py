"""Audit a run: are its answers knowledge or guesses?"""

from __future__ import annotations

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
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence, sample_answers
from attnlab.tasks.knowledge._audit_unknown import audit_unknown
from attnlab.tasks.knowledge._certainty import AnswerVerdict, Certainty
from attnlab.tasks.knowledge._data import name_in
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._name_matching import NameIndex, ngram_groups
from attnlab.tasks.knowledge._scoring import histogram_of_answers, questions_for, top_fraction
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding

AuditData = dict[str, Any]
EXAMPLES = 8


def ask(folder: str | Path, questions: Sequence[str]) -> list[tuple[Answer, AnswerVerdict]]:
    """Answer questions. Each answer comes with "known", "unsure", "guess", "not in what I read" or
    "another kind of question".

    >>> from attnlab.tasks.knowledge import ask, finetune
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> _ = finetune(out="finetuned", **options)
    >>> ((answer, certainty),) = ask("finetuned", ["Where was Ada Lovelace born?"])
    >>> certainty in ("known", "unsure", "guess", "not in what I read")
    True
    """
    model, tokens, _ = load_knowledge(folder)
    certainty = Certainty.load(Path(folder))
    answers = answer_with_confidence(model, KnowledgeTextEncoding(tokens), questions)
    return [(answer, certainty.verdict(answer)) for answer in answers]


def audit(
    folder: str | Path,
    pairs: str | Path | None = None,
    *,
    samples: int = 8,
    temperature: float = 1.0,
    made_up: int = 200,
    groups: int = 6,
    seed: int = 0,
) -> AuditData:
    """The data of an audit. Without right answers in the file, some parts are None.

    >>> from attnlab.tasks.knowledge import audit, finetune
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> _ = finetune(out="finetuned", **options)
    >>> data = audit("finetuned", samples=1, made_up=2)
    >>> data["pairs"]
    300
    """
    if samples < 1 or made_up < 1 or groups < 1:
        raise ValueError(
            f"samples {samples}, made-up names {made_up}, groups {groups}; give 1 or more of each"
        )
    model, tokens, config = load_knowledge(folder)
    encoding, certainty = KnowledgeTextEncoding(tokens), Certainty.load(Path(folder))
    questions, gold_answers = questions_for(folder, config, pairs)
    answers = answer_with_confidence(model, encoding, questions)
    sampled = sample_answers(
        model, encoding, questions, samples=samples, temperature=temperature, seed=seed
    )
    matches = [name_in(question, certainty.relations) for question in questions]
    names = [q if match is None else match[0] for q, match in zip(questions, matches, strict=True)]
    relations = [None if match is None else str(match[1]) for match in matches]
    made_up_data, off_topic, unknown = audit_unknown(
        model, encoding, certainty, config["task"].get("corpus"), count=made_up, seed=seed
    )
    correct = (
        None
        if gold_answers is None
        else [a.text == g for a, g in zip(answers, gold_answers, strict=True)]
    )
    report: AuditData = {
        "run": str(folder),
        "pairs": len(questions),
        "thresholds": {
            "known": certainty.known,
            "guess": certainty.guess,
            "doubt": certainty.doubt,
            "unread": certainty.unread,
            "fitted": certainty.fitted,
            "fitted_on": certainty.fitted_on,
        },
        "answers": _answer_rows(answers, gold_answers, sampled, names, certainty),
        **_score_data(answers, gold_answers, correct, certainty),
        "relations": _relation_rows(answers, relations, correct, certainty),
        "risk_coverage_unknown": _coverage_with_unknown(answers, correct, unknown),
        **_answer_distribution(answers, gold_answers, certainty),
        "origins": [] if correct is None else _accuracy_by_spelling(names, correct, groups, seed),
        "made_up": made_up_data,
        "off_topic": off_topic,
        "sampling": {
            "temperature": temperature,
            "samples": samples,
            **_sample_agreement(answers, sampled, correct),
        },
    }
    return report


def _answer_rows(
    answers: Sequence[Answer],
    gold_answers: Sequence[str] | None,
    sampled: Sequence[Sequence[str]],
    names: Sequence[str],
    certainty: Certainty,
) -> list[AuditData]:
    training_answers = set(certainty.answers)
    index = NameIndex(certainty.names) if certainty.names else None
    rows = []
    for i, answer in enumerate(answers):
        gold = None if gold_answers is None else gold_answers[i]
        rows.append(
            {
                "question": answer.question,
                "answer": answer.text,
                "gold": gold,
                "confidence": answer.confidence,
                "margin": answer.margin,
                "runner_up": answer.other,
                "verdict": str(certainty.verdict(answer)),
                "correct": None if gold is None else answer.text == gold,
                "seen_place": answer.text in training_answers,
                "nearest": [list(pair) for pair in index.nearest(names[i])] if index else [],
                "sampled": {
                    "agreement": sum(text == answer.text for text in sampled[i]) / len(sampled[i]),
                    "distinct": len(set(sampled[i])),
                },
            }
        )
    return rows


def _score_data(
    answers: Sequence[Answer],
    gold_answers: Sequence[str] | None,
    correct: Sequence[bool] | None,
    certainty: Certainty,
) -> AuditData:
    confidences = [answer.confidence for answer in answers]
    verdicts = [certainty.verdict(answer) for answer in answers]
    counts = Counter(verdicts)
    by_verdict: dict[str, AuditData] = {}
    for verdict in AnswerVerdict:
        accuracy = None
        if correct is not None and counts[verdict]:
            right = sum(c for c, v in zip(correct, verdicts, strict=True) if v == verdict)
            accuracy = right / counts[verdict]
        by_verdict[str(verdict)] = {"count": counts[verdict], "accuracy": accuracy}
    if correct is None or gold_answers is None:
        empty: AuditData = dict.fromkeys(
            ("accuracy", "interval", "baseline", "ece", "roc_area", "precision95")
        )
        return {**empty, "reliability": [], "risk_coverage": [], "verdicts": by_verdict}
    right = sum(correct)
    threshold = threshold_for(0.95, confidences, correct)
    return {
        "accuracy": right / len(correct),
        "interval": list(wilson_interval(right, len(correct))),
        "baseline": {
            "answer": certainty.commonest,
            "accuracy": sum(gold == certainty.commonest for gold in gold_answers)
            / len(gold_answers),
        },
        "reliability": [
            asdict(confidence) for confidence in reliability_bins(confidences, correct)
        ],
        "ece": expected_calibration_error(confidences, correct),
        "roc_area": roc_area(confidences, correct),
        "risk_coverage": [
            list(astuple(confidence)) for confidence in risk_coverage(confidences, correct)
        ],
        "precision95": None if threshold is None else asdict(threshold),
        "verdicts": by_verdict,
    }


def _relation_rows(
    answers: Sequence[Answer],
    relations: Sequence[str | None],
    correct: Sequence[bool] | None,
    certainty: Certainty,
) -> list[AuditData]:
    """A row for each kind of question, the most frequent first."""
    rows = []
    for relation, count in Counter(relations).most_common():
        chosen = [i for i, each in enumerate(relations) if each == relation]
        known = [i for i in chosen if certainty.verdict(answers[i]) is AnswerVerdict.KNOWN]
        row: AuditData = {"relation": relation, "count": count, "known": len(known)}
        if correct is not None:
            right, right_known = sum(correct[i] for i in chosen), sum(correct[i] for i in known)
            row |= {
                "accuracy": right / count,
                "interval": list(wilson_interval(right, count)),
                "known_accuracy": right_known / len(known) if known else None,
                "right_known_share": right_known / right if right else None,
            }
        rows.append(row)
    return rows


def _coverage_with_unknown(
    answers: Sequence[Answer], correct: Sequence[bool] | None, unknown: Sequence[Answer]
) -> list[list[float]]:
    """The risk-coverage curve if half of all questions are about people who do not exist.

    Every answer about them is wrong. Coverage counts both halves.
    """
    if correct is None or not unknown:
        return []
    known_half = [(a.confidence, right) for a, right in zip(answers, correct, strict=True)]
    unknown_half = [(answer.confidence, False) for answer in unknown]
    longest = max(len(known_half), len(unknown_half))
    rows = [half[i % len(half)] for half in (known_half, unknown_half) for i in range(longest)]
    return [list(astuple(point)) for point in risk_coverage(*zip(*rows, strict=True))]


def _answer_distribution(
    answers: Sequence[Answer], gold_answers: Sequence[str] | None, certainty: Certainty
) -> AuditData:
    training_answers = set(certainty.answers)
    invented = [answer.text for answer in answers if answer.text not in training_answers]
    histogram = histogram_of_answers(answer.text for answer in answers)
    return {
        "invented": {
            "count": len(invented),
            "examples": list(dict.fromkeys(invented))[:EXAMPLES],
        },
        "histogram": [list(pair) for pair in histogram],
        "top_three_share": top_fraction(histogram),
        "gold_histogram": [list(pair) for pair in histogram_of_answers(gold_answers or [])],
    }


def _accuracy_by_spelling(
    names: Sequence[str], correct: Sequence[bool], groups: int, seed: int
) -> list[AuditData]:
    """Accuracy by groups of similarly spelled names."""
    group_of_name, name_groups = ngram_groups(names, min(groups, len(set(names))), seed)
    rows = []
    for number, group in enumerate(name_groups):
        correct_in_group = [
            c for c, index in zip(correct, group_of_name, strict=True) if index == number
        ]
        rows.append(
            {
                "label": group.label,
                "examples": list(group.examples),
                "count": len(correct_in_group),
                "accuracy": sum(correct_in_group) / max(1, len(correct_in_group)),
                "interval": list(wilson_interval(sum(correct_in_group), len(correct_in_group))),
            }
        )
    return rows


def _sample_agreement(
    answers: Sequence[Answer], sampled: Sequence[Sequence[str]], correct: Sequence[bool] | None
) -> AuditData:
    """How often a sampled answer equals the greedy one."""
    agreement = [
        sum(text == answer.text for text in texts) / len(texts)
        for answer, texts in zip(answers, sampled, strict=True)
    ]

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    def among(is_right: bool) -> float | None:
        return mean([s for s, c in zip(agreement, correct or [], strict=False) if c is is_right])

    return {
        "mean_agreement": mean(agreement),
        "agreement_when_right": among(True),
        "agreement_when_wrong": among(False),
    }
