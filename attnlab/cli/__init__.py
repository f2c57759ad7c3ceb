"""The command line: one command per verb.

Heavy imports stand inside the commands, or in modules that only their command reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

import attnlab
from attnlab.tasks.registry import TASKS

SIMPLE = "attnlab.tasks.simple_commands"  # has an App for every task without commands
MOUNTED: set[str] = set()  # tasks whose commands are there

app = App(
    name="attnlab",
    help="A workbench for attention: build, train, look inside and compare mechanisms.",
    version=attnlab.__version__,
    version_flags=["--version"],
    help_format="plaintext",
)


# Commands with many settings are read only when they are called, or their own help is.
app.command(
    "attnlab.cli.mechanisms:app",
    name="mechanisms",
    help="List what each attention mechanism can do, or the options of one.",
)
app.command(
    "attnlab.cli.look:look",
    name="look",
    help="See what a model attends to: one page that works offline.",
)
app.command(
    "attnlab.cli.claims:app",
    name="claims",
    help="What is said about attention, run and judged.",
)
app.command(
    "attnlab.cli.bench:app",
    name="bench",
    help="How far mechanisms are from exact attention, and what they cost.",
)
app.command(
    "attnlab.cli.studio:studio",
    name="studio",
    help="Watch runs train, ask, write, see and look in a browser.",
)
app.command("attnlab.cli.runs:app", name="runs", help="List training runs, or show one.")


def mount_tasks() -> None:
    """Each task's own commands, or train and evaluate for one that has none."""
    for kind in TASKS.values():
        if kind.name in MOUNTED:
            continue
        if kind.name in app:
            raise ValueError(f"task {kind.name!r}: attnlab has such a command; choose another name")
        app.command(kind.commands or f"{SIMPLE}:{kind.name}", name=kind.name, help=kind.help)
        MOUNTED.add(kind.name)


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder for the page and the runs.")] = Path("demo"),
    seed: Annotated[int, Parameter(help="Of weights and data order.")] = 0,
    overwrite: Annotated[bool, Parameter(negative="", help="Begin --out anew.")] = False,
) -> None:
    """Teach a small model facts, audit it, look inside, test claims: a page in four minutes."""
    from attnlab.demo.progress import getting_ready

    with getting_ready():
        from attnlab.demo.telling import demo as tell
    if tell(out=out, seed=seed, overwrite=overwrite).problems:
        sys.exit(1)


@app.command
def tour(
    *,
    tokens: Annotated[int, Parameter(help="Length of the input.")] = 2048,
    seed: Annotated[int, Parameter(help="Of the input and of everything random.")] = 0,
) -> None:
    """Run every mechanism on one input: error against softmax, time and state size."""
    from attnlab.bench.tour import print_tour

    print_tour(tokens=tokens, seed=seed)


mount_tasks()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. A user's mistake is one line on standard error and exit code 2."""
    try:
        if os.environ.get("ATTNLAB_MECHANISMS"):  # lists show them too
            from attnlab.register import load_named

            load_named()
        mount_tasks()  # those from outside
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), 2)
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError) as error:
        _fail(str(error), 2)
    except RuntimeError as error:
        number = getattr(error, "signal_number", None)  # a training run that was asked to stop
        if type(error).__module__ != "attnlab.training.loop":
            raise
        _fail(str(error), 1 if number is None else 128 + number)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(problem: str, code: int) -> None:
    print(f"attnlab: {problem}", file=sys.stderr)
    sys.exit(code)
