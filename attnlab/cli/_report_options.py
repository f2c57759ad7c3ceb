"""Options of the commands that measure: what to measure, where the report goes; a progress bar.

Slow imports wait until a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from attnlab._command_options import flag, list_option, option
from attnlab._help_groups import OUTPUT
from attnlab._safe_files import check_output_file, check_writable, write_text
from attnlab.bench._progress import BenchProgress

if TYPE_CHECKING:
    from attnlab.report import Report


@dataclass(frozen=True)
class MeasurementOptions:
    """Options of every command that measures mechanisms."""

    mechanisms: Annotated[
        tuple[str, ...],
        list_option(
            "Mechanisms to measure, such as favor or favor:features=64. Without it, all that apply."
        ),
    ] = ()
    quick: Annotated[bool, flag("Measure small sizes only. It takes seconds.")] = False
    seed: Annotated[int, option("Random seed for inputs and mechanisms.")] = 0


@dataclass(frozen=True)
class ReportOptions:
    """Where a report goes."""

    kind: ClassVar[str] = "bench"
    """Part of the markers in a Markdown page."""

    json: Annotated[Path | None, option("JSON file to write, with all measurements.", OUTPUT)] = (
        None
    )
    csv: Annotated[Path | None, option("CSV file to write, with all measurements.", OUTPUT)] = None
    html: Annotated[Path | None, option("HTML page to write.", OUTPUT)] = None
    markdown: Annotated[Path | None, option("Markdown file to write.", OUTPUT)] = None
    into: Annotated[
        Path | None,
        option("Markdown page to update. The report goes between its two markers.", OUTPUT),
    ] = None
    mark: Annotated[
        str,
        option(
            "Name of the markers for --into, if the page has several reports.",
            OUTPUT,
            show_default=False,
        ),
    ] = ""
    overwrite: Annotated[
        bool, flag("Replace the files of --json, --csv, --html and --markdown.", OUTPUT)
    ] = False
    charts: Annotated[
        bool | None,
        option("Draw charts in the terminal. Without it, the command decides.", OUTPUT),
    ] = None

    def check(self) -> None:
        """Check all paths before anything is measured."""
        self.check_names()
        for path in filter(None, (self.json, self.csv, self.markdown)):
            check_output_file(path, self.overwrite)
        if self.mark and self.into is None:
            raise ValueError(f"--mark {self.mark} needs a page; give --into FILE too")
        if self.html is not None:
            from attnlab.report import check_page

            check_page(self.html, self.overwrite)
        if self.into is not None:
            self.page_with("")
            check_writable(self.into)

    def check_names(self) -> None:
        """Two outputs cannot go into one file."""
        names = ("json", "csv", "html", "markdown", "into")
        paths = {name: getattr(self, name) for name in names}
        first: dict[str, str] = {}
        for name, path in paths.items():
            if path is None:
                continue
            other = first.setdefault(os.path.realpath(path), name)
            if other != name:
                raise ValueError(f"--{other} and --{name} both write {path}; give two files")

    def page_with(self, text: str) -> str:
        """The page of --into with this text between its markers."""
        from attnlab.report import place_between_markers

        assert self.into is not None
        if not self.into.is_file():
            raise ValueError(
                f"--into {self.into}: does not exist; give --markdown to write a new page"
            )
        try:
            page = self.into.read_text(encoding="utf-8")
            return place_between_markers(page, text, self.mark, self.kind)
        except ValueError as problem:  # also text that is not UTF-8
            raise ValueError(f"--into {self.into}: {problem}") from None

    def write(self, report: Report, charts: bool) -> None:
        """Write the files, then print the report.

        Each file is written completely or not at all. If one fails, the others are still written.
        The terminal comes last because its reader may close the pipe early."""
        from rich.console import Console

        from attnlab.report import print_report, save_page, to_csv, to_json, to_markdown

        writers: list[tuple[Path | None, Callable[[Path], None]]] = [
            (self.json, lambda path: write_text(path, to_json(report, indent=1) + "\n")),
            (self.csv, lambda path: write_text(path, to_csv(report))),
            (self.html, lambda path: save_page(path, report, self.overwrite)),
            (self.markdown, lambda path: write_text(path, to_markdown(report))),
            (
                self.into,
                lambda path: write_text(path, self.page_with(to_markdown(report, level=3))),
            ),
        ]
        written, problems = list[Path](), list[Exception]()
        for path, write in writers:
            if path is None:
                continue
            try:
                write(path)
                written.append(path)
            except (OSError, ValueError) as problem:
                problems.append(problem)
        print_report(report, Console(), charts if self.charts is None else self.charts)
        for path in written:
            print(path)
        if problems:
            raise OSError("; ".join(map(str, problems)))


class ProgressBar(BenchProgress):
    """A progress bar on standard error. It disappears at the end, and is off without a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        self.bar = RichProgress(
            TextColumn("{task.fields[part]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, part="")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *problem: object) -> None:
        self.bar.stop()

    def begin(self, what: str, steps: int) -> None:
        self.bar.start()  # only now, so that an error in the arguments comes without a bar
        self.bar.reset(self.task, total=steps, description="", part=what)

    def counting(self, what: str) -> Callable[[int, int], None]:
        """A function of the steps that are done and of all steps."""

        def report(done: int, total: int) -> None:
            if done <= 1:
                self.begin(what, total)
            self.step()

        return report

    def step(self, what: str = "", by: int = 1) -> None:
        self.bar.update(self.task, advance=by, description=what)
