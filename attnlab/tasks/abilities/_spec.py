"""An ability as a text: recall:pairs=4,length=32."""

from __future__ import annotations

import json

from attnlab._short_repr import short_repr
from attnlab.tasks._task_options import with_options
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.abilities.kind import GROUP


def ability_names() -> list[str]:
    """The names of all abilities, also those of extensions."""
    from attnlab.tasks.registry import TASKS

    return [kind.name for kind in TASKS.values() if kind.group == GROUP]


def load_ability(name: str) -> Ability:
    """An ability with its default options."""
    from attnlab.tasks.registry import TASKS

    ability = TASKS[name].load_recipe() if name in ability_names() else None
    if not isinstance(ability, Ability):
        raise ValueError(f"no ability {short_repr(name)}; choose from {', '.join(ability_names())}")
    return ability


def parse_ability(text: str, user: str = "") -> Ability:
    """The ability that a text names. `user` is the one that reads it, which cannot use itself."""
    name, _, rest = text.partition(":")
    if name == user:
        raise ValueError(f"{user}: cannot use itself; choose another ability")
    options = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            options[key.strip()] = json.loads(value)
        except ValueError:
            raise ValueError(
                f"ability {short_repr(text)}: {short_repr(part)} is no option; write NAME=NUMBER, "
                "as in recall:pairs=4,length=32"
            ) from None
    return with_options(load_ability(name), options)
