"""attnlab abilities"""

from __future__ import annotations

import json as json_format

from rich.console import Console
from rich.text import Text

from attnlab._command_options import Json


def abilities(*, json: Json = False) -> None:
    """List small tasks that show what a mechanism can do, with an example row of each.

    The answers follow an arrow. Train a model with `attnlab NAME train`, compare mechanisms with
    `attnlab compare NAME`; `--help` of both shows the options of an ability.
    """
    from attnlab.tasks.abilities._examples import describe_abilities

    entries = describe_abilities()
    if json:
        print(json_format.dumps(entries, indent=2))
        return
    console = Console()
    for each in entries:
        line = Text.assemble((each["name"], "bold"), f"  {each['help']}")
        console.print(line, soft_wrap=True)
        console.print(Text(f"    chance {each['chance']:.2%}"), soft_wrap=True)
        console.print(Text(f"    {each['example']}"), soft_wrap=True)
