"""attnlab studio: a local web application over run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab._command_options import several
from attnlab.studio._request_limits import PORT


def studio(
    *,
    runs: Annotated[Path | None, Parameter(help="Folder that holds runs. [runs]")] = None,
    model: Annotated[
        list[Path] | None,
        several("Model folders to look into, any kind."),
    ] = None,
    port: Annotated[int, Parameter(help="On this machine alone; 0: any free.")] = PORT,
    browser: Annotated[bool, Parameter(help="Open the page.")] = True,
) -> None:
    """Watch runs train, ask, write, see and look in a browser."""
    from attnlab.studio._server import serve

    serve(runs, model or (), port=port, browser=browser)
