"""Thresholds that decide whether an answer is known, unsure or a guess."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab._calibration import risk_coverage, threshold_for
from attnlab._short_repr import one_line
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge._data import Pair, Relation, most_common_answer
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge.kind import KNOWN

PRECISION = 0.95  # of answers that are called known
MIN_HELD_OUT = 20  # pairs; with fewer, a threshold is chance


@dataclass(frozen=True)
class Certainty:
    """Thresholds and training names of a run, from training data alone."""

    known: float | None
    """From this confidence on, 95% of the answers were right; None if that is true at none."""
    guess: float
    """Below this confidence, at most half of the answers were right."""
    fitted_on: str
    commonest: str
    """The most frequent answer of the training pairs, the baseline for guesses."""
    answers: list[str] = field(default_factory=list)
    """Every answer of the training pairs."""
    names: list[str] = field(default_factory=list)
    """The names that the training pairs ask about."""
    wordings: list[list[str]] = field(default_factory=list)
    """The text before and after the name in each kind of question."""

    def verdict(self, confidence: float) -> str:
        if self.known is not None and confidence >= self.known:
            return "known"
        return "guess" if confidence < self.guess else "unsure"

    @property
    def relations(self) -> list[Relation]:
        return [Relation(before, after) for before, after in self.wordings]

    @staticmethod
    def load(folder: Path) -> Certainty:
        path = folder / KNOWN
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Certainty(
                known=None if data["known"] is None else float(data["known"]),
                guess=float(data["guess"]),
                fitted_on=str(data["fitted_on"]),
                commonest=str(data["commonest"]),
                answers=[str(text) for text in data["answers"]],
                names=[str(text) for text in data["names"]],
                wordings=[[str(before), str(after)] for before, after in data["wordings"]],
            )
        except FileNotFoundError:
            raise ValueError(
                f"{folder}: was never trained on questions; use knowledge finetune or knowledge "
                "learn"
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = one_line(error, 200)
            raise ValueError(f"{path}: is damaged ({reason}); train the run again") from None


def fit_certainty(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    *,
    held_out: Sequence[Pair],
    learned: Sequence[Pair],
    names: Sequence[str],
    relations: Sequence[Relation],
) -> Certainty:
    """Fit thresholds on the held-out pairs or, if there are too few, on training pairs."""
    pairs, source = held_out, "held-out training pairs"
    if len(pairs) < MIN_HELD_OUT:
        pairs, source = (
            learned[:500],
            "training pairs that it has learned, so it will be overconfident",
        )
    answers = answer_with_confidence(model, encoding, [question for question, _ in pairs])
    known, guess = thresholds(answers, [answer for _, answer in pairs])
    return Certainty(
        known=known,
        guess=guess,
        fitted_on=f"{len(pairs)} {source}",
        commonest=most_common_answer([*learned, *held_out]),
        answers=sorted({answer for _, answer in [*learned, *held_out]}),
        names=sorted(set(names)),
        wordings=[[relation.before, relation.after] for relation in relations],
    )


def thresholds(
    answers: Sequence[Answer], gold_answers: Sequence[str]
) -> tuple[float | None, float]:
    """The confidence from which 95% are right, and the one below which at most half are."""
    confidences = [answer.confidence for answer in answers]
    is_right = [answer.text == gold for answer, gold in zip(answers, gold_answers, strict=True)]
    known = threshold_for(PRECISION, confidences, is_right)
    guess, total = 0.0, len(confidences)
    for point in risk_coverage(confidences, is_right):
        if known is not None and point.threshold > known.threshold:
            continue  # a known answer is not a guess
        above = point.coverage * total
        below = total - above
        wrong = below - (sum(is_right) - above * point.precision)
        if below > 0.5 and wrong >= below / 2:
            guess = max(guess, point.threshold)
    return None if known is None else known.threshold, guess
