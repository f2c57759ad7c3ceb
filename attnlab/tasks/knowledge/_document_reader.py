"""A reader: it sees a document, then a question, and copies the answer."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.tasks.knowledge._data import Library, Pair, Relation, name_in
from attnlab.tasks.knowledge._pretraining_objectives import Entities
from attnlab.tasks.knowledge._rows import Row, Wording
from attnlab.tasks.knowledge._task import Source


@dataclass(frozen=True)
class Reading:
    """A question beside a document that has the answer."""

    document: str
    question: str
    answer: str


def find_readings(
    pairs: Sequence[Pair], library: Library, relations: Sequence[Relation]
) -> list[Reading]:
    """The labeled pairs whose answer stands in a document of that name."""
    found = []
    for question, answer in pairs:
        about = name_in(question, relations)
        for document in library.by_title.get(about[0], []) if about else []:
            if standing(answer, document):
                found.append(Reading(document, question, answer))
                break
    return found


def standing(answer: str, document: str) -> bool:
    """Whether the answer stands in the document as whole words."""
    return re.search(_whole(answer), document) is not None


def occurrences(words: str, text: str) -> list[tuple[int, int]]:
    """Where the words stand as whole words: [start, end)."""
    return [place.span() for place in re.finditer(_whole(words), text)]


def _whole(words: str) -> str:
    return rf"(?<!\w){re.escape(words)}(?!\w)"


class OpenBook(Source):
    """Every document with its question, if it has one, and with copies of some of its own runs.

    A copy is self-made: words from around a capitalized run, and the run. In a share of the
    labeled documents another answer takes the place of the true one, in the text as in the
    target: what is copied must come from the document, not from knowing the world.
    """

    def __init__(
        self,
        readings: Sequence[Reading],
        documents: Sequence[str],
        *,
        swapped: float = 0.5,
        copies: int = 2,
        document_weight: float = 1.0,
        answer_weight: float = 3.0,
    ) -> None:
        self.documents = list(documents)
        self.swapped, self.copies = swapped, copies
        self.document_weight, self.answer_weight = document_weight, answer_weight
        self.answers = [reading.answer for reading in readings]
        self.readings: dict[str, list[Reading]] = defaultdict(list)
        for reading in readings:
            self.readings[reading.document].append(reading)
        self.entities = Entities(bare=0.0, foreign=0, keep=0.7)
        self.entities.prepare(self.documents)

    def rows(self, wording: Wording, context: int, chance: random.Random) -> list[Row]:
        return [self._row(document, wording, context, chance) for document in self.documents]

    def _row(self, document: str, wording: Wording, context: int, chance: random.Random) -> Row:
        asked = [(each.question, each.answer) for each in self.readings.get(document, [])]
        if asked and chance.random() < self.swapped:
            document, asked = self._swap(document, asked, chance)
        ids = wording.encode(document)
        if len(ids) > context // 2:  # what is cut off cannot be copied, nor half a word
            ids = ids[: context // 2]
            document = wording.decode(ids).rpartition(" ")[0]
        asked = [(question, answer) for question, answer in asked if standing(answer, document)]
        chance.shuffle(asked)
        frames = self.entities.frames(document, chance)
        asked += chance.sample(frames, min(len(frames), self.copies))
        row = Row().add(ids, self.document_weight).add([wording.mask], 0.0)
        for question, answer in asked:
            shown, said = wording.question(question), [*wording.encode(answer), wording.mask]
            if len(row) + len(shown) + len(said) > context + 1:
                break
            row.add(shown, 0.0).add(said, self.answer_weight)
        return row

    def _swap(
        self, document: str, asked: list[Pair], chance: random.Random
    ) -> tuple[str, list[Pair]]:
        """One answer takes another's place throughout."""
        chosen = chance.choice(asked)[1]
        other = chance.choice(self.answers)
        document = re.sub(_whole(chosen), lambda _: other, document)
        return document, [(q, other if a == chosen else a) for q, a in asked]


def prompt(document: str, question: str, wording: Wording, context: int) -> list[int]:
    """What the reader is given; a document that is too long loses its end."""
    asked = wording.question(question)
    return [*wording.encode(document)[: max(0, context - len(asked) - 1)], wording.mask, *asked]


def unlabeled(library: Library, pairs: Sequence[Pair], relations: Sequence[Relation]) -> list[str]:
    """Every question that the pairs do not answer: each wording for each title."""
    known = {question for question, _ in pairs}
    asked = [relation.ask(title) for relation in relations for title in library.by_title]
    return [question for question in asked if question not in known]
