"""Runs the demo part by part, so that one that fails or is stopped takes nothing else with it."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.text import Text

from attnlab.demo._parts import PARTS, Part, baseline
from attnlab.demo._progress_line import ProgressLine
from attnlab.demo._report import demo_report
from attnlab.demo._settings import (
    FINETUNED,
    INDEX,
    LEARNED,
    NONE,
    PAGES,
    PRETRAINED,
    Demo,
    DemoSettings,
)  # fmt: skip
from attnlab.report import Section, print_report, save_page
from attnlab.report._terminal import print_section
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.knowledge._learn import check_learn_folder
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.training import InterruptedTraining, use_progress_listener


def run_demo(
    out: Path,
    seed: int = 0,
    overwrite: bool = False,
    settings: DemoSettings | None = None,
    console: Console | None = None,
) -> Demo:
    """Writes the page after every part, and prints what the part adds to it."""
    check_out(out, overwrite)
    demo = Demo(out, settings or DemoSettings(), make_world(WorldConfig()), seed)
    console, line = console or Console(), ProgressLine(sum(part.seconds for part in PARTS))
    out.mkdir(parents=True, exist_ok=True)
    for name in PAGES:  # those of an earlier demo must not pass for this one's
        (out / name).unlink(missing_ok=True)
    _add(demo, console, baseline(demo))
    for number, part in enumerate(PARTS, 1):
        console.print(Text.assemble((f"\n{number}. {part.title}", "bold"), f"\n{part.about}\n"))
        try:
            sections = _attempt(demo, part, line)
        except (KeyboardInterrupt, InterruptedTraining) as stop:
            demo.stopped = part.name
            _save(demo)
            number = getattr(stop, "signal_number", signal.SIGINT)
            raise InterruptedTraining(_stopped(out, part), number) from None
        _add(demo, console, sections)
        if part.name in demo.problems:
            console.print(Text(f"{demo.problems[part.name]}\n", "bold red"))
    demo.finished = True
    _save(demo)
    print_report(demo_report(demo), console, charts=False, sections=("summary", "next", "made"))
    failed = f", {len(demo.problems)} parts failed" if demo.problems else ""
    spent = f" ({sum(demo.seconds.values()) / 60:.1f} minutes{failed})"
    console.print(Text.assemble((f"\nThe page: {out / INDEX}", "bold"), spent), soft_wrap=True)
    return demo


def check_out(out: Path, overwrite: bool) -> None:
    """Before anything is computed: a folder of our own, or none yet."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file; name a folder")
    there = [name for name in PAGES if (out / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"{out}: holds a demo already ({there[0]}); "
            "give --overwrite to replace it, or another folder"
        )
    start = StartMode.OVERWRITE if overwrite else StartMode.NEW
    for name in (NONE, PRETRAINED, FINETUNED):
        check_folder(out / name, start)
    check_learn_folder(out / LEARNED, start)


def _attempt(demo: Demo, part: Part, line: ProgressLine) -> list[Section]:
    """A failure is kept as a sentence; a part that needs a failed one is skipped."""
    missing = [each.title for each in PARTS if each.name in {*part.needs} & {*demo.problems}]
    if missing:
        demo.problems[part.name] = f"skipped: it needs “{missing[0]}”, which failed"
        return []
    begin = time.perf_counter()
    sys.stdout.flush()
    try:
        with (
            line.part(part.title, part.seconds, part.stages) as tick,
            # elsewhere than in a terminal training prints its own lines
            use_progress_listener(tick) if line.shown else nullcontext(),
        ):
            sections = part.run(demo, tick)
    except InterruptedTraining:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        demo.problems[part.name] = f"{place}: {' '.join(str(error).split())[:300]}"
        return []
    demo.seconds[part.name] = time.perf_counter() - begin
    return sections


def _add(demo: Demo, console: Console, sections: list[Section]) -> None:
    demo.sections |= {section.name: section for section in sections}
    _save(demo)
    for section in sections:
        print_section(section, console, charts=False)


def _save(demo: Demo) -> None:
    save_page(demo.out / INDEX, demo_report(demo), overwrite=True)


def _stopped(out: Path, part: Part) -> str:
    return (
        f"stopped at “{part.title}”; finished parts are in {out / INDEX}; "
        f"attnlab demo --out {out} --overwrite starts again"
    )
