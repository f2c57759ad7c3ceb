"""What to try next, ready to be copied."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from attnlab.demo.found import Found
from attnlab.demo.parts import LEARNED


@dataclass(frozen=True)
class Command:
    line: str
    why: str


def commands(found: Found, out: Path) -> list[Command]:
    """Those that use a run only where there is one."""
    learned = shlex.quote(str(out / LEARNED))
    made = []
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("attnlab") is None and activate.exists():
        made.append(
            Command(
                f". {shlex.quote(_short(activate))}",
                "once in each terminal, so that attnlab is found",
            )
        )
    if "learned" in found.seconds:
        question = shlex.quote(found.world.held_out[2][0])
        made.append(Command(f"attnlab knowledge ask {learned} {question}", "ask it yourself"))
    if found.seen is not None:
        made.append(
            Command(
                f"attnlab look {learned}/readers/1 --text {shlex.quote(found.seen.document)} "
                f"--pair {shlex.quote(found.seen.question)} --generate 8 --out reading.html",
                "change the text, and see where the reader looks",
            )
        )
    return [
        *made,
        Command(
            "attnlab knowledge compare --attention softmax favor synthesizer --minutes 2",
            "the same with other attention mechanisms, equal time for each",
        ),
        Command(f"attnlab studio --runs {shlex.quote(str(out))}", "these runs in a browser"),
        Command("attnlab claims --html claims.html", "all statements, about two minutes"),
        Command("attnlab claims playground", "move keys, queries and values by hand"),
        Command("attnlab tour", "every mechanism on one input: error, time, state"),
        Command(
            "attnlab knowledge learn --corpus corpus.txt --pairs pairs.tsv --out runs/mine",
            "your own texts, a document per line, and question, tab, answer per line",
        ),
    ]


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
