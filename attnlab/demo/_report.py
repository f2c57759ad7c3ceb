"""The demo's report: a summary, the sections of its parts, and commands to try next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import torch

import attnlab
from attnlab._confidence_intervals import format_percent
from attnlab.demo._parts import PARTS
from attnlab.demo._settings import LEARNED, LEARNED_TITLE, Demo, MethodScore
from attnlab.report import Command, Report, Section, Table, Tile

TITLE = "Does it know, or does it guess?"


def demo_report(demo: Demo) -> Report:
    """The report of all finished parts. Its summary lists what is missing."""
    sections = [_summary(demo), *demo.sections.values(), _next_steps(demo), _how_it_was_made(demo)]
    versions = {"attnlab": attnlab.__version__, "torch": str(torch.__version__)}
    return Report("demo", TITLE, sections, versions=versions, seconds=sum(demo.seconds.values()))


def _summary(demo: Demo) -> Section:
    world = demo.world
    prose = [
        f"Networks of one size learned about people who never lived: from {len(world.corpus)} "
        f"lines of text, and from {len(world.train)} questions with answers. Each was then asked "
        f"where {len(world.held_out)} other people were born. They cannot look anything up: their "
        "answers come from their weights.",
        *_best_method(demo),
    ]
    tiles = [
        Tile(
            score.name,
            format_percent(score.right / max(1, score.total)),
            f"{score.right} of {score.total}",
        )
        for score in demo.scores
    ]
    return Section("summary", "In short", [*_missing_parts(demo), *prose], tiles=tiles)


def _best_method(demo: Demo) -> list[str]:
    """Every sentence names its network: the best one need not be the one of the later sections."""
    trained = [score for score in demo.scores if score.minutes is not None]
    if not trained:
        return []
    best = max(trained, key=lambda score: score.right)
    sentences = [
        f"The best of them, “{best.name}”, answered {best.right} of {best.total} correctly. Always "
        f"giving the most common answer would be correct {demo.scores[0].right} times."
        f"{_mistakes(best)}"
    ]
    learned = next((score for score in trained if score.name == LEARNED_TITLE), None)
    if learned is not None:
        figures = f", which answered {learned.right} of {learned.total} correctly"
        sentences.append(
            f"The answers, the confidence and the attention below are those of “{LEARNED_TITLE}”"
            + (f"{figures}.{_mistakes(learned)}" if learned is not best else ".")
        )
    return sentences


def _mistakes(score: MethodScore) -> str:
    """What its mistakes have in common."""
    if not score.mistakes:
        return ""
    kind = "most of them" if score.decoys > score.mistakes / 2 else "some of them"
    if score.mistakes == 1:
        verb = "names" if score.decoys else "does not name"
        return f" Its one mistake {verb} the distractor: the other city in the person's line."
    if not score.decoys:
        return f" None of its {score.mistakes} mistakes names the distractor of the person's line."
    return (
        f" Of its {score.mistakes} mistakes, {score.decoys} ({kind}) name the distractor: the "
        "other city in the person's line."
    )


def _missing_parts(demo: Demo) -> list[str]:
    """The parts that failed or have not run yet."""
    titles = {part.name: part.title for part in PARTS}
    lines = [f"“{titles[name]}” failed. {reason}" for name, reason in demo.problems.items()]
    remaining = [part.title for part in PARTS if part.name not in {**demo.seconds, **demo.problems}]
    if remaining and not demo.finished:
        stopped = f"The demo was stopped at “{titles[demo.stopped]}”. " if demo.stopped else ""
        lines.append(f"{stopped}Not finished: {', '.join(f'“{title}”' for title in remaining)}.")
    return lines


def _next_steps(demo: Demo) -> Section:
    """Commands to try. Those that need a run are listed only if the run exists."""
    learned, commands = shlex.quote(str(demo.out / LEARNED)), list[Command]()
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("attnlab") is None and activate.exists():
        if activate.is_relative_to(Path.cwd()):
            activate = activate.relative_to(Path.cwd())
        why = "run this once in each terminal, so that it finds attnlab"
        commands.append(Command(f". {shlex.quote(str(activate))}", why))
    if "learned" in demo.seconds:
        question = shlex.quote(demo.world.held_out[2][0])
        commands.append(
            Command(f"attnlab knowledge ask {learned} {question}", "ask the model yourself")
        )
    if demo.reading is not None:
        document, question = map(shlex.quote, demo.reading)
        line = f"attnlab look {learned}/readers/1 --text {document} --pair {question}"
        why = "change the text, and see what the reader attends to"
        commands.append(Command(f"{line} --generate 8 --out reading.html", why))
    general_commands = {
        "attnlab compare knowledge --attention softmax favor synthesizer --minutes 2": "compare "
        "attention mechanisms with equal training time",
        f"attnlab studio --runs {shlex.quote(str(demo.out))}": "view these runs in a browser",
        "attnlab claims --html claims.html": "test all statements, in about two minutes",
        "attnlab claims playground": "move keys, queries and values by hand",
        "attnlab tour": "compare all mechanisms on one input: error, time, state",
        "attnlab knowledge learn --corpus corpus.txt --pairs pairs.tsv --out runs/mine": "train on "
        "your own texts (a document per line) and questions (question, tab, answer per line)",
    }
    commands += [Command(line, why) for line, why in general_commands.items()]
    lines = ["Type these commands in a terminal, in the folder where you started the demo."]
    return Section("next", "What to try next", lines, blocks=commands)


def _how_it_was_made(demo: Demo) -> Section:
    seconds = {part.title: demo.seconds[part.name] for part in PARTS if part.name in demo.seconds}
    seconds["total"] = sum(demo.seconds.values())
    rows = [
        [title, f"{s:.0f} s" if s < 60 else f"{s / 60:.1f} min"] for title, s in seconds.items()
    ]
    size = f", {demo.parameters:,} parameters" if demo.parameters else ""
    findings = [
        f"Seed {demo.seed}, {torch.get_num_threads()} threads{size}. The world is made up by "
        "attnlab. Nothing was downloaded, and this page loads nothing from the network.",
    ]
    table = Table("", ["part", "time"], rows)
    return Section("made", "How this was made", findings, blocks=[table])
