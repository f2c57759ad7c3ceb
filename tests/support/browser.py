"""Pages in a real browser, without any network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HANG = 300_000  # milliseconds; ends only what hangs, also on a busy machine
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright; a test skips where one of them is missing."""
    play = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed")
    with play.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS, timeout=HANG)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, with its network requests and its console errors."""

    def __init__(self, browser: Any, origin: str = "", **options: Any) -> None:
        """Offline, or with access only to `origin`, a server of this machine."""
        settings = {"viewport": {"width": 1100, "height": 800}, "accept_downloads": True}
        self.context = browser.new_context(**{**settings, **options})
        self.context.set_default_timeout(HANG)
        self.context.set_offline(not origin)
        self.allowed = ("file:", "data:", "blob:", *([f"{origin}/"] if origin else []))
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._on_dialog)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _on_dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path, fragment: str = "") -> Any:
        self.page.goto(path.as_uri() + fragment)
        self.painted()
        return self.page

    def painted(self) -> None:
        """Waits until the view is drawn."""
        self.page.wait_for_selector(".attnlab[data-painted]")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.evaluate(
                "() => { delete document.querySelector('.attnlab').dataset.painted }"
            )
            self.page.keyboard.press(key)
            self.painted()

    def keep_messages(self) -> None:
        """Stops the timers that take messages away after seconds, before a test has read them."""
        self.page.evaluate(
            "() => { const start = window.setTimeout; window.setTimeout = (call, pause) => "
            "pause >= 1000 ? 0 : start(call, pause) }"
        )

    def check(self) -> None:
        """Fails if the page loaded anything else, or logged an error."""
        foreign = [url for url in self.requests if not url.startswith(self.allowed)]
        assert foreign == []
        assert self.complaints == []

    def close(self) -> None:
        self.context.close()
