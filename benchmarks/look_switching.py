"""Measures the scripting time of a change: entering a view, its layers, heads and controls.

Chromium counts it (`ScriptDuration`) as time of the page's thread, so other programs do not matter.
It counts from an idle page until the change is painted; what the page prepares later is not part of
the change. The longest of several changes of each kind counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

VIEWS = {
    "heads": "e", "matrix": "x", "model": "m", "neurons": "n", "compare": "c", "generation": "g",
    "cross": "r", "flow": "f", "image": "i", "mask": "k",
}  # fmt: skip
CONTROLS = {
    "words": ["words=1", ""],
    "sinks": ["first=hide", "first=renormalize&separators=renormalize"],
    "threshold": ["threshold=0.01", "threshold=0.02"],
    "top": ["top=3", "top=20"],
    "scale": ["scale=sqrt", "scale=log"],
    "weighting": ["weighting=norms", ""],
    "search": ["search=t", "search=th"],
    "flow": ["flow=gradient", ""],
    "order": ["order=pattern", "order=change"],
}
AROUND = (0.2, 0.5, 0.8)  # relative pointer positions
REST = 150  # ms; a page is idle after three such pauses without scripting
MAX_PAUSES = 60
PAINTED = """() => new Promise(done => {
  const wait = n => requestAnimationFrame(() => {
    if (n > 0) wait(n - 1);
    else if (document.querySelector('.attnlab[data-painted]')) done();
    else wait(1);
  });
  wait(2);
})"""


class ScriptTimer:
    """A page and the time of its scripts."""

    def __init__(self, browser: Any, path: Path, fragment: str) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector(".attnlab[data-painted]", timeout=60_000)
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def scripting(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "ScriptDuration")

    def settle(self) -> float:
        """Waits until the page is idle; returns the milliseconds of scripting so far."""
        before, still = self.scripting(), 0
        for _ in range(MAX_PAUSES):
            self.page.wait_for_timeout(REST)
            now = self.scripting()
            still = still + 1 if now - before < 0.05 else 0
            if still == 3:
                break
            before = now
        return self.scripting()

    def cost(self, act: Callable[[], object]) -> float:
        before = self.settle()
        act()
        self.page.evaluate(PAINTED)
        return self.scripting() - before

    def press(self, key: str) -> float:
        return self.cost(lambda: self.page.keyboard.press(key))

    def go(self, fragment: str) -> float:
        """Changes the address, as a link does."""
        return self.cost(lambda: self.page.evaluate("to => { location.hash = to }", fragment))


def measure_views(browser: Any, path: Path, views: Sequence[str]) -> dict[str, dict[str, float]]:
    """The longest time of each kind of change, for each view."""
    return {view: measure_view(browser, path, view) for view in views}


def measure_view(browser: Any, path: Path, view: str) -> dict[str, float]:
    other = "matrix" if view == "heads" else "heads"
    timer = ScriptTimer(browser, path, f"view={other}")
    times = {"entered": [timer.press(VIEWS[view])]}
    timer.press(VIEWS[other])
    times["entered"].append(timer.press(VIEWS[view]))
    times["hover"] = measure_hovering(timer)
    times["layer"] = [timer.press("]") for _ in range(3)]
    times["head"] = [timer.press("h") for _ in range(3)]
    times["token"] = [timer.press(",") for _ in range(2)]
    times["mean"] = [timer.press("A") for _ in range(2)]
    for control, fragments in CONTROLS.items():
        timer.go(f"view={view}")
        times[control] = [timer.go(f"view={view}&{fragment}") for fragment in fragments]
    timer.page.close()
    longest = {kind: round(max(values), 1) for kind, values in times.items()}
    print(f"{view}: {longest}", file=sys.stderr)
    return longest


def measure_hovering(timer: ScriptTimer) -> list[float]:
    box = timer.page.locator("canvas").first.bounding_box()
    assert box is not None
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"])
              for y in AROUND for x in AROUND]  # fmt: skip
    costs = [timer.cost(lambda at=at: timer.page.mouse.move(*at)) for at in points]  # type: ignore[misc]
    timer.page.mouse.move(1, 1)
    return costs
