"""Known, unsure or a guess: thresholds that a run keeps beside its weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from attnlab._calibration import risk_coverage, threshold_for
from attnlab.models import Decoder
from attnlab.run_folder import RunFolder
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge._data import Pair, Relation, most_common_answer
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge.kind import KNOWN

PRECISION = 0.95  # of what is called known
FEW = 20  # held-out pairs; with fewer a threshold is chance


@dataclass(frozen=True)
class Certainty:
    """What a run knows about its own answers, from training data alone."""

    known: float | None
    """From this confidence on, 95% of the answers were right; None: at no confidence."""
    guess: float
    """Below it, at most half were."""
    fitted_on: str
    commonest: str
    """The commonest answer of the training pairs: what a guess is measured against."""
    answers: list[str] = field(default_factory=list)
    """Every answer of the training pairs."""
    names: list[str] = field(default_factory=list)
    """Whom the training pairs ask about."""
    wordings: list[list[str]] = field(default_factory=list)
    """What stands before a name in a question, and behind it."""

    def verdict(self, confidence: float) -> str:
        if self.known is not None and confidence >= self.known:
            return "known"
        return "guess" if confidence < self.guess else "unsure"

    @property
    def relations(self) -> list[Relation]:
        return [Relation(before, after) for before, after in self.wordings]

    def save(self, folder: Path) -> None:
        RunFolder(folder).write_json(KNOWN, asdict(self))

    @staticmethod
    def load(folder: Path) -> Certainty:
        path = folder / KNOWN
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return Certainty(
                known=None if found["known"] is None else float(found["known"]),
                guess=float(found["guess"]),
                fitted_on=str(found["fitted_on"]),
                commonest=str(found["commonest"]),
                answers=[str(each) for each in found["answers"]],
                names=[str(each) for each in found["names"]],
                wordings=[[str(before), str(after)] for before, after in found["wordings"]],
            )
        except FileNotFoundError:
            raise ValueError(
                f"{folder}: has not learned to answer; finetune it, or use learn"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: is broken ({error}); train the run anew") from None


def fit(
    model: Decoder,
    wording: Wording,
    *,
    held_out: Sequence[Pair],
    learned: Sequence[Pair],
    names: Sequence[str],
    relations: Sequence[Relation],
) -> Certainty:
    """Thresholds from the held-out pairs; where these are few, from pairs that were learned."""
    pairs, what = held_out, "held-out training pairs"
    if len(pairs) < FEW:
        pairs, what = learned[:500], "training pairs it has learned, so it will be too sure"
    said = answer_with_confidence(model, wording, [question for question, _ in pairs])
    known, guess = thresholds(said, [gold for _, gold in pairs])
    return Certainty(
        known=known,
        guess=guess,
        fitted_on=f"{len(pairs)} {what}",
        commonest=most_common_answer([*learned, *held_out]),
        answers=sorted({gold for _, gold in [*learned, *held_out]}),
        names=sorted(set(names)),
        wordings=[[each.before, each.after] for each in relations],
    )


def thresholds(said: Sequence[Answer], golds: Sequence[str]) -> tuple[float | None, float]:
    """The confidence from which 95% are right, and the one below which at most half are."""
    sure = [each.confidence for each in said]
    right = [each.text == gold for each, gold in zip(said, golds, strict=True)]
    known = threshold_for(PRECISION, sure, right)
    guess, total = 0.0, len(sure)
    for point in risk_coverage(sure, right):
        if known is not None and point.threshold > known.threshold:
            continue  # what is known is no guess
        above = point.coverage * total
        below = total - above
        wrong = below - (sum(right) - above * point.precision)
        if below > 0.5 and wrong >= below / 2:
            guess = max(guess, point.threshold)
    return None if known is None else known.threshold, guess
