"""Saves a figure as a reader does: with the menu "Save figure"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DATA = ("CSV", "JSON")


def save_figure(
    page: Any, folder: Path, kind: str, scope: Any = None, caption: bool = True, **choices: str
) -> Path:
    """The file that the menu of `scope` (a figure or the page) saves. `choices` are selected by
    their labels: Colors, Width."""
    scope = page if scope is None else scope
    menu = scope.get_by_role("group", name="Save figure")
    if not menu.count():
        scope.get_by_role("button", name="Save figure").click()
    menu.get_by_label("Caption").set_checked(caption)
    for name, value in choices.items():
        menu.get_by_label(name.capitalize()).select_option(value)
    if kind not in DATA:
        menu.get_by_label("Format").select_option(kind)
    button = menu.get_by_role("button", name=kind if kind in DATA else f"Save {kind}", exact=True)
    with page.expect_download() as started:
        button.click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    page.keyboard.press("Escape")
    return path


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, from its header."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
