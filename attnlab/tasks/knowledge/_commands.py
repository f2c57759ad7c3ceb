"""attnlab knowledge: learn facts (pretrain, finetune, learn), and look at what was learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab._command_options import (
    Out,
    Overwrite,
    Resume,
    given,
    grouped,
    one_or_each,
    options_of,
    several,
    start_mode,
    told,
)
from attnlab.models import StackConfig
from attnlab.tasks.knowledge import _training as recipe
from attnlab.tasks.knowledge._asking_commands import Pairs, ask, audit, baseline, evaluate
from attnlab.tasks.knowledge._learn import learn as read_and_remember
from attnlab.tasks.knowledge._learn_stages import LearnSettings
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge._world_vocabulary import ATTRIBUTES
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.training import Settings

app = App(name=KNOWLEDGE.name, help=KNOWLEDGE.help, help_format="plaintext")

Corpus = Annotated[
    Path | None,
    Parameter(help="One document per line: title, full stop, sentences. None: embedded world."),
]
Attention = Annotated[
    list[str] | None,
    several("Mechanism of all layers, or one for each."),
]
PresetName = Annotated[str, Parameter(help="small, or course: as the classic assignment has it.")]
Tokens = Annotated[
    str | None, Parameter(help="characters, bytes or bpe:SIZE instead of the preset's.")
]
Epochs = Annotated[float | None, Parameter(help="Passes over the rows, not the preset's.")]

ModelOptions: Any = options_of(StackConfig, without=("vocabulary", "attention"), unset=True)
TrainingOptions: Any = options_of(Settings, unset=True)
LearnOptions: Any = options_of(LearnSettings)
WorldOptions: Any = options_of(WorldConfig, without=("attributes",))


@app.command
@grouped(model=ModelOptions, training=TrainingOptions)
def pretrain(
    *,
    corpus: Corpus = None,
    pairs: Annotated[
        Path | None, Parameter(help="Questions whose characters the model shall know too.")
    ] = None,
    attention: Attention = None,
    objective: Annotated[
        str | None, Parameter(help="span, lines, lm, entities, or a mixture: 2*entities+lm.")
    ] = None,
    preset: PresetName = "small",
    tokenizer: Tokens = None,
    epochs: Epochs = None,
    out: Out = Path("runs/pretrained"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Learn a corpus before any question is asked."""
    metrics = recipe.pretrain(
        corpus,
        pairs=pairs,
        out=out,
        attention=one_or_each(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        epochs=epochs,
        model=given(model, unset=True),
        training=given(training, unset=True),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics)


@app.command
@grouped(model=ModelOptions, training=TrainingOptions)
def finetune(
    run: Annotated[str, Parameter(help="A pretrained run, or scratch.")],
    /,
    *,
    pairs: Pairs = None,
    corpus: Corpus = None,
    attention: Attention = None,
    objective: Annotated[
        str | None, Parameter(help="What to learn from the corpus meanwhile, with --mixed.")
    ] = None,
    mixed: Annotated[
        bool | None, Parameter(help="Learn on from the corpus meanwhile; or the preset's choice.")
    ] = None,
    held_out: Annotated[
        float | None,
        Parameter(help="Share of the pairs to measure on; default 5% or 40 pairs, course 0."),
    ] = None,
    preset: Annotated[str | None, Parameter(help="scratch: small or course.")] = None,
    tokenizer: Tokens = None,
    epochs: Epochs = None,
    out: Out = Path("runs/finetuned"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    model: Any = ModelOptions(),  # noqa: B008
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Learn to answer questions, from a pretrained run or from scratch."""
    metrics = recipe.finetune(
        run,
        pairs=pairs,
        corpus=corpus,
        out=out,
        attention=one_or_each(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        mixed=mixed,
        held_out=held_out,
        epochs=epochs,
        model=given(model, unset=True),
        training=given(training, unset=True),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics)


@app.command
@grouped(reading=LearnOptions, model=ModelOptions, training=TrainingOptions)
def learn(
    *,
    corpus: Corpus = None,
    pairs: Pairs = None,
    attention: Attention = None,
    preset: PresetName = "small",
    tokenizer: Tokens = None,
    out: Out = Path("runs/learned"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    reading: Any = LearnOptions(),  # noqa: B008
    model: Any = ModelOptions(),  # noqa: B008
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Read and remember: a reader answers for everyone, then a model learns it by heart."""
    metrics = read_and_remember(
        corpus,
        pairs,
        out=out,
        attention=one_or_each(attention),
        preset=preset,
        tokenizer=tokenizer,
        settings=LearnSettings(**given(reading)),
        model=given(model, unset=True),
        training=given(training, unset=True),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics)


for _asked in (evaluate, ask, audit, baseline):
    app.command(_asked)


@app.command
@grouped(settings=WorldOptions)
def world(
    *,
    out: Annotated[Path, Parameter(help="The folder to write into.")],
    attributes: Annotated[
        list[str] | None,
        several(f"Facts to tell and ask about, of {', '.join(ATTRIBUTES)}; default birthplace."),
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the files.")] = False,
    settings: Any = WorldOptions(),  # noqa: B008
) -> None:
    """Write a world of invented people: corpus.txt, train.tsv, dev.tsv."""
    config = WorldConfig(**given(settings))
    if attributes is not None:
        config = replace(config, attributes=tuple(attributes))
    made = make_world(config)
    made.write(out, overwrite)
    print(
        f"{out}: {len(made.corpus)} documents, {len(made.train)} training pairs, "
        f"{len(made.held_out)} held out"
    )


@app.command
def examples(
    *,
    corpus: Corpus = None,
    pairs: Annotated[
        Path | None, Parameter(help="Lines of question, tab, answer: show finetuning rows.")
    ] = None,
    objective: Annotated[
        str | None, Parameter(help="span, lines, lm, entities, or a mixture: 2*entities+lm.")
    ] = None,
    finetuning: Annotated[
        bool, Parameter(negative="", help="Show finetuning rows, not pretraining rows.")
    ] = False,
    preset: PresetName = "course",
    count: Annotated[int, Parameter(help="At most so many rows.")] = 4,
    seed: Annotated[int, Parameter(help="Of what an objective draws.")] = 0,
) -> None:
    """Show training rows: x is read, y is to be said; □ in y is not learned."""
    from attnlab.tasks.knowledge import _example_rows as showing

    line, rows = showing.examples(
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
