"""What `attnlab abilities` lists."""

from __future__ import annotations

from random import Random
from typing import Any

from attnlab.tasks._task_options import task_options, with_options
from attnlab.tasks.abilities._spec import ability_names, load_ability
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.registry import TASKS
from attnlab.tasks.simple import IGNORE, Row


def describe_abilities() -> list[dict[str, Any]]:
    """The name, sentence, chance level, options and an example row of each ability."""
    return [
        {
            "name": name,
            "help": TASKS[name].help,
            "chance": ability.chance,
            "options": task_options(ability),
            "example": example_text(ability),
        }
        for name, ability in ((name, load_ability(name)) for name in ability_names())
    ]


def example_text(ability: Ability) -> str:
    """A short row: the prompt, an arrow, and the answer. Where a row has several questions, each
    answer follows its question."""
    small = with_options(ability, ability.example)
    return row_text(small, small.rows("test", Random(0))[0])


def row_text(ability: Ability, row: Row) -> str:
    words = [ability.word(token) for token in row.ids]
    asked = [index for index, target in enumerate(row.targets) if target != IGNORE]
    answers = [ability.word(row.targets[index]) for index in asked]
    at_end = asked == list(range(asked[0], len(words)))
    shown = row.ids[asked[0] + 1 :] == row.targets[asked[0] : -1]
    if at_end and shown:  # the answer is written after the prompt
        return f"{' '.join(words[: asked[0] + 1])} -> {' '.join(answers)}"
    if ability.collects_answers:
        return f"{' '.join(words)} -> {' '.join(answers)}"
    for index, answer in zip(asked, answers, strict=True):
        words[index] = f"({words[index]} -> {answer})"
    return " ".join(words)
