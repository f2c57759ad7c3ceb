"""attnlab bench error | speed | memory | decode | all | show

Nothing that takes time is imported before a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab._command_options import given, grouped, options_of
from attnlab.bench._settings import CostSettings, DecodeSettings, ErrorSettings
from attnlab.cli._report_options import Bar, Common, Outputs

app = App(
    name="bench",
    help="How far mechanisms are from exact attention, and what they cost on this machine.",
    help_format="plaintext",
)

COMMON, OUTPUTS = Common(), Outputs()


def measure(kinds: list[str], common: Common, outputs: Outputs, settings: dict[str, Any]) -> None:
    """Run benches and write what was measured."""
    outputs.check()
    from attnlab.bench._run_bench import bench

    with Bar() as bar:
        report = bench(
            kinds,  # type: ignore[arg-type]
            mechanisms=common.mechanisms,
            quick=common.quick,
            seed=common.seed,
            progress=bar,
            **settings,
        )
    outputs.write(report, charts=len(kinds) == 1)


def _command(name: str, text: str, settings: type[Any]) -> None:
    """The types of its option groups are made here, so they cannot be written in place."""
    options = options_of(settings, unset=True, told=True)
    plain = options()

    def command(*, common: Any = COMMON, settings: Any = plain, outputs: Any = OUTPUTS) -> None:
        measure([name], common, outputs, given(settings, unset=True))

    command.__doc__ = text
    typed = grouped(common=Common, settings=options, outputs=Outputs)
    app.command(typed(command), name=name)


_command("error", "Error against exact softmax, with doing nothing as the control.", ErrorSettings)
_command("speed", "Time by length, against exact softmax.", CostSettings)
_command("memory", "Peak memory by length, each in a process of its own.", CostSettings)
_command("decode", "Cost of a decoding step by position, and what must be kept.", DecodeSettings)


@app.command(name="all")
def everything(
    *,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
    seeds: Annotated[int | None, Parameter(help="error: repeats.")] = None,
    threads: Annotated[int | None, Parameter(help="Of PyTorch; speed, memory, decode.")] = None,
    outputs: Annotated[Outputs, Parameter(name="*")] = OUTPUTS,
) -> None:
    """All four, in about five minutes."""
    wanted = {"seeds": seeds, "threads": threads}
    settings = {name: value for name, value in wanted.items() if value is not None}
    measure(["error", "speed", "memory", "decode"], common, outputs, settings)


@app.command
def show(
    report: Annotated[Path, Parameter(help="What --json wrote.")],
    /,
    *,
    outputs: Annotated[Outputs, Parameter(name="*")] = OUTPUTS,
) -> None:
    """Draw a report again from its JSON."""
    from attnlab.report import read_report

    outputs.check()
    outputs.write(read_report(report), charts=True)
