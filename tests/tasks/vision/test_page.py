"""The page of an evaluation in a real browser, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.report import render_page
from attnlab.report._page import write_page
from attnlab.tasks.vision._score_report import score_report
from attnlab.tasks.vision._scoring import score
from tests.support.browser import Watched, chromium
from tests.support.image_files import pixels

NAMES = ["T-shirt", "a trouser with a long name", "coat", "dress", "bag"]


def scored() -> str:
    torch.manual_seed(3)
    labels = torch.arange(300) % len(NAMES)
    logits = torch.randn(300, len(NAMES)) + 2.5 * torch.eye(len(NAMES))[labels]
    report = score(logits, labels, NAMES)
    about = {"run": "runs/a", "model": "convnet", "parameters": 1234, "data": "clothes"}
    images = [pixels(1, 1 + 2 * (k % 2), 8, k)[0] for k in range(len(report["mistakes"]))]
    made = score_report(
        {
            **about,
            "part": "test",
            "trained_on": 900,
            "left_out": 0,
            "foreign": False,
            "trained_data": "d",
            **report,
        },
        images,
    )
    return render_page(made)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_pages_in_a_browser(width: int, scheme: str, tmp_path: Path) -> None:
    write_page(tmp_path / "score.html", scored(), overwrite=True)
    with chromium() as browser:
        view = Watched(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = view.page
        page.goto((tmp_path / "score.html").as_uri())
        for name in ("summary", "confusions", "mistakes", "classes", "calibration"):
            page.goto(f"{(tmp_path / 'score.html').as_uri()}#show={name}")
            page.reload()
            page.wait_for_selector("main h2")
            _no_scrolling_sideways(page)
            if name == "mistakes":
                assert page.evaluate("document.images.length") == 34
                loaded = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
                page.wait_for_function(loaded)
        view.check()
        view.close()


def _no_scrolling_sideways(page: Any) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
