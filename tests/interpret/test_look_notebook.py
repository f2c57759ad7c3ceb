"""The widget in JupyterLab, in a real browser; and the fallback without anywidget."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnlab.interpret._look import LookResult, look
from tests.support.browser import HANG, chromium
from tests.support.hostile_capture import HOSTILE, VIEWS, hostile
from tests.support.text_models import TOKENS, decoder


def look_at_text(**options: Any) -> LookResult:
    return look(decoder(), "the dog ran in the park", tokenizer=TOKENS, **options)


def test_widget_has_the_data_of_a_page() -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    result = look_at_text()
    widget = result.widget()
    header, blocks = result.packed
    assert json.loads(widget.header) == header
    assert list(widget.blocks) == blocks
    assert "export" in widget._esm
    bundle = result._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in data


def test_frame_without_anywidget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "attnlab.interpret._notebook_widget", raising=False)
    result = look_at_text()
    result.panels[0].sequences[0].texts[0] = HOSTILE[0]
    html = result._repr_mimebundle_()["text/html"]
    assert html.startswith('<iframe sandbox="allow-scripts allow-downloads" srcdoc="')
    assert html.count("<") == 2  # the two tags of the frame; everything else is escaped
    assert "allow-same-origin" not in html


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[str]:
    """A server on a free port of loopback; it and its kernels end with the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = {name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--ServerApp.root_dir={folder}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **home, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + HANG / 1000
        while True:
            try:
                urllib.request.urlopen(f"{address}/api", timeout=20).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def execute(page: Any) -> None:
    """Run the cell, again if needed: JupyterLab drops cells until the kernel is connected."""
    accepted = page.locator(".jp-InputPrompt", has_text=re.compile(r"[*\d]")).first
    for number in range(HANG // 100):
        if number % 50 == 0:  # every five seconds
            page.locator(".jp-Notebook .cm-content").first.click()
            page.keyboard.press("Control+Enter")
        page.wait_for_timeout(100)
        if accepted.count():
            break
    page.wait_for_selector(".jp-OutputArea canvas")


def write_notebook(path: Path, cell: str) -> None:
    """A notebook of one cell."""
    cell = textwrap.dedent(cell).strip()
    notebook = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "id": "one", "metadata": {},
             "outputs": [], "source": cell}
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python",
                                    "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip
    path.write_text(json.dumps(notebook))


@pytest.mark.slow
def test_in_jupyter_lab(tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    hostile().save(tmp_path / "capture.attnlab")
    cell = "import attnlab\nattnlab.look('capture.attnlab')"
    write_notebook(tmp_path / "a.ipynb", cell)
    with chromium() as browser, jupyter_lab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(HANG)
        foreign: list[str] = []
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((address, "data:", "blob:"))
                else foreign.append(request.url)
            ),
        )
        page.goto(f"{address}/lab/tree/a.ipynb")
        page.wait_for_selector(".jp-Notebook .cm-content")
        page.wait_for_selector("[data-status=idle]")
        execute(page)
        tabs = page.locator(".jp-OutputArea [role=tab]")
        console: list[str] = []  # from here on: JupyterLab itself logs warnings when it starts
        page.on("console", lambda line: console.append(line.text) if line.type == "error" else None)
        assert 5 < tabs.count() <= len(VIEWS)  # the views that have data
        for number in range(tabs.count()):
            tabs.nth(number).click()
            page.wait_for_selector(".jp-OutputArea canvas, .jp-OutputArea p.message")
            if page.locator(".jp-OutputArea canvas").count():
                page.locator(".jp-OutputArea .area").focus()
                page.keyboard.press("ArrowDown")  # a tip, which shows a token
                page.wait_for_timeout(300)
        assert page.evaluate("() => window.harmed") is None
        assert page.locator(".jp-OutputArea img").count() == 0
        assert (foreign, errors, console) == ([], [], [])
        page.screenshot(path=str(tmp_path / "lab.png"))


@pytest.mark.slow
def test_heads_are_switched_off_in_jupyter_lab(tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    cell = """
        import attnlab, torch
        from tests.support.text_models import TOKENS, decoder
        model = decoder()
        with torch.no_grad():
            [parameter.mul_(4) for parameter in model.parameters()]  # effects of whole percents
        attnlab.look(model, "the dog ran in the park", tokenizer=TOKENS)
    """
    write_notebook(tmp_path / "a.ipynb", cell)
    with chromium() as browser, jupyter_lab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(HANG)
        page.goto(f"{address}/lab/tree/a.ipynb")
        page.wait_for_selector(".jp-Notebook .cm-content")
        page.wait_for_selector("[data-status=idle]")
        execute(page)
        page.get_by_role("tab", name="Effect").click()
        page.wait_for_selector(".prediction tbody tr")
        assert page.locator(".prediction .after").count() == 0  # all heads are on
        page.locator(".jp-OutputArea .area").focus()
        ring = page.locator(".jp-OutputArea .ring")
        for _ in range(40):  # the tokens, then the grid
            page.keyboard.press("ArrowDown")
            if "head 0" in (ring.get_attribute("aria-label") or ""):
                break
        page.keyboard.press("Enter")
        page.wait_for_selector(".prediction .after")
        rows = page.locator(".prediction tbody tr").all()
        assert any(
            row.locator(".before").inner_text() != row.locator(".after").inner_text()
            for row in rows
        )
