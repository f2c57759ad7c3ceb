"""Pretraining objectives: how to turn a corpus into training rows.

An objective turns a document into new rows in every epoch. You choose objectives by name, with
options, and can mix them: "entities", "span+lm", "3*entities:near=2+lm".
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from attnlab.tasks.knowledge._answer_shapes import PUNCTUATION, AnswerShapes
from attnlab.tasks.knowledge._data import body_of, title_of
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow


class Objective(ABC):
    """Turns documents into training rows."""

    name: ClassVar[str]
    about: ClassVar[str]

    def prepare(  # noqa: B027 (most need nothing)
        self, documents: Sequence[str], answers: Sequence[str] = ()
    ) -> None:
        """Collect statistics of the whole corpus once, before the first epoch. `answers` are
        training answers: they show which strings are worth recalling."""

    @abstractmethod
    def rows(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> list[TrainingRow]:
        """The rows of a document for one epoch, each of at most `context` + 1 ids."""


@dataclass
class NextToken(Objective):
    """Predict every token of the document from those before it."""

    name: ClassVar[str] = "lm"
    about: ClassVar[str] = "predict each next token of the whole line"

    def rows(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> list[TrainingRow]:
        del generator
        ids = [*encoding.encode(document), encoding.tokenizer.end]
        return [
            TrainingRow().add(ids[start : start + context + 1], 1.0)
            for start in range(0, max(1, len(ids) - 1), context)
        ]


@dataclass
class Span(Objective):
    """The course's span corruption: `prefix MASK suffix MASK masked`.

    The document is first cut to a random length from `shortest` to 7/8 of the context. A row has
    one id more than the model reads. The course's synthesizer reads 127 of its 128 characters;
    its documents are cut in the same way.
    """

    name: ClassVar[str] = "span"
    about: ClassVar[str] = "the course's: cut to a random length, mask a quarter on average"
    shortest: Annotated[int, "shortest length that a document is cut to"] = 4

    def __post_init__(self) -> None:
        _check_range(self, "shortest", 1, 10_000)

    def rows(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> list[TrainingRow]:
        ids = encoding.encode(document)
        longest = max(self.shortest, (context + 1) * 7 // 8)
        ids = ids[: generator.randint(self.shortest, longest)]
        return [masked_span(ids, encoding, context, generator)]


@dataclass
class WholeSpan(Objective):
    """Span corruption of whole lines. A line that does not fit becomes several rows."""

    name: ClassVar[str] = "lines"
    about: ClassVar[str] = "span corruption of whole lines, nothing cut off"

    def rows(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> list[TrainingRow]:
        ids = encoding.encode(document)
        capacity = max(1, context - 1)  # two masks are added, one id is only a target
        return [
            masked_span(ids[start : start + capacity], encoding, context, generator)
            for start in range(0, len(ids), capacity)
        ]


def masked_span(
    ids: list[int], encoding: KnowledgeTextEncoding, context: int, generator: random.Random
) -> TrainingRow:
    """`prefix MASK suffix MASK masked`. Every token is a target, as in the course."""
    length = len(ids)
    # Random rounding, so that exactly a quarter is masked on average, from four tokens on.
    size = max(1, int(generator.uniform(1, length / 2 - 1) + generator.random()))
    start = generator.randint(0, length - size)
    mask = [encoding.mask]
    row = ids[:start] + mask + ids[start + size :] + mask + ids[start : start + size]
    return TrainingRow().add(row[: context + 1], 1.0)


WORD = r"[^\W\d_][\w'’.\-]*[\w'’]|[^\W\d_]"


@dataclass
class Entities(Objective):
    """Recall each string that may be an answer from the title and a few words near it.

    With training answers these are the strings that look like them (`AnswerShapes`), without any
    they are the capitalized runs.

    A row is a short frame and the run: "born Ada Byron in MASK London MASK". The frame mixes the
    title with words near the run and often with words of other documents. So the model learns the
    title as a key in any surroundings, such as a question.
    """

    name: ClassVar[str] = "entities"
    about: ClassVar[str] = "recall what looks like an answer from the title and a few near words"
    bare: Annotated[float, "fraction of rows that have only the title"] = 0.2
    near: Annotated[int, "number of words on each side of the run that may stay"] = 5
    keep: Annotated[float, "fraction of these words that stay"] = 0.5
    foreign: Annotated[int, "largest number of words from other documents"] = 3
    numbers: Annotated[bool, "recall runs of digits too"] = False

    def __post_init__(self) -> None:
        for name, high in (("bare", 1), ("keep", 1), ("near", 100), ("foreign", 100)):
            _check_range(self, name, 0, high)
        self._common: set[str] = set()
        self._words: list[str] = []
        self._shapes: AnswerShapes | None = None
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def prepare(self, documents: Sequence[str], answers: Sequence[str] = ()) -> None:
        """Find words that are capitalized because they begin a sentence, not because they are
        names, and what the answers look like."""
        self._runs = {}
        self._shapes = AnswerShapes(answers, documents) if answers else None
        words = Counter(word for document in documents for word in document.split())
        self._words = [word for word, count in words.items() for _ in range(min(count, 50))]
        self._common = {
            word for word in words if word[0].isupper() and words[word.lower()] > words[word]
        }

    def runs(self, document: str) -> list[tuple[int, int]]:
        """The positions of the strings to recall among the words of the body: [start, end)."""
        if document not in self._runs:
            self._runs[document] = self._find_runs(document)
        return self._runs[document]

    def _find_runs(self, document: str) -> list[tuple[int, int]]:
        if self._shapes is None:
            return self._capitalized_runs(document)
        spans = self._shapes.spans(body_of(document).split())
        if self._shapes.capitalized:
            spans += self._capitalized_runs(document)
        return sorted({*spans})

    def _capitalized_runs(self, document: str) -> list[tuple[int, int]]:
        title = set(re.findall(WORD, title_of(document)))
        title |= {
            word.strip(PUNCTUATION) for word in title_of(document).split()
        }  # "50" of "50 Cent"
        spans: list[tuple[int, int]] = []
        start_of_run: int | None = None
        words = body_of(document).split()
        for index, word in enumerate([*words, ""]):
            stripped = word.strip(PUNCTUATION)
            begins_sentence = not index or words[index - 1][-1] in ".!?"
            is_name = stripped[:1].isupper() and not (begins_sentence and stripped in self._common)
            is_name = is_name or (self.numbers and stripped.isdigit())
            opens_bracket = start_of_run is not None and word[:1] in "([\"'"
            if start_of_run is not None and (not is_name or opens_bracket):
                spans.append((start_of_run, index))
                start_of_run = None
            if is_name and start_of_run is None:
                start_of_run = index
            if start_of_run is not None and word[-1:] in ",.;:)]\"'":  # a run ends at punctuation
                spans.append((start_of_run, index + 1))
                start_of_run = None
        return [
            (start, end)
            for start, end in spans
            if not {w.strip(PUNCTUATION) for w in words[start:end]} <= title
        ]

    def texts(self, document: str) -> list[str]:
        """The runs, without the punctuation around them."""
        words = body_of(document).split()
        texts = [
            " ".join(words[start:end]).strip(PUNCTUATION) for start, end in self.runs(document)
        ]
        return [text for text in texts if text]

    def frames(self, document: str, generator: random.Random) -> list[tuple[str, str]]:
        """(frame, run) for each run: the words that are shown and the run to recall."""
        title, words = title_of(document), body_of(document).split()
        return [
            (
                self.frame(title, words, span, generator),
                " ".join(words[slice(*span)]).strip(PUNCTUATION),
            )
            for span in self.runs(document)
        ]

    def frame(
        self, title: str, words: Sequence[str], span: tuple[int, int], generator: random.Random
    ) -> str:
        """The title among some of the words near the span, and words of other documents."""
        start, end = span
        frame = [title]
        if generator.random() >= self.bare:
            before, after = words[max(0, start - self.near) : start], words[end:]
            left = [word for word in before if generator.random() < self.keep]
            right = [word for word in after[: self.near] if generator.random() < self.keep]
            frame = [*left, title, *right] if generator.random() < 0.5 else [title, *left, *right]
        for _ in range(generator.randint(0, self.foreign)):
            frame.insert(generator.randint(0, len(frame)), generator.choice(self._words))
        return " ".join(frame)

    def rows(
        self, document: str, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> list[TrainingRow]:
        rows = [encoding.encode_pair(frame, run) for frame, run in self.frames(document, generator)]
        return [row for row in rows if len(row) <= context + 1]


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Span, WholeSpan, NextToken, Entities)
}


def create_objectives(spec: str) -> list[Objective]:
    """Parse "entities", "span+lm" or "2*entities:foreign=0,bare=1+lm". A number repeats one."""
    objectives: list[Objective] = []
    for part in spec.split("+"):
        times, star, rest = part.strip().partition("*")
        if not star:
            times, rest = "1", part.strip()
        name, _, options = rest.strip().partition(":")
        if not times.strip().isdecimal() or not 1 <= int(times) <= 100:
            raise ValueError(
                f"objective {spec!r}: the factor is {times!r}; give a whole number from 1 to 100"
            )
        if name not in OBJECTIVES:
            raise ValueError(f"no objective {name!r}; choose from {', '.join(OBJECTIVES)}")
        kind = OBJECTIVES[name]
        objectives += [kind(**_parse_options(kind, options)) for _ in range(int(times))]
    return objectives


def _parse_options(kind: type[Objective], text: str) -> dict[str, Any]:
    """Parse name=value pairs, separated by commas. The default of an option sets its type."""
    defaults = {option.name: option.default for option in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if name not in defaults or not equals:
            allowed = ", ".join(defaults) or "none"
            raise ValueError(f"objective {kind.name}: no option {part!r} (options: {allowed})")
        try:
            values[name] = _parse_value(value, defaults[name])
        except ValueError:
            expected = type(defaults[name]).__name__
            raise ValueError(
                f"objective {kind.name}: {name} is {value!r}; give a value like "
                f"{defaults[name]} ({expected})"
            ) from None
    return values


def _check_range(objective: Objective, name: str, low: int, high: int) -> None:
    if not low <= getattr(objective, name) <= high:
        raise ValueError(
            f"objective {objective.name}: {name} is {getattr(objective, name)}; "
            f"give {low} to {high}"
        )


def _parse_value(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in BOOLEANS:
            raise ValueError(text)
        return BOOLEANS[text.lower()]
    return type(default)(text)


BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
