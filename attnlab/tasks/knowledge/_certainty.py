"""Thresholds that decide whether an answer is known, unsure, a guess, or not in what was read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from attnlab._calibration import risk_coverage, threshold_for
from attnlab._short_repr import one_line
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge._data import Pair, Relation, loose_name_in, most_common_answer
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge.kind import KNOWN

PRECISION = 0.95  # of answers that are called known
MAX_MADE_UP = 0.03  # of made-up names are called known, at most; 5% is promised on others
MAX_MISTAKEN = 0.02  # of the right answers are called "not in what I read", at most
MAX_UNWORDED = 0.02  # of the training questions, if wordings tell kinds of questions apart
TINY = 1e-9
MIN_HELD_OUT = 20  # pairs; with fewer, a threshold is chance
MIN_KNOWN = 10  # of the held-out answers reach the threshold; fewer do not show a precision


class AnswerVerdict(StrEnum):
    """What a run says about its answer."""

    KNOWN = "known"
    UNSURE = "unsure"
    GUESS = "guess"
    UNREAD = "not in what I read"
    OTHER = "another kind of question"


@dataclass(frozen=True)
class Certainty:
    """Thresholds and training names of a run, from training data and made-up names alone."""

    known: float | None
    """From this confidence on, 95% of the answers were right, and at most 3% of the made-up names
    had an answer; None if that is true at none, or if too few pairs were held out."""
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
    doubt: float | None = None
    """A known answer has a probability of the empty answer below this; None: any."""
    unread: float | None = None
    """From this probability of the empty answer on, the name was not in what the model read; None
    if the model did not learn to tell, as runs before version 0.2.0."""
    fitted: bool = True
    """Whether there were enough held-out pairs to fit thresholds."""
    worded: bool = True
    """Whether nearly all training questions have one of the wordings. Otherwise a question with
    another wording may well be of a known kind."""

    def verdict(self, answer: Answer) -> AnswerVerdict:
        """A question that is worded as no training question is of another kind."""
        has_wordings = self.worded and self.wordings
        if has_wordings and loose_name_in(answer.question, self.relations) is None:
            return AnswerVerdict.OTHER
        return self.verdict_by(answer.confidence, answer.nothing)

    def verdict_by(self, confidence: float, nothing: float = 0.0) -> AnswerVerdict:
        """The verdict on an answer to a question of a known kind."""
        if self.unread is not None and nothing >= self.unread:
            return AnswerVerdict.UNREAD
        if self.known is not None and confidence >= self.known:
            if self.doubt is None or nothing < self.doubt:
                return AnswerVerdict.KNOWN
            return AnswerVerdict.UNSURE
        return AnswerVerdict.GUESS if confidence < self.guess else AnswerVerdict.UNSURE

    @property
    def relations(self) -> list[Relation]:
        return [Relation(before, after) for before, after in self.wordings]

    @staticmethod
    def load(folder: Path) -> Certainty:
        path = folder / KNOWN
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Certainty(
                known=_optional_number(data["known"]),
                guess=float(data["guess"]),
                fitted_on=str(data["fitted_on"]),
                commonest=str(data["commonest"]),
                answers=[str(text) for text in data["answers"]],
                names=[str(text) for text in data["names"]],
                wordings=[[str(before), str(after)] for before, after in data["wordings"]],
                doubt=_optional_number(data.get("doubt")),
                unread=_optional_number(data.get("unread")),
                fitted=bool(data.get("fitted", True)),
                worded=bool(data.get("worded", True)),
            )
        except FileNotFoundError:
            raise ValueError(
                f"{folder}: was never trained on questions; use knowledge finetune or knowledge "
                "learn"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = one_line(error, 200)
            raise ValueError(f"{path}: is damaged ({reason}); train the run again") from None


def _optional_number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FittedThresholds:
    """Those of `Certainty`."""

    known: float | None = None
    doubt: float | None = None
    guess: float = 0.0
    unread: float | None = None


def fit_certainty(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    *,
    held_out: Sequence[Pair],
    learned: Sequence[Pair],
    names: Sequence[str],
    relations: Sequence[Relation],
    made_up: Mapping[str, Sequence[str]] | None = None,
) -> Certainty:
    """Fit thresholds on the held-out pairs and on questions about made-up names, by their kind.

    With few held-out pairs none is fitted: answers that were learned by heart tell nothing.
    """
    texts = {kind: list(questions) for kind, questions in (made_up or {}).items() if questions}
    fitted = len(held_out) >= MIN_HELD_OUT
    fit = FittedThresholds(unread=0.5 if texts else None)
    count = sum(map(len, texts.values()))
    fitted_on = (
        f"nothing: {len(held_out)} held-out training pairs are too few, at least {MIN_HELD_OUT} "
        "are needed"
    )
    if fitted:
        answers = answer_with_confidence(model, encoding, [question for question, _ in held_out])
        is_right = [a.text == gold for a, (_, gold) in zip(answers, held_out, strict=True)]
        unknown = [answer_with_confidence(model, encoding, each) for each in texts.values()]
        fit = thresholds(answers, is_right, unknown, least_known=MIN_KNOWN)
        fitted_on = f"{len(held_out)} held-out training pairs"
        fitted_on += f" and {count} questions about made-up names" if count else ""
    questions = [question for question, _ in [*learned, *held_out]]
    unworded = sum(loose_name_in(question, relations) is None for question in questions)
    return Certainty(
        known=fit.known,
        guess=fit.guess,
        doubt=fit.doubt,
        unread=fit.unread,
        fitted=fitted,
        fitted_on=fitted_on,
        worded=unworded <= MAX_UNWORDED * len(questions),
        commonest=most_common_answer([*learned, *held_out]),
        answers=sorted({answer for _, answer in [*learned, *held_out]}),
        names=sorted(set(names)),
        wordings=[[relation.before, relation.after] for relation in relations],
    )


def thresholds(
    answers: Sequence[Answer],
    is_right: Sequence[bool],
    unknown: Sequence[Sequence[Answer]] = (),
    *,
    least_known: int = 1,
) -> FittedThresholds:
    """Thresholds from answers about real names, right or wrong, and about made-up names by kind.

    None is called known if fewer than `least_known` of the real ones would be.
    """
    unread = _unread_threshold(answers, is_right, unknown)
    real = [
        (answer, right)
        for answer, right in zip(answers, is_right, strict=True)
        if unread is None or answer.nothing < unread
    ]
    known, doubt = _known_thresholds(real, unknown, unread)
    if known is not None:
        reached = sum(a.confidence >= known and a.nothing < (doubt or 2.0) for a, _ in real)
        known = known if reached >= least_known else None
    guess = _guess_threshold([(answer.confidence, right) for answer, right in real], known)
    return FittedThresholds(known, doubt, guess, unread)


def _known_thresholds(
    real: Sequence[tuple[Answer, bool]], unknown: Sequence[Sequence[Answer]], unread: float | None
) -> tuple[float | None, float | None]:
    """The confidence and the doubt that call the most right answers known.

    An unsure answer and an unknown name both lower the confidence, so two thresholds refuse
    made-up names at a lower price than one. Of equal doubts the largest is the least strict.
    """
    best: tuple[int, float | None, float | None] = (0, None, None)
    limits = {unread} if not unknown else {unread, *(a.nothing + TINY for a, _ in real)}
    for doubt in sorted(limits, key=lambda each: -2.0 if each is None else -each):
        inside = 2.0 if doubt is None else doubt
        rows = [(a.confidence, right) for a, right in real if a.nothing < inside]
        least = max((_exceeded_by(kind, MAX_MADE_UP, inside) for kind in unknown), default=0.0)
        known = _known_threshold(rows, least)
        right = sum(right for sure, right in rows if known is not None and sure >= known)
        if right > best[0]:
            best = (right, known, doubt)
    return best[1:]


def _unread_threshold(
    answers: Sequence[Answer], is_right: Sequence[bool], unknown: Sequence[Sequence[Answer]]
) -> float | None:
    """A probability of the empty answer that few right answers reach; None if fewer than half of
    the made-up names reach it.

    It lies halfway between those right answers and a half, from where on the empty answer is the
    likeliest.
    """
    values = sorted((a.nothing for a, right in zip(answers, is_right, strict=True) if right))
    allowed = int(MAX_MISTAKEN * len(values))
    reached = values[len(values) - 1 - allowed] if values else 0.5
    threshold = (reached + 0.5) / 2 if reached < 0.5 else min(1.0, reached + TINY)
    made_up = [answer.nothing >= threshold for kind in unknown for answer in kind]
    return threshold if made_up and sum(made_up) >= len(made_up) / 2 else None


def _exceeded_by(answers: Sequence[Answer], fraction: float, doubt: float) -> float:
    """The lowest confidence that at most this fraction of the answers reach, with less doubt."""
    values = sorted((a.confidence for a in answers if a.nothing < doubt), reverse=True)
    allowed = int(fraction * len(answers))
    return values[allowed] + TINY if len(values) > allowed else 0.0


def _known_threshold(rows: Sequence[tuple[float, bool]], least: float) -> float | None:
    """The lowest confidence, at least `least`, from which 95% are right.

    It is moved halfway to the next lower answer, because other answers are not exactly as sure.
    """
    if not (enough := [row for row in rows if row[0] >= least]):
        return None
    if (point := threshold_for(PRECISION, *zip(*enough, strict=True))) is None:
        return None
    below = max(least, 0.5, *(sure for sure, _ in rows if sure < point.threshold))
    return min(point.threshold, (below + point.threshold) / 2)


def _guess_threshold(rows: Sequence[tuple[float, bool]], known: float | None) -> float:
    """The highest confidence, at most `known`, below which at most half are right.

    Where there is nothing to see, the model's own probability counts: below a half an answer is
    more probably wrong than right.
    """
    limit = 0.5 if known is None else min(known, 0.5)
    if not any(confidence < limit for confidence, _ in rows):
        return limit
    guess = 0.0
    for point in risk_coverage(*zip(*rows, strict=True)):
        below = [right for confidence, right in rows if confidence < point.threshold]
        if known is not None and point.threshold > known:
            continue  # a known answer is not a guess
        if below and sum(below) <= len(below) / 2:
            guess = max(guess, point.threshold)
    return guess
