"""Reports as offline pages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from attnlab.report import Link, check_page, parse_report, render_page, save_page, to_json
from attnlab.report._page import write_page
from tests.support.made_up_reports import hostile_report, whole_report


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page carries whatever was built; what it draws is tested in a browser."""
    static = {"report.js": "draw('</script>')", "report.css": "p { color: red }"}
    monkeypatch.setattr("attnlab.report._page._static", static.__getitem__)


def test_a_page_carries_its_report_and_asks_for_nothing() -> None:
    page = render_page(whole_report())
    data = re.search(r'id="attnlab-report">(.*?)</script>', page)
    assert data is not None
    assert to_json(parse_report(json.loads(data[1])), measurements=False) == to_json(
        whole_report(), measurements=False
    )
    assert "http" not in page.replace("http-equiv", "")
    assert "<title>Attention mechanisms, measured</title>" in page
    assert "<noscript>Attention mechanisms, measured: this page draws" in page


def test_only_its_own_script_and_style_may_run() -> None:
    page = render_page(whole_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    script = re.findall(r"<script>(.*?)</script>", page)
    style = re.findall(r"<style>(.*?)</style>", page)
    for text in (*script, *style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert (len(script), len(style)) == (1, 1)
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]


def test_a_hostile_report_is_inert() -> None:
    page = render_page(hostile_report())
    assert page.count("<script") == 2  # the data and the program
    assert "<img" not in page
    page.encode("utf-8")


def test_where_a_page_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    save_page(path, whole_report())
    with pytest.raises(ValueError, match="is there already"):
        save_page(path, whole_report())
    write_page(path, "new", overwrite=True)
    assert path.read_text() == "new"
    with pytest.raises(ValueError, match="there is no folder"):
        save_page(tmp_path / "no" / "audit.html", whole_report())
    for wrong, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "a.txt", "NAME.html"),
        (path, "is there already; give --overwrite"),
        (tmp_path / "no" / "a.html", "there is no folder"),
    ):
        with pytest.raises(ValueError, match=words):
            check_page(wrong, overwrite=False)


@pytest.mark.parametrize("href", ["//host/page.html", "/page.html", "javascript:alert(1)", ""])
def test_a_link_leads_to_a_file_beside_the_page(href: str) -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        Link(href, "elsewhere")
    assert Link("look/a page.html", "here").href == "look/a page.html"
