"""README and docs use plain words and typeset mathematics: DESIGN's "Words", in running text."""

from __future__ import annotations

import re

import pytest

from docs.scripts.cards import BEGIN, END
from tests.support.markdown_blocks import BLOCK, DOCUMENTS, read_page

# generated from the code's own texts, or a ledger of statements
GENERATED = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
PAGES = [
    path for path in DOCUMENTS if not path.startswith("docs/reference/") and "claims.md" not in path
]
PRIVATE_WORDS = re.compile(
    r"\b(?:told|tells|telling|(?<!often )said|wish(?:es)?|at_home|meetings?|pasts|rooms?|anew"
    r"|lets? go|comes? along|can be had|mine|theirs)\b",
    re.IGNORECASE,
)
ASCII_MATHEMATICS = re.compile(
    r"sqrt\(|(?<![\w/])[A-Za-z]\^|\)\^|\w_[a-z0-9]\b|\|[A-Za-z]\||\b[qk]\.[qk]\b|N\(0, ?[A-Z0-9]"
    r"|\b(?:exp|log|phi|softmax|sigmoid|relu)\([a-zA-Z]|\^[0-9T]|<=|>="
    r"|(?<![-\w])(?:alpha|beta|gamma|sigma|lambda|eps|epsilon|phi|mu|tau)(?![-\w:=])"
)
MOST_WORDS = 45_000


def running_text(text: str) -> str:
    """Without code, formulas, addresses and generated parts."""
    for pattern in (
        GENERATED,
        BLOCK,
        re.compile(r"<!--.*?-->", re.DOTALL),
        re.compile(r"`[^`]+`"),
        re.compile(r"\$\$.+?\$\$", re.DOTALL),
        re.compile(r"\$[^$\n]+(?:\n[^$\n]+)?\$"),
        re.compile(r"\]\([^)]*\)"),
        re.compile(r"https://\S+"),
    ):
        text = pattern.sub(" ", text)
    return text


def problems(text: str) -> list[str]:
    matches = [*PRIVATE_WORDS.finditer(text), *ASCII_MATHEMATICS.finditer(text)]
    return [text[max(match.start() - 40, 0) : match.end() + 20].strip() for match in matches]


@pytest.mark.parametrize("path", PAGES)
def test_running_text_is_plain(path: str) -> None:
    assert problems(running_text(read_page(path))) == []


def test_private_words_and_ascii_mathematics_are_detected() -> None:
    for text in (
        "It tells what was left out.",
        "divided by sqrt(d)",
        "keys mu_a and k_i",
        "x^2 of |q|",
        "q and k from N(0, I)",
        "the score q.k",
        "a large beta",
        "n >= 3",
    ):
        assert problems(running_text(text)), text
    for text in (
        "divided by $\\sqrt{d}$, $k_i$ and\n$x^2$",
        "`beta=1/sqrt(d)`",
        "```python\nx = a_b\n```\n",
        "[arXiv 2009.14794](https://arxiv.org/abs/2009.14794) has beta-hard",
    ):
        assert not problems(running_text(text)), text


@pytest.mark.parametrize("path", [path for path in PAGES if path != "README.md"])
def test_pages_begin_with_what_you_can_do_after_them(path: str) -> None:
    title, first = read_page(path).split("\n\n")[:2]
    assert title.startswith("# ")
    assert "fter this page you" in first


def test_the_documentation_stays_short() -> None:
    """Without what is generated, the reference and the ledger of claims."""
    pages = [GENERATED.sub("", read_page(path)) for path in PAGES if path.startswith("docs/")]
    assert sum(len(text.split()) for text in pages) <= MOST_WORDS
