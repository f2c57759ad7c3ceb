"""Runs the demo part by part. A part that fails or is interrupted does not affect finished ones."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.text import Text

from attnlab.demo._parts import PARTS, DemoPart, baseline
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
    """Run the demo. After every part, write the page and print the new sections."""
    check_out_folder(out, overwrite)
    demo = Demo(out, settings or DemoSettings(), make_world(WorldConfig()), seed)
    console, line = console or Console(), ProgressLine(sum(part.seconds for part in PARTS))
    out.mkdir(parents=True, exist_ok=True)
    for name in PAGES:  # remove the pages of an earlier demo
        (out / name).unlink(missing_ok=True)
    _add_sections(demo, console, baseline(demo))
    for number, part in enumerate(PARTS, 1):
        console.print(Text.assemble((f"\n{number}. {part.title}", "bold"), f"\n{part.about}\n"))
        try:
            sections = _run_part(demo, part, line)
        except (KeyboardInterrupt, InterruptedTraining) as stop:
            demo.stopped = part.name
            _save(demo)
            number = getattr(stop, "signal_number", signal.SIGINT)
            raise InterruptedTraining(_stop_message(out, part), number) from None
        _add_sections(demo, console, sections)
        if part.name in demo.problems:
            console.print(Text(f"{demo.problems[part.name]}\n", "bold red"))
    demo.finished = True
    _save(demo)
    print_report(demo_report(demo), console, charts=False, sections=("summary", "next", "made"))
    failed = f", {len(demo.problems)} parts failed" if demo.problems else ""
    spent = f" ({sum(demo.seconds.values()) / 60:.1f} minutes{failed})"
    console.print(Text.assemble((f"\nThe page: {out / INDEX}", "bold"), spent), soft_wrap=True)
    return demo


def check_out_folder(out: Path, overwrite: bool) -> None:
    """Checks the output folder before anything is computed."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; give a folder")
    existing = [name for name in PAGES if (out / name).exists()]
    if existing and not overwrite:
        raise ValueError(
            f"{out} already contains a demo ({existing[0]}); "
            "give --overwrite to replace it, or another folder"
        )
    start = StartMode.OVERWRITE if overwrite else StartMode.NEW
    for name in (NONE, PRETRAINED, FINETUNED):
        check_folder(out / name, start)
    check_learn_folder(out / LEARNED, start)


def _run_part(demo: Demo, part: DemoPart, line: ProgressLine) -> list[Section]:
    """Runs one part. Records a failure as a message, and skips a part that needs a failed one."""
    missing = [other.title for other in PARTS if other.name in {*part.needs} & {*demo.problems}]
    if missing:
        demo.problems[part.name] = f"skipped: it needs “{missing[0]}”, which failed"
        return []
    start = time.perf_counter()
    sys.stdout.flush()
    try:
        with (
            line.part(part.title, part.seconds, part.stages) as report,
            # without a terminal, training prints its own lines
            use_progress_listener(report) if line.visible else nullcontext(),
        ):
            sections = part.run(demo, report)
    except InterruptedTraining:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        demo.problems[part.name] = f"{location}: {' '.join(str(error).split())[:300]}"
        return []
    demo.seconds[part.name] = time.perf_counter() - start
    return sections


def _add_sections(demo: Demo, console: Console, sections: list[Section]) -> None:
    demo.sections |= {section.name: section for section in sections}
    _save(demo)
    for section in sections:
        print_section(section, console, charts=False)


def _save(demo: Demo) -> None:
    save_page(demo.out / INDEX, demo_report(demo), overwrite=True)


def _stop_message(out: Path, part: DemoPart) -> str:
    return (
        f"stopped at “{part.title}”; finished parts are in {out / INDEX}; "
        f"attnlab demo --out {out} --overwrite starts again"
    )
