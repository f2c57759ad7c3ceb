"""The story in a terminal: what is done and what was found, in few lines."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.claims.base import CLAIMS
from attnlab.claims.report import STYLE, stated, told
from attnlab.demo.commands import commands
from attnlab.demo.found import Found, Way
from attnlab.demo.parts import INDEX, LOOK
from attnlab.demo.settings import Part
from attnlab.tasks.knowledge.audit_words import percent, summary

SAYS = {
    "none": "Without reading: questions and answers are all it ever sees.",
    "pretrained": "It reads the lines first, then learns from the same questions.",
    "learned": "Read and remember: a reader finds the answers in the lines, then it learns them "
    "by heart.",
    "audit": "Is it knowledge or a guess? It says how sure it is; two of these people are made up.",
    "attention": "Where it looks while it answers.",
    "claims": "What is said about attention, run and judged: ten statements.",
}
COLOURS = {"known": "green", "unsure": "yellow", "guess": "red"}


class Teller:
    """Numbered headings, and below each what was found."""

    def __init__(self, console: Console, out: Path) -> None:
        self.console, self.out, self.number = console, out, 0

    def begin(self, found: Found) -> None:
        world = found.world
        self._number(
            f"{len(world.corpus)} invented people, one line each. {len(world.train)} of them were "
            "asked about; the questions about the others must be answered from memory."
        )
        for text in (world.corpus[0], "\t".join(world.train[0])):
            self._say(text, "dim")

    def heading(self, part: Part) -> None:
        self._number(SAYS[part.name])

    def result(self, part: Part, found: Found) -> None:
        if part.name in found.problems:
            self._say(found.problems[part.name], "bold red")
            return
        if part.name in ("none", "pretrained", "learned"):
            way = found.ways[-1]
            self._say(f"{way.right} of {way.total} right after {way.minutes or 0:.1f} minutes")
        if part.name == "learned":
            self.console.print()
            self.console.print(_table(found.ways))
        if part.name == "audit":
            self._audit(found)
        if part.name == "attention":
            self._attention(found)
        if part.name == "claims":
            self._claims(found)

    def end(self, found: Found) -> None:
        minutes = f"{found.minutes:.1f} minutes"
        failed = f", {len(found.problems)} parts failed" if found.problems else ""
        self.console.print()
        self.console.print(
            Text.assemble(
                (f"The whole story, to read and to click: {self.out / INDEX}", "bold"),
                f" ({minutes}{failed})",
            ),
            soft_wrap=True,
        )
        self.console.print("\nWhat to try next:", highlight=False)
        for each in commands(found, self.out):
            self.console.print(Text(f"  {each.line}"), soft_wrap=True)
            self.console.print(Text(f"      {each.why}", "dim"))

    def _audit(self, found: Found) -> None:
        assert found.audit is not None
        for sentence in summary(found.audit):
            self._say(sentence)
        self.console.print()
        for each in found.asked:
            truth = "there is no such person" if each.gold is None else f"it was {each.gold}"
            self.console.print(
                Text.assemble(
                    f"  {each.question} {each.answer} (",
                    (each.verdict, COLOURS.get(each.verdict, "")),
                    f", {each.confidence:.0%}); {truth}",
                )
            )

    def _attention(self, found: Found) -> None:
        seen = found.seen
        assert seen is not None
        self._say(
            f"Reading: head {seen.layer}.{seen.head} gives {percent(seen.answer + seen.other)} of "
            f"its weight to the cities in the text ({percent(seen.share)} of the tokens); "
            f"untrained {percent(seen.untrained)}."
        )
        most = max(mine for mine, _ in seen.names)
        self._say(
            f"From memory: up to {percent(most)} of a layer's weight lies on the name "
            f"({percent(seen.chance)} of the tokens). See {self.out / LOOK}."
        )

    def _claims(self, found: Found) -> None:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("it is said")
        table.add_column("verdict")
        for each in found.claims:
            verdict = Text(told(each.verdict), STYLE[each.verdict.outcome])
            table.add_row(Text(stated(CLAIMS[each.name])), verdict)
        self.console.print(table)

    def _number(self, text: str) -> None:
        self.number += 1
        self.console.print()
        self.console.print(Text.assemble((f"{self.number}. ", "bold"), text))

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(Text(f"  {text}", style))


def _table(ways: list[Way]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("people never asked about")
    for heading in ("minutes", "right", "share"):
        table.add_column(heading, justify="right")
    for way in ways:
        minutes = "" if way.minutes is None else f"{way.minutes:.1f}"
        table.add_row(Text(way.name), minutes, f"{way.right} of {way.total}", f"{way.share:.1%}")
    return table
