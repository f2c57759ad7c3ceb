"""attnlab runs [FOLDER] | show RUN"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from attnlab._command_options import Json, RunFolder, create_app, option
from attnlab.cli._run_table import print_runs

app = create_app("runs", "List training runs, or show one.")


@app.default
def runs(
    folder: Annotated[Path, option("Folder to search for runs.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List training runs with task, mechanism, size, progress and best metric."""
    print_runs(folder, json)


@app.command
def show(run: RunFolder, /) -> None:
    """Show the settings, curves and files of a run."""
    from attnlab.cli._run_details import print_run

    print_run(run)
