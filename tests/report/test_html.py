"""Reports as offline HTML pages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from attnlab.report import Link, check_page, parse_report, render_page, save_page, to_json
from attnlab.report._page import write_page
from tests.support.made_up_reports import full_report, hostile_report


@pytest.fixture(autouse=True)
def static_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the built front end; tests in a browser cover what it draws."""
    static = {"report.js": "draw('</script>')", "report.css": "p { color: red }"}
    monkeypatch.setattr("attnlab.report._page._static", static.__getitem__)


def test_page_contains_its_report_and_loads_nothing() -> None:
    page = render_page(full_report())
    data = re.search(r'id="attnlab-report">(.*?)</script>', page)
    assert data is not None
    assert to_json(parse_report(json.loads(data[1])), measurements=False) == to_json(
        full_report(), measurements=False
    )
    assert "http" not in page.replace("http-equiv", "")
    assert "<title>Attention mechanisms, measured</title>" in page
    assert "<noscript>Attention mechanisms, measured: this page needs" in page


def test_content_policy_allows_only_its_script_and_style() -> None:
    page = render_page(full_report())
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


def test_save_page_checks_the_path(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    save_page(path, full_report())
    with pytest.raises(ValueError, match="already exists"):
        save_page(path, full_report())
    write_page(path, "new", overwrite=True)
    assert path.read_text() == "new"
    with pytest.raises(ValueError, match="there is no folder"):
        save_page(tmp_path / "no" / "audit.html", full_report())
    for wrong, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "a.txt", "NAME.html"),
        (path, "already exists; give --overwrite"),
        (tmp_path / "no" / "a.html", "there is no folder"),
    ):
        with pytest.raises(ValueError, match=message):
            check_page(wrong, overwrite=False)


@pytest.mark.parametrize("href", ["//host/page.html", "/page.html", "javascript:alert(1)", ""])
def test_links_lead_only_to_files_next_to_the_page(href: str) -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        Link(href, "elsewhere")
    assert Link("look/a page.html", "here").href == "look/a page.html"
