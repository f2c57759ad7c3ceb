"""The demo's report: the sections of its parts between a summary and what to try next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import torch

import attnlab
from attnlab._confidence_intervals import format_percent
from attnlab.demo._parts import PARTS
from attnlab.demo._settings import LEARNED, Demo
from attnlab.report import Command, Report, Section, Table, Tile

TITLE = "Does it know, or does it guess?"


def demo_report(demo: Demo) -> Report:
    """Of what is finished so far; the summary says what is missing."""
    sections = [_summary(demo), *demo.sections.values(), _next(demo), _made(demo)]
    versions = {"attnlab": attnlab.__version__, "torch": str(torch.__version__)}
    return Report("demo", TITLE, sections, versions=versions, seconds=sum(demo.seconds.values()))


def _summary(demo: Demo) -> Section:
    world = demo.world
    prose = [
        f"A small network read {len(world.corpus)} lines about people who never lived. It was "
        f"shown {len(world.train)} questions with their answers, and then asked where "
        f"{len(world.held_out)} others were born, of whom it had never been asked. Nothing is "
        "looked up: what it answers comes out of its weights."
    ]
    trained = [score for score in demo.scores if score.minutes is not None]
    if trained:
        best = max(trained, key=lambda score: score.right)
        prose.append(
            f"It answered {best.right} of {best.total} right. Always giving the commonest answer "
            f"would be right {demo.scores[0].right} times."
        )
    tiles = [
        Tile(
            each.name,
            format_percent(each.right / max(1, each.total)),
            f"{each.right} of {each.total}",
        )
        for each in demo.scores
    ]
    return Section("summary", "In short", [*_missing(demo), *prose], tiles=tiles)


def _missing(demo: Demo) -> list[str]:
    """What failed, or was not done (yet)."""
    titles = {part.name: part.title for part in PARTS}
    lines = [f"“{titles[name]}” failed. {reason}" for name, reason in demo.problems.items()]
    left = [part.title for part in PARTS if part.name not in {**demo.seconds, **demo.problems}]
    if left and not demo.finished:
        stopped = f"It was stopped at “{titles[demo.stopped]}”. " if demo.stopped else ""
        lines.append(f"{stopped}Not done yet: {', '.join(f'“{each}”' for each in left)}.")
    return lines


def _next(demo: Demo) -> Section:
    """Commands that need a run only where there is one."""
    learned, commands = shlex.quote(str(demo.out / LEARNED)), list[Command]()
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("attnlab") is None and activate.exists():
        if activate.is_relative_to(Path.cwd()):
            activate = activate.relative_to(Path.cwd())
        why = "once in each terminal, so that attnlab is found"
        commands.append(Command(f". {shlex.quote(str(activate))}", why))
    if "learned" in demo.seconds:
        question = shlex.quote(demo.world.held_out[2][0])
        commands.append(Command(f"attnlab knowledge ask {learned} {question}", "ask it yourself"))
    if demo.reading is not None:
        document, question = map(shlex.quote, demo.reading)
        line = f"attnlab look {learned}/readers/1 --text {document} --pair {question}"
        why = "change the text, and see where the reader looks"
        commands.append(Command(f"{line} --generate 8 --out reading.html", why))
    always = {
        "attnlab compare knowledge --attention softmax favor synthesizer --minutes 2": "the same "
        "with other attention mechanisms, equal time for each",
        f"attnlab studio --runs {shlex.quote(str(demo.out))}": "these runs in a browser",
        "attnlab claims --html claims.html": "all statements, about two minutes",
        "attnlab claims playground": "move keys, queries and values by hand",
        "attnlab tour": "every mechanism on one input: error, time, state",
        "attnlab knowledge learn --corpus corpus.txt --pairs pairs.tsv --out runs/mine": "your own "
        "texts, a document per line, and question, tab, answer per line",
    }
    commands += [Command(line, why) for line, why in always.items()]
    lines = ["What can be typed into a terminal now, in the folder where the demo was started."]
    return Section("next", "What to try next", lines, blocks=commands)


def _made(demo: Demo) -> Section:
    seconds = {part.title: demo.seconds[part.name] for part in PARTS if part.name in demo.seconds}
    seconds["together"] = sum(demo.seconds.values())
    rows = [
        [title, f"{s:.0f} s" if s < 60 else f"{s / 60:.1f} min"] for title, s in seconds.items()
    ]
    size = f", {demo.parameters:,} parameters" if demo.parameters else ""
    findings = [
        f"Seed {demo.seed}, {torch.get_num_threads()} threads{size}. The world is invented by "
        "attnlab; nothing was downloaded, and this page asks nobody for anything.",
    ]
    table = Table("", ["part", "time"], rows)
    return Section("made", "How this was made", findings, blocks=[table])
