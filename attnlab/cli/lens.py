"""attnlab lens: what each layer of a model predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from attnlab._command_options import flatten_options, option
from attnlab.cli._report_options import ReportOptions


class LensReportOptions(ReportOptions):
    """Where a report goes. No dataclass of its own: annotations resolve in the parent's module."""

    kind: ClassVar[str] = "lens"


@flatten_options(outputs=LensReportOptions)
def lens(
    model: Annotated[Path, option("Folder of a model, or a name that `attnlab models` lists.")],
    /,
    *,
    text: Annotated[str | None, option("Text for the model to read.")] = None,
    pair: Annotated[
        str | None, option("Second text. For an encoder-decoder, the input of its decoder.")
    ] = None,
    image: Annotated[Path | None, option("Image file for a vision model to read.")] = None,
    tuned: Annotated[
        Path | None,
        option(
            "Text file to fit a tuned lens on: one affine map per layer. Each line is a text; the "
            "last quarter is held out."
        ),
    ] = None,
    outputs: Any = LensReportOptions(),  # noqa: B008 (frozen)
) -> None:
    """Show what every layer of a model predicts (the logit lens)."""
    outputs.check()
    from attnlab.interpret._logit_lens import logit_lens

    texts = () if tuned is None else lines_of(tuned)
    result = logit_lens(model, text, tuned=tuned is not None, texts=texts, pair=pair, image=image)
    outputs.write(result.report(), charts=True)


def lines_of(path: Path) -> list[str]:
    from attnlab.heads._inputs import read_inputs

    lines = [line for line in read_inputs(path).full_text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path}: has no text; give a file with a text in each line")
    return lines
