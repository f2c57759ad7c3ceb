"""attnlab studio: a local web application over run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from attnlab._command_options import list_option, option
from attnlab.studio._request_limits import PORT


def studio(
    *,
    runs: Annotated[Path | None, option("Folder of the runs. [default: runs]")] = None,
    model: Annotated[
        list[Path] | None, list_option("Folders of attnlab or Hugging Face models to look into.")
    ] = None,
    port: Annotated[
        int,
        option("Port of the web server, which only this machine can reach. 0 takes a free one."),
    ] = PORT,
    browser: Annotated[bool, option("Open the page in a browser.")] = True,
) -> None:
    """Open the studio: watch, ask and look into models in a web browser."""
    from attnlab.studio._server import serve

    serve(runs, model or (), port=port, browser=browser)
