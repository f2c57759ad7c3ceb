"""attnlab mechanisms [NAME] | check NAME or FILE"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from attnlab._command_options import Json, create_app, flag, option

app = create_app("mechanisms", "List attention mechanisms, or describe one and its options.")


@app.default
def mechanisms(
    name: Annotated[
        str | None, option("Mechanism to describe. Without it, list all of them.")
    ] = None,
    /,
    *,
    json: Json = False,
    picture: Annotated[
        Path | None,
        option(
            "Picture to write, as NAME.svg, NAME.png or NAME.pdf: the mechanism's matrix beside "
            "softmax's."
        ),
    ] = None,
    overwrite: Annotated[bool, flag("Replace the file of --picture.")] = False,
) -> None:
    """List attention mechanisms and what they can do, or describe one and its options."""
    from attnlab._mechanism_table import mechanisms_to_json, print_all, print_one

    if name is not None:
        from attnlab._create_mechanism import find_mechanism

        name = find_mechanism(name).name  # an alias becomes the mechanism's own name
    if picture is not None:
        from attnlab.mechanism_pictures import save_matrices

        if name is None:
            raise ValueError(
                "--picture needs the name of a mechanism, as in: mechanisms favor --picture "
                "favor.svg"
            )
        save_matrices(name, picture, overwrite)
        print(picture)
    elif json:
        print(mechanisms_to_json(name))
    elif name is None:
        print_all()
    else:
        print_one(name)


@app.command
def check(
    mechanism: Annotated[
        str, option("Name of a mechanism, or a file NAME.py that defines your own.")
    ],
    /,
    *,
    examples: Annotated[int, option("Number of random inputs for each law.")] = 20,
    seed: Annotated[int, option("Random seed for the inputs.")] = 0,
) -> None:
    """Test a mechanism against every law that it must obey.

    The exit code is 1 if it breaks one.
    """
    from attnlab._mechanism_table import print_law_results
    from attnlab.extensions import load_extension

    names = [mechanism]
    if mechanism.endswith(".py"):
        names = [each.name for each in load_extension(mechanism) if hasattr(each, "card")]
    if not names:
        raise ValueError(
            f"{mechanism}: defines no mechanism; write a subclass of Mechanism with a name"
        )
    passed = [print_law_results(name, examples, seed) for name in names]
    if not all(passed):
        sys.exit(1)
