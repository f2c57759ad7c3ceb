"""Parts of the page that are more than prose, tables and figures. Every text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from attnlab.claims.base import CLAIMS
from attnlab.claims.pictures import chart_of
from attnlab.claims.report import control_told, stated, told
from attnlab.claims.running import Result
from attnlab.demo.commands import Command
from attnlab.demo.found import Asked, Strip
from attnlab.report.text import escape
from attnlab.tasks.knowledge.reading import occurrences

KINDS = {
    "known": "good",
    "unsure": "middle",
    "guess": "bad",
    "holds": "good",
    "holds only when": "middle",
    "refuted": "bad",
    "failed": "bad",
}
LEVELS = 10  # of a word's colour
# without inline styles, which the page's policy forbids: a class for each level
SHADES = "".join(
    f".w{level} {{ background: color-mix(in srgb, var(--s0) {5 * level}%, transparent); }}\n"
    for level in range(1, LEVELS + 1)
)


def static(name: str) -> str:
    return files("attnlab.demo").joinpath("static", name).read_text(encoding="utf-8")


def style() -> str:
    return static("demo.css") + SHADES


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def link(address: str, text: str) -> str:
    return f'<p class="note"><a href="{escape(address)}">{escape(text)}</a></p>'


def chip(verdict: str) -> str:
    return f'<span class="chip {KINDS.get(verdict, "")}">{escape(verdict)}</span>'


def quote(label: str, text: str, marked: str = "") -> str:
    """A text with every place of some words marked."""
    places = occurrences(marked, text) if marked else []
    made, last = "", 0
    for start, end in places:
        made += f"{escape(text[last:start])}<mark>{escape(text[start:end])}</mark>"
        last = end
    made += escape(text[last:])
    return f'<blockquote><span class="label">{escape(label)}</span>{made}</blockquote>'


def answers(asked: Sequence[Asked]) -> str:
    return f'<ul class="cards">{"".join(map(_answer, asked))}</ul>'


def _answer(asked: Asked) -> str:
    if asked.gold is None:
        truth = "There is no such person: nothing can be known."
    elif asked.gold == asked.answer:
        truth = "✓ That is right."
    else:
        truth = f"✗ The line says {asked.gold}."
    unread = f"The model that never read says {asked.unread}." if asked.unread else ""
    kind = KINDS.get(asked.verdict, "")
    width = 100 * min(1.0, max(0.0, asked.confidence))
    return (
        f'<li class="{kind}">{paragraph(asked.question, "note")}'
        f'<p class="said">{escape(asked.answer) or "–"}</p>'
        f"<p>{chip(asked.verdict)} {asked.confidence:.0%} sure</p>"
        '<svg class="sure" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="6"/>'
        f'<rect class="amount" width="{width:.1f}" height="6"/></svg>'
        f"{paragraph(truth)}{paragraph(unread, 'note foot') if unread else ''}</li>"
    )


def strip(words: Strip) -> str:
    """Words as strong as the weight on them; behind the arrow what was written next."""
    most = max((weight for _, weight in words.words), default=0.0) or 1.0
    made = []
    for text, weight in words.words:
        level = round(LEVELS * max(0.0, weight) / most)
        kind = f' class="w{level}"' if level else ""
        made.append(f'<span{kind} title="{weight:.0%}">{escape(text)}</span>')
    made.append(f'→ <span class="next">{escape(words.written)}</span>')
    return f'<p class="strip">{" ".join(made)}</p>'


def frame(page: str, title: str) -> str:
    """A whole page of ours in a frame that may run its own script and nothing else."""
    return (
        f'<iframe class="look" title="{escape(title)}" sandbox="allow-scripts allow-downloads" '
        f'srcdoc="{_attribute(page)}"></iframe>'
    )


def _attribute(page: str) -> str:
    """As it is, line ends included: only what would end the attribute is written otherwise."""
    return page.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def claims(results: Sequence[Result], page: str) -> str:
    return f'<ul class="cards wide">{"".join(_claim(each, page) for each in results)}</ul>'


def _claim(result: Result, page: str) -> str:
    claim, evidence = CLAIMS[result.name], result.evidence
    made = f"<p>{chip(result.verdict.outcome)}</p>{paragraph(stated(claim), 'statement')}"
    if result.verdict.condition:
        made += paragraph(told(result.verdict))
    if evidence is not None:
        chart = chart_of(evidence.plot, stated(claim))
        figure = f"{claim.judge.name}: {evidence.figure}; it holds if {claim.judge.threshold}"
        control = f"Control, {claim.control}: {control_told(result)}."
        made += f"<figure>{chart.svg}</figure>{paragraph(figure)}{paragraph(control, 'note')}"
    why = f'<p class="note foot"><a href="{escape(page)}#open={escape(claim.name)}">Why</a></p>'
    return f"<li>{made}{why}</li>"


def to_try(lines: Sequence[Command]) -> str:
    rows = "".join(
        f"<li>{paragraph(each.why)}<div><code>{escape(each.line)}</code>"
        '<button type="button" class="copy" hidden>Copy</button></div></li>'
        for each in lines
    )
    return f'<ul class="commands">{rows}</ul>'
