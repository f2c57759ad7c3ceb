"""attnlab claims [NAMES] | show NAME | playground"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attnlab._command_options import create_app, flag, option
from attnlab._safe_files import write_json, write_text
from attnlab.claims import CLAIMS, Claim, Result, run_claims, select_claims
from attnlab.claims._claim import Size
from attnlab.claims._ledger import make_ledger
from attnlab.claims._ledger_markdown import ledger_markdown
from attnlab.claims._ledger_page import save_claims, save_playground
from attnlab.claims._ledger_terminal import format_statement, print_claim, print_table
from attnlab.claims._several_seeds import combine_results
from attnlab.report import check_figure, check_page, save_figure

app = create_app("claims", "Test well-known claims about attention by experiment.")

Sizes = Annotated[
    Literal["small", "full"],
    option("Size of the experiments. All claims take two minutes if small, half an hour if full."),
]
Seed = Annotated[int, option("Random seed for the experiments.")]


@app.default
def claims(
    *names: Annotated[str, option("Claims to test. Without them, all.")],
    topic: Annotated[str | None, option("Test the claims of one topic, by number or name.")] = None,
    size: Sizes = "small",
    seed: Seed = 0,
    seeds: Annotated[
        int,
        option(
            "Number of seeds to test each claim with: --seed and the following ones. A verdict "
            "that differs between seeds is undecided."
        ),
    ] = 1,
    json: Annotated[Path | None, option("JSON file to write, with all results.")] = None,
    html: Annotated[Path | None, option("HTML page to write.")] = None,
    markdown: Annotated[Path | None, option("Markdown file to write.")] = None,
    overwrite: Annotated[bool, flag("Replace the page of --html.")] = False,
    processes: Annotated[
        int | None, option("Number of claims to test at once. Without it, one per core.")
    ] = None,
    list: Annotated[bool, flag("List the claims without testing them.")] = False,  # noqa: A002
) -> None:
    """Test claims about attention and print a table of verdicts.

    The exit code is 1 if a claim failed.
    """
    selected = select_claims(names, topic)
    if list:
        for claim in selected:
            print(f"{claim.name}: {format_statement(claim)}")
        return
    for path in filter(None, (json, markdown)):
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if seeds < 1:
        raise ValueError(f"--seeds is {seeds}; give 1 or more")
    if html is not None:
        check_page(html, overwrite)
    results = run_seeds(selected, range(seed, seed + seeds), size, processes)
    print_table(results, Console())
    results_ledger = make_ledger(results, seed=seed, seeds=seeds, size=size)
    if json is not None:
        write_json(json, results_ledger)
        print(json)
    if html is not None:
        save_claims(html, results_ledger, overwrite)
        print(html)
    if markdown is not None:
        write_text(markdown, ledger_markdown(results_ledger))
        print(markdown)
    if any(result.verdict.outcome == "failed" for result in results):
        sys.exit(1)


@app.command
def show(
    name: Annotated[str, option("Claim to test.")],
    /,
    *,
    size: Sizes = "small",
    seed: Seed = 0,
    out: Annotated[
        Path | None, option("Figure to write, as NAME.svg, NAME.png or NAME.pdf.")
    ] = None,
    overwrite: Annotated[bool, flag("Replace the file of --out.")] = False,
) -> None:
    """Test one claim and print its statement, the reason, the measurements and a figure."""
    selected = select_claims([name])
    if out is not None:
        check_figure(out, overwrite)
    result = run_with_progress(selected, seed, size, 1)[0]
    print_claim(result, Console())
    if out is not None and result.evidence is not None:
        save_figure(result.evidence.plot, out, format_statement(selected[0]), overwrite)
        print(out)


@app.command
def playground(
    *,
    out: Annotated[Path, option("Page to write.")] = Path("playground.html"),
    overwrite: Annotated[bool, flag("Replace the file of --out.")] = False,
) -> None:
    """Write the attention playground: a page where you move keys, queries and values."""
    check_page(out, overwrite)
    save_playground(out, overwrite)
    print(out)


def run_seeds(
    selected: list[Claim], seeds: Sequence[int], size: Size, processes: int | None
) -> list[Result]:
    """One result for each claim, in the order of the registry."""
    runs = {seed: run_with_progress(selected, seed, size, processes) for seed in seeds}
    return [
        combine_results(dict(zip(runs, results, strict=True)))
        for results in zip(*runs.values(), strict=True)
    ]


def run_with_progress(
    selected: list[Claim], seed: int, size: Size, processes: int | None
) -> list[Result]:
    """Results in the order of the registry. A bar on standard error names the running claims."""
    if processes is not None and processes < 1:
        raise ValueError(f"--processes is {processes}; give 1 or more")
    results, running = [], dict[str, None]()
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with progress:
        task = progress.add_task("", total=len(selected))

        def on_start(name: str) -> None:
            running[name] = None
            progress.update(task, description=", ".join(running))

        for result in run_claims(
            selected, seed=seed, size=size, processes=processes, on_start=on_start
        ):
            results.append(result)
            running.pop(result.name, None)
            progress.update(task, advance=1, description=", ".join(running))
    order = {name: position for position, name in enumerate(CLAIMS)}
    return sorted(results, key=lambda result: order[result.name])
