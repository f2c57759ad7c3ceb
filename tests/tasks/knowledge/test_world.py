"""The embedded world: the same everywhere, nobody twice, and files of it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from attnlab.tasks.knowledge._world import World, WorldConfig, made_up_names, make_world
from attnlab.tasks.knowledge._world_vocabulary import (
    ATTRIBUTES,
    CITIES,
    FAMILY,
    GIVEN,
    NAMES,
    ORIGINS,
    WORDINGS,
)

# The same everywhere


def digest(made: World) -> str:
    return hashlib.sha256(repr(made).encode()).hexdigest()


def test_every_process_makes_the_same_world() -> None:
    config = WorldConfig(people=90, attributes=("profession", "birthplace"), distractors=3)
    program = (
        "import hashlib; from attnlab.tasks.knowledge._world import *\n"
        f"made = make_world({config!r})\n"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())\n"
        "print(made_up_names(30, 5, {person.name for person in made.people}))\n"
    )
    made = make_world(config)
    fresh = made_up_names(30, 5, {person.name for person in made.people})
    for hashing in ("0", "1", "2026"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stdout.splitlines() == [digest(made), repr(fresh)]
    assert digest(make_world(WorldConfig(people=90, seed=1))) != digest(made)


def test_the_world_imports_no_torch() -> None:
    program = "import sys, attnlab.tasks.knowledge._world; assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_repetitions_and_phrasings_do_not_change_people_or_questions(default_world: World) -> None:
    other = make_world(WorldConfig(repetitions=1, phrasings=3, distractors=2))
    assert other.people == default_world.people
    assert (other.train, other.held_out) == (default_world.train, default_world.held_out)
    assert other.corpus != default_world.corpus
    # And the document of a person stands where it stood.
    titles = [document.split(" ")[:2] for document in default_world.corpus]
    assert [document.split(" ")[:2] for document in other.corpus] == titles


# Names


def test_names_are_unique_and_from_their_origin(default_world: World) -> None:
    assert len({person.name for person in default_world.people}) == len(default_world.people) == 600
    for person in default_world.people:
        first, *middle, last = person.name.split()
        assert first in ORIGINS[person.origin].given
        assert last in ORIGINS[person.origin].family
        assert len(middle) <= 1
    origins = Counter(person.origin for person in default_world.people)
    assert len(origins) == 6
    assert min(origins.values()) > 60
    names = " ".join(person.name for person in default_world.people)
    assert 50 < len(re.findall(r" [A-Z]\. ", names)) < 140
    accents = sum(not person.name.isascii() for person in default_world.people)
    assert 5 < accents < 100


def test_number_of_names() -> None:
    """Distinct parts make distinct names, since no two origins share a family name."""
    for origin in ORIGINS.values():
        assert len(set(origin.given)) == GIVEN
    families = list(chain.from_iterable(origin.family for origin in ORIGINS.values()))
    assert len(set(families)) == len(families) == len(ORIGINS) * FAMILY
    assert NAMES == 6 * 160 * 240 > 100_000
    given = set(chain.from_iterable(origin.given for origin in ORIGINS.values()))
    parts = given | set(families)
    assert not parts & set(CITIES)
    assert not parts & set(" ".join(CITIES).split())


def test_made_up_names_belong_to_nobody(default_world: World) -> None:
    taken = {person.name for person in default_world.people}
    fresh = made_up_names(700, 3, taken)
    assert len(set(fresh)) == 700
    plain = {(name.split()[0], name.split()[-1]) for name in taken}
    assert not plain & {(name.split()[0], name.split()[-1]) for name in fresh}
    known = {part for name in taken for part in name.split()}
    assert sum(name.split()[-1] in known for name in fresh) > 100  # the same styles
    assert made_up_names(700, 4, taken) != fresh


def test_made_up_names_differ_in_more_than_the_middle_name() -> None:
    def ends(taken: str) -> list[str]:
        [name] = made_up_names(1, 3, {taken})
        return [name.split()[0], name.split()[-1]]

    first, last = ends("Ada Byron")
    assert ends("Ada King") == [first, last]
    assert ends(f"{first} Q. {last}") != [first, last]


@pytest.mark.parametrize("count", [-1, NAMES, NAMES + 1])
def test_made_up_names_can_run_out(count: int) -> None:
    with pytest.raises(ValueError, match=rf"count is {count}; give 0 to 230399, the unused names"):
        made_up_names(count, 0, {"Ada Byron"})
    assert made_up_names(0, 0, {"Ada Byron"}) == []


# Mistakes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"people": 1}, "people is 1; give 2 to 230400"),
        ({"people": NAMES + 1}, "people is 230401; give 2 to 230400"),
        ({"seed": -1}, "seed is -1; give a whole number from 0 to 2**63 - 1"),
        ({"labeled": 0.0}, "labeled is 0.0; give a fraction between 0 and 1"),
        ({"labeled": 1.0}, "labeled is 1.0; give a fraction between 0 and 1"),
        ({"labeled": float("nan")}, "labeled is nan; give a fraction between 0 and 1"),
        ({"repetitions": 0}, "repetitions is 0; give 1 or more"),
        ({"phrasings": 0}, f"phrasings is 0; give 1 to {WORDINGS}"),
        ({"phrasings": 99}, f"phrasings is 99; give 1 to {WORDINGS}"),
        ({"distractors": -1}, "distractors is -1; give 0 to 8"),
        ({"distractors": 9}, "distractors is 9; give 0 to 8"),
        ({"cities": 1}, "cities is 1; give 2 to 108"),
        ({"cities": 109}, "cities is 109; give 2 to 108"),
        ({"attributes": ()}, f"attributes is empty; choose from {', '.join(ATTRIBUTES)}"),
        ({"attributes": ("age",)}, f"no attribute 'age'; choose from {', '.join(ATTRIBUTES)}"),
        (
            {"attributes": ("employer", "employer")},
            "attributes are employer, employer; give each only once",
        ),
    ],
)
def test_errors_are_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        WorldConfig(**given)
    assert str(caught.value) == message


# Files


def test_write(tmp_path: Path) -> None:
    made = make_world(WorldConfig(people=30, attributes=("birthplace", "employer")))
    folder = tmp_path / "new" / "world"
    made.write(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["corpus.txt", "dev.tsv", "train.tsv"]
    assert (folder / "corpus.txt").read_bytes() == "".join(f"{d}\n" for d in made.corpus).encode()
    for name, pairs in (("train.tsv", made.train), ("dev.tsv", made.held_out)):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        assert [tuple(line.split("\t")) for line in lines] == pairs


@pytest.mark.parametrize("present", ["corpus.txt", "train.tsv", "dev.tsv"])
def test_write_refuses_to_replace(present: str, tmp_path: Path) -> None:
    made = make_world(WorldConfig(people=3))
    (tmp_path / present).write_text("mine")
    with pytest.raises(ValueError, match=r"already exists; choose another folder") as caught:
        made.write(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / present}: ")
    assert [path.name for path in tmp_path.iterdir()] == [present]  # nothing else was written
    assert (tmp_path / present).read_text() == "mine"
    made.write(tmp_path, overwrite=True)
    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path / present).read_text(encoding="utf-8").count("\n") in {1, 2, 3}


def test_write_refuses_a_file_as_folder(tmp_path: Path) -> None:
    path = tmp_path / "world"
    path.write_text("mine")
    with pytest.raises(ValueError, match="is a file; give a folder"):
        make_world(WorldConfig(people=3)).write(path, overwrite=True)
    assert path.read_text() == "mine"
