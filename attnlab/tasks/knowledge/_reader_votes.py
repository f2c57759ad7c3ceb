"""What readers find for everybody: they vote, and a model is to remember it."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from attnlab._safe_files import write_text
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answer_chooser import Chooser
from attnlab.tasks.knowledge._answers import NEW_TOKENS, candidates, reach
from attnlab.tasks.knowledge._data import Library, Pair, Relation, documents_about, name_in
from attnlab.tasks.knowledge._document_reader import prompt, standing
from attnlab.tasks.knowledge._rows import Row, Wording
from attnlab.tasks.knowledge._task import Source

LEAST = 0.02  # of the best answer's probability: below it another is not worth remembering
DOUBT = 0.01  # what readers give to any string of a document, said or not, beside a chooser
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

    def shares(self, sharpen: float = 1.0) -> list[tuple[str, float]]:
        """What to remember, and how much of it: with 1 as sure as the readers were, not surer.

        Of two that are nearly as likely, a model may remember the wrong one: a power above 1 sets
        them apart.
        """
        kept = {text: p for text, p in self.others.items() if p >= LEAST * self.confidence}
        found = {self.answer: self.confidence, **kept}
        most = max(found.values())  # against which no power comes to nothing
        if not most:
            return [(self.answer, 1.0)]
        sharp = {text: (p / most) ** sharpen for text, p in found.items()}
        whole = sum(sharp.values())
        return [(text, p / whole) for text, p in sharp.items()]


@dataclass
class Ballot:
    """What the readers said to one question."""

    question: str
    votes: dict[str, float]
    """The mean of the readers' probabilities."""
    stands: set[str]
    """What of it is in a document of that name."""

    def decide(self) -> SelfMade | None:
        """The likeliest; an answer that stands in the document goes before one that does not."""
        if not self.votes:
            return None
        best = max(self.votes, key=lambda t: (t in self.stands, self.votes[t], t))
        others = {t: p for t, p in self.votes.items() if t in self.stands and t != best}
        confidence = min(1.0, self.votes[best])
        return SelfMade(self.question, best, confidence, best in self.stands, others)

    def decide_with(self, chooser: Chooser, weight: float) -> SelfMade | None:
        """The likeliest by the weighted geometric mean of readers and chooser.

        What the readers gave to nothing in the document is there for the chooser's guesses: that
        much they doubt that the document tells.
        """
        said = {text: self.votes[text] for text in sorted(self.stands & self.votes.keys())}
        choices = chooser.choose(self.question, heard=said)
        if not choices:
            return self.decide()
        whole = max(1.0, sum(said.values()))  # each document of a name adds its votes
        rest = 1.0 - sum(said.values()) / whole
        both = {
            each.text: (said.get(each.text, 0.0) / whole if each.stands else rest, each.likely)
            for each in choices
        }
        votes = {text: (p + DOUBT) ** (1 - weight) * q**weight for text, (p, q) in both.items()}
        total = sum(votes.values())
        best = max(votes, key=lambda text: (votes[text], text))
        others = {text: p / total for text, p in votes.items() if text != best}
        stands = any(each.stands for each in choices if each.text == best)
        return SelfMade(self.question, best, votes[best] / total, stands, others)


def poll(
    readers: Sequence[Decoder],
    wording: Wording,
    library: Library,
    relations: Sequence[Relation],
    questions: Sequence[str],
    most: int = NEW_TOKENS,
) -> list[Ballot]:
    """What the readers say together: probabilities are added up."""
    places, prompts, documents = [], [], []
    for number, question in enumerate(questions):
        for document in documents_about(question, library, relations):
            places.append(number)
            documents.append(document)
            prompts.append(prompt(document, question, wording, reach(readers[0]) - ANSWER))
    ballots = [Ballot(question, defaultdict(float), set()) for question in questions]
    for reader in readers:
        said = candidates(reader, wording, prompts, most)
        for number, document, found in zip(places, documents, said, strict=True):
            for text, probability in found.items():
                if text:
                    ballots[number].votes[text] += probability / len(readers)
                if standing(text, document):
                    ballots[number].stands.add(text)
    return ballots


def decide(
    ballots: Sequence[Ballot],
    known: Sequence[Pair],
    library: Library,
    relations: Sequence[Relation],
    *,
    chooser: float = 0.0,
) -> list[SelfMade]:
    """The answers; a chooser's share of the vote makes one learn from the pairs known, for each
    relation its own."""
    if not chooser:
        found = [ballot.decide() for ballot in ballots]
        return [each for each in found if each is not None]
    of: dict[Relation, list[Pair]] = {relation: [] for relation in relations}
    asked: dict[Relation, list[Ballot]] = {relation: [] for relation in relations}
    for pair in known:
        if (about := name_in(pair[0], relations)) is not None:
            of[about[1]].append(pair)
    for ballot in ballots:
        if (about := name_in(ballot.question, relations)) is not None:
            asked[about[1]].append(ballot)
    made: list[SelfMade | None] = []
    for relation in relations:
        judge = Chooser(of[relation], library, relation)
        made += [ballot.decide_with(judge, chooser) for ballot in asked[relation]]
    return [each for each in made if each is not None]


class Remembered(Source):
    """Self-made answers, each as far as the readers believed in it."""

    def __init__(self, made: Sequence[SelfMade], sharpen: float = 1.0) -> None:
        self.made, self.sharpen = list(made), sharpen

    def rows(self, wording: Wording, context: int, chance: random.Random) -> list[Row]:
        del chance
        rows = [
            wording.pair(each.question, text, weight=share)
            for each in self.made
            for text, share in each.shares(self.sharpen)
        ]
        return [row for row in rows if len(row) <= context + 1]


def write_self_made(path: Path, made: Sequence[SelfMade]) -> None:
    text = "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in made)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
