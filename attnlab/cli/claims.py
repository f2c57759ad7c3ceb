"""attnlab claims: what is said about attention, run and judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attnlab._safe_files import write_json, write_text
from attnlab.claims import CLAIMS, Claim, Result, chosen, run
from attnlab.claims._claim import Size
from attnlab.claims._ledger import ledger
from attnlab.claims._ledger_markdown import markdown as as_markdown
from attnlab.claims._ledger_page import save_claims, save_playground
from attnlab.claims._ledger_terminal import print_one, print_table, stated
from attnlab.report import check_figure, check_page, save_figure

app = App(
    name="claims",
    help="What is said about attention, run and judged.",
    help_format="plaintext",
)

Sizes = Annotated[
    Literal["small", "full"], Parameter(help="small: two minutes for all; full: half an hour.")
]
Seed = Annotated[int, Parameter(help="Of everything random.")]


@app.default
def claims(
    *names: Annotated[str, Parameter(help="Only these; all if none is named.")],
    topic: Annotated[str | None, Parameter(help="Only those of one, by number or name.")] = None,
    size: Sizes = "small",
    seed: Seed = 0,
    json: Annotated[Path | None, Parameter(help="Write all that was found here.")] = None,
    html: Annotated[Path | None, Parameter(help="Write a page of it here, to look at.")] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --html.")] = False,
    markdown: Annotated[Path | None, Parameter(help="Write it here for people to read.")] = None,
    processes: Annotated[int | None, Parameter(help="How many run side by side.")] = None,
    list: Annotated[bool, Parameter(negative="", help="Only say what there is.")] = False,  # noqa: A002
) -> None:
    """Run claims and judge them: a table of verdicts."""
    wanted = chosen(names, topic)
    if list:
        for each in wanted:
            print(f"{each.name}: {stated(each)}")
        return
    for path in filter(None, (json, markdown)):
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if html is not None:
        check_page(html, overwrite)
    results = run_with_progress(wanted, seed, size, processes)
    print_table(results, Console())
    found = ledger(results, seed=seed, size=size)
    if json is not None:
        write_json(json, found)
        print(json)
    if html is not None:
        save_claims(html, found, overwrite)
        print(html)
    if markdown is not None:
        write_text(markdown, as_markdown(found))
        print(markdown)
    if any(each.verdict.outcome == "failed" for each in results):
        sys.exit(1)


@app.command
def show(
    name: Annotated[str, Parameter(help="One claim.")],
    /,
    *,
    size: Sizes = "small",
    seed: Seed = 0,
    out: Annotated[
        Path | None, Parameter(help="Write the figure here, as NAME.svg, .png or .pdf.")
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --out.")] = False,
) -> None:
    """Run one claim: the statement, why, what was measured, the figure."""
    wanted = chosen([name])
    if out is not None:
        check_figure(out, overwrite)
    result = run_with_progress(wanted, seed, size, 1)[0]
    print_one(result, Console())
    if out is not None and result.evidence is not None:
        save_figure(result.evidence.plot, out, stated(wanted[0]), overwrite)
        print(out)


@app.command
def playground(
    *,
    out: Annotated[Path, Parameter(help="The page.")] = Path("playground.html"),
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --out.")] = False,
) -> None:
    """Write the attention playground: move keys, queries and values, and see what comes out."""
    check_page(out, overwrite)
    save_playground(out, overwrite)
    print(out)


def run_with_progress(
    wanted: list[Claim], seed: int, size: Size, processes: int | None
) -> list[Result]:
    """In the registry's order. The bar stands on standard error, and names what is under way."""
    if processes is not None and processes < 1:
        raise ValueError(f"--processes {processes}; give 1 or more")
    found, under_way = [], dict[str, None]()
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with progress:
        task = progress.add_task("", total=len(wanted))

        def begun(name: str) -> None:
            under_way[name] = None
            progress.update(task, description=", ".join(under_way))

        for result in run(wanted, seed=seed, size=size, processes=processes, begun=begun):
            found.append(result)
            under_way.pop(result.name, None)
            progress.update(task, advance=1, description=", ".join(under_way))
    order = {name: place for place, name in enumerate(CLAIMS)}
    return sorted(found, key=lambda each: order[each.name])
