"""The command line: one module per command.

Slow imports wait until a command runs, or are in a module that only their command imports.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError

import attnlab
from attnlab._command_options import create_app, flag, option
from attnlab.cli import compare as compare_command
from attnlab.cli._renamed_options import renamed_command, renamed_option
from attnlab.errors import TrainingStoppedError
from attnlab.extensions import load_extension
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS

SIMPLE = "attnlab.tasks._simple_commands:task "  # then the name of a task without own commands
MOUNTED: set[str] = set()  # tasks whose commands have been added

EXTENSION = "--extension"
app = create_app(
    "attnlab",
    "A workbench for attention: build, train, inspect and compare mechanisms.",
    version=attnlab.__version__,
    version_flags=["--version"],
    help_epilogue=f"attnlab {EXTENSION} FILE.py COMMAND adds your own mechanisms, tasks and "
    "claims. It also takes the name of a module, and can be repeated.",
)


# A command with many settings is imported only when you call it or ask for its own help.
app.command(
    "attnlab.cli.mechanisms:app",
    name="mechanisms",
    help="List attention mechanisms, or describe one and its options.",
)
app.command(
    "attnlab.cli.look:look",
    name="look",
    help="See what a model attends to, in a page that works offline.",
)
app.command(
    "attnlab.cli.models:models",
    name="models",
    help="List the models on this machine to look at, and how to get more.",
)
app.command(
    "attnlab.cli.claims:app",
    name="claims",
    help="Test well-known claims about attention by experiment.",
)
app.command(
    "attnlab.cli.bench:app",
    name="bench",
    help="Measure the error, speed and memory of mechanisms against exact attention.",
)
app.command(
    "attnlab.cli.heads:heads",
    name="heads",
    help="Measure what each head does, or which mechanism could replace softmax in it.",
)
app.command(
    "attnlab.cli.lens:lens",
    name="lens",
    help="Show what every layer of a model predicts (the logit lens).",
)
app.command(
    "attnlab.cli.patch:patch",
    name="patch",
    help="Find the layer and token at which a model's answer is decided.",
)
app.command(
    "attnlab.cli.studio:studio",
    name="studio",
    help="Watch runs, ask models and look into them in a web browser.",
)
app.command(
    "attnlab.cli.abilities:abilities",
    name="abilities",
    help="List small tasks that show what a mechanism can do, such as recall and copy.",
)
app.command(
    "attnlab.cli.convert:convert",
    name="convert",
    help="Replace softmax in a pretrained model by a cheaper mechanism, and train it to agree.",
)
app.command(
    "attnlab.cli.export:export",
    name="export",
    help="Write a run as a folder that Hugging Face transformers loads.",
)
app.command(compare_command.app)
app.command("attnlab.cli.runs:app", name="runs", help="List training runs, or show one.")


def mount_tasks(kinds: Iterable[TaskKind]) -> None:
    """Add the commands of each task: its own, or train and evaluate."""
    for kind in kinds:
        if kind.name in MOUNTED:
            continue
        if kind.name in app:
            raise ValueError(f"task {kind.name!r}: is already a command; choose another name")
        commands = kind.commands or f"{SIMPLE}{kind.name}"
        # a command of its group lists it
        app.command(commands, name=kind.name, help=kind.help, show=not kind.group)
        MOUNTED.add(kind.name)
        compare_command.mount(kind)


@app.command
def demo(
    *,
    out: Annotated[Path, option("Folder for the page and the runs.")] = Path("demo"),
    seed: Annotated[int, option("Random seed for weights and data order.")] = 0,
    overwrite: Annotated[bool, flag("Replace the demo in --out.")] = False,
) -> None:
    """Train a small model on facts, audit it and look inside. Writes a page in four minutes."""
    from attnlab.demo._progress_line import show_startup_status

    with show_startup_status():
        from attnlab.demo._run_demo import run_demo
    if run_demo(out=out, seed=seed, overwrite=overwrite).problems:
        sys.exit(1)


@app.command
def tour(
    *,
    tokens: Annotated[int, option("Length of the input in tokens.")] = 1024,
    seed: Annotated[int, option("Random seed for the input and the mechanisms.")] = 0,
) -> None:
    """Run every mechanism on one input: error against softmax, time and state size."""
    from attnlab.bench._tour_table import print_tour

    print_tour(tokens=tokens, seed=seed)


mount_tasks(TASKS.entries.values())  # attnlab's own; `main` loads extensions


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. A user's mistake is one line on standard error and exit code 2."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_note
            words = _load_extensions(words)
            mount_tasks(TASKS.values())  # those of extensions too
            app(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        message = " ".join(str(error).split())
        _fail(renamed_command(words) or renamed_option(error) or message, 2)
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError) as error:
        _fail(str(error), 2)
    except TrainingStoppedError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _load_extensions(arguments: Sequence[str]) -> list[str]:
    """Load the files named by --extension at the beginning; returns the other arguments."""
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] == EXTENSION:
        _, equals, source = rest.pop(0).partition("=")
        if not equals:
            source = rest.pop(0) if rest else ""
        if not source:
            raise ValueError(f"{EXTENSION} has no file; give FILE.py or a module, then the command")
        load_extension(source)
    return rest


def _print_note(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line, without the place in the code."""
    print(f"attnlab: note: {' '.join(str(message).split())}", file=sys.stderr)


def _fail(message: str, code: int) -> None:
    print(f"attnlab: {message}", file=sys.stderr)
    sys.exit(code)
