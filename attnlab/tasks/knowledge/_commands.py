"""attnlab knowledge: learn facts (pretrain, finetune, learn), and look at what was learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import (
    Attention,
    Out,
    Overwrite,
    Resume,
    create_app,
    flag,
    flatten_options,
    layer_attention,
    list_option,
    option,
    option_values,
    options_of,
    print_training_result,
    start_mode,
)
from attnlab._help_groups import DATA, TRAINING
from attnlab.models import PerceiverConfig
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._asking_commands import ask, audit, baseline, evaluate
from attnlab.tasks.knowledge._learn import learn as read_and_remember
from attnlab.tasks.knowledge._learn_stages import LearnSettings
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge._world_vocabulary import ATTRIBUTES
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.training import Settings

app = create_app(KNOWLEDGE.name, KNOWLEDGE.help)

OBJECTIVES = "span, lines, lm, entities, or a mixture such as 2*entities+lm"
Corpus = Annotated[
    Path | None,
    option(
        "File with one document per line: a title, a period and sentences. Without it, use the "
        "built-in people."
    ),
]
TrainingPairs = Annotated[
    Path | None, option("File with training questions: question, tab, answer.")
]
PresetName = Annotated[
    str,
    option("Model and training settings: small, or course for those of the classic assignment."),
]
TokenizerName = Annotated[
    str | None,
    option("Tokenizer: characters, bytes or bpe:SIZE. Without it, the preset's.", DATA),
]
MadeUp = Annotated[
    float | None,
    option(
        "Rows about made-up names, which the model learns not to answer, for each row about a real "
        "one. 0 disables them. Without it, the preset's.",
        DATA,
    ),
]
Epochs = Annotated[
    float | None, option("Number of passes over the training data. Without it, the preset's.")
]

COMMON_TRAINING = ("minutes", "learning_rate", "seed")  # epochs count more than steps here
ModelOptions: Any = options_of(
    PerceiverConfig, without=("vocabulary", "attention"), optional=True, common=()
)
TrainingOptions: Any = options_of(Settings, optional=True, common=COMMON_TRAINING)
LearnTrainingOptions: Any = options_of(Settings, optional=True, common=("seed",))
LearnOptions: Any = options_of(LearnSettings)
WorldOptions: Any = options_of(WorldConfig, without=("attributes",))


@app.command
@flatten_options(model=ModelOptions, training=TrainingOptions)
def pretrain(
    *,
    corpus: Corpus = None,
    pairs: Annotated[
        Path | None,
        option(
            "File with training questions: question, tab, answer. The tokenizer learns their "
            "characters, and the objective entities what answers look like.",
        ),
    ] = None,
    preset: PresetName = "small",
    objective: Annotated[
        str | None, option(f"Pretraining objective: {OBJECTIVES}. Without it, the preset's.")
    ] = None,
    tokenizer: TokenizerName = None,
    attention: Attention = None,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    made_up: MadeUp = None,
    epochs: Epochs = None,
    training: Any = TrainingOptions(),  # noqa: B008
    out: Out = Path("runs/pretrained"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Pretrain a model on a corpus of documents, before it learns to answer questions.

    The preset decides the settings that you leave out.
    """
    metrics = recipe.pretrain(
        corpus,
        pairs=pairs,
        out=out,
        attention=layer_attention(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        made_up=made_up,
        epochs=epochs,
        model=option_values(model, set_only=True),
        training=option_values(training, set_only=True),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics)


@app.command
@flatten_options(model=ModelOptions, training=TrainingOptions)
def finetune(
    run: Annotated[str, option("Folder of a pretrained run, or the word scratch for a new model.")],
    /,
    *,
    pairs: TrainingPairs = None,
    corpus: Corpus = None,
    preset: Annotated[
        str | None, option("Model and training settings of a new model: small or course.")
    ] = None,
    mixed: Annotated[
        bool | None,
        option("Also train on the corpus, in turns. Without it, the preset decides.", TRAINING),
    ] = None,
    objective: Annotated[
        str | None,
        option(f"Objective for the corpus with --mixed: {OBJECTIVES}.", TRAINING),
    ] = None,
    held_out: Annotated[
        float | None,
        option(
            "Fraction of the pairs to hold out for evaluation. Without it, 5%, and at least 40 "
            "pairs. The preset course holds out none.",
            DATA,
        ),
    ] = None,
    tokenizer: TokenizerName = None,
    attention: Attention = None,
    model: Any = ModelOptions(),  # noqa: B008
    made_up: MadeUp = None,
    epochs: Epochs = None,
    training: Any = TrainingOptions(),  # noqa: B008
    out: Out = Path("runs/finetuned"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Finetune a pretrained run, or train a new model, on questions and answers.

    The preset decides the settings that you leave out.
    """
    metrics = recipe.finetune(
        run,
        pairs=pairs,
        corpus=corpus,
        out=out,
        attention=layer_attention(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        mixed=mixed,
        held_out=held_out,
        made_up=made_up,
        epochs=epochs,
        model=option_values(model, set_only=True),
        training=option_values(training, set_only=True),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics)


@app.command
@flatten_options(reading=LearnOptions, model=ModelOptions, training=LearnTrainingOptions)
def learn(
    *,
    corpus: Corpus = None,
    pairs: TrainingPairs = None,
    preset: PresetName = "small",
    tokenizer: TokenizerName = None,
    attention: Attention = None,
    reading: Any = LearnOptions(),  # noqa: B008
    model: Any = ModelOptions(),  # noqa: B008
    training: Any = LearnTrainingOptions(),  # noqa: B008
    out: Out = Path("runs/learned"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Learn facts in two stages: readers find the answers, then a model memorizes them.

    A reader learns to find answers in documents, and answers for the whole corpus.
    The final model is trained on these answers, without the documents.
    The preset decides the settings that you leave out.
    """
    metrics = read_and_remember(
        corpus,
        pairs,
        out=out,
        attention=layer_attention(attention),
        preset=preset,
        tokenizer=tokenizer,
        settings=LearnSettings(**option_values(reading)),
        model=option_values(model, set_only=True),
        training=option_values(training, set_only=True),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics)


for _command in (evaluate, ask, audit, baseline):
    app.command(_command)


@app.command
@flatten_options(settings=WorldOptions)
def world(
    *,
    out: Annotated[Path, option("Folder for the files.")],
    settings: Any = WorldOptions(),  # noqa: B008
    attributes: Annotated[
        list[str] | None,
        list_option(
            f"Facts to state and to ask about: {', '.join(ATTRIBUTES)}. Without it, birthplace."
        ),
    ] = None,
    overwrite: Annotated[bool, flag("Replace the files in --out.")] = False,
) -> None:
    """Write documents and questions about invented people: corpus.txt, train.tsv and dev.tsv."""
    config = WorldConfig(**option_values(settings))
    if attributes is not None:
        config = replace(config, attributes=tuple(attributes))
    created = make_world(config)
    created.write(out, overwrite)
    print(
        f"{out}: {len(created.corpus)} documents, {len(created.train)} training pairs, "
        f"{len(created.held_out)} held out"
    )


@app.command
def examples(
    *,
    corpus: Corpus = None,
    pairs: Annotated[
        Path | None,
        option("File with questions: question, tab, answer. It shows finetuning examples."),
    ] = None,
    objective: Annotated[
        str | None, option(f"Pretraining objective: {OBJECTIVES}. Without it, the preset's.")
    ] = None,
    finetuning: Annotated[
        bool, flag("Show finetuning examples instead of pretraining examples.")
    ] = False,
    preset: PresetName = "course",
    count: Annotated[int, option("Largest number of examples to print.")] = 4,
    seed: Annotated[int, option("Random seed for the objective.")] = 0,
) -> None:
    """Print training examples: x is the input, y the target.

    Positions of y that are marked □ have no loss.
    """
    from attnlab.tasks.knowledge import _show_training_rows as showing

    line, rows = showing.example_rows(
        corpus,
        pairs,
        preset=preset,
        objective=objective,
        finetuning=finetuning,
        count=count,
        seed=seed,
    )
    print(line)
    for x, y in rows:
        print(f"x: {x}\ny: {y}")
