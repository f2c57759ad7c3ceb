"""Readers vote on answers to unlabeled questions. A model then learns these self-made answers."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab._safe_files import write_text
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answer_chooser import Chooser
from attnlab.tasks.knowledge._answers import NEW_TOKENS, candidate_answers, max_context
from attnlab.tasks.knowledge._data import Library, Pair, Relation, documents_about, name_in
from attnlab.tasks.knowledge._document_reader import occurs_in, reader_prompt
from attnlab.tasks.knowledge._task import RowSource
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow

MIN_RATIO = 0.02  # to the best answer's probability; less probable answers are dropped
SMOOTHING = 0.01  # added to the readers' probability of every candidate of the chooser
QUESTIONS_AT_ONCE = 4096  # prompts and answers of more would take much memory
ANSWER_TOKENS = NEW_TOKENS + 1  # that a prompt leaves free


@dataclass(frozen=True)
class SelfMadeAnswer:
    """An answer by the readers, to be used as a training label."""

    question: str
    answer: str
    confidence: float
    """The mean probability by the readers."""
    in_document: bool
    """Whether a document about the name contains the answer."""
    others: dict[str, float] = field(default_factory=dict)
    """Other answers with their probabilities."""

    def target_probabilities(self, sharpen: float = 1.0) -> list[tuple[str, float]]:
        """Answers to learn with their probabilities, raised to the power `sharpen`.

        With 1 they are as confident as the readers. If two answers are nearly equally probable, the
        model may remember the wrong one; a power above 1 separates them.
        """
        likely = {text: p for text, p in self.others.items() if p >= MIN_RATIO * self.confidence}
        probabilities = {self.answer: self.confidence, **likely}
        largest = max(probabilities.values())  # divide by it, so that no power underflows
        if not largest:
            return [(self.answer, 1.0)]
        sharpened = {text: (p / largest) ** sharpen for text, p in probabilities.items()}
        total = sum(sharpened.values())
        return [(text, p / total) for text, p in sharpened.items()]


@dataclass
class Ballot:
    """The votes of the readers on one question."""

    question: str
    votes: dict[str, float]
    """Answers with the mean of the readers' probabilities."""
    in_document: set[str]
    """The answers that a document about the name contains."""

    def add(self, probabilities: Mapping[str, float], document: str, readers: int) -> None:
        """Add the vote of one of the readers on one document."""
        for text, probability in probabilities.items():
            if text:
                self.votes[text] += probability / readers
            if occurs_in(text, document):
                self.in_document.add(text)

    def decide(self) -> SelfMadeAnswer | None:
        """The most probable answer. Answers in the document come before all others."""
        if not self.votes:
            return None
        best = max(self.votes, key=lambda t: (t in self.in_document, self.votes[t], t))
        others = {t: p for t, p in self.votes.items() if t in self.in_document and t != best}
        confidence = min(1.0, self.votes[best])
        return SelfMadeAnswer(self.question, best, confidence, best in self.in_document, others)

    def decide_with(self, chooser: Chooser, weight: float) -> SelfMadeAnswer | None:
        """The most probable answer by the weighted geometric mean of readers and chooser.

        The chooser's guesses get the probability that the readers give to answers outside the
        document.
        """
        contained = self.in_document & self.votes.keys()
        votes = {text: self.votes[text] for text in sorted(contained)}
        choices = chooser.choose(self.question, reader_answers=votes)
        if not choices:
            return self.decide()
        total_votes = max(1.0, sum(votes.values()))  # each document about a name adds its votes
        rest = 1.0 - sum(votes.values()) / total_votes
        scores: dict[str, float] = {}
        for choice in choices:
            inside = votes.get(choice.text, 0.0) / total_votes
            by_readers = inside if choice.in_document else rest
            scores[choice.text] = (by_readers + SMOOTHING) ** (1 - weight)
            scores[choice.text] *= choice.probability**weight
        total = sum(scores.values())
        best = max(scores, key=lambda text: (scores[text], text))
        others = {text: score / total for text, score in scores.items() if text != best}
        in_document = any(choice.in_document for choice in choices if choice.text == best)
        return SelfMadeAnswer(self.question, best, scores[best] / total, in_document, others)


def poll(
    readers: Sequence[Decoder],
    encoding: KnowledgeTextEncoding,
    library: Library,
    relations: Sequence[Relation],
    questions: Sequence[str],
    max_tokens: int = NEW_TOKENS,
) -> list[Ballot]:
    """Collect the votes of all readers on all questions, from all documents about the name."""
    ballots = [Ballot(question, defaultdict(float), set()) for question in questions]
    context = max_context(readers[0]) - ANSWER_TOKENS
    for start in range(0, len(ballots), QUESTIONS_AT_ONCE):
        entries = [
            (ballot, document)
            for ballot in ballots[start : start + QUESTIONS_AT_ONCE]
            for document in documents_about(ballot.question, library, relations)
        ]
        prompts = [
            reader_prompt(document, ballot.question, encoding, context)
            for ballot, document in entries
        ]
        for reader in readers:
            answers = candidate_answers(reader, encoding, prompts, max_tokens)
            for (ballot, document), probabilities in zip(entries, answers, strict=True):
                ballot.add(probabilities, document, len(readers))
    return ballots


def decide(
    ballots: Sequence[Ballot],
    labeled: Sequence[Pair],
    library: Library,
    relations: Sequence[Relation],
    *,
    chooser: float = 0.0,
) -> list[SelfMadeAnswer]:
    """The answers of all ballots. With `chooser` above 0, a chooser is trained on the labeled pairs
    of each relation and has this weight in the vote."""
    if not chooser:
        decided = [ballot.decide() for ballot in ballots]
        return [answer for answer in decided if answer is not None]
    pairs_by_relation: dict[Relation, list[Pair]] = {relation: [] for relation in relations}
    ballots_by_relation: dict[Relation, list[Ballot]] = {relation: [] for relation in relations}
    for pair in labeled:
        if (match := name_in(pair[0], relations)) is not None:
            pairs_by_relation[match[1]].append(pair)
    for ballot in ballots:
        if (match := name_in(ballot.question, relations)) is not None:
            ballots_by_relation[match[1]].append(ballot)
    answers: list[SelfMadeAnswer | None] = []
    for relation in relations:
        relation_chooser = Chooser(pairs_by_relation[relation], library, relation)
        answers += [
            ballot.decide_with(relation_chooser, chooser)
            for ballot in ballots_by_relation[relation]
        ]
    return [answer for answer in answers if answer is not None]


class SelfMadeAnswerSource(RowSource):
    """Rows from self-made answers, weighted by the confidence of the readers."""

    def __init__(self, answers: Sequence[SelfMadeAnswer], sharpen: float = 1.0) -> None:
        self.answers, self.sharpen = list(answers), sharpen

    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        del generator
        rows = (
            encoding.encode_pair(answer.question, text, weight=probability)
            for answer in self.answers
            for text, probability in answer.target_probabilities(self.sharpen)
        )
        return (row for row in rows if len(row) <= context + 1)


def write_self_made(path: Path, answers: Sequence[SelfMadeAnswer]) -> None:
    rows = [
        {
            "question": answer.question,
            "answer": answer.answer,
            "confidence": answer.confidence,
            "stands": answer.in_document,
            "others": answer.others,
        }
        for answer in answers
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
