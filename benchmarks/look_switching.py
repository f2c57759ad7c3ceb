"""Milliseconds of scripting that a change costs: entering a view, its layers, heads and controls.

Chromium counts them itself (`ScriptDuration`), as time of the page's thread: what other programs
take does not count. They are read from a page that rests until the change is painted; what the page
prepares later, while nothing happens, is not part of the change. Of each kind of change the longest
of several is kept.
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
AROUND = (0.2, 0.5, 0.8)  # of the drawing: where the pointer goes
REST = 150  # ms without any scripting, thrice: then a page rests
MOST = 60  # such pauses
PAINTED = """() => new Promise(done => {
  const wait = n => requestAnimationFrame(() => {
    if (n > 0) wait(n - 1);
    else if (document.querySelector('.attnlab[data-painted]')) done();
    else wait(1);
  });
  wait(2);
})"""


class Watch:
    """A page and what its scripts cost."""

    def __init__(self, browser: Any, path: Path, fragment: str) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector(".attnlab[data-painted]", timeout=60_000)
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def scripting(self) -> float:
        found = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(each["value"] for each in found if each["name"] == "ScriptDuration")

    def settle(self) -> float:
        """Milliseconds of scripting so far, when nothing runs any more."""
        before, still = self.scripting(), 0
        for _ in range(MOST):
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
        """As if a link had been followed."""
        return self.cost(lambda: self.page.evaluate("to => { location.hash = to }", fragment))


def switching(browser: Any, path: Path, views: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each of these views the longest of each kind of change."""
    return {view: of_view(browser, path, view) for view in views}


def of_view(browser: Any, path: Path, view: str) -> dict[str, float]:
    other = "matrix" if view == "heads" else "heads"
    watch = Watch(browser, path, f"view={other}")
    found = {"entered": [watch.press(VIEWS[view])]}
    watch.press(VIEWS[other])
    found["entered"].append(watch.press(VIEWS[view]))
    found["hover"] = hovering(watch)
    found["layer"] = [watch.press("]") for _ in range(3)]
    found["head"] = [watch.press("h") for _ in range(3)]
    found["token"] = [watch.press(",") for _ in range(2)]
    found["mean"] = [watch.press("A") for _ in range(2)]
    for control, fragments in CONTROLS.items():
        watch.go(f"view={view}")
        found[control] = [watch.go(f"view={view}&{fragment}") for fragment in fragments]
    watch.page.close()
    longest = {kind: round(max(values), 1) for kind, values in found.items()}
    print(f"{view}: {longest}", file=sys.stderr)
    return longest


def hovering(watch: Watch) -> list[float]:
    box = watch.page.locator("canvas").first.bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"])
              for y in AROUND for x in AROUND]  # fmt: skip
    found = [watch.cost(lambda at=at: watch.page.mouse.move(*at)) for at in places]  # type: ignore[misc]
    watch.page.mouse.move(1, 1)
    return found
