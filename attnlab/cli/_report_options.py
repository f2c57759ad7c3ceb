"""What commands that measure share: where a report goes, how it is written, a bar meanwhile.

Nothing that takes time is imported before a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from cyclopts import Parameter

from attnlab._command_options import several
from attnlab._safe_files import check_new, check_writable, write_text
from attnlab.bench._progress import Progress

if TYPE_CHECKING:
    from attnlab.report import Report


@dataclass(frozen=True)
class Common:
    """What every measurement takes."""

    mechanisms: Annotated[
        tuple[str, ...],
        several("Only these, as favor or favor:features=64; all that can if none is named."),
    ] = ()
    quick: Annotated[
        bool, Parameter(negative="", help="Small sizes: a try that ends in seconds.")
    ] = False
    seed: Annotated[int, Parameter(help="Of everything random.")] = 0


@dataclass(frozen=True)
class Outputs:
    """Where a report goes."""

    kind: ClassVar[str] = "bench"
    """In the marks of a page."""

    json: Annotated[Path | None, Parameter(help="Write all that was measured here.")] = None
    html: Annotated[Path | None, Parameter(help="Write a page of it here, to look at.")] = None
    markdown: Annotated[Path | None, Parameter(help="Write it here for people to read.")] = None
    into: Annotated[
        Path | None, Parameter(help="Write it into this Markdown page, between its two marks.")
    ] = None
    mark: Annotated[
        str, Parameter(help="With --into: the name in its two marks, if they have one.")
    ] = ""
    overwrite: Annotated[
        bool, Parameter(negative="", help="Replace --json, --html and --markdown.")
    ] = False
    charts: Annotated[bool | None, Parameter(help="Draw curves in the terminal too.")] = None

    def check(self) -> None:
        """Before anything is computed."""
        self.check_names()
        for path in filter(None, (self.json, self.markdown)):
            check_new(path, self.overwrite)
        if self.mark and self.into is None:
            raise ValueError(f"--mark {self.mark}: of which page? give --into FILE too")
        if self.html is not None:
            from attnlab.report import check_page

            check_page(self.html, self.overwrite)
        if self.into is not None:
            self.page_with("")
            check_writable(self.into)

    def check_names(self) -> None:
        """Two outputs in one file would leave one of them."""
        given = {"json": self.json, "html": self.html, "markdown": self.markdown, "into": self.into}
        first: dict[str, str] = {}
        for option, path in given.items():
            if path is None:
                continue
            other = first.setdefault(os.path.realpath(path), option)
            if other != option:
                raise ValueError(f"--{other} and --{option}: both name {path}; give two files")

    def page_with(self, text: str) -> str:
        """The page of --into with this text in its place."""
        from attnlab.report import place_between_markers

        assert self.into is not None
        if not self.into.is_file():
            raise ValueError(f"--into {self.into}: there is no such page; --markdown writes one")
        try:
            page = self.into.read_text(encoding="utf-8")
            return place_between_markers(page, text, self.mark, self.kind)
        except ValueError as problem:  # what is not UTF-8 too
            raise ValueError(f"--into {self.into}: {problem}") from None

    def write(self, report: Report, charts: bool) -> None:
        """Into the files that were asked for, each whole or not at all; then on the terminal, whose
        reader may leave early. A file that fails takes nothing else with it."""
        from rich.console import Console

        from attnlab.report import print_report, save_page, to_json, to_markdown

        writers: list[tuple[Path | None, Callable[[Path], None]]] = [
            (self.json, lambda path: write_text(path, to_json(report, indent=1) + "\n")),
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


class Bar(Progress):
    """A bar on standard error, gone at the end; nothing where nobody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        self.bar = RichProgress(
            TextColumn("{task.fields[part]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, part="")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *problem: object) -> None:
        self.bar.stop()

    def begin(self, what: str, steps: int) -> None:
        self.bar.start()  # not before: a mistake is reported without a bar
        self.bar.reset(self.task, total=steps, description="", part=what)

    def step(self, what: str = "", by: int = 1) -> None:
        self.bar.update(self.task, advance=by, description=what)
