"""The command line: one command per verb.

Heavy imports stand inside the commands, or in modules that only their command reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

import attnlab
from attnlab.cli import compare as comparing
from attnlab.errors import TrainingStoppedError
from attnlab.extensions import load_extension
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS

SIMPLE = "attnlab.tasks._simple_commands:task "  # and a task without commands of its own
MOUNTED: set[str] = set()  # tasks whose commands are there

OPTION = "--extension"
app = App(
    name="attnlab",
    help="A workbench for attention: build, train, look inside and compare mechanisms.",
    version=attnlab.__version__,
    version_flags=["--version"],
    help_format="plaintext",
    help_epilogue=f"attnlab {OPTION} FILE.py COMMAND adds mechanisms, tasks and claims of your "
    "own. It can name a module too, and be repeated.",
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
    "attnlab.cli.heads:heads",
    name="heads",
    help="Which mechanism could take softmax's place in each head of a model.",
)
app.command(
    "attnlab.cli.studio:studio",
    name="studio",
    help="Watch runs train, ask, write, see and look in a browser.",
)
app.command(comparing.app)
app.command("attnlab.cli.runs:app", name="runs", help="List training runs, or show one.")


def mount_tasks(kinds: Iterable[TaskKind]) -> None:
    """Each task's own commands, or train and evaluate for one that has none."""
    for kind in kinds:
        if kind.name in MOUNTED:
            continue
        if kind.name in app:
            raise ValueError(f"task {kind.name!r}: attnlab has such a command; choose another name")
        app.command(kind.commands or f"{SIMPLE}{kind.name}", name=kind.name, help=kind.help)
        MOUNTED.add(kind.name)
        comparing.mount(kind)


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder for the page and the runs.")] = Path("demo"),
    seed: Annotated[int, Parameter(help="Random seed for weights and data order.")] = 0,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace what is in --out.")] = False,
) -> None:
    """Teach a small model facts, audit it, look inside, test claims: a page in four minutes."""
    from attnlab.demo._progress_line import getting_ready

    with getting_ready():
        from attnlab.demo._run_demo import run_demo
    if run_demo(out=out, seed=seed, overwrite=overwrite).problems:
        sys.exit(1)


@app.command
def tour(
    *,
    tokens: Annotated[int, Parameter(help="Length of the input.")] = 2048,
    seed: Annotated[int, Parameter(help="Random seed for the input and the mechanisms.")] = 0,
) -> None:
    """Run every mechanism on one input: error against softmax, time and state size."""
    from attnlab.bench._tour import print_tour

    print_tour(tokens=tokens, seed=seed)


mount_tasks(TASKS.entries.values())  # attnlab's own: extensions are loaded by `main`


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. A user's mistake is one line on standard error and exit code 2."""
    try:
        rest = _take_extensions(sys.argv[1:] if arguments is None else arguments)
        mount_tasks(TASKS.values())  # those from outside too
        app(rest, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        given = sys.argv[1:] if arguments is None else list(arguments)
        _fail(_moved(given) or " ".join(str(error).split()), 2)
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError) as error:
        _fail(str(error), 2)
    except TrainingStoppedError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _moved(given: Sequence[str]) -> str:
    """Where a command of version 0.1 is now."""
    if given[:2] == ["bench", "error"] and any(each.startswith("--model") for each in given):
        return "bench error --model: use attnlab heads MODEL, with --text or --images"
    if given[1:2] == ["compare"] and given[0] in TASKS:
        return f"{given[0]} compare: use attnlab compare {given[0]}"
    return ""


def _take_extensions(arguments: Sequence[str]) -> list[str]:
    """The arguments behind each --extension FILE at the beginning, whose files are loaded."""
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] == OPTION:
        _, equals, source = rest.pop(0).partition("=")
        if not equals:
            source = rest.pop(0) if rest else ""
        if not source:
            raise ValueError(f"{OPTION} names no file; give FILE.py or a module before the command")
        load_extension(source)
    return rest


def _fail(problem: str, code: int) -> None:
    print(f"attnlab: {problem}", file=sys.stderr)
    sys.exit(code)
