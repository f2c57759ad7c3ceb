"""The documentation site: formulas become MathML, links lead somewhere, nothing asks a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.browser import Watched, chromium
from tests.support.markdown_blocks import BLOCK, DOCUMENTS, ROOT, read_page

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")

from mkdocs.exceptions import PluginError

from docs.scripts import site

FORMULA = re.compile(r"(?<![\\$\w`])\$(?![\s$])((?:[^$`\\]|\\.)+?)(?<!\s)\$(?![\d$])", re.DOTALL)
BLOCK_FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def formulas(path: str) -> list[str]:
    text = re.sub(r"`[^`]*`", "", BLOCK.sub("", read_page(path)))
    return BLOCK_FORMULA.findall(text) + FORMULA.findall(BLOCK_FORMULA.sub("", text))


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if "$" in read_page(path)])
def test_every_formula_becomes_mathml(path: str) -> None:
    for formula in formulas(path):
        assert site.mathml(formula, path, block=False).startswith("<math")


def test_unknown_commands_of_tex_are_refused() -> None:
    with pytest.raises(PluginError, match=r"page\.md: .*\\nothing"):
        site.mathml(r"x + \nothing{y}", "page.md", block=False)
    assert "<mfrac>" in site.mathml(r"\frac{a}{b}", "page.md", block=True)
    assert "<mo>&lt;</mo>" in site.mathml("a &lt; b", "page.md", block=False).replace(
        "&#x0003C;", "&lt;"
    )


def test_paths_of_linked_files() -> None:
    assert site.outside_path("docs", "../examples/looking.ipynb") == "examples/looking.ipynb"
    assert site.outside_path("docs/mechanisms", "../laws.md") is None  # in docs: MkDocs knows it
    assert site.outside_path("docs", "../examples/missing.ipynb") is None
    assert site.outside_path("docs", "../../secrets.txt") is None
    assert site.page_of("examples/own_task.py") == "repository/examples/own_task.py.md"
    assert site.inside("repository/CONTRIBUTING.md", "docs/gates.md") == "gates.md"


def test_notebooks_show_text_and_pictures_but_no_html() -> None:
    hostile = {"data": {"text/html": "<script>alert(1)</script>", "text/plain": "4"}}
    cell = {"cell_type": "code", "source": ["2 + 2"], "outputs": [hostile]}
    assert site.cell_page(cell) == "````python\n2 + 2\n````\n\n````text\n4\n````\n"
    assert "image/svg+xml;base64,PHN2Zy8+" in site.output_page(
        {"data": {"image/svg+xml": ["<svg/>"]}}
    )


def test_every_page_is_in_the_navigation() -> None:
    """A page that is missing there can be found only by searching."""
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    named = set(re.findall(r"(\S+\.md)$", navigation, flags=re.MULTILINE))
    pages = {path.removeprefix("docs/") for path in DOCUMENTS if path.startswith("docs/")}
    assert named == pages


# The built site


class Links(HTMLParser):
    """The links, the identifiers and the loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets, self.loaded = list[str](), list[str]()
        self.ids = set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attributes}
        self.ids |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and "href" in named:
            self.targets.append(named["href"])
        elif tag == "link" and named.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(named.get("href", ""))
        if "src" in named:
            self.loaded.append(named["src"])


def broken_links(folder: Path) -> Iterator[str]:
    pages = {path.resolve(): Links(path.read_text()) for path in folder.rglob("*.html")}
    del pages[(folder / "404.html").resolve()]  # its links are those of a server's root
    for path, links in pages.items():
        if "interactive" in path.parts:
            continue
        for target in [*links.targets, *links.loaded]:
            address, _, anchor = unquote(target).partition("#")
            if re.match(r"data:|mailto:", target) or address.startswith("https://"):
                continue
            linked = (path.parent / address).resolve() if address else path
            if not linked.exists():
                yield f"{path.name}: {target} does not exist"
            elif anchor and linked in pages and anchor not in pages[linked].ids:
                yield f"{path.name}: {target} has no such anchor"
        for address in links.loaded:
            if re.match(r"(?:https?:)?//", address):
                yield f"{path.name}: asks another host for {address}"


@pytest.mark.slow
def test_no_link_of_the_site_is_broken(built: Path) -> None:
    assert list(broken_links(built)) == []


def test_broken_links_are_detected(tmp_path: Path) -> None:
    (tmp_path / "404.html").write_text("")
    (tmp_path / "laws.html").write_text('<h2 id="law">')
    (tmp_path / "tour.html").write_text(
        '<a href="laws.html#law"></a><a href="nowhere.html"></a><a href="laws.html#no-law"></a>'
        '<script src="//host/x"></script>'
    )
    problems = list(broken_links(tmp_path))
    assert [text.split(": ")[1].split(" ")[0] for text in problems] == [
        "nowhere.html",
        "laws.html#no-law",
        "//host/x",
        "asks",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_pages_open_from_the_folder_and_search(built: Path, scheme: str, width: int) -> None:
    with chromium() as browser:
        options: dict[str, Any] = {
            "viewport": {"width": width, "height": 900},
            "color_scheme": scheme,
        }
        watched = Watched(browser, **options)
        page = watched.page
        page.goto(f"{(built / 'mechanisms' / 'delta.html').as_uri()}?q=rotary")
        assert page.locator("math").count() > 5
        first = page.locator(".md-search-result__link").first
        first.wait_for(state="attached")
        assert "rotary" in page.locator(".md-search-result__list").inner_text().lower()
        wide = "document.documentElement.scrollWidth - window.innerWidth"
        assert page.evaluate(wide) <= 0
        page.goto((built / "playground.html").as_uri())
        frame = page.frame_locator("iframe.interactive")
        frame.get_by_text("Copy one value").first.wait_for()
        assert not [request for request in watched.requests if request.startswith("http")]
