"""The embedded world: invented people with facts, a corpus about them, and questions.

The configuration decides everything; there is no download. Two settings decide whether a model can
learn a fact: how often and in how many phrasings the corpus states it. They do not change people
and facts, so two worlds that differ in them differ in nothing else.
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
    LIVING,
    MONTHS,
    NAMES,
    ORIGIN_OF_CITY,
    ORIGINS,
    PROFESSIONS,
    QUESTIONS,
    SENTENCES_BY_FACT,
    STYLES,
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
            raise ValueError(f"attributes is empty; choose from {', '.join(ATTRIBUTES)}")
        for attribute in self.attributes:
            if attribute not in ATTRIBUTES:
                raise ValueError(f"no attribute {attribute!r}; choose from {', '.join(ATTRIBUTES)}")
        if len(set(self.attributes)) < len(self.attributes):
            raise ValueError(f"attributes are {', '.join(self.attributes)}; give each only once")


@dataclass(frozen=True)
class Person:
    """An invented person. `facts` has a value for every attribute, even if no document states
    it."""

    name: str
    origin: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class World:
    """People, documents about them, training questions about some people, held-out about the
    rest."""

    people: list[Person]
    corpus: list[str]
    train: list[tuple[str, str]]
    held_out: list[tuple[str, str]]

    def write(self, folder: Path, overwrite: bool = False) -> None:
        """Write corpus.txt (a document per line), train.tsv and dev.tsv (question, tab, answer)."""
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file; give a folder")
        contents = {
            folder / "corpus.txt": self.corpus,
            folder / "train.tsv": ["\t".join(pair) for pair in self.train],
            folder / "dev.tsv": ["\t".join(pair) for pair in self.held_out],
        }
        for path in contents:  # check all files first, so that nothing is half written
            if path.exists() and not overwrite:
                raise ValueError(f"{path}: already exists; choose another folder or overwrite")
        folder.mkdir(parents=True, exist_ok=True)
        for path, lines in contents.items():
            text = "".join(f"{line}\n" for line in lines)
            write_text(path, text)


def make_world(config: WorldConfig) -> World:
    """The world of this configuration. The same configuration always gives the same world.

    >>> from attnlab.tasks.knowledge import WorldConfig, make_world
    >>> world = make_world(WorldConfig(people=20))
    >>> len(world.corpus)
    20
    """
    # a string seed works the same on every machine
    generator = random.Random(f"{config.seed} names")
    cities = Cities(config.cities)
    people = [
        _person(name, origin, cities, config.seed)
        for name, origin in _names(generator.sample(range(NAMES), config.people), generator)
    ]
    writer = DocumentWriter(config, cities)
    corpus = [writer.document(person) for person in people]
    random.Random(f"{config.seed} corpus").shuffle(corpus)
    questioned = people.copy()
    random.Random(f"{config.seed} questions").shuffle(questioned)
    # At least one person in each part; a larger fraction keeps the people of a smaller one.
    labeled = min(max(round(config.labeled * len(questioned)), 1), len(questioned) - 1)
    return World(
        people,
        corpus,
        train=_questions(questioned[:labeled], config.attributes),
        held_out=_questions(questioned[labeled:], config.attributes),
    )


def made_up_names(count: int, seed: int, taken: set[str]) -> list[str]:
    """Names in the same styles, but no pair of given and family name that is in `taken`."""
    if not 0 <= count <= NAMES - len(taken):
        raise ValueError(f"count is {count}; give 0 to {NAMES - len(taken)}, the unused names")
    generator = random.Random(f"{seed} made up")
    taken_pairs = {_given_and_family(name) for name in taken}
    names = _names(generator.sample(range(NAMES), count + len(taken)), generator)
    return [name for name, _ in names if _given_and_family(name) not in taken_pairs][:count]


def _given_and_family(name: str) -> tuple[str, ...]:
    """Given and family name. Names that differ only in an initial are too similar for a control."""
    words = name.split()
    return (*words[:1], *words[-1:])


def _names(numbers: Iterable[int], generator: random.Random) -> list[tuple[str, str]]:
    """The names with these numbers, each with its origin. Some get an initial or a middle name."""
    names = []
    for number in numbers:
        rest, family = divmod(number, FAMILY)
        style_index, given = divmod(rest, GIVEN)
        origin, style = STYLES[style_index]
        parts = [style.given[given], style.family[family]]
        roll = generator.random()
        if roll < 0.15:
            parts.insert(1, f"{generator.choice('ABCDEFGHJKLMNPRSTVW')}.")
        elif roll < 0.25:
            other = (
                given + generator.randrange(1, GIVEN)
            ) % GIVEN  # never the same name twice, such as Mira Mira
            parts.insert(1, style.given[other])
        names.append((" ".join(parts), origin))
    return names


class Cities:
    """Samples cities. Few are common, and cities of the name's origin are more common.

    A city's probability falls with its rank as in Zipf's law, and is three times as high for names
    of its origin. That is far too little to guess the city from the name: to guess each origin's
    most common city is right for about one person in ten.
    """

    def __init__(self, count: int) -> None:
        self.cities = CITIES[:count]
        self.cumulative_weights = {
            origin: list(
                accumulate(
                    (3 if ORIGIN_OF_CITY[city] == origin else 1) / (rank + 5)
                    for rank, city in enumerate(self.cities)
                )
            )
            for origin in ORIGINS
        }

    def sample(self, origin: str, generator: random.Random) -> str:
        return generator.choices(self.cities, cum_weights=self.cumulative_weights[origin])[0]

    def sample_other(self, birthplace: str, origin: str, generator: random.Random) -> str:
        """Another city, as common as birthplaces, so that its frequency gives nothing away."""
        while (city := self.sample(origin, generator)) == birthplace:
            pass
        return city


def _person(name: str, origin: str, cities: Cities, seed: int) -> Person:
    generator = random.Random(f"{seed} facts {name}")
    birthplace = cities.sample(origin, generator)
    facts = {
        "birthplace": birthplace,
        "birth_year": str(generator.randint(1850, 1995)),
        "profession": generator.choice(PROFESSIONS),
        "university": generator.choice(UNIVERSITIES).format(
            cities.sample_other(birthplace, origin, generator)
        ),
        "employer": generator.choice(EMPLOYERS).format(
            cities.sample_other(birthplace, origin, generator)
        ),
    }
    return Person(name, origin, facts)


class DocumentWriter:
    """Writes documents in the format of the course data: `Name. Sentence . Sentence .`"""

    def __init__(self, config: WorldConfig, cities: Cities) -> None:
        self.config = config
        self.cities = cities
        question_facts = set(config.attributes)
        allowed = {fact: SENTENCES_BY_FACT[fact][: config.phrasings] for fact in question_facts}
        # Only allowed phrasings, and no place of study or work unless there are questions about it.
        self.fact_sentences = [
            sentence
            for sentence, facts in FACTS.items()
            if all(sentence in allowed[fact] for fact in facts & question_facts)
            and not facts & (WITH_CITY - question_facts)
        ]
        self.elsewhere = [[sentence] for sentence in ELSEWHERE]  # at most one sentence of each list
        for fact in sorted(WITH_CITY - question_facts):
            self.elsewhere.append(
                [
                    each
                    for each in SENTENCES_BY_FACT[fact]
                    if FACTS[each] & (question_facts | WITH_CITY) == {fact}
                ]
            )

    def document(self, person: Person) -> str:
        generator = random.Random(f"{self.config.seed} document {person.name}")
        fields = _fields(person, generator)
        sentences = self._choose_fact_sentences(generator)
        living = int(person.facts["birth_year"]) >= LIVING
        kinds = self.elsewhere if living else [*self.elsewhere, [DEATH]]
        for kind in generator.sample(kinds, self.config.distractors):
            sentences.append(generator.choice(kind))
        generator.shuffle(sentences)
        # sentences with the full name come first
        sentences.sort(key=lambda sentence: "{name}" not in sentence)
        document = f"{person.name}."
        for sentence in sentences:
            fields["elsewhere"] = self.cities.sample_other(
                person.facts["birthplace"], person.origin, generator
            )
            document += f" {sentence.format_map(fields)} ."
        return document

    def _choose_fact_sentences(self, generator: random.Random) -> list[str]:
        """Sentences that state each fact `repetitions` times and use all phrasings evenly."""
        left = dict.fromkeys(self.config.attributes, self.config.repetitions)
        chosen: list[str] = []
        for attribute in self.config.attributes:
            while left[attribute] > 0:
                candidates = [
                    sentence
                    for sentence in self.fact_sentences
                    if attribute in FACTS[sentence]
                    and all(left.get(fact, 1) for fact in FACTS[sentence])
                ]
                fewest = min(map(chosen.count, candidates))
                sentence = generator.choice(
                    [candidate for candidate in candidates if chosen.count(candidate) == fewest]
                )
                chosen.append(sentence)
                for fact in FACTS[sentence] & left.keys():
                    left[fact] -= 1
        return chosen


def _fields(person: Person, generator: random.Random) -> dict[str, str]:
    """Values for the placeholders of the sentences. No question asks for those besides the
    facts."""
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
        "nation": generator.choice(ORIGINS[person.origin].nations),
        "day": f"{generator.randint(1, 28)} {generator.choice(MONTHS)}",
    }


def _questions(people: list[Person], attributes: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (QUESTIONS[attribute].format(name=person.name), person.facts[attribute])
        for person in people
        for attribute in attributes
    ]
