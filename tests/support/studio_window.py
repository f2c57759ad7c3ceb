"""The studio in a browser: a folder with a run of each kind, and a window on it."""

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
from tests.support.studio_servers import Served, make_run

HOSTILE = '<img src=x onerror="window.harmed=1"> \u202eevil'
SLOW = 120_000  # ms: other processes have the machine too
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
"""Each with what shows that it is there."""
SETTLED = """() => new Promise((done) => {
    const frame = (next) => requestAnimationFrame(() => setTimeout(next));
    frame(() => frame(done)) })"""
"""What was drawn listens, and what it heard is drawn."""


def fill(folder: Path, made: Path) -> Path:
    """Runs that can do everything, results of claims and benches, and two that can do nothing."""
    folder.mkdir(parents=True)
    for name in ("learned", "language"):
        shutil.copytree(made / name, folder / name)
    shutil.copytree(made / "language", folder / "again")  # the same tokens: they can be compared
    shutil.copytree(summaries.trained(), folder / "deep" / "summary")
    vision_runs.trained(folder, "vit")
    (folder / "claims.json").write_text(json.dumps(ledgers.made_up()))
    (folder / "bench.json").write_text(to_json(bench_reports.invented_report()))
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    return folder


def hostile_run(folder: Path) -> Path:
    """Names, settings and numbers that a stranger chose."""
    rows = [
        {"step": step, "loss": value, "validation": {HOSTILE: step}, "__proto__": 3}
        for step, value in enumerate([3.0, float("nan"), float("inf"), 1.0], 1)
    ]
    task = {"name": HOSTILE, "headline": HOSTILE}
    return make_run(folder / "<b>bold", rows, task=task, evil={HOSTILE: HOSTILE})


class Window(Watched):
    """A browser's window on a studio."""

    def __init__(self, browser: Any, server: Served, **options: Any) -> None:
        super().__init__(browser, server.origin, **options)
        self.server = server
        self.page.set_default_timeout(SLOW)
        self.page.goto(f"{server.origin}/?token={server.token}")
        self.page.wait_for_url(f"{server.origin}/")  # it goes on by itself

    def go(self, fragment: str, wait: str) -> Any:
        """A page by its address, when something of it is there."""
        self.page.goto(f"{self.server.origin}/#{fragment}")
        self.page.evaluate(SETTLED)  # the page before has the same things to wait for
        self.page.wait_for_selector(wait)
        return self.page

    def told(self, *expected: str) -> None:
        """Nobody complained but the browser, of these answers of the server."""
        left = [
            each for each in self.complaints if not any(re.search(word, each) for word in expected)
        ]
        self.complaints = []
        assert left == []
        self.check()
