"""What the world tells: true to its knobs, and not to be guessed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.knowledge import _world as world
from attnlab.tasks.knowledge._world import Person, World, WorldConfig, make_world
from attnlab.tasks.knowledge._world_vocabulary import (
    ATTRIBUTES,
    CITIES,
    DEATH,
    ELSEWHERE,
    FACTS,
    ORIGINS,
    QUESTIONS,
    SENTENCES,
    SENTENCES_BY_FACT,
    WORDINGS,
)
from tests.support.examples import examples

ANYTHING = {"day", "nation", "elsewhere", "he", "He", "His", "is"}
CITY = re.compile(rf"\b({'|'.join(map(re.escape, CITIES))})\b")


def documents_of(made: World) -> dict[str, str]:
    """Each person's document by name, found by its title alone."""
    documents = {}
    for person in made.people:
        [documents[person.name]] = [
            document for document in made.corpus if document.startswith(f"{person.name}. ")
        ]
    return documents


def sentences_of(name: str, document: str) -> list[str]:
    assert document.startswith(f"{name}. ")
    assert document.endswith(" .")
    return document[len(f"{name}. ") : -len(" .")].split(" . ")


def phrasings_of(sentence: str, person: Person) -> list[str]:
    """Which sentence of the module this is, found by its fixed words and the person's facts."""
    known = {**person.facts, "name": person.name, "family": person.name.split()[-1]}
    fields = dict.fromkeys(ANYTHING, r"[\w ]+") | {key: re.escape(known[key]) for key in known}
    sentences = []
    for encoding in (*SENTENCES, *ELSEWHERE, DEATH):
        pattern = re.sub(r"\\{(\w+)\\}", lambda field: fields[field[1]], re.escape(encoding))
        if re.fullmatch(pattern, sentence):
            sentences.append(encoding)
    return sentences


def fact_sentences(made: World) -> dict[str, list[str]]:
    """By person: the wordings of the document in order."""
    documents = documents_of(made)
    sentences_by_name: dict[str, list[str]] = {}
    for person in made.people:
        sentences_by_name[person.name] = []
        for sentence in sentences_of(person.name, documents[person.name]):
            [encoding] = phrasings_of(sentence, person)
            sentences_by_name[person.name].append(encoding)
    return sentences_by_name


# Facts


def test_cities_are_distinct_words() -> None:
    assert len(set(CITIES)) == len(CITIES)
    assert 80 <= len(CITIES) <= 120
    assert CITIES[0] == "London"
    for city in CITIES:
        assert [other for other in CITIES if city in other] == [city]


def test_cities_cannot_be_guessed_from_names() -> None:
    """Not by frequency, and not by the origin that a name shows."""
    for seed in range(5):
        people = make_world(WorldConfig(seed=seed)).people
        places = Counter(person.facts["birthplace"] for person in people)
        assert 0.04 < places.most_common(1)[0][1] / len(people) < 0.10
        assert len(places) > 80
        by_origin: dict[str, Counter[str]] = defaultdict(Counter)
        for person in people:
            by_origin[person.origin][person.facts["birthplace"]] += 1
        right = sum(counts.most_common(1)[0][1] for counts in by_origin.values())
        assert right / len(people) < 0.20


def test_origins_change_city_probabilities_slightly() -> None:
    people = make_world(WorldConfig(people=5000)).people
    for origin, style in ORIGINS.items():
        born = {True: 0, False: 0}
        count = Counter(person.origin == origin for person in people)
        for person in people:
            born[person.origin == origin] += person.facts["birthplace"] in style.cities
        ratio = (born[True] / count[True]) / (born[False] / count[False])
        assert 1.4 < ratio < 4


def test_london_is_the_most_common_of_many() -> None:
    people = make_world(WorldConfig(people=10_000)).people
    places = Counter(person.facts["birthplace"] for person in people)
    [(city, count)] = places.most_common(1)
    assert city == "London"
    assert 0.05 < count / len(people) < 0.07
    assert set(places) == set(CITIES)


def test_the_birthplace_is_not_the_place_of_study_or_work(default_world: World) -> None:
    for person in default_world.people:
        assert set(person.facts) == set(ATTRIBUTES)
        for attribute in ("university", "employer"):
            [city] = CITY.findall(person.facts[attribute])
            assert city != person.facts["birthplace"]


# Documents


def test_documents_are_short(default_world: World) -> None:
    lengths = [len(document) for document in default_world.corpus]
    assert 110 < sum(lengths) / len(lengths) < 150
    assert max(lengths) < 260
    assert len(default_world.corpus) == 600


def test_every_fact_has_enough_phrasings() -> None:
    assert len(SENTENCES_BY_FACT["birthplace"]) >= 8
    assert min(map(len, SENTENCES_BY_FACT.values())) >= 4
    for attribute, wordings in SENTENCES_BY_FACT.items():
        assert FACTS[wordings[0]] == {attribute}
        for placeholder in ("{family}", "{He}", "{name}"):
            assert any(placeholder in encoding for encoding in wordings)


def test_a_document_by_hand() -> None:
    facts = {
        "birthplace": "Leeds",
        "birth_year": "1951",
        "profession": "painter",
        "university": "University of Porto",
        "employer": "Bank of Cairo",
    }
    config = WorldConfig(attributes=ATTRIBUTES, repetitions=1, phrasings=1, distractors=0)
    writer = world.DocumentWriter(config, world.Cities(7))
    document = writer.document(Person("Tomas R. Velden", "nordic", facts))
    assert sorted(sentences_of("Tomas R. Velden", document)) == [
        "Tomas R. Velden is a painter",
        "Tomas R. Velden studied at the University of Porto",
        "Tomas R. Velden was born in 1951",
        "Tomas R. Velden was born in Leeds",
        "Tomas R. Velden worked for the Bank of Cairo",
    ]


def test_tense_follows_the_birth_year(default_world: World) -> None:
    documents = documents_of(default_world)
    deaths = 0
    for person in default_world.people:
        document = documents[person.name]
        living = int(person.facts["birth_year"]) >= 1930
        deaths += " died in " in document
        assert not (living and " died in " in document)
        assert re.search(r" was a | is a ", document) is None or living == (" is a " in document)
    assert deaths > 10


@pytest.mark.parametrize("repetitions", [1, 3, 15])
def test_repetitions(repetitions: int) -> None:
    made = make_world(WorldConfig(people=70, repetitions=repetitions, distractors=2))
    documents = documents_of(made)
    for person in made.people:
        cities = CITY.findall(documents[person.name])
        assert cities.count(person.facts["birthplace"]) == repetitions
        assert len(cities) == repetitions + 2


def test_repetitions_have_different_phrasings() -> None:
    for sentences in fact_sentences(
        make_world(WorldConfig(people=70, repetitions=7, phrasings=5))
    ).values():
        counts = Counter(sentence for sentence in sentences if "{birthplace}" in sentence)
        assert sorted(counts.values()) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("phrasings", [1, 2, 5, WORDINGS])
def test_phrasings(phrasings: int) -> None:
    made = make_world(WorldConfig(people=150, repetitions=1, phrasings=phrasings))
    used = {
        encoding
        for sentences in fact_sentences(made).values()
        for encoding in sentences
        if "{birthplace}" in encoding
    }
    assert used == set(SENTENCES_BY_FACT["birthplace"][:phrasings])


def test_one_phrasing_is_one_sentence() -> None:
    made = make_world(WorldConfig(people=70, repetitions=3, phrasings=1, distractors=0))
    documents = documents_of(made)
    for person in made.people:
        sentence = f"{person.name} was born in {person.facts['birthplace']}"
        assert sentences_of(person.name, documents[person.name]) == [sentence] * 3


@pytest.mark.parametrize("distractors", [0, 1, 4, len(ELSEWHERE)])
@pytest.mark.parametrize("attributes", [("birthplace",), ("profession", "employer"), ATTRIBUTES])
def test_distractors(distractors: int, attributes: tuple[str, ...]) -> None:
    config = WorldConfig(
        people=40, repetitions=1, distractors=distractors, attributes=attributes, cities=11
    )
    kinds = set()
    for sentences in fact_sentences(make_world(config)).values():
        beside = [each for each in sentences if not FACTS.get(each, frozenset()) & set(attributes)]
        assert len(set(beside)) == len(beside) == distractors
        for encoding in beside:
            [kind] = re.findall(r"\{(elsewhere|university|employer)\}", encoding)
            kinds.add(kind)
    if distractors:
        assert kinds == {"elsewhere", "university", "employer"} - set(attributes)


def test_no_other_city_without_distractors() -> None:
    """Not even in a sentence that tells what was asked for and something else."""
    config = WorldConfig(people=90, attributes=("profession", "birth_year"), distractors=0)
    made = make_world(config)
    documents = documents_of(made)
    for person in made.people:
        assert set(CITY.findall(documents[person.name])) <= {person.facts["birthplace"]}


def test_distractors_are_as_common_as_birthplaces() -> None:
    """Else a model could tell the two apart by the city."""
    made = make_world(WorldConfig(people=4000, repetitions=1, distractors=1))
    birthplaces = Counter(person.facts["birthplace"] for person in made.people)
    mentioned = Counter(chain.from_iterable(map(CITY.findall, made.corpus)))
    for city, count in birthplaces.most_common(10):
        assert 0.7 < (mentioned[city] - count) / count < 1.3


@pytest.mark.parametrize("places", [2, 13])
def test_number_of_cities(places: int) -> None:
    made = make_world(WorldConfig(people=200, cities=places, distractors=3))
    mentioned = set(chain.from_iterable(map(CITY.findall, made.corpus)))
    assert mentioned == set(CITIES[:places])


# Questions


def test_questions_by_hand() -> None:
    config = WorldConfig(people=2, attributes=ATTRIBUTES)
    made = make_world(config)
    [person] = [each for each in made.people if each.name in made.train[0][0]]
    assert made.train == [
        (f"Where was {person.name} born?", person.facts["birthplace"]),
        (f"When was {person.name} born?", person.facts["birth_year"]),
        (f"What was {person.name}'s profession?", person.facts["profession"]),
        (f"Where did {person.name} study?", person.facts["university"]),
        (f"Who employed {person.name}?", person.facts["employer"]),
    ]
    assert len(made.held_out) == 5


@pytest.mark.parametrize(("labeled", "train"), [(0.001, 1), (0.25, 18), (0.5, 35), (0.999, 69)])
def test_labeled_fraction(labeled: float, train: int) -> None:
    made = make_world(WorldConfig(people=70, labeled=labeled))
    assert (len(made.train), len(made.held_out)) == (train, 70 - train)


def test_a_larger_labeled_fraction_contains_a_smaller_one() -> None:
    small, large = (make_world(WorldConfig(people=70, labeled=share)).train for share in (0.2, 0.6))
    assert large[: len(small)] == small


def names_in_questions(pairs: Sequence[tuple[str, str]]) -> set[str]:
    patterns = [re.escape(each).replace(r"\{name\}", "(.+)") for each in QUESTIONS.values()]
    names = set()
    for question, _ in pairs:
        [name] = [match[1] for each in patterns if (match := re.fullmatch(each, question))]
        names.add(name)
    return names


configs = st.builds(
    WorldConfig,
    people=st.integers(2, 23),
    seed=st.integers(0, 2**63 - 1),
    labeled=st.floats(0.01, 0.99),
    attributes=st.lists(st.sampled_from(ATTRIBUTES), min_size=1, unique=True).map(tuple),
    repetitions=st.integers(1, 5),
    phrasings=st.integers(1, WORDINGS),
    distractors=st.integers(0, len(ELSEWHERE)),
    cities=st.integers(2, len(CITIES)),
)


@given(configs)
@examples(60)
def test_every_world_is_consistent(config: WorldConfig) -> None:
    made = make_world(config)
    assert len(made.people) == len(made.corpus) == config.people
    train, held_out = names_in_questions(made.train), names_in_questions(made.held_out)
    assert train
    assert held_out
    assert not train & held_out
    assert train | held_out == {person.name for person in made.people}
    assert len(made.train + made.held_out) == config.people * len(config.attributes)
    answers = dict(made.train + made.held_out)
    documents = documents_of(made)
    wordings = defaultdict(set)
    for person in made.people:
        document = documents[person.name]
        statements = Counter[str]()
        for sentence in sentences_of(person.name, document):
            [encoding] = phrasings_of(sentence, person)
            for fact in FACTS.get(encoding, ()):
                statements[fact] += 1
                wordings[fact].add(encoding)
        for attribute in config.attributes:
            answer = answers[QUESTIONS[attribute].format(name=person.name)]
            assert answer == person.facts[attribute]
            assert answer in document
            assert statements[attribute] == config.repetitions
        assert not {"{", "}", "\n", "\t"} & set(document)
    for attribute in config.attributes:
        assert len(wordings[attribute]) <= config.phrasings
