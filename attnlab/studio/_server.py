"""`attnlab studio`: bind to this machine alone, tell the address, serve until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from attnlab.studio import _request_limits as limits
from attnlab.studio._allowed_folders import Places
from attnlab.studio._app import App
from attnlab.studio._request_guard import Keys

HOST = "127.0.0.1"
PATIENCE = 5  # seconds that requests may take to end after Ctrl-C


def serve(
    runs: Path | None = None,
    models: Sequence[Path] = (),
    *,
    port: int = limits.PORT,
    browser: bool = True,
) -> None:
    """Serve the runs below a folder until Ctrl-C. Port 0: any that is free."""
    places = Places.of(checked_folder(runs), models)
    bound = bind(port)
    keys = Keys(secrets.token_urlsafe(32), secrets.token_urlsafe(32), bound.getsockname()[1])
    address = f"http://{HOST}:{keys.port}/?token={keys.token}"
    print(f"attnlab studio: {address}\n{places.runs}: Ctrl-C ends it", flush=True)
    app = App(places, keys)
    if browser:
        webbrowser.open(address)
    try:
        Server(configured(app), app).run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn raises it again once all is closed
        pass
    finally:
        bound.close()


def configured(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        http="h11",
        h11_max_incomplete_event_size=limits.HEAD_BYTES,
        ws="none",
        timeout_graceful_shutdown=PATIENCE,
    )


class Server(uvicorn.Server):
    """Tells streams and models to end, then waits for what is left."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self.studio_app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.studio_app.leave()
        await super().shutdown(sockets)


def checked_folder(runs: Path | None) -> Path:
    """The folder `runs` here need not exist yet; one that was named must."""
    if runs is None:
        runs = Path("runs")
        if not runs.exists():
            return runs
    if not runs.is_dir():
        reason = "not a folder" if runs.exists() else "no such folder"
        raise ValueError(f"{runs}: {reason}; give one that holds runs")
    return runs


def bind(port: int) -> socket.socket:
    """A socket of this machine's own address: nobody else's can reach it."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port {port}; give 1 to 65535, or 0 for any that is free")
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise ValueError(
            f"--port {port}: cannot be used ({error.strerror}); give another, or 0 for any that "
            "is free"
        ) from None
    return bound
