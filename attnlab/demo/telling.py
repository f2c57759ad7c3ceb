"""Tells the story: part by part, so that what fails or is stopped takes nothing else with it."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from attnlab.demo.found import Found
from attnlab.demo.page import demo_report
from attnlab.demo.parts import FINETUNED, INDEX, LEARNED, NONE, PAGES, PRETRAINED, Story
from attnlab.demo.progress import Bars
from attnlab.demo.settings import PARTS, DemoSettings, Part
from attnlab.demo.terminal import Teller
from attnlab.report import save_page
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.knowledge.learn import check_learn
from attnlab.tasks.knowledge.world import WorldConfig, make_world
from attnlab.training import InterruptedTraining, heard_by


def demo(
    out: Path,
    seed: int = 0,
    overwrite: bool = False,
    settings: DemoSettings | None = None,
    console: Console | None = None,
) -> Found:
    """The whole story; the page is written anew after every part."""
    check_out(out, overwrite)
    story = Story(out, settings or DemoSettings(), Found(make_world(WorldConfig()), seed))
    found, teller = story.found, Teller(console or Console(), out)
    out.mkdir(parents=True, exist_ok=True)
    for name in PAGES:  # those of an earlier story must not pass for this one's
        (out / name).unlink(missing_ok=True)
    bars = Bars(sum(part.seconds for part in PARTS))
    teller.begin(found)
    story.baseline()
    for part in PARTS:
        teller.heading(part)
        try:
            _attempt(story, part, bars)
        except (KeyboardInterrupt, InterruptedTraining) as stop:
            found.stopped = part.name
            _save(story)
            number = getattr(stop, "signal_number", signal.SIGINT)
            raise InterruptedTraining(_stopped(out, part), number) from None
        _save(story)
        teller.result(part, found)
    found.finished = True
    _save(story)
    teller.end(found)
    return found


def check_out(out: Path, overwrite: bool) -> None:
    """Before anything is computed: a folder of our own, or none yet."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file; name a folder")
    there = [name for name in PAGES if (out / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"{out}: holds a demo already ({there[0]}); "
            "give --overwrite to begin anew, or another folder"
        )
    start = StartMode.OVERWRITE if overwrite else StartMode.NEW
    for name in (NONE, PRETRAINED, FINETUNED):
        check_folder(out / name, start)
    check_learn(out / LEARNED, start)


def _attempt(story: Story, part: Part, bars: Bars) -> None:
    """What goes wrong is kept as a sentence; whoever needs this part is left out."""
    found = story.found
    missing = [need for need in part.needs if need in found.problems]
    if missing:
        titles = {each.name: each.title for each in PARTS}
        found.problems[part.name] = f"left out: it needs “{titles[missing[0]]}”, which failed"
        return
    begin = time.perf_counter()
    sys.stdout.flush()
    try:
        with (
            bars.part(part.title, part.seconds, part.stages) as tick,
            # elsewhere than in a terminal training prints its own lines
            heard_by(tick) if bars.shown else nullcontext(),
        ):
            story.part(part.name)(tick)
        found.seconds[part.name] = time.perf_counter() - begin
    except InterruptedTraining:
        raise
    except Exception as error:
        found.problems[part.name] = _told(error)


def _told(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
    return f"{place}: {' '.join(str(error).split())[:300]}"


def _save(story: Story) -> None:
    save_page(story.out / INDEX, demo_report(story.found, story.out), overwrite=True)


def _stopped(out: Path, part: Part) -> str:
    return (
        f"stopped at “{part.title}”; what was finished stands in {out / INDEX}; "
        f"attnlab demo --out {out} --overwrite begins anew"
    )
