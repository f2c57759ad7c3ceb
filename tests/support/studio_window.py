"""The studio in a browser: a folder with a run of each kind, and a browser window."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from attnlab.report import to_json
from tests.support import bench_reports, vision_runs
from tests.support import claim_ledgers as ledgers
from tests.support import summary_runs as summaries
from tests.support.browser import Watched
from tests.support.studio_servers import StudioProcess, make_run

HOSTILE = '<img src=x onerror="window.harmed=1"> \u202eevil'
VIEWER = ".attention .attnlab[data-painted]"
PAGES = {
    "runs": "figure path.line",
    "ask": ".audit .command",
    "write": "textarea",
    "see": ".drop",
    "look": ".look-form",
    "claims": "table.claims",
    "playground": ".board svg",
    "bench": "figure",
}
"""Pages, each with a selector that matches once it has loaded."""
SETTLED = """() => new Promise((done) => {
    const frame = (next) => requestAnimationFrame(() => setTimeout(next));
    frame(() => frame(done)) })"""
"""Waits until effects of the last rendering have run and their changes are rendered."""


def fill_runs_folder(folder: Path, made: Path) -> Path:
    """Makes runs of all kinds, results of claims and benches, and a broken run."""
    folder.mkdir(parents=True)
    for name in ("learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(made / "language", folder / "again")  # the same tokens: they can be compared
    shutil.copytree(summaries.trained(), folder / "deep" / "summary")
    vision_runs.trained(folder, "vit")
    (folder / "claims.json").write_text(json.dumps(ledgers.made_up_ledger()))
    (folder / "bench.json").write_text(to_json(bench_reports.invented_report()))
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    return folder


def hostile_run(folder: Path) -> Path:
    """A run with hostile names, settings and numbers."""
    rows = [
        {"step": step, "loss": value, "validation": {HOSTILE: step}, "__proto__": 3}
        for step, value in enumerate([3.0, float("nan"), float("inf"), 1.0], 1)
    ]
    task = {"name": HOSTILE, "headline": HOSTILE}
    return make_run(folder / "<b>bold", rows, task=task, evil={HOSTILE: HOSTILE})


class Window(Watched):
    """A browser window that shows a studio."""

    def __init__(self, browser: Any, server: StudioProcess, **options: Any) -> None:
        super().__init__(browser, server.origin, **options)
        self.server = server
        self.page.goto(f"{server.origin}/?token={server.token}")
        self.page.wait_for_url(f"{server.origin}/")  # the page redirects itself

    def go(self, fragment: str, wait: str) -> Any:
        """Opens a page by its address and waits for the selector."""
        self.page.goto(f"{self.server.origin}/#{fragment}")
        self.page.evaluate(SETTLED)  # the previous page may match the selector too
        self.page.wait_for_selector(wait)
        return self.page

    def check_console(self, *expected: str) -> None:
        """Fails if the browser logged an error that matches none of the expected patterns."""
        unexpected = [
            text for text in self.complaints if not any(re.search(word, text) for word in expected)
        ]
        self.complaints = []
        assert unexpected == []
        self.check()


class DelayedRequest:
    """Delays the first request for a path until `release`; later ones pass."""

    def __init__(self, page: Any, path: str) -> None:
        self.routes: list[Any] = []
        page.route(f"**{path}*", self._take)
        self.page = page

    def _take(self, route: Any) -> None:
        self.routes.append(route)
        if len(self.routes) > 1:
            route.continue_()

    def wait(self) -> None:
        while not self.routes:
            self.page.wait_for_timeout(20)

    def release(self) -> None:
        self.routes[0].continue_()
