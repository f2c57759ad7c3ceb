"""Milliseconds of scripting that a change costs: entering a view, its layers, heads and controls.

Chromium counts them itself (`ScriptDuration`), as time of the page's thread: what other programs
take does not count. A view is entered on a fresh page, where nothing is compiled or opened yet, and
once more; of each kind of change the longest of several is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

VIEWS = {
    "heads": "e", "matrix": "x", "model": "m", "neurons": "n", "compare": "c", "generation": "g",
    "cross": "r", "flow": "f", "image": "i", "mask": "k",
}  # fmt: skip
CONTROLS = {
    "words": ["words=1", ""],
    "sinks": ["first=hide", "first=renormalise&separators=renormalise"],
    "threshold": ["threshold=0.01", "threshold=0.02"],
    "top": ["top=3", "top=20"],
    "scale": ["scale=sqrt", "scale=log"],
    "weighting": ["weighting=norms", ""],
    "search": ["search=t", "search=th"],
    "flow": ["flow=gradient", ""],
    "order": ["order=pattern", "order=change"],
}
AROUND = (0.1, 0.3, 0.5, 0.8)  # of the drawing: where the pointer goes
REST = 120  # ms without any scripting, after which a change is over
MOST = 20  # such pauses


class Watch:
    """A page and what its scripts cost."""

    def __init__(self, browser: Any, path: Path, fragment: str) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector(".attnlab[data-painted]", timeout=60_000)
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.before = self.settle()

    def scripting(self) -> float:
        found = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(each["value"] for each in found if each["name"] == "ScriptDuration")

    def settle(self) -> float:
        """Milliseconds of scripting so far, when nothing runs any more."""
        before = self.scripting()
        for _ in range(MOST):
            self.page.wait_for_timeout(REST)
            now = self.scripting()
            if now - before < 0.05:
                return now
            before = now
        return before

    def cost(self, act: Callable[[], object]) -> float:
        before = self.before
        act()
        self.page.wait_for_timeout(REST)
        self.before = self.settle()
        return self.before - before

    def press(self, key: str) -> float:
        return self.cost(lambda: self.page.keyboard.press(key))

    def go(self, fragment: str) -> float:
        """As if a link had been followed."""
        return self.cost(lambda: self.page.evaluate("to => { location.hash = to }", fragment))


def switching(browser: Any, path: Path) -> dict[str, dict[str, float]]:
    """For each view that this page has, the longest of each kind of change."""
    watch = Watch(browser, path, "")
    tabs = watch.page.locator("[role=tab]:not(.faint)")
    there = [each.get_attribute("id").split("-tab-")[1] for each in tabs.all()]
    watch.page.close()
    return {view: of_view(browser, path, view) for view in VIEWS if view in there}


def of_view(browser: Any, path: Path, view: str) -> dict[str, float]:
    other = "matrix" if view == "heads" else "heads"
    watch = Watch(browser, path, f"view={other}")
    found = {"entered": [watch.press(VIEWS[view])]}
    watch.press(VIEWS[other])
    found["entered"].append(watch.press(VIEWS[view]))
    found["hover"] = hovering(watch)
    found["layer"] = [watch.press("]") for _ in range(6)]
    found["head"] = [watch.press("h") for _ in range(4)]
    found["token"] = [watch.press(",") for _ in range(3)]
    found["mean"] = [watch.press("A") for _ in range(2)]
    for control, fragments in CONTROLS.items():
        watch.go(f"view={view}")
        found[control] = [watch.go(f"view={view}&{fragment}") for fragment in fragments]
    watch.page.close()
    return {kind: round(max(values), 1) for kind, values in found.items()}


def hovering(watch: Watch) -> list[float]:
    box = watch.page.locator("canvas").first.bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"])
              for y in AROUND for x in AROUND]  # fmt: skip
    found = [watch.cost(lambda at=at: watch.page.mouse.move(*at)) for at in places]  # type: ignore[misc]
    watch.page.mouse.move(1, 1)
    return found
