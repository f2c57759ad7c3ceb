"""What to learn from a corpus before any question is asked.

Each objective turns a document into rows, anew in every epoch. They are chosen by name, with
options, and mixed: "entities", "span+lm", "3*entities:frames=2+lm".
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from attnlab.tasks.knowledge._data import body_of, title_of
from attnlab.tasks.knowledge._rows import Row, Wording


class Objective(ABC):
    """How the documents of an epoch become rows."""

    name: ClassVar[str]
    about: ClassVar[str]

    def prepare(self, documents: Sequence[str]) -> None:  # noqa: B027 (most need nothing)
        """Look at the whole corpus once, before the first epoch."""

    @abstractmethod
    def rows(
        self, document: str, wording: Wording, context: int, chance: random.Random
    ) -> list[Row]:
        """The rows that this document gives in this epoch, each of at most `context` + 1 ids."""


@dataclass
class NextToken(Objective):
    """Predict every token of the document from those before it."""

    name: ClassVar[str] = "lm"
    about: ClassVar[str] = "predict each next token of the whole line"

    def rows(
        self, document: str, wording: Wording, context: int, chance: random.Random
    ) -> list[Row]:
        del chance
        ids = [*wording.encode(document), wording.tokenizer.end]
        return [
            Row().add(ids[start : start + context + 1], 1.0)
            for start in range(0, max(1, len(ids) - 1), context)
        ]


@dataclass
class Span(Objective):
    """The course's span corruption: `prefix MASK suffix MASK masked`.

    The document is first cut to a random length from `shortest` to 7/8 of the context. The row has
    one id more than the model reads: the course's synthesizer reads 127 of its 128 characters, and
    documents are cut for it as for the others.
    """

    name: ClassVar[str] = "span"
    about: ClassVar[str] = "the course's: cut to a random length, mask a quarter on average"
    shortest: Annotated[int, "shortest length that a document is cut to"] = 4

    def __post_init__(self) -> None:
        _within(self, "shortest", 1, 10_000)

    def rows(
        self, document: str, wording: Wording, context: int, chance: random.Random
    ) -> list[Row]:
        ids = wording.encode(document)
        longest = max(self.shortest, (context + 1) * 7 // 8)
        ids = ids[: chance.randint(self.shortest, longest)]
        return [masked_span(ids, wording, context, chance)]


@dataclass
class WholeSpan(Objective):
    """Span corruption of whole lines: nothing of a document is cut off, unless it does not fit."""

    name: ClassVar[str] = "lines"
    about: ClassVar[str] = "span corruption of whole lines, nothing cut off"

    def rows(
        self, document: str, wording: Wording, context: int, chance: random.Random
    ) -> list[Row]:
        ids = wording.encode(document)
        room = max(1, context - 1)  # two masks more, one target less
        return [
            masked_span(ids[start : start + room], wording, context, chance)
            for start in range(0, len(ids), room)
        ]


def masked_span(ids: list[int], wording: Wording, context: int, chance: random.Random) -> Row:
    """`prefix MASK suffix MASK masked`: every token is a target, as in the course."""
    length = len(ids)
    # Rounded up or down by chance: from four tokens on, a quarter is masked on average, exactly.
    size = max(1, int(chance.uniform(1, length / 2 - 1) + chance.random()))
    start = chance.randint(0, length - size)
    mask = [wording.mask]
    row = ids[:start] + mask + ids[start + size :] + mask + ids[start : start + size]
    return Row().add(row[: context + 1], 1.0)


AROUND = "()[],.;:\"'"  # punctuation that is no part of a name
WORD = r"[^\W\d_][\w'’.\-]*[\w'’]|[^\W\d_]"


@dataclass
class Entities(Objective):
    """Recall each capitalized run of a document from the title and a few words that stand near it.

    A row is a short frame and the run: "born Ada Byron in MASK London MASK". The title stands
    among words from around the run and, often, among words of other documents: so it is learned
    as a key in any surroundings, a question's included.
    """

    name: ClassVar[str] = "entities"
    about: ClassVar[str] = "recall each capitalized run from the title and a few near words"
    bare: Annotated[float, "share of rows with the title alone"] = 0.2
    near: Annotated[int, "words on each side of the run that may stay"] = 5
    keep: Annotated[float, "share of these words that stay"] = 0.5
    foreign: Annotated[int, "at most so many words of other documents"] = 3
    numbers: Annotated[bool, "recall runs of digits too"] = False

    def __post_init__(self) -> None:
        for name, high in (("bare", 1), ("keep", 1), ("near", 100), ("foreign", 100)):
            _within(self, name, 0, high)
        self._common: set[str] = set()
        self._words: list[str] = []

    def prepare(self, documents: Sequence[str]) -> None:
        """Which words are capitalized for their place in a sentence, not for being names."""
        words = Counter(word for document in documents for word in document.split())
        self._words = [word for word, count in words.items() for _ in range(min(count, 50))]
        self._common = {
            word for word in words if word[0].isupper() and words[word.lower()] > words[word]
        }

    def runs(self, document: str) -> list[tuple[int, int]]:
        """Where the runs are in the body's words: [start, end)."""
        title = set(re.findall(WORD, title_of(document)))
        title |= {word.strip(AROUND) for word in title_of(document).split()}  # "50" of "50 Cent"
        found: list[tuple[int, int]] = []
        begin: int | None = None
        words = body_of(document).split()
        for place, word in enumerate([*words, ""]):
            bare = word.strip(AROUND)
            begins = not place or words[place - 1][-1] in ".!?"
            names = bare[:1].isupper() and not (begins and bare in self._common)
            names = names or (self.numbers and bare.isdigit())
            starts = begin is not None and word[:1] in "([\"'"
            if begin is not None and (not names or starts):
                found.append((begin, place))
                begin = None
            if names and begin is None:
                begin = place
            if begin is not None and word[-1:] in ",.;:)]\"'":  # a run ends at punctuation
                found.append((begin, place + 1))
                begin = None
        return [
            (start, end)
            for start, end in found
            if not {w.strip(AROUND) for w in words[start:end]} <= title
        ]

    def texts(self, document: str) -> list[str]:
        """The runs, without the punctuation around them."""
        words = body_of(document).split()
        found = [" ".join(words[start:end]).strip(AROUND) for start, end in self.runs(document)]
        return [text for text in found if text]

    def frames(self, document: str, chance: random.Random) -> list[tuple[str, str]]:
        """What is shown and what is to be recalled, for each run."""
        title, words = title_of(document), body_of(document).split()
        made = []
        for start, end in self.runs(document):
            run = " ".join(words[start:end]).strip(AROUND)
            frame = [title]
            if chance.random() >= self.bare:
                before, after = words[max(0, start - self.near) : start], words[end:]
                left = [word for word in before if chance.random() < self.keep]
                right = [word for word in after[: self.near] if chance.random() < self.keep]
                frame = [*left, title, *right] if chance.random() < 0.5 else [title, *left, *right]
            for _ in range(chance.randint(0, self.foreign)):
                frame.insert(chance.randint(0, len(frame)), chance.choice(self._words))
            made.append((" ".join(frame), run))
        return made

    def rows(
        self, document: str, wording: Wording, context: int, chance: random.Random
    ) -> list[Row]:
        rows = [wording.pair(frame, run) for frame, run in self.frames(document, chance)]
        return [row for row in rows if len(row) <= context + 1]


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Span, WholeSpan, NextToken, Entities)
}


def create_objectives(spec: str) -> list[Objective]:
    """ "entities", "span+lm", "2*entities:foreign=0,bare=1+lm": each as often as its number."""
    made: list[Objective] = []
    for part in spec.split("+"):
        times, star, rest = part.strip().partition("*")
        if not star:
            times, rest = "1", part.strip()
        name, _, options = rest.strip().partition(":")
        if not times.strip().isdecimal() or not 1 <= int(times) <= 100:
            raise ValueError(f"objective {spec!r}: {times!r} is no number of times from 1 to 100")
        if name not in OBJECTIVES:
            raise ValueError(f"objective {name!r}; there are {', '.join(OBJECTIVES)}")
        kind = OBJECTIVES[name]
        made += [kind(**_options(kind, options)) for _ in range(int(times))]
    return made


def _options(kind: type[Objective], text: str) -> dict[str, Any]:
    """name=value, separated by commas, each of the type of its default."""
    known = {each.name: each.default for each in fields(kind)}  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if name not in known or not equals:
            allowed = ", ".join(known) or "none"
            raise ValueError(f"objective {kind.name}: no option {part!r}; there are {allowed}")
        try:
            found[name] = _value(value, known[name])
        except ValueError:
            expected = type(known[name]).__name__
            raise ValueError(
                f"objective {kind.name}: {name} is {value!r}; give a value like "
                f"{known[name]} ({expected})"
            ) from None
    return found


def _within(objective: Objective, name: str, low: int, high: int) -> None:
    if not low <= getattr(objective, name) <= high:
        raise ValueError(
            f"objective {objective.name}: {name} is {getattr(objective, name)}; "
            f"give {low} to {high}"
        )


def _value(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in SWITCHES:
            raise ValueError(text)
        return SWITCHES[text.lower()]
    return type(default)(text)


SWITCHES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
