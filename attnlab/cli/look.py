"""attnlab look: see what a model attends to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import flag, flatten_options, option, option_values, options_of
from attnlab.interpret._options import LookOptions

Options = options_of(
    LookOptions,
    without=("tokenizer", "compare_tokenizer", "progress"),
    compare=Path | None,
    inputs=Path | None,
    answer=str | None,
    layers=list[int] | None,
    heads=list[int] | None,
)


@flatten_options(options=Options)
def look(
    model: Annotated[
        Path,
        option("Folder of a model, a name that `attnlab models` lists, or a capture file."),
    ],
    /,
    *,
    options: Any = Options(),  # noqa: B008
    out: Annotated[
        Path, option("Page to write, as NAME.html, or a capture file, as NAME.attnlab.")
    ] = Path("look.html"),
    overwrite: Annotated[bool, flag("Replace the file of --out.")] = False,
) -> None:
    """See what a model attends to, in a page that works offline."""
    from attnlab.cli._report_options import ProgressBar
    from attnlab.interpret._look import check_out
    from attnlab.interpret._look import look as look_at
    from attnlab.interpret._terminal_summary import print_summary

    check_out(out, overwrite)
    with ProgressBar() as bar:
        values = option_values(options)
        if values["effects"]:
            values["progress"] = bar.counting("effects of heads")
        looked = look_at(model, **values)
    looked.save(out, overwrite=overwrite)
    print_summary(looked, out)
