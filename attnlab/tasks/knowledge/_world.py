"""An embedded world: invented people with facts, a corpus that tells them, questions that ask.

Everything follows from the configuration, with no download. The knobs that decide whether a model
can learn a fact, how often and in how many phrasings it is told, leave people and facts unchanged,
so that two worlds differ in nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from attnlab._safe_files import write_text
from attnlab.tasks.knowledge._world_vocabulary import (
    ATTRIBUTES,
    CITIES,
    DEATH,
    ELSEWHERE,
    EMPLOYERS,
    FACTS,
    FAMILY,
    GIVEN,
    HOME,
    LIVING,
    MONTHS,
    NAMES,
    ORIGINS,
    PROFESSIONS,
    QUESTIONS,
    STYLES,
    TELLING,
    UNIVERSITIES,
    WITH_CITY,
    WORDINGS,
)


@dataclass(frozen=True)
class WorldConfig:
    """Which world to make. The sentences are also the help of the command line."""

    people: Annotated[int, "Number of people. Each has one document."] = 600
    seed: Annotated[int, "Random seed for names, facts, documents and the choice of questions."] = 0
    labeled: Annotated[float, "Fraction of the people that the training questions ask about."] = 0.5
    attributes: Annotated[
        tuple[str, ...], f"Facts to state and to ask about: {', '.join(ATTRIBUTES)}."
    ] = ("birthplace",)
    repetitions: Annotated[int, "How often each document states each fact."] = 2
    phrasings: Annotated[
        int, f"Number of different sentences that state a fact, at most {WORDINGS}."
    ] = WORDINGS
    distractors: Annotated[int, "Number of sentences about other cities in each document."] = 1
    cities: Annotated[int, f"Number of different cities, at most {len(CITIES)}."] = len(CITIES)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("people", 2, NAMES),
            ("phrasings", 1, WORDINGS),
            ("distractors", 0, len(ELSEWHERE)),
            ("cities", 2, len(CITIES)),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}; give {low} to {high}")
        if self.repetitions < 1:
            raise ValueError(f"repetitions is {self.repetitions}; give 1 or more")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; give a whole number from 0 to 2**63 - 1")
        if not 0 < self.labeled < 1:
            raise ValueError(f"labeled is {self.labeled}; give a fraction between 0 and 1")
        if not self.attributes:
            raise ValueError(f"attributes is empty; there are {', '.join(ATTRIBUTES)}")
        for attribute in self.attributes:
            if attribute not in ATTRIBUTES:
                raise ValueError(f"attribute {attribute!r}; there are {', '.join(ATTRIBUTES)}")
        if len(set(self.attributes)) < len(self.attributes):
            raise ValueError(f"attributes {', '.join(self.attributes)}; give each once")


@dataclass(frozen=True)
class Person:
    """Somebody invented; `facts` has a value for every attribute, told or not."""

    name: str
    origin: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class World:
    """People, what is written about them, and questions about some and about all others."""

    people: list[Person]
    corpus: list[str]
    train: list[tuple[str, str]]
    held_out: list[tuple[str, str]]

    def write(self, folder: Path, overwrite: bool = False) -> None:
        """corpus.txt, a document per line; train.tsv and dev.tsv, question and answer per line."""
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file; name a folder")
        contents = {
            folder / "corpus.txt": self.corpus,
            folder / "train.tsv": ["\t".join(pair) for pair in self.train],
            folder / "dev.tsv": ["\t".join(pair) for pair in self.held_out],
        }
        for path in contents:  # all of them first: a refusal leaves nothing half done
            if path.exists() and not overwrite:
                raise ValueError(f"{path}: is there already; choose another folder or overwrite")
        folder.mkdir(parents=True, exist_ok=True)
        for path, lines in contents.items():
            text = "".join(f"{line}\n" for line in lines)
            write_text(path, text)


def make_world(config: WorldConfig) -> World:
    """The world of this configuration, always the same one."""
    draw = random.Random(f"{config.seed} names")  # text seeds alike everywhere, unlike hash()
    cities = Cities(config.cities)
    people = [
        _person(name, origin, cities, config.seed)
        for name, origin in _names(draw.sample(range(NAMES), config.people), draw)
    ]
    writer = Writer(config, cities)
    corpus = [writer.document(person) for person in people]
    random.Random(f"{config.seed} corpus").shuffle(corpus)
    asked = people.copy()
    random.Random(f"{config.seed} questions").shuffle(asked)
    # At least one person on either side; a larger share asks about the same people and more.
    labeled = min(max(round(config.labeled * len(asked)), 1), len(asked) - 1)
    return World(
        people,
        corpus,
        train=_questions(asked[:labeled], config.attributes),
        held_out=_questions(asked[labeled:], config.attributes),
    )


def made_up_names(count: int, seed: int, taken: set[str]) -> list[str]:
    """Names of nobody: in the same styles, but no given and family name together as in `taken`."""
    if not 0 <= count <= NAMES - len(taken):
        raise ValueError(f"count is {count}; give 0 to {NAMES} less the {len(taken)} names taken")
    draw = random.Random(f"{seed} made up")
    known = {_ends(name) for name in taken}
    found = _names(draw.sample(range(NAMES), count + len(taken)), draw)
    return [name for name, _ in found if _ends(name) not in known][:count]


def _ends(name: str) -> tuple[str, ...]:
    """Given and family name; with or without an initial is too alike for a control."""
    words = name.split()
    return (*words[:1], *words[-1:])


def _names(numbers: Iterable[int], draw: random.Random) -> list[tuple[str, str]]:
    """The names that have these numbers, each with its origin; some get a middle part."""
    names = []
    for number in numbers:
        rest, family = divmod(number, FAMILY)
        which, given = divmod(rest, GIVEN)
        origin, style = STYLES[which]
        parts = [style.given[given], style.family[family]]
        kind = draw.random()
        if kind < 0.15:
            parts.insert(1, f"{draw.choice('ABCDEFGHJKLMNPRSTVW')}.")
        elif kind < 0.25:
            other = (given + draw.randrange(1, GIVEN)) % GIVEN  # nobody is called Mira Mira
            parts.insert(1, style.given[other])
        names.append((" ".join(parts), origin))
    return names


class Cities:
    """Draws cities: few are common, and those at home somewhat more so.

    A city's chance falls with its rank as in Zipf's law, and is three times as high for names
    that are at home there. This is far too little to tell the place from the name: guessing each
    origin's most common city is right for about one person in ten.
    """

    def __init__(self, count: int) -> None:
        self.cities = CITIES[:count]
        self.chances = {
            origin: list(
                accumulate(
                    (3 if HOME[city] == origin else 1) / (rank + 5)
                    for rank, city in enumerate(self.cities)
                )
            )
            for origin in ORIGINS
        }

    def one(self, origin: str, draw: random.Random) -> str:
        return draw.choices(self.cities, cum_weights=self.chances[origin])[0]

    def other(self, birthplace: str, origin: str, draw: random.Random) -> str:
        """As common as birthplaces are, so that its frequency does not give a city away."""
        while (city := self.one(origin, draw)) == birthplace:
            pass
        return city


def _person(name: str, origin: str, cities: Cities, seed: int) -> Person:
    draw = random.Random(f"{seed} facts {name}")
    birthplace = cities.one(origin, draw)
    facts = {
        "birthplace": birthplace,
        "birth_year": str(draw.randint(1850, 1995)),
        "profession": draw.choice(PROFESSIONS),
        "university": draw.choice(UNIVERSITIES).format(cities.other(birthplace, origin, draw)),
        "employer": draw.choice(EMPLOYERS).format(cities.other(birthplace, origin, draw)),
    }
    return Person(name, origin, facts)


class Writer:
    """Writes documents: `Name. Sentence . Sentence .`, as in the classic course data."""

    def __init__(self, config: WorldConfig, cities: Cities) -> None:
        self.config = config
        self.cities = cities
        asked = set(config.attributes)
        allowed = {fact: TELLING[fact][: config.phrasings] for fact in asked}
        # No wording beyond those allowed, and no place of study or work that nobody asked for.
        self.telling = [
            sentence
            for sentence, facts in FACTS.items()
            if all(sentence in allowed[fact] for fact in facts & asked)
            and not facts & (WITH_CITY - asked)
        ]
        self.elsewhere = [[sentence] for sentence in ELSEWHERE]  # of each list at most one
        for fact in sorted(WITH_CITY - asked):
            self.elsewhere.append(
                [each for each in TELLING[fact] if FACTS[each] & (asked | WITH_CITY) == {fact}]
            )

    def document(self, person: Person) -> str:
        draw = random.Random(f"{self.config.seed} document {person.name}")
        fields = _fields(person, draw)
        sentences = self._tell(draw)
        living = int(person.facts["birth_year"]) >= LIVING
        kinds = self.elsewhere if living else [*self.elsewhere, [DEATH]]
        for kind in draw.sample(kinds, self.config.distractors):
            sentences.append(draw.choice(kind))
        draw.shuffle(sentences)
        sentences.sort(key=lambda sentence: "{name}" not in sentence)  # who it is comes first
        document = f"{person.name}."
        for sentence in sentences:
            fields["elsewhere"] = self.cities.other(person.facts["birthplace"], person.origin, draw)
            document += f" {sentence.format_map(fields)} ."
        return document

    def _tell(self, draw: random.Random) -> list[str]:
        """Sentences that tell each fact asked for as often as wanted, in turns of all phrasings."""
        left = dict.fromkeys(self.config.attributes, self.config.repetitions)
        told: list[str] = []
        for attribute in self.config.attributes:
            while left[attribute] > 0:
                fitting = [
                    sentence
                    for sentence in self.telling
                    if attribute in FACTS[sentence]
                    and all(left.get(fact, 1) for fact in FACTS[sentence])
                ]
                fewest = min(map(told.count, fitting))
                chosen = draw.choice([each for each in fitting if told.count(each) == fewest])
                told.append(chosen)
                for fact in FACTS[chosen] & left.keys():
                    left[fact] -= 1
        return told


def _fields(person: Person, draw: random.Random) -> dict[str, str]:
    """What sentences are filled with; beside the facts all is color that no question asks for."""
    given, *_, family = person.name.split()
    he, his = ("she", "her") if given[-1] in "aei" else ("he", "his")
    return {
        **person.facts,
        "name": person.name,
        "family": family,
        "he": he,
        "He": he.capitalize(),
        "His": his.capitalize(),
        "is": "is" if int(person.facts["birth_year"]) >= LIVING else "was",
        "nation": draw.choice(ORIGINS[person.origin].nations),
        "day": f"{draw.randint(1, 28)} {draw.choice(MONTHS)}",
    }


def _questions(people: list[Person], attributes: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (QUESTIONS[attribute].format(name=person.name), person.facts[attribute])
        for person in people
        for attribute in attributes
    ]
