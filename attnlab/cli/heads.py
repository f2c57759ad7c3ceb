"""attnlab heads: which mechanism could replace softmax in each head of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from attnlab._command_options import flatten_options, option, option_values, options_of
from attnlab.cli._report_options import MeasurementOptions, ProgressBar, ReportOptions
from attnlab.heads._settings import HeadSettings

HeadOptions: Any = options_of(HeadSettings, optional=True, defaults=HeadSettings())


class HeadReportOptions(ReportOptions):
    """Where a report goes. No dataclass of its own: annotations resolve in the parent's module."""

    kind: ClassVar[str] = "heads"


@flatten_options(measurement=MeasurementOptions, settings=HeadOptions, outputs=HeadReportOptions)
def heads(
    model: Annotated[Path, option("Folder of an attnlab or Hugging Face model.")],
    /,
    *,
    text: Annotated[
        Path | None,
        option(
            "Text file for the model to read. For an encoder-decoder, a .jsonl, .csv or .tsv file "
            "of texts and summaries."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        option(
            "Images for a vision model to read: a folder, or the data set of a vision run (digits, "
            "fashion)."
        ),
    ] = None,
    measurement: Any = MeasurementOptions(),  # noqa: B008 (frozen)
    settings: Any = HeadOptions(),  # noqa: B008
    outputs: Any = HeadReportOptions(),  # noqa: B008
) -> None:
    """Find the mechanism that reproduces each head of a model, and check the model's own loss."""
    values = option_values(settings, set_only=True)
    if text is None and images is None:
        raise ValueError(f"{model}: needs something to read; give --text FILE or --images FOLDER")
    if text is not None and images is not None:
        raise ValueError("--text and --images exclude each other; give one of them")
    if images is not None and "tokens" in values:
        raise ValueError("--tokens needs --text; images are split by the model itself")
    outputs.check()
    from attnlab.heads import heads as measure

    with ProgressBar() as bar:
        report = measure(
            model,
            text,
            images=images,
            mechanisms=measurement.mechanisms,
            quick=measurement.quick,
            seed=measurement.seed,
            progress=bar,
            **values,
        )
    outputs.write(report, charts=True)
