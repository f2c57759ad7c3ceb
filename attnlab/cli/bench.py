"""attnlab bench error | speed | memory | decode | all | show

Slow imports wait until a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from attnlab._command_options import (
    create_app,
    flatten_options,
    option,
    option_values,
    options_of,
)
from attnlab.bench._settings import CostSettings, DecodeSettings, ErrorSettings
from attnlab.cli._report_options import MeasurementOptions, ProgressBar, ReportOptions

app = create_app(
    "bench", "Measure the error, speed and memory of mechanisms against exact attention."
)
MEASUREMENT, REPORT = MeasurementOptions(), ReportOptions()


def measure(
    kinds: list[str],
    measurement: MeasurementOptions,
    outputs: ReportOptions,
    settings: dict[str, Any],
) -> None:
    """Run benchmarks and write the report."""
    outputs.check()
    from attnlab.bench._run_bench import bench

    with ProgressBar() as bar:
        report = bench(
            kinds,  # type: ignore[arg-type]
            mechanisms=measurement.mechanisms,
            quick=measurement.quick,
            seed=measurement.seed,
            progress=bar,
            **settings,
        )
    outputs.write(report, charts=len(kinds) == 1)


def _add_command(name: str, text: str, settings: type[Any]) -> None:
    """The types of its options are created here, so they cannot be written as annotations."""
    options = options_of(settings, optional=True, defaults=settings())
    left_out = options()

    def command(
        *, measurement: Any = MEASUREMENT, settings: Any = left_out, outputs: Any = REPORT
    ) -> None:
        measure([name], measurement, outputs, option_values(settings, set_only=True))

    command.__doc__ = text
    annotate = flatten_options(
        measurement=MeasurementOptions, settings=options, outputs=ReportOptions
    )
    app.command(annotate(command), name=name)


_add_command(
    "error",
    "Measure the error against exact softmax attention, with uniform attention as the control.",
    ErrorSettings,
)
_add_command("speed", "Measure the time by sequence length, against exact softmax.", CostSettings)
_add_command("memory", "Measure the peak memory by sequence length.", CostSettings)
_add_command(
    "decode", "Measure the time of a decoding step and the size of the state.", DecodeSettings
)


@app.command(name="all")
def measure_all(
    *,
    measurement: Annotated[MeasurementOptions, Parameter(name="*")] = MEASUREMENT,
    seeds: Annotated[
        int | None,
        option(f"Number of repeats of the error benchmark. [default: {ErrorSettings.seeds}]"),
    ] = None,
    threads: Annotated[
        int | None,
        option(
            "Number of PyTorch threads of the speed, memory and decode benchmarks. "
            f"[default: {CostSettings.threads}]"
        ),
    ] = None,
    outputs: Annotated[ReportOptions, Parameter(name="*")] = REPORT,
) -> None:
    """Run all four benchmarks, in about five minutes."""
    settings = {"seeds": seeds, "threads": threads}
    settings = {name: value for name, value in settings.items() if value is not None}
    measure(["error", "speed", "memory", "decode"], measurement, outputs, settings)


@app.command
def show(
    report: Annotated[Path, option("JSON file of a report, written with --json.")],
    /,
    *,
    outputs: Annotated[ReportOptions, Parameter(name="*")] = REPORT,
) -> None:
    """Print a report again from its JSON file."""
    from attnlab.report import read_report

    outputs.check()
    outputs.write(read_report(report), charts=True)
