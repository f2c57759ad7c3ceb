"""Stories with invented findings, for tests of the demo's page and to look at it.

python -m tests.support.demo_results FOLDER writes a page of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attnlab.claims.base import Bars, Evidence, Verdict
from attnlab.claims.running import Result
from attnlab.demo.found import Asked, Found, Seen, Strip, Way
from attnlab.demo.page import demo_report
from attnlab.demo.settings import CLAIMS, PARTS
from attnlab.intervals import Estimate
from attnlab.report import save_page
from attnlab.tasks.knowledge.world import World
from tests.support.audit_reports import make_report
from tests.support.claim_ledgers import HOSTILE

LINE = "Mira Novak. Mira Novak was born in Split . She moved to Rome . She is a native of Split ."
ASKED = [
    Asked("Where was Mira Novak born?", "Split", "known", 0.98, "Split", "London"),
    Asked("Where was Ole Dahl born?", "Oslo", "unsure", 0.61, "Bergen", "Paris"),
    Asked("Where was Kai Nobody born?", "Rome", "guess", 0.07, None, "London"),
]


def world(text: str) -> World:
    pairs = [("Where was Mira Novak born?", "Split"), (text, text), ("Where was Ole born?", "Oslo")]
    return World([], [text, LINE], pairs, pairs)


def results(text: str) -> list[Result]:
    """One of each kind, under the names of real claims."""
    figure = Estimate(0.5, 0.4, 0.6)
    evidence = Evidence(figure, Bars(text, {text: figure, "b": Estimate(0.1)}))
    outcomes = (
        Verdict("holds"),
        Verdict("refuted"),
        Verdict("holds only when", text),
        Verdict("undecided"),
    )
    found = [
        Result(name, outcome, evidence, Verdict("refuted"), evidence, 0.1)
        for name, outcome in zip(CLAIMS, outcomes, strict=False)
    ]
    return [
        *found,
        Result(CLAIMS[4], Verdict("failed", text)),
        Result(CLAIMS[5], Verdict("not run", text)),
    ]


def made_up(text: str = "plain") -> Found:
    """A story that ended; `text` stands wherever a text comes from elsewhere."""
    report = make_report(60)
    report["baseline"]["answer"] = text
    strip = Strip([("Where", 0.1), (text, 0.6), ("born?", 0.3)], text)
    found = Found(world(text), seed=0, parameters=851_456, audit=report, finished=True)
    found.ways = [
        Way(f"always “{text[:20]}”", text, 16, 300),
        Way("no reading", text, 7, 300, 0.3),
        Way("reading, then questions", text, 285, 300, 0.9),
        Way("read and remember", text, 286, 300, 1.2),
    ]
    found.asked = [*ASKED, Asked(text, text, text, 0.5, text, text)]
    found.seen = Seen(
        text, text, 0, 1, 12, 0.41, 0.2, 0.05, 0.08, strip, strip,
        [(0.6, 0.4), (0.8, 0.42), (0.9, 0.39)], 0.41,
    )  # fmt: skip
    found.claims = results(text)
    found.seconds = {part.name: part.seconds for part in PARTS}
    return found


def stopped() -> Found:
    """Hardly begun, one part failed."""
    found = Found(world("plain"), seed=3, stopped="learned", problems={"none": HOSTILE[0]})
    found.ways = [Way("always “London”", "the commonest", 16, 300)]
    found.seconds = {"pretrained": 51.0}
    return found


def write(folder: Path) -> dict[str, Path]:
    made = {"made-up": made_up(LINE), "stopped": stopped()}
    made |= {f"hostile-{number}": made_up(text) for number, text in enumerate(HOSTILE)}
    for name, found in made.items():
        save_page(folder / f"{name}.html", demo_report(found, Path("demo")))
    return {name: folder / f"{name}.html" for name in made}


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])).values(), sep="\n")
