"""attnlab bench error | speed | memory | decode | all | show

Nothing that takes time is imported before a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from attnlab.bench.progress import Progress
from attnlab.bench.settings import CostSettings, DecodeSettings, ErrorSettings, ModelSettings
from attnlab.command_options import given, grouped, options_of, several
from attnlab.files import check_new, check_writable, write_json, write_text
from attnlab.page import check_page

if TYPE_CHECKING:
    from attnlab.bench.results import Report

app = App(
    name="bench",
    help="How far mechanisms are from exact attention, and what they cost on this machine.",
    help_format="plaintext",
)

ErrorOptions: Any = options_of(ErrorSettings, unset=True, told=True)
CostOptions: Any = options_of(CostSettings, unset=True, told=True)
DecodeOptions: Any = options_of(DecodeSettings, unset=True, told=True)
ModelOptions: Any = options_of(ModelSettings, unset=True, told=True, without=("tokens", "features"))


@dataclass(frozen=True)
class Subject:
    """A real model's queries and keys, in the place of random ones."""

    model: Annotated[
        Path | None,
        Parameter(help="Measure on the heads of this model (attnlab's or Hugging Face's folder)."),
    ] = None
    text: Annotated[
        Path | None,
        Parameter(
            help="What it reads: a text file; with .jsonl, .csv or .tsv texts and their summaries, "
            "for an encoder-decoder."
        ),
    ] = None
    images: Annotated[
        Path | None,
        Parameter(
            help="What a model of images reads: a folder of them, or a data set for vision runs "
            "(digits, fashion)."
        ),
    ] = None

    def check(self, random: dict[str, Any], own: dict[str, Any]) -> None:
        """Options of random inputs and of a model exclude each other."""
        given = {"--text": self.text, "--images": self.images}
        named = [name for name, value in given.items() if value is not None]
        if self.model is None and named:
            raise ValueError(f"{named[0]}: who reads it? give --model FOLDER too")
        if self.model is not None and len(named) != 1:
            asked = f"--model {self.model}: what does it read? give --text FILE too, or --images"
            raise ValueError("--text and --images: give one of them" if named else asked)
        if self.images is not None and "tokens" in random:
            raise ValueError("--tokens: goes with --text; a model cuts its images itself")
        shared = ("tokens", "features")
        wrong = [name for name in random if name not in shared] if self.model else list(own)
        if wrong:
            name, side = wrong[0].replace("_", "-"), "without" if self.model else "with"
            raise ValueError(f"--{name}: goes {side} --model")


@dataclass(frozen=True)
class Common:
    """What every bench takes."""

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
        from attnlab.bench.markdown import placed

        assert self.into is not None
        if not self.into.is_file():
            raise ValueError(f"--into {self.into}: there is no such page; --markdown writes one")
        try:
            return placed(self.into.read_text(encoding="utf-8"), text, self.mark)
        except ValueError as problem:  # what is not UTF-8 too
            raise ValueError(f"--into {self.into}: {problem}") from None


COMMON, OUTPUTS = Common(), Outputs()


def measure(kinds: list[str], common: Any, outputs: Any, settings: dict[str, Any]) -> None:
    """Run benches and tell what was found."""
    outputs.check()
    from attnlab.bench.running import bench

    with Bar() as bar:
        report = bench(
            kinds,  # type: ignore[arg-type]
            mechanisms=common.mechanisms,
            quick=common.quick,
            seed=common.seed,
            progress=bar,
            **settings,
        )
    tell(report, outputs, charts=len(kinds) == 1)


def tell(report: Report, outputs: Outputs, charts: bool) -> None:
    """In the files that were asked for, each whole or not at all; then on the terminal, whose
    reader may leave early. A file that fails takes nothing else with it."""
    from rich.console import Console

    from attnlab.bench.markdown import report_markdown
    from attnlab.bench.page import save_page
    from attnlab.bench.results import report_json
    from attnlab.bench.terminal import print_report

    writers: list[tuple[Path | None, Callable[[Path], None]]] = [
        (outputs.json, lambda path: write_json(path, report_json(report))),
        (outputs.html, lambda path: save_page(path, report, outputs.overwrite)),
        (outputs.markdown, lambda path: write_text(path, report_markdown(report))),
        (
            outputs.into,
            lambda path: write_text(path, outputs.page_with(report_markdown(report, level=3))),
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
    print_report(report, Console(), charts if outputs.charts is None else outputs.charts)
    for path in written:
        print(path)
    if problems:
        raise OSError("; ".join(map(str, problems)))


class Bar(Progress):
    """A bar on standard error, gone at the end; nothing where nobody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Drawn

        console = Console(stderr=True)
        self.drawn = Drawn(
            TextColumn("{task.fields[part]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.drawn.add_task("", total=None, part="")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *problem: object) -> None:
        self.drawn.stop()

    def begin(self, what: str, steps: int) -> None:
        self.drawn.start()  # not before: a mistake is told without a bar
        self.drawn.reset(self.task, total=steps, description="", part=what)

    def step(self, what: str = "", by: int = 1) -> None:
        self.drawn.update(self.task, advance=by, description=what)


# The option groups are made above, so their types are set here rather than written in place.


def _command(name: str, text: str, options: Any) -> None:
    plain = options()

    def command(*, common: Any = COMMON, settings: Any = plain, outputs: Any = OUTPUTS) -> None:
        measure([name], common, outputs, given(settings, unset=True))

    command.__doc__ = text
    typed = grouped(common=Common, settings=options, outputs=Outputs)
    app.command(typed(command), name=name)


@app.command
@grouped(common=Common, subject=Subject, settings=ErrorOptions, heads=ModelOptions, outputs=Outputs)
def error(
    *,
    common: Any = COMMON,
    subject: Any = Subject(),  # noqa: B008 (frozen)
    settings: Any = ErrorOptions(),  # noqa: B008
    heads: Any = ModelOptions(),  # noqa: B008
    outputs: Any = OUTPUTS,
) -> None:
    """Error against exact softmax, with doing nothing as the control.

    On random inputs; with --model and --text or --images on a real model's heads, which mechanism
    could take softmax's place in each, checked by the model's own loss.
    """
    random, own = given(settings, unset=True), given(heads, unset=True)
    subject.check(random, own)
    if subject.model is None:
        measure(["error"], common, outputs, random)
        return
    outputs.check()
    from attnlab.bench.running import bench_model_report

    with Bar() as bar:
        report = bench_model_report(
            subject.model,
            subject.text,
            images=subject.images,
            mechanisms=common.mechanisms,
            quick=common.quick,
            seed=common.seed,
            progress=bar,
            **random,
            **own,
        )
    tell(report, outputs, charts=True)


_command("speed", "Time by length, against exact softmax.", CostOptions)
_command("memory", "Peak memory by length, each in a process of its own.", CostOptions)
_command("decode", "Cost of a decoding step by position, and what must be kept.", DecodeOptions)


@app.command(name="all")
def everything(
    *,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
    seeds: Annotated[int | None, Parameter(help="error: repeats.")] = None,
    threads: Annotated[int | None, Parameter(help="Of PyTorch; speed, memory, decode.")] = None,
    outputs: Annotated[Outputs, Parameter(name="*")] = OUTPUTS,
) -> None:
    """All four, in about five minutes."""
    wanted = {"seeds": seeds, "threads": threads}
    settings = {name: value for name, value in wanted.items() if value is not None}
    measure(["error", "speed", "memory", "decode"], common, outputs, settings)


@app.command
def show(
    report: Annotated[Path, Parameter(help="What --json wrote.")],
    /,
    *,
    outputs: Annotated[Outputs, Parameter(name="*")] = OUTPUTS,
) -> None:
    """Draw a report again from its JSON."""
    from attnlab.bench.reading import read_report

    outputs.check()
    tell(read_report(report), outputs, charts=True)
