"""attnlab patch: at which layer and token the answer of a model is decided."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from attnlab._command_options import flatten_options, option
from attnlab.cli._report_options import ProgressBar, ReportOptions


class PatchReportOptions(ReportOptions):
    """Where a report goes. No dataclass of its own: annotations resolve in the parent's module."""

    kind: ClassVar[str] = "patch"


@flatten_options(outputs=PatchReportOptions)
def patch(
    model: Annotated[Path, option("Folder of a model, or a name that `attnlab models` lists.")],
    /,
    *,
    clean: Annotated[str, option("Text after which the model gives the answer.")],
    corrupted: Annotated[
        str, option("Text with equally many tokens after which it gives another one.")
    ],
    answer: Annotated[str, option("Token whose logit is measured. Many start with a space.")],
    other: Annotated[
        str | None, option("Token whose logit is subtracted, such as the other text's answer.")
    ] = None,
    pair: Annotated[str | None, option("Input of the decoder, for an encoder-decoder.")] = None,
    outputs: Any = PatchReportOptions(),  # noqa: B008 (frozen)
) -> None:
    """Patch each layer and token of a text into another, and see what restores the answer."""
    outputs.check()
    from attnlab.interpret._patching_map import patching_map

    with ProgressBar() as bar:
        result = patching_map(
            model, clean, corrupted, answer, other=other, pair=pair,
            progress=bar.counting("patching"),
        )  # fmt: skip
    outputs.write(result.report(), charts=True)
