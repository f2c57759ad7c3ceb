r"""The classic course's run.py: its arguments and its lines, with attnlab underneath.

A path of parameters is a run folder of attnlab, whatever it is called:

    run.py pretrain vanilla wiki.txt --writing_params_path vanilla.pretrain.params
    run.py finetune vanilla wiki.txt --reading_params_path vanilla.pretrain.params \
        --writing_params_path vanilla.params --finetune_corpus_path birth_places_train.tsv
    run.py evaluate vanilla wiki.txt --reading_params_path vanilla.params \
        --eval_corpus_path birth_dev.tsv --outputs_path vanilla.dev.predictions
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

# torch and attnlab are imported by what needs them, so that --help and mistakes do not wait.

PATHS = {
    "reading_params_path": "run folder to begin with, or to evaluate",
    "writing_params_path": "run folder to write",
    "finetune_corpus_path": "lines of question, tab, answer",
    "eval_corpus_path": "lines of question, tab, answer; or questions alone",
    "outputs_path": "file for the predictions, one per line",
}
NEEDS = {
    "pretrain": {"writing_params_path"},
    "finetune": {"writing_params_path", "finetune_corpus_path"},
    "evaluate": {"reading_params_path", "eval_corpus_path", "outputs_path"},
}
# What may be given as well: finetuning without parameters is from scratch, and the answers of the
# finetuning corpus are counted for the baseline.
TAKES = {
    "pretrain": set[str](),
    "finetune": {"reading_params_path"},
    "evaluate": {"finetune_corpus_path"},
}


class Parser(argparse.ArgumentParser):
    """A mistake is one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)


def parser() -> Parser:
    made = Parser(
        prog="run.py",
        description="Pretrain, finetune and evaluate the course's GPT.",
        allow_abbrev=False,
    )
    made.add_argument("function", choices=list(NEEDS), help="what to do")
    made.add_argument(
        "variant",
        help="vanilla (softmax), synthesizer, or any other mechanism, as favor:features=64",
    )
    made.add_argument(
        "pretrain_corpus_path", type=Path, help="one document per line; gives the vocabulary"
    )
    for name, about in PATHS.items():
        made.add_argument(f"--{name}", type=Path, metavar="PATH", help=about)
    made.add_argument("--pretrain_lr", type=float, help="instead of 6e-3")
    made.add_argument("--finetune_lr", type=float, help="instead of 6e-4")
    made.add_argument(
        "--epochs", type=float, help="instead of 650; finetuning: 10, or 75 from scratch"
    )
    made.add_argument("--resume", action="store_true", help="go on with the run that is written")
    made.add_argument("--overwrite", action="store_true", help="begin anew the run that is written")
    return made


def check(options: argparse.Namespace) -> None:
    """What is missing, what is too much, and what would write over what is read."""
    function = options.function
    given = {name for name in PATHS if getattr(options, name) is not None}
    missing = [f"--{name}" for name in PATHS if name in NEEDS[function] - given]
    if missing:
        raise ValueError(f"{function} needs {' and '.join(missing)}")
    extra = [f"--{name}" for name in PATHS if name in given - NEEDS[function] - TAKES[function]]
    if extra:
        raise ValueError(f"{function} makes no use of {' and '.join(extra)}; leave it out")
    if function == "evaluate":
        for name in ("epochs", "resume", "overwrite"):
            if getattr(options, name):
                raise ValueError(f"evaluate makes no use of --{name}; leave it out")
    written = {name for name in given if name in ("writing_params_path", "outputs_path")}
    for name in ["pretrain_corpus_path", *sorted(given - written)]:
        for target in written:
            if getattr(options, name).resolve() == getattr(options, target).resolve():
                raise ValueError(f"--{target} is also {name}; choose another to write to")


def begin(options: argparse.Namespace) -> str:
    """Print the course's two lines about text and model, and return the model's attention."""
    from attnlab.tasks.knowledge import _load as material
    from attnlab.tasks.knowledge._data import digest, read_corpus, read_pairs
    from attnlab.tasks.knowledge._example_rows import data_line
    from attnlab.tasks.knowledge._rows import Wording

    corpus, folder = options.pretrain_corpus_path, options.reading_params_path
    documents = read_corpus(corpus)
    attention = "softmax" if options.variant == "vanilla" else options.variant
    if folder is None:
        asked = read_pairs(options.finetune_corpus_path) if options.function == "finetune" else []
        texts = [*documents, *(text for pair in asked for text in pair)]
        tokens = material.make_tokenizer("characters", texts)
        model = material.make_model("course", tokens, attention, {})
    else:
        model, tokens, config = material.load_knowledge(folder)
        task = config["task"]
        if task.get("preset") != "course":
            raise ValueError(f"{folder}: its preset is {task.get('preset')}; here it is course")
        expected = material.make_model("course", tokens, attention, {}).config.attention
        if model.config.attention != expected:
            raise ValueError(
                f"{folder}: its attention is {model.config.attention}, not {expected}; "
                "give the variant it was trained with"
            )
        if task["stage"] == "pretrain" and task["text"] != digest(documents):
            raise ValueError(f"{folder}: was pretrained on another text than {corpus}")
        Wording(tokens).check("\n".join(documents), str(corpus))
    print(data_line(documents, tokens))
    print(f"number of parameters: {model.parameter_count()}")
    return attention


def pretrain(options: argparse.Namespace) -> None:
    from attnlab._command_options import start_mode
    from attnlab.tasks.knowledge import _training as recipe

    recipe.pretrain(
        options.pretrain_corpus_path,
        out=options.writing_params_path,
        attention=begin(options),
        preset="course",
        epochs=options.epochs,
        training={"learning_rate": options.pretrain_lr},
        start=start_mode(options.resume, options.overwrite),
    )
    print(f"Parameters written to {options.writing_params_path}")


def finetune(options: argparse.Namespace) -> None:
    from attnlab._command_options import start_mode
    from attnlab.tasks.knowledge import _training as recipe

    attention, folder = begin(options), options.reading_params_path
    scratch = folder is None
    recipe.finetune(
        recipe.SCRATCH if scratch else folder.resolve(),  # a folder may be called scratch too
        pairs=options.finetune_corpus_path,
        corpus=options.pretrain_corpus_path,
        out=options.writing_params_path,
        preset="course" if scratch else None,
        attention=attention if scratch else "softmax",  # the run that was read has its own
        epochs=options.epochs,
        training={"learning_rate": options.finetune_lr},
        start=start_mode(options.resume, options.overwrite),
    )
    print(f"Parameters written to {options.writing_params_path}")


def evaluate(options: argparse.Namespace) -> None:
    """Predictions are written over older ones, as the course does."""
    from attnlab.tasks.knowledge import _scoring as scoring

    begin(options)
    questions, counted = options.eval_corpus_path, options.finetune_corpus_path
    score = scoring.evaluate(options.reading_params_path, questions)
    scoring.write_predictions(options.outputs_path, score.predictions, overwrite=True)
    if score.answers is None:
        print("No gold birth places provided; returning (0,0)")
        print(f"Predictions written to {options.outputs_path}; no targets provided")
        return
    print(score.line())
    said, flat = scoring.baseline(counted or questions, questions)
    where = "" if counted else f" (the commonest answer of {questions} itself)"
    print(f'Baseline, always "{said}"{where}: {flat.line()}')


def main(arguments: Sequence[str] | None = None) -> None:
    reader = parser()
    options = reader.parse_args(arguments)
    from attnlab.errors import TrainingStoppedError

    try:
        check(options)
        {"pretrain": pretrain, "finetune": finetune, "evaluate": evaluate}[options.function](
            options
        )
    except (ValueError, OSError) as error:
        reader.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except TrainingStoppedError as error:  # by a signal, or diverged
        print(f"{reader.prog}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
