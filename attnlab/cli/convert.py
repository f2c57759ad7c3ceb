"""attnlab convert: another mechanism in a pretrained model, trained to agree with softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import (
    Out,
    Overwrite,
    Resume,
    flatten_options,
    list_option,
    option,
    option_values,
    options_of,
    start_mode,
)
from attnlab._help_groups import DATA
from attnlab.convert._settings import ConvertSettings

ConvertOptions: Any = options_of(ConvertSettings)


@flatten_options(settings=ConvertOptions)
def convert(
    model: Annotated[
        Path, option("Folder of a Hugging Face model, a .gguf file, or the run of a decoder.")
    ],
    /,
    *,
    text: Annotated[tuple[Path, ...], list_option("Text files, or .jsonl files, to train on.")],
    attention: Annotated[
        str | None,
        option(
            "Mechanism to put in place of softmax. Without it, hedgehog_window:window=64, or the "
            "choice of --heads."
        ),
    ] = None,
    layers: Annotated[
        str, option("Numbers and ranges of the layers to convert, from 0, as in 0,2,8-22.")
    ] = "all",
    heads: Annotated[
        Path | None,
        option(
            "Report of the command heads, as JSON. Only heads that it found a mechanism for are "
            "converted: to --attention, or without it to that mechanism."
        ),
    ] = None,
    held_out: Annotated[
        tuple[Path, ...],
        list_option("Files to measure the loss on. Without it, 5% of the documents.", DATA),
    ] = (),
    settings: Any = ConvertOptions(),  # noqa: B008 (frozen)
    out: Out = Path("runs/converted"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Replace softmax in layers of a pretrained model, and train them to agree with it."""
    from rich.console import Console

    from attnlab.convert import convert as convert_model
    from attnlab.report import print_report

    report = convert_model(
        model,
        text,
        out=out,
        attention=attention,
        layers=layers,
        heads=heads,
        held_out=held_out,
        settings=ConvertSettings(**option_values(settings)),
        start=start_mode(resume, overwrite),
    )
    print_report(report, Console(), charts=False)
    print(out)
