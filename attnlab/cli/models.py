"""attnlab models: which models can be looked at, and how to get more."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab._command_options import Json, option
from attnlab.cli._run_table import encodable
from attnlab.interpret._local_models import KNOWN, KnownModel, LocalModel, local_models


def models(
    runs: Annotated[Path, option("Folder to search for runs.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List the models on this machine that you can look at, and how to get more.

    They are in installed packages, in the cache of the Hugging Face hub, and in folders of runs.
    `attnlab look NAME --text "..."` takes their names; so do lens, heads and patch.
    """
    listed = local_models(runs)
    missing = [known for known in KNOWN if not _is_here(known, listed)]
    if json:
        print(json_format.dumps(_as_json(listed, missing), indent=2))
        return
    console = Console()
    if listed:
        console.print(_table(listed, console))
    else:
        console.print("No models on this machine yet.")
    for each in listed:
        if each.problem is not None:
            line = f"{each.name}: {each.problem}"
            console.print(Text(encodable(line, console, 400), "red"), soft_wrap=True)
    for line in _next_steps(listed, missing):
        console.print(Text(line), soft_wrap=True)


def _is_here(known: KnownModel, listed: Sequence[LocalModel]) -> bool:
    return any(each.name.lower() == known.name for each in listed)


def _table(listed: Sequence[LocalModel], console: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for heading, options in _columns().items():
        table.add_column(heading, **options)
    for each in listed:
        size = f"{each.nbytes / 1e6:,.0f} MB" if each.nbytes >= 1e6 else f"{each.nbytes:,} B"
        texts = (each.name, each.about or "-", size, each.source)
        table.add_row(*(Text(encodable(text, console, 200)) for text in texts))
    return table


def _columns() -> dict[str, dict[str, Any]]:
    return {
        "name": {"overflow": "fold", "style": "bold"},
        "what": {"overflow": "fold"},
        "size": {"no_wrap": True, "justify": "right"},
        "where": {"no_wrap": True},
    }


def _next_steps(listed: Sequence[LocalModel], missing: Sequence[KnownModel]) -> Iterator[str]:
    usable = [each for each in listed if each.problem is None and each.source != "run"]
    if usable:
        yield ""
        yield f'Look into one: attnlab look {usable[0].name} --text "The dog ran"'
    if missing:
        yield ""
        yield "Get more:"
    for known in missing:
        yield f"  {known.command}"
        yield f"      {known.about}, {known.megabytes} MB; then: attnlab look {known.short_name}"


def _as_json(listed: Sequence[LocalModel], missing: Sequence[KnownModel]) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": each.name,
                "source": each.source,
                "path": str(each.path),
                "about": each.about,
                "bytes": each.nbytes,
                "problem": each.problem,
            }
            for each in listed
        ],
        "to_get": [
            {"name": known.name, "about": known.about, "command": known.command}
            for known in missing
        ],
    }
