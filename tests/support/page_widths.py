"""Pages on screens of any width, in light and dark: nothing may be wider than the window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.support.browser import Watched

WIDTHS = (320, 768, 1280, 2560)
SCHEMES = ("light", "dark")


def every_width(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test with each `width` and each `scheme`."""
    by_scheme = pytest.mark.parametrize("scheme", SCHEMES)(test)
    return pytest.mark.parametrize("width", WIDTHS)(by_scheme)


def check_width(
    browser: Any, width: int, scheme: str, views: Callable[[Watched], Iterable[str]]
) -> None:
    """Checks that no view is wider than the window, and that the background fits the scheme.

    `views` shows one view after the other and yields the name of each."""
    watched = Watched(
        browser, viewport={"width": width, "height": 700}, color_scheme=scheme,
        reduced_motion="reduce",
    )  # fmt: skip
    try:
        count = 0
        for name in views(watched):
            page_width = watched.page.evaluate("() => document.documentElement.scrollWidth")
            assert page_width <= width, name
            count += 1
        assert count > 0
        background = watched.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        light = sum(int(part) for part in re.findall(r"\d+", background)[:3]) > 382
        assert light == (scheme == "light")
        watched.check()
    finally:
        watched.close()
