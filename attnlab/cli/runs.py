"""attnlab runs [DIR] | show RUN"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from attnlab._command_options import Json, RunFolder
from attnlab.cli._run_details import print_run
from attnlab.cli._run_table import print_runs

app = App(name="runs", help="List training runs, or show one.", help_format="plaintext")


@app.default
def runs(
    folder: Annotated[Path, Parameter(help="Where to look.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List runs with task, mechanism, size, progress and best metric."""
    print_runs(folder, json)


@app.command
def show(run: RunFolder, /) -> None:
    """Draw a run's curves and name its files."""
    print_run(run)
