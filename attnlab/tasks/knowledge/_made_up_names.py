"""Names that stand in no document, so that a model learns to say that it does not know them.

Three kinds: parts of real names recombined, new spellings by the letters of real names, and words
of the documents. A model trains on some of them with an empty answer; others set its thresholds,
and others are left for the audit. The spelling of a name decides which, so no name has two uses.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from attnlab.tasks.knowledge._data import Relation, body_of, title_of
from attnlab.tasks.knowledge._pretraining_objectives import Entities, Objective
from attnlab.tasks.knowledge._task import RowSource
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow

PIECE = re.compile(r"[^\W_]+")
SHORT = 2  # letters; an initial is too short to make a name another one
COUNT = 200  # names of each kind
RECOMBINED, RESPELLED = "parts recombined", "new spellings"
SHARES = (0.85, 0.1, 0.05)  # of recombined names, the hardest to tell, new spellings and words
TRIES = 30  # to make a name that is not taken
START, END = "\x02", "\x03"  # of a word, for the model of its letters


class Use(StrEnum):
    """What a made-up name is for."""

    TRAINING = "training"
    THRESHOLDS = "thresholds"
    AUDIT = "audit"


def use_of(name: str) -> Use:
    """A quarter of all names is for thresholds, a quarter for audits, and half for training."""
    first = hashlib.sha256(f"made up|{name}".encode("utf-8", "surrogatepass")).digest()[0] % 4
    return (Use.THRESHOLDS, Use.AUDIT, Use.TRAINING, Use.TRAINING)[first]


class MadeUpNames:
    """Makes names for one use that are not among the real ones."""

    def __init__(self, names: Iterable[str], use: Use, words: Sequence[str] = ()) -> None:
        self.names, self.use, self.words = sorted({*names}), use, list(words)
        self.taken = {*self.names}
        self.pieces = [PIECE.findall(name) for name in self.names]
        self.vocabulary = {piece for pieces in self.pieces for piece in pieces}
        self.following: dict[str, list[str]] = defaultdict(list)  # letters after two letters
        for piece in sorted(self.vocabulary):
            marked = f"{START}{START}{piece}{END}"
            for i in range(len(marked) - 2):
                self.following[marked[i : i + 2]].append(marked[i + 2])

    def recombined(self, generator: random.Random) -> str | None:
        """A name of parts of several real names, or None if there are too few."""
        return self._unused(self._recombine, generator)

    def respelled(self, generator: random.Random) -> str | None:
        """A name in which each part is a new word with the letters of real ones."""
        return self._unused(self._respell, generator)

    def of_words(self, generator: random.Random) -> str | None:
        """Some words of the documents: no name at all."""
        return self._unused(self._choose_words, generator)

    def any_kind(self, generator: random.Random) -> str | None:
        kinds = (self.recombined, self.respelled, self.of_words)
        return generator.choices(kinds, SHARES)[0](generator)

    def several(
        self, make: Callable[[random.Random], str | None], count: int, seed: int
    ) -> list[str]:
        """At most `count` different names."""
        generator = random.Random(f"{seed} {self.use}")
        names = dict.fromkeys(make(generator) for _ in range(2 * count))
        return [name for name in names if name is not None][:count]

    def _unused(
        self, make: Callable[[random.Random], str | None], generator: random.Random
    ) -> str | None:
        for _ in range(TRIES if self.names else 0):
            name = make(generator)
            if name and name not in self.taken and use_of(name) is self.use:
                return name
        return None

    def _recombine(self, generator: random.Random) -> str:
        """A real name whose first or last part, and perhaps others, are from the same places of
        others. Another middle name alone would not make it another name."""
        name = generator.choice(self.names)
        spots = list(PIECE.finditer(name))
        long_spots = [i for i, spot in enumerate(spots) if len(spot[0]) > SHORT]
        if len(long_spots) < 2:
            return self._splice(name, generator)
        kept = generator.choice([long_spots[0], long_spots[-1]])
        others = [i for i in long_spots if i != kept]
        chosen = {others[0] if kept == long_spots[-1] else others[-1]}
        chosen |= {i for i in others if generator.random() < 0.5}
        for i in sorted(chosen, reverse=True):
            other = generator.choice(self.pieces) or [spots[i][0]]
            place = 0 if i == 0 else -1 if i == len(spots) - 1 else min(i, len(other) - 1)
            name = name[: spots[i].start()] + other[place] + name[spots[i].end() :]
        return name

    def _splice(self, name: str, generator: random.Random) -> str:
        """The beginning of a name that has one part, and the end of another."""
        other = generator.choice(self.names)
        kept = generator.randint(1, max(1, len(name) - 1))
        return name[:kept] + other[generator.randint(0, max(0, len(other) - 1)) :]

    def _respell(self, generator: random.Random) -> str:
        name = generator.choice(self.names)
        return PIECE.sub(
            lambda piece: piece[0] if len(piece[0]) <= SHORT else self._new_word(generator), name
        )

    def _new_word(self, generator: random.Random) -> str:
        word = ""
        for _ in range(TRIES):
            word, state = "", START + START
            while (letter := generator.choice(self.following[state])) != END and len(word) < 20:
                word, state = word + letter, state[1] + letter
            if word not in self.vocabulary and len(word) > SHORT:
                break
        return word

    def _choose_words(self, generator: random.Random) -> str:
        return " ".join(generator.choices(self.words or [""], k=generator.randint(1, 5)))


class UnknownNameSource(RowSource):
    """Questions about made-up names, new in each epoch, with the empty answer."""

    def __init__(
        self, names: MadeUpNames, ask: Callable[[str, random.Random], str], count: int
    ) -> None:
        self.names, self.ask, self.count = names, ask, count

    def rows(
        self, encoding: KnowledgeTextEncoding, context: int, generator: random.Random
    ) -> Iterator[TrainingRow]:
        for _ in range(self.count):
            name = self.names.any_kind(generator)
            if name is not None:
                row = encoding.encode_pair(self.ask(name, generator), "")
                if len(row) <= context + 1:
                    yield row


def questions_about_unknown_names(
    documents: Sequence[str], titles: Iterable[str], relations: Sequence[Relation], count: int
) -> list[UnknownNameSource]:
    """A source of this many questions of known kinds about made-up names, if there are any."""
    names = MadeUpNames(titles, Use.TRAINING, [word for text in documents for word in text.split()])
    if not (relations and names.names and count):
        return []
    return [UnknownNameSource(names, lambda name, g: g.choice(relations).ask(name), count)]


def frames_about_unknown_names(
    documents: Sequence[str], objectives: Iterable[Objective], fraction: float
) -> list[UnknownNameSource]:
    """For each objective that recalls strings from a title, a source of rows that have a made-up
    name in its place: this many for each string to recall."""
    by_title = {title_of(document): body_of(document).split() for document in documents}
    words = [word for body in by_title.values() for word in body]
    names, sources = MadeUpNames(by_title, Use.TRAINING, words), []
    for objective in objectives:
        if not isinstance(objective, Entities):
            continue
        spans = [(document, span) for document in documents for span in objective.runs(document)]
        if spans and fraction:
            ask = _frame_maker(objective, spans)
            sources.append(UnknownNameSource(names, ask, round(fraction * len(spans))))
    return sources


def _frame_maker(
    objective: Entities, spans: Sequence[tuple[str, tuple[int, int]]]
) -> Callable[[str, random.Random], str]:
    def frame(name: str, generator: random.Random) -> str:
        document, span = generator.choice(spans)
        return objective.frame(name, body_of(document).split(), span, generator)

    return frame


def made_up_questions(
    titles: Iterable[str],
    relations: Sequence[Relation],
    use: Use,
    count: int = COUNT,
    seed: int = 0,
) -> dict[str, list[str]]:
    """Questions of known kinds about names of two kinds that are not in `titles`.

    Those of an audit have new spellings of another origin than those of the training.
    """
    names, generator = MadeUpNames(titles, use), random.Random(f"{seed} {use} questions")
    if not relations:
        return {RECOMBINED: [], RESPELLED: []}
    if use is Use.AUDIT:
        spelled = new_spellings(names.names, count, seed)
    else:
        spelled = names.several(names.respelled, count, seed)
    return {
        kind: [generator.choice(relations).ask(name) for name in each]
        for kind, each in (
            (RECOMBINED, names.several(names.recombined, count, seed)),
            (RESPELLED, spelled),
        )
    }


SYLLABLES = (
    "ba cro da fe gu hil jo ka lu mo nie ops pra quo ri stu tey ul vin wex yo zar "
    "blen cha drix eem foz gri hux isk jarl kno lyth"
)


def new_spellings(names: Sequence[str], count: int, seed: int) -> list[str]:
    """Names for the audit whose parts are made of syllables that no model was trained on for this.

    They have as many parts, marks and capital letters as the given names.

    >>> from attnlab.tasks.knowledge._made_up_names import new_spellings
    >>> len(new_spellings(["Ada Byron", "lib-z"], 3, seed=0))
    3
    """
    generator, taken = random.Random(f"{seed} new spellings"), {*names}
    syllables = SYLLABLES.split()
    vocabulary = {piece.casefold() for name in names for piece in PIECE.findall(name)}

    def new_word(old: re.Match[str]) -> str:
        word = "".join(generator.sample(syllables, max(2, min(4, round(len(old[0]) / 3)))))
        if len(old[0]) <= SHORT or word in vocabulary:
            return old[0]
        return word.capitalize() if old[0][:1].isupper() else word

    made = (PIECE.sub(new_word, generator.choice(names)) for _ in range(4 * count if names else 0))
    return [name for name in dict.fromkeys(made) if name not in taken][:count]
