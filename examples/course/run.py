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
from typing import Any, NoReturn

# Functions import torch and attnlab when they need them, so that --help and errors are fast.

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
# Optional paths. Finetuning without parameters starts from scratch; `evaluate` counts the answers
# of the finetuning corpus for its baseline.
OPTIONAL = {
    "pretrain": set[str](),
    "finetune": {"reading_params_path"},
    "evaluate": {"finetune_corpus_path"},
}


class Parser(argparse.ArgumentParser):
    """Prints errors as one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)


def parser() -> Parser:
    arguments = Parser(
        prog="run.py",
        description="Pretrain, finetune and evaluate the course's GPT.",
        allow_abbrev=False,
    )
    arguments.add_argument("function", choices=list(NEEDS), help="what to do")
    arguments.add_argument(
        "variant",
        help="vanilla (softmax), perceiver, rope (rotary positions), synthesizer, or any other "
        "mechanism, as favor:features=64",
    )
    arguments.add_argument(
        "pretrain_corpus_path", type=Path, help="one document per line; gives the vocabulary"
    )
    arguments.add_argument(
        "--bottleneck_dim", type=int, help="number of latents of the perceiver (default 64)"
    )
    for name, about in PATHS.items():
        arguments.add_argument(f"--{name}", type=Path, metavar="PATH", help=about)
    arguments.add_argument(
        "--pretrain_lr", type=float, help="peak learning rate of pretraining (default 6e-3)"
    )
    arguments.add_argument(
        "--finetune_lr", type=float, help="peak learning rate of finetuning (default 6e-4)"
    )
    arguments.add_argument(
        "--epochs",
        type=float,
        help="passes over the data (default 650; finetuning 10, or 75 from scratch)",
    )
    arguments.add_argument(
        "--resume", action="store_true", help="continue the run in --writing_params_path"
    )
    arguments.add_argument(
        "--overwrite", action="store_true", help="replace the run in --writing_params_path"
    )
    return arguments


def check(options: argparse.Namespace) -> None:
    """Raise an error for missing or unused paths, and for an output that would overwrite an
    input."""
    function = options.function
    paths = {name for name in PATHS if getattr(options, name) is not None}
    missing = [f"--{name}" for name in PATHS if name in NEEDS[function] - paths]
    if missing:
        raise ValueError(f"{function} needs {' and '.join(missing)}")
    unused = [f"--{name}" for name in PATHS if name in paths - NEEDS[function] - OPTIONAL[function]]
    if unused:
        raise ValueError(f"{function} does not use {' and '.join(unused)}; leave it out")
    if function == "evaluate":
        for name in ("epochs", "resume", "overwrite"):
            if getattr(options, name):
                raise ValueError(f"evaluate does not use --{name}; leave it out")
    if options.bottleneck_dim is not None and options.variant != "perceiver":
        raise ValueError(
            f"{options.variant} does not use --bottleneck_dim; leave it out, or give perceiver"
        )
    outputs = {name for name in paths if name in ("writing_params_path", "outputs_path")}
    for name in ["pretrain_corpus_path", *sorted(paths - outputs)]:
        for target in outputs:
            if getattr(options, name).resolve() == getattr(options, target).resolve():
                raise ValueError(
                    f"--{target} is the same as {name}; choose another path to write to"
                )


def variant_settings(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The attention and the model settings of a variant."""
    if options.variant == "perceiver":
        latents = 64 if options.bottleneck_dim is None else options.bottleneck_dim
        return "softmax", {"latents": latents}
    if options.variant in ("rope", "rotary"):
        return "softmax", {"position": "rotary"}
    return "softmax" if options.variant == "vanilla" else options.variant, {}


def print_header(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Print the course's two lines about the text and the model, and return the attention and the
    model settings."""
    from attnlab.tasks.knowledge import _load as load
    from attnlab.tasks.knowledge._data import digest, read_corpus, read_pairs
    from attnlab.tasks.knowledge._show_training_rows import data_line
    from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding

    corpus, folder = options.pretrain_corpus_path, options.reading_params_path
    documents = read_corpus(corpus)
    attention, settings = variant_settings(options)
    if folder is None:
        pairs = read_pairs(options.finetune_corpus_path) if options.function == "finetune" else []
        texts = [*documents, *(text for pair in pairs for text in pair)]
        tokens = load.make_tokenizer("characters", texts)
        model = load.make_model("course", tokens, attention, settings)
    else:
        model, tokens, config = load.load_knowledge(folder)
        task = config["task"]
        if task.get("preset") != "course":
            raise ValueError(
                f"{folder}: its preset is {task.get('preset')}; run.py only works with the "
                "preset course"
            )
        expected = load.make_model("course", tokens, attention, settings)
        for name, wanted in expected.description().items():
            own = model.description().get(name)
            if own != wanted:
                raise ValueError(
                    f"{folder}: its {name} is {own}, not {wanted}; "
                    "give the variant it was trained with"
                )
        if task["stage"] == "pretrain" and task["text"] != digest(documents):
            raise ValueError(
                f"{folder}: was pretrained on another text than {corpus}; give that text"
            )
        KnowledgeTextEncoding(tokens).check_characters("\n".join(documents), str(corpus))
    print(data_line(documents, tokens))
    print(f"number of parameters: {model.parameter_count()}")
    return attention, settings


def pretrain(options: argparse.Namespace) -> None:
    from attnlab._command_options import start_mode
    from attnlab.tasks.knowledge import _training as recipe

    attention, settings = print_header(options)
    recipe.pretrain(
        options.pretrain_corpus_path,
        out=options.writing_params_path,
        attention=attention,
        model=settings,
        preset="course",
        epochs=options.epochs,
        training={"learning_rate": options.pretrain_lr},
        start=start_mode(options.resume, options.overwrite),
    )
    print(f"Parameters written to {options.writing_params_path}")


def finetune(options: argparse.Namespace) -> None:
    from attnlab._command_options import start_mode
    from attnlab.tasks.knowledge import _training as recipe

    (attention, settings), folder = print_header(options), options.reading_params_path
    scratch = folder is None
    recipe.finetune(
        recipe.SCRATCH if scratch else folder.resolve(),  # the folder itself may be called scratch
        pairs=options.finetune_corpus_path,
        corpus=options.pretrain_corpus_path,
        out=options.writing_params_path,
        preset="course" if scratch else None,
        attention=attention if scratch else "softmax",  # a run has its own model
        model=settings if scratch else None,
        epochs=options.epochs,
        training={"learning_rate": options.finetune_lr},
        start=start_mode(options.resume, options.overwrite),
    )
    print(f"Parameters written to {options.writing_params_path}")


def evaluate(options: argparse.Namespace) -> None:
    """Evaluate a run. Older predictions are overwritten, as in the course."""
    from attnlab.tasks.knowledge import _scoring as scoring

    print_header(options)
    questions, training_pairs = options.eval_corpus_path, options.finetune_corpus_path
    score = scoring.evaluate(options.reading_params_path, questions)
    scoring.write_predictions(options.outputs_path, score.predictions, overwrite=True)
    if score.answers is None:
        print("No gold birth places provided; returning (0,0)")
        print(f"Predictions written to {options.outputs_path}; no targets provided")
        return
    print(score.line())
    answer, baseline = scoring.baseline(training_pairs or questions, questions)
    note = "" if training_pairs else f" (the most frequent answer of {questions} itself)"
    print(f'Baseline, always "{answer}"{note}: {baseline.line()}')


def main(arguments: Sequence[str] | None = None) -> None:
    argument_parser = parser()
    options = argument_parser.parse_args(arguments)
    from attnlab.errors import TrainingStoppedError

    try:
        check(options)
        {"pretrain": pretrain, "finetune": finetune, "evaluate": evaluate}[options.function](
            options
        )
    except (ValueError, OSError) as error:
        argument_parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except TrainingStoppedError as error:  # by a signal, or diverged
        print(f"{argument_parser.prog}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
