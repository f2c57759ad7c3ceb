"""attnlab heads: which mechanism could replace each head of a model, or what each head does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from attnlab._command_options import flag, flatten_options, option, option_values, options_of
from attnlab.cli._report_options import MeasurementOptions, ProgressBar, ReportOptions
from attnlab.heads._importance import TEXTS, TOKENS, ImportanceSettings
from attnlab.heads._settings import HeadSettings

HeadOptions: Any = options_of(HeadSettings, optional=True, defaults=HeadSettings())
ImportanceOptions: Any = options_of(ImportanceSettings)


class HeadReportOptions(ReportOptions):
    """Where a report goes. No dataclass of its own: annotations resolve in the parent's module."""

    kind: ClassVar[str] = "heads"


@flatten_options(
    measurement=MeasurementOptions,
    settings=HeadOptions,
    effects=ImportanceOptions,
    outputs=HeadReportOptions,
)
def heads(
    model: Annotated[Path, option("Folder of a model, or a name that `attnlab models` lists.")],
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
            "Images for a vision model to read: a folder, or without --importance the data set of "
            "a vision run (digits, fashion)."
        ),
    ] = None,
    importance: Annotated[
        bool,
        flag(
            "Instead, ablate each head alone and measure how the model's prediction changes. It "
            f"reads {TEXTS} texts of {TOKENS} tokens, unless --windows and --tokens are given."
        ),
    ] = False,
    measurement: Any = MeasurementOptions(),  # noqa: B008 (frozen)
    settings: Any = HeadOptions(),  # noqa: B008
    effects: Any = ImportanceOptions(),  # noqa: B008
    outputs: Any = HeadReportOptions(),  # noqa: B008
) -> None:
    """Find the mechanism that reproduces each head of a model, or what each head does."""
    values = option_values(settings, set_only=True)
    if text is None and images is None:
        raise ValueError(f"{model}: needs something to read; give --text FILE or --images FOLDER")
    if text is not None and images is not None:
        raise ValueError("--text and --images exclude each other; give one of them")
    if images is not None and "tokens" in values:
        raise ValueError("--tokens needs --text; images are split by the model itself")
    chosen = ImportanceSettings(**option_values(effects))
    _check_importance(importance, chosen, values, measurement)
    outputs.check()
    if importance:
        from attnlab.heads._importance import importance as measure_importance

        with ProgressBar() as bar:
            result = measure_importance(
                model, text, images, chosen, tokens=values.get("tokens"),
                windows=values.get("windows"), seed=measurement.seed,
                progress=bar.counting("heads"),
            )  # fmt: skip
        outputs.write(result.report(), charts=True)
        return
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


def _check_importance(
    importance: bool, chosen: ImportanceSettings, values: dict[str, Any], measurement: Any
) -> None:
    """Options of the one measurement have no meaning in the other."""
    if not importance and chosen != ImportanceSettings():
        raise ValueError("--metric, --answer, --other and --how need --importance; give it too")
    others = [name for name in values if name not in ("tokens", "windows")]
    others += ["mechanisms"] * bool(measurement.mechanisms) + ["quick"] * measurement.quick
    if importance and others:
        raise ValueError(f"--{others[0]} has no meaning with --importance; omit one of them")
