"""`attnlab studio`: listens on this machine only, prints the address, serves until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import uvicorn

from attnlab.studio import _request_limits as limits
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._app import StudioApp
from attnlab.studio._connection import StudioConnection, raise_open_file_limit
from attnlab.studio._request_guard import AccessKeys

HOST = "127.0.0.1"
SHUTDOWN_SECONDS = 5  # for requests to end after Ctrl-C
OPENING_PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>attnlab studio</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={address}">
<p><a href="{address}">Open the studio</a></p></html>
"""


def serve(
    runs: Path | None = None,
    models: Sequence[Path] = (),
    *,
    port: int = limits.PORT,
    browser: bool = True,
) -> None:
    """Serve the runs below a folder until Ctrl-C. Port 0 takes any free port."""
    folders = AllowedFolders.resolve(find_runs_folder(runs), models)
    listener = bind_socket(port)
    keys = AccessKeys(
        secrets.token_urlsafe(32), secrets.token_urlsafe(32), listener.getsockname()[1]
    )
    address = f"{keys.origin}/?token={keys.token}"
    print(
        f"attnlab studio: {address}\nIt shows the runs in {folders.runs}. Press Ctrl-C to stop.",
        flush=True,
    )
    raise_open_file_limit()
    app = StudioApp(folders, keys)
    with ExitStack() as stack:
        stack.callback(listener.close)
        if browser:
            webbrowser.open(stack.enter_context(opening_page(address)).as_uri())
        with suppress(KeyboardInterrupt):  # uvicorn raises it again once all is closed
            StudioServer(server_config(app), app).run(sockets=[listener])


@contextmanager
def opening_page(address: str) -> Iterator[Path]:
    """A page that leads to the address, and that only you can read.

    All users of a machine can see the arguments of a browser, so the token must not be in them.
    """
    with tempfile.TemporaryDirectory(prefix="attnlab-studio-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        page.write_text(OPENING_PAGE.format(address=address), encoding="utf-8")
        yield page


def server_config(app: StudioApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        http=StudioConnection,
        h11_max_incomplete_event_size=limits.HEADER_BYTES,
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


class StudioServer(uvicorn.Server):
    """Ends streams and models at shutdown, then waits for the remaining requests."""

    def __init__(self, config: uvicorn.Config, app: StudioApp) -> None:
        super().__init__(config)
        self.studio_app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.studio_app.begin_shutdown()
        await super().shutdown(sockets)


def find_runs_folder(runs: Path | None) -> Path:
    """The default folder `runs` need not exist yet; a folder that you name must."""
    if runs is None:
        runs = Path("runs")
        if not runs.exists():
            return runs
    if not runs.is_dir():
        reason = "is not a folder" if runs.exists() else "does not exist"
        raise ValueError(f"{runs}: {reason}; give a folder that holds runs")
    return runs


def bind_socket(port: int) -> socket.socket:
    """A socket on the loopback address, which no other machine can reach."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port is {port}; give 1 to 65535, or 0 for any free port")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ValueError(
            f"--port {port}: cannot be used ({error.strerror}); give another, or 0 for any "
            "free port"
        ) from None
    return listener
