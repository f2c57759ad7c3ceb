"""A reader with nothing but the site finds the answers to forty questions by its search."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Watched, chromium
from tests.support.markdown_blocks import read_page

ROW = re.compile(r"^\| ([^|]+\?) \| ([^|]+) \| (\[.*) \|$", flags=re.MULTILINE)
FIRST_PAGES = 3
"""How many pages a reader looks at. Of each, the site shows the sections that fit best."""
SHOWN = """(items, count) => items.slice(0, count).flatMap(item =>
    [...item.querySelectorAll("a")].slice(0, 3).map(link => link.href))"""


def questions() -> list[tuple[str, str, list[str]]]:
    """Question, words to search, and the sections that answer, as page.html or page.html#anchor."""
    rows = ROW.findall(read_page("docs/reference/questions.md"))
    return [
        (
            question,
            words,
            [
                posixpath.normpath(f"reference/{link}").replace(".md", ".html")
                for link in re.findall(r"\]\(([^)]+)\)", cell)
            ],
        )
        for question, words, cell in rows
    ]


def search(page: Any, words: str) -> list[str]:
    """The shown sections of the first pages."""
    field = page.locator(".md-search__input")
    field.fill("")
    field.press_sequentially(words)
    page.wait_for_function(
        "words => document.querySelector('.md-search__input').value === words", arg=words
    )
    page.wait_for_timeout(500)
    links = page.locator(".md-search-result__item").evaluate_all(SHOWN, FIRST_PAGES)
    return [re.sub(r"\?[^#]*", "", link) for link in links]


def test_there_are_forty_questions() -> None:
    assert len({question for question, _, _ in questions()}) == len(questions()) == 40


@pytest.mark.slow
def test_every_question_is_answered_by_a_first_result(built: Path) -> None:
    missed = []
    with chromium() as browser:
        page = Watched(browser).page
        page.goto(f"{(built / 'index.html').as_uri()}?q=attention")
        page.locator(".md-search-result__item").first.wait_for(state="attached")
        for question, words, answers in questions():
            results = search(page, words)
            shown = {result.removeprefix(built.as_uri() + "/") for result in results}
            pages = {result.split("#")[0] for result in shown}
            if not any(answer in (shown if "#" in answer else pages) for answer in answers):
                missed.append((question, words, sorted(shown)))
    assert missed == []
