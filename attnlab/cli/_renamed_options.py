"""What options and commands of version 0.1 are called now."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import CycloptsError, UnknownOptionError

from attnlab.tasks.registry import TASKS

RENAMED = {
    "--accumulate": "--accumulation-steps",
    "--batch-rows": "--batch-size",
    "--best": "--keep-best",
    "--beta-one": "--beta1",
    "--beta-two": "--beta2",
    "--clip": "--max-gradient-norm",
    "--decay": "--decay-fraction",
    "--ema": "--ema-decay",
    "--floor": "--final-rate-fraction",
    "--go-on": "--ignore-end",
    "--keep": "--keep-checkpoints",
    "--made-up": "--invented-names",
    "--measured": "--evaluation-pairs",
    "--muon-rate": "--muon-learning-rate",
    "--normalise-queries": "--normalize-queries",
    "--optimiser": "--optimizer",
    "--part": "--split",
    "--places": "--cities",
    "--rate": "--learning-rate",
    "--rates": "--learning-rate-factors",
    "--samples": "--count",
    "--tellings": "--repetitions",
    "--tokenizer-size": "--vocabulary",
    "--tokens": "--max-new-tokens",
    "--training-only": "--training-time-only",
    "--warmup": "--warmup-steps",
    "--wordings": "--phrasings",
}


def renamed_option(error: CycloptsError) -> str:
    """The message for an option that the command has under a new name, or an empty text."""
    if not isinstance(error, UnknownOptionError):
        return ""
    old = (error.token.keyword or error.token.value).partition("=")[0]
    no = old.startswith("--no-")
    new = RENAMED.get("--" + old.removeprefix("--no-") if no else old, "")
    options = {name for argument in error.argument_collection for name in argument.names}
    if new not in options:
        return ""
    return f"{old} is now {new.replace('--', '--no-', 1) if no else new}"


def renamed_command(arguments: Sequence[str]) -> str:
    """The message for a command that moved, or an empty text."""
    if arguments[:2] == ["bench", "error"] and any(w.startswith("--model") for w in arguments):
        return "bench error --model: use attnlab heads MODEL, with --text or --images"
    if arguments[1:2] == ["compare"] and arguments[0] in TASKS:
        return f"{arguments[0]} compare: use attnlab compare {arguments[0]}"
    return ""
