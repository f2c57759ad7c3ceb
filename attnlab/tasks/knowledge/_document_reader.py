"""Train readers: a reader gets a document and a question, and copies the answer."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnlab.tasks.knowledge._data import Library, Pair, Relation, name_in
from attnlab.tasks.knowledge._pretraining_objectives import Entities
from attnlab.tasks.knowledge._task import RowSource
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow


@dataclass(frozen=True)
class ReadingExample:
    """A question with a document that contains the answer."""

    document: str
    question: str
    answer: str
    relation: Relation | None = None


def find_readings(
    pairs: Sequence[Pair], library: Library, relations: Sequence[Relation]
) -> list[ReadingExample]:
    """Examples from the pairs whose answer occurs in a document about the name."""
    readings = []
    for question, answer in pairs:
        match = name_in(question, relations)
        if match is None:
            continue
        for document in library.by_title.get(match[0], []):
            if occurs_in(answer, document):
                readings.append(ReadingExample(document, question, answer, match[1]))
                break
    return readings


def occurs_in(answer: str, document: str) -> bool:
    """Whether the document contains the answer as whole words."""
    return re.search(_whole_words_pattern(answer), document) is not None


def occurrences(words: str, text: str) -> list[tuple[int, int]]:
    """Where the text contains the words as whole words: [start, end)."""
    return [match.span() for match in re.finditer(_whole_words_pattern(words), text)]


def _whole_words_pattern(words: str) -> str:
    return rf"(?<!\w){re.escape(words)}(?!\w)"


class OpenBookSource(RowSource):
    """Every document with its question, if it has one, and with self-made copying tasks.

    A copying task is made from words around a string that looks like an answer and the string
    itself. In a fraction of the labeled documents (`swapped`) another answer to the same kind of
    question replaces the true one, in the text and in the target. So the reader has to copy from
    the document and cannot rely on what it knows.
    """

    def __init__(
        self,
        readings: Sequence[ReadingExample],
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
        self.answers: dict[Relation | None, list[str]] = defaultdict(list)
        self.readings: dict[str, list[ReadingExample]] = defaultdict(list)
        for reading in readings:
            self.answers[reading.relation].append(reading.answer)
            self.readings[reading.document].append(reading)
        self.entities = Entities(bare=0.0, foreign=0, keep=0.7)
        self.entities.prepare(self.documents, [reading.answer for reading in readings])

    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        for document in self.documents:
            yield self._row(document, encoding, context, generator)

    def _row(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> TrainingRow:
        readings = self.readings.get(document, [])
        tasks = [(reading.question, reading.answer) for reading in readings]
        if readings and generator.random() < self.swapped:
            document, tasks = self._swap(document, generator.choice(readings), tasks, generator)
        ids = encoding.encode(document)
        if len(ids) > context // 2:  # the reader cannot copy what is cut off, nor half a word
            ids = ids[: context // 2]
            document = encoding.decode(ids).rpartition(" ")[0]
        tasks = [(question, answer) for question, answer in tasks if occurs_in(answer, document)]
        generator.shuffle(tasks)
        frames = self.entities.frames(document, generator)
        tasks += generator.sample(frames, min(len(frames), self.copies))
        row = TrainingRow().add(ids, self.document_weight).add([encoding.mask], 0.0)
        for question, answer in tasks:
            prompt, answer_ids = (
                encoding.encode_question(question),
                [*encoding.encode(answer), encoding.mask],
            )
            if len(row) + len(prompt) + len(answer_ids) > context + 1:
                break
            row.add(prompt, 0.0).add(answer_ids, self.answer_weight)
        return row

    def _swap(
        self, document: str, reading: ReadingExample, tasks: list[Pair], generator: random.Random
    ) -> tuple[str, list[Pair]]:
        """Replace one answer everywhere in the document by another to the same kind of question."""
        replaced, other = reading.answer, generator.choice(self.answers[reading.relation])
        document = re.sub(_whole_words_pattern(replaced), lambda _: other, document)
        return document, [(q, other if a == replaced else a) for q, a in tasks]


def reader_prompt(
    document: str, question: str, encoding: KnowledgeTextEncoding, context: int
) -> list[int]:
    """The prompt of a reader: document, mask and question. A document that is too long is cut."""
    question_ids = encoding.encode_question(question)
    return [
        *encoding.encode(document)[: max(0, context - len(question_ids) - 1)],
        encoding.mask,
        *question_ids,
    ]


def unlabeled_questions(
    library: Library, pairs: Sequence[Pair], relations: Sequence[Relation]
) -> list[str]:
    """All questions without a label: each relation for each title."""
    labeled = {question for question, _ in pairs}
    questions = [relation.ask(title) for relation in relations for title in library.by_title]
    return [question for question in questions if question not in labeled]
