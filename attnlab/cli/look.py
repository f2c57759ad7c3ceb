"""attnlab look: see what a model attends to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from attnlab._command_options import given, grouped, options_of
from attnlab.interpret._options import LookOptions

Options = options_of(
    LookOptions,
    without=("tokenizer", "compare_tokenizer"),
    compare=Path | None,
    layers=list[int] | None,
    heads=list[int] | None,
)


@grouped(options=Options)
def look(
    model: Annotated[
        Path, Parameter(help="Folder of an attnlab or Hugging Face model, or a capture file.")
    ],
    /,
    *,
    options: Any = Options(),  # noqa: B008
    out: Annotated[Path, Parameter(help="The page; or NAME.attnlab, a capture file.")] = Path(
        "look.html"
    ),
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --out.")] = False,
) -> None:
    """See what a model attends to: one page that works offline."""
    from attnlab.interpret._look import check_out
    from attnlab.interpret._look import look as looking
    from attnlab.interpret._terminal_summary import print_summary

    check_out(out, overwrite)
    looked = looking(model, **given(options))
    looked.save(out, overwrite=overwrite)
    print_summary(looked, out)
