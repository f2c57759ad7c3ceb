"""attnlab mechanisms [NAME] | check NAME or FILE"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="mechanisms",
    help="List what each attention mechanism can do, or the options of one.",
    help_format="plaintext",
)


@app.default
def mechanisms(
    name: Annotated[str | None, Parameter(help="One mechanism: its card and its options.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="Print JSON instead of a table.")] = False,
    picture: Annotated[
        Path | None,
        Parameter(help="Draw its matrix here, beside softmax's: NAME.svg, NAME.png or NAME.pdf."),
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --picture.")] = False,
) -> None:
    """List what each attention mechanism can do, or the options of one."""
    from attnlab._mechanism_table import as_json, print_all, print_one

    if picture is not None:
        from attnlab.mechanism_pictures import save_matrices

        if name is None:
            raise ValueError("--picture draws one mechanism; name it, as in mechanisms favor")
        save_matrices(name, picture, overwrite)
        print(picture)
    elif json:
        print(as_json(name))
    elif name is None:
        print_all()
    else:
        print_one(name)


@app.command
def check(
    mechanism: Annotated[str, Parameter(help="A name, or a file NAME.py with one of your own.")],
    /,
    *,
    examples: Annotated[int, Parameter(help="Inputs drawn for each law.")] = 20,
    seed: Annotated[int, Parameter(help="Of these inputs.")] = 0,
) -> None:
    """Try every law on a mechanism; exit code 1 if one is broken."""
    from attnlab._mechanism_table import print_findings
    from attnlab.extensions import load_extension

    names = [mechanism]
    if mechanism.endswith(".py"):
        names = [each.name for each in load_extension(mechanism) if hasattr(each, "card")]
    if not names:
        raise ValueError(
            f"{mechanism}: defines no mechanism; a subclass of Mechanism with a name is"
        )
    fine = [print_findings(name, examples, seed) for name in names]
    if not all(fine):
        sys.exit(1)
