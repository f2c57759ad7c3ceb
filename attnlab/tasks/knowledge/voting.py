"""What readers find for everybody: they vote, and a model is to remember it."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from attnlab.files import write_text
from attnlab.models import Decoder
from attnlab.tasks.knowledge.answers import NEW_TOKENS, candidates, reach
from attnlab.tasks.knowledge.data import Library, Relation, documents_about
from attnlab.tasks.knowledge.reading import prompt, standing
from attnlab.tasks.knowledge.rows import Row, Wording
from attnlab.tasks.knowledge.task import Source

LEAST = 0.02  # of the best answer's probability: below it another is not worth remembering
ANSWER = NEW_TOKENS + 1  # room that a prompt leaves


@dataclass(frozen=True)
class SelfMade:
    """An answer that the readers found."""

    question: str
    answer: str
    confidence: float
    """The mean of what the readers give it."""
    stands: bool
    """Whether the answer is in a document of that name."""
    others: dict[str, float] = field(default_factory=dict)
    """What else they thought of, and how likely it seemed."""

    def shares(self) -> list[tuple[str, float]]:
        """What to remember, and how much of it: as sure as the readers were, not surer."""
        kept = {text: p for text, p in self.others.items() if p >= LEAST * self.confidence}
        whole = self.confidence + sum(kept.values())
        if not whole:
            return [(self.answer, 1.0)]
        return [(text, p / whole) for text, p in [(self.answer, self.confidence), *kept.items()]]


def answer_from_documents(
    readers: Sequence[Decoder],
    wording: Wording,
    library: Library,
    relations: Sequence[Relation],
    questions: Sequence[str],
    most: int = NEW_TOKENS,
) -> list[SelfMade]:
    """What the readers say together: probabilities are added up, and an answer that stands in the
    document goes before one that does not."""
    places, prompts, documents = [], [], []
    for number, question in enumerate(questions):
        for document in documents_about(question, library, relations):
            places.append(number)
            documents.append(document)
            prompts.append(prompt(document, question, wording, reach(readers[0]) - ANSWER))
    votes: list[dict[str, float]] = [defaultdict(float) for _ in questions]
    stands: list[set[str]] = [set() for _ in questions]
    for reader in readers:
        said = candidates(reader, wording, prompts, most)
        for number, document, found in zip(places, documents, said, strict=True):
            for text, probability in found.items():
                if text:
                    votes[number][text] += probability / len(readers)
                if standing(text, document):
                    stands[number].add(text)
    made = []
    for number, question in enumerate(questions):
        ballot = votes[number]
        if ballot:
            best = max(ballot, key=lambda t: (t in stands[number], ballot[t], t))
            others = {t: p for t, p in ballot.items() if t in stands[number] and t != best}
            confidence = min(1.0, ballot[best])
            made.append(SelfMade(question, best, confidence, best in stands[number], others))
    return made


class Remembered(Source):
    """Self-made answers, each as far as the readers believed in it."""

    def __init__(self, made: Sequence[SelfMade]) -> None:
        self.made = list(made)

    def rows(self, wording: Wording, context: int, chance: random.Random) -> list[Row]:
        del chance
        rows = [
            wording.pair(each.question, text, weight=share)
            for each in self.made
            for text, share in each.shares()
        ]
        return [row for row in rows if len(row) <= context + 1]


def write_self_made(path: Path, made: Sequence[SelfMade]) -> None:
    text = "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in made)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
