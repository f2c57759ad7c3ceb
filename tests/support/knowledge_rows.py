"""A world, tokens and documents to make training rows of."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from attnlab.tasks.knowledge._pretraining_objectives import Entities
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tokenizer import BPE, Characters

WORLD = make_world(WorldConfig(people=30))
CHARACTERS = KnowledgeTextEncoding(Characters.train([string.printable, *WORLD.corpus]))
BYTE_PAIRS = KnowledgeTextEncoding(BPE.train(WORLD.corpus, 320))
BOTH = st.sampled_from([CHARACTERS, BYTE_PAIRS])

LOWER = st.sampled_from(["he", "was", "born", "in", "the", "old", "town", "1850", "42", "(and)"])
PLAIN = ["Ada", "Byron", "Rome", "York", "London", "Emmy", "O'Neill", "Smith-Jones", "He", "The"]
MARKED = ["Jr.", "M.", "(Rome)", "Oslo,", '"Bern"', "Lima;", "[Kyiv]", "U.S.", "Byron,", "Ada."]
UPPER = st.sampled_from([*PLAIN, *MARKED, "Emmy)", "Cairo:", "1850,"])
TITLES = st.sampled_from(["Ada Byron", "Ada M. Byron", "York", "Emmy O'Neill", "50 Cent", "Oslo 8"])


@st.composite
def documents(draw: Callable[[Any], Any]) -> str:
    words = draw(st.lists(st.one_of(LOWER, UPPER), max_size=40))
    return " ".join([f"{draw(TITLES)}.", *words])


def generator(seed: int = 0) -> random.Random:
    return random.Random(seed)


def parts_of(row: TrainingRow, mask: int) -> list[list[int]]:
    """What stands between the masks."""
    parts: list[list[int]] = [[]]
    for each in row.ids:
        if each == mask:
            parts.append([])
        else:
            parts[-1].append(each)
    return parts


def prepared(objective: Entities, corpus: Sequence[str]) -> Entities:
    objective.prepare(corpus)
    return objective
