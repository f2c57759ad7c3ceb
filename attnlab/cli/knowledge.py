"""attnlab knowledge: learn facts (pretrain, finetune, learn), and look at what was learned."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab.cli.options import given, options_of
from attnlab.models import StackConfig
from attnlab.tasks.knowledge import recipe, scoring
from attnlab.tasks.knowledge.learn import learn as read_and_remember
from attnlab.tasks.knowledge.lesson import LearnSettings
from attnlab.tasks.knowledge.world import WorldConfig, make_world
from attnlab.tasks.knowledge.world_words import ATTRIBUTES
from attnlab.training import Settings, speaks

app = App(
    name="knowledge",
    help="Learn facts from a corpus, answer questions, and know what is known.",
    help_format="plaintext",
)

Corpus = Annotated[
    Path | None,
    Parameter(help="One document per line: title, full stop, sentences. None: embedded world."),
]
Pairs = Annotated[Path | None, Parameter(help="Lines of question, tab, answer.")]
Attention = Annotated[
    list[str] | None,
    Parameter(help="Mechanism of all layers, or one for each.", consume_multiple=True),
]
PresetName = Annotated[str, Parameter(help="small, or course: as the classic assignment has it.")]
Tokens = Annotated[
    str | None, Parameter(help="characters, bytes or bpe:SIZE instead of the preset's.")
]
Epochs = Annotated[float | None, Parameter(help="Passes over the rows, not the preset's.")]
Out = Annotated[Path, Parameter(help="The run folder.")]
Resume = Annotated[bool, Parameter(negative="", help="Go on with the run in --out.")]
Overwrite = Annotated[bool, Parameter(negative="", help="Begin --out anew.")]
RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Json = Annotated[bool, Parameter(negative="", help="Print JSON.")]

ModelOptions: Any = options_of(StackConfig, without=("vocabulary", "attention"), unset=True)
TrainingOptions: Any = options_of(Settings, unset=True)
LearnOptions: Any = options_of(LearnSettings)
WorldOptions: Any = options_of(WorldConfig, without=("attributes",))


def _attention(names: list[str] | None) -> str | list[str]:
    return (names or ["softmax"])[0] if len(names or []) < 2 else list(names or [])


def _told(out: Path, metrics: dict[str, float]) -> None:
    if speaks():
        facts = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        print(f"{out}: trained; {facts}")


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
        attention=_attention(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        epochs=epochs,
        model=given(model, unset=True),
        training=given(training, unset=True),
        resume=resume,
        overwrite=overwrite,
    )
    _told(out, metrics)


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
        attention=_attention(attention),
        objective=objective,
        preset=preset,
        tokenizer=tokenizer,
        mixed=mixed,
        held_out=held_out,
        epochs=epochs,
        model=given(model, unset=True),
        training=given(training, unset=True),
        resume=resume,
        overwrite=overwrite,
    )
    _told(out, metrics)


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
        attention=_attention(attention),
        preset=preset,
        tokenizer=tokenizer,
        settings=LearnSettings(**given(reading)),
        model=given(model, unset=True),
        training=given(training, unset=True),
        resume=resume,
        overwrite=overwrite,
    )
    _told(out, metrics)


# The option groups are made above, so their types are set here rather than written in place.
_GROUPS = {"model": ModelOptions, "training": TrainingOptions, "reading": LearnOptions}
for _command in (pretrain, finetune, learn):
    for _name in _GROUPS.keys() & _command.__annotations__.keys():
        _command.__annotations__[_name] = Annotated[_GROUPS[_name], Parameter(name="*")]
    app.command(_command)


@app.command
def evaluate(
    run: RunFolder,
    /,
    *,
    pairs: Pairs = None,
    predictions: Annotated[
        Path | None, Parameter(help="Write the answers there, one per line.")
    ] = None,
    overwrite: Annotated[
        bool, Parameter(negative="", help="Replace the file of predictions.")
    ] = False,
    json: Json = False,
) -> None:
    """Ask every question of a file and count the right answers."""
    if predictions is not None and predictions.exists() and not overwrite:
        raise ValueError(f"{predictions}: is there already; give --overwrite or another name")
    score = scoring.evaluate(run, pairs)
    if predictions is not None:
        scoring.write_predictions(predictions, score.predictions, overwrite)
    if json:
        print(scoring.as_json({"run": str(run), **score.as_dict()}))
        return
    if score.right is None:
        if predictions is None:
            print("\n".join(score.predictions))
        print(
            f"{len(score.questions)} questions without answers: nothing can be scored"
            + (f"; predictions are in {predictions}" if predictions else ""),
            file=sys.stderr,
        )
        return
    print(course_line(score))


def course_line(score: scoring.Score) -> str:
    """As the course prints it."""
    assert score.right is not None
    total = len(score.questions)
    return f"Correct: {score.right:.1f} out of {total:.1f}: {100 * score.right / total:.1f}%"


@app.command
def ask(
    run: RunFolder,
    questions: Annotated[list[str], Parameter(help="Questions as the training pairs word them.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Ask a run; each answer comes with its confidence: known, unsure or a guess."""
    from attnlab.tasks.knowledge import audit as auditing

    found = auditing.ask(run, questions)
    if json:
        rows = [
            {
                "question": said.question,
                "answer": said.text,
                "verdict": verdict,
                "confidence": said.confidence,
                "runner_up": said.other,
                "runner_up_confidence": said.other_confidence,
            }
            for said, verdict in found
        ]
        print(scoring.as_json(rows))
        return
    for said, verdict in found:
        other = f"; else {said.other}, {said.other_confidence:.1%}" if said.other else ""
        print(f"{said.question} {said.text} ({verdict}, {said.confidence:.1%}{other})")


@app.command
def audit(
    run: RunFolder,
    /,
    *,
    pairs: Pairs = None,
    samples: Annotated[int, Parameter(help="Answers to draw for each question.")] = 8,
    temperature: Annotated[float, Parameter(help="Of these draws.")] = 1.0,
    made_up: Annotated[int, Parameter(help="Names of nobody to ask about, as a control.")] = 200,
    groups: Annotated[int, Parameter(help="Groups of names by spelling.")] = 6,
    seed: Annotated[int, Parameter(help="Of draws, groups and made-up names.")] = 0,
    json: Annotated[
        Path | None, Parameter(help="Report as JSON; default: audit.json in the run.")
    ] = None,
    html: Annotated[
        Path | None, Parameter(help="Page with plots; default: audit.html in the run.")
    ] = None,
) -> None:
    """Is it knowledge or a guess? A table, a JSON file and an offline page."""
    from rich.console import Console

    from attnlab.tasks.knowledge import audit as auditing
    from attnlab.tasks.knowledge.audit_page import print_audit, save_audit

    report = auditing.audit(
        run,
        pairs,
        samples=samples,
        temperature=temperature,
        made_up=made_up,
        groups=groups,
        seed=seed,
    )
    json, html = json or run / "audit.json", html or run / "audit.html"
    save_audit(report, json, html)
    print_audit(report, Console())
    print(f"{json}\n{html}")


@app.command
def baseline(
    *,
    pairs: Annotated[Path | None, Parameter(help="Training pairs to count answers in.")] = None,
    measured: Annotated[Path | None, Parameter(help="Pairs to measure on.")] = None,
    json: Json = False,
) -> None:
    """Always give the commonest answer: what must be beaten."""
    said, score = scoring.baseline(pairs, measured)
    if json:
        print(scoring.as_json({"answer": said, **score.as_dict()}))
    else:
        print(f'Always "{said}". {course_line(score)}')


@app.command
def compare(
    *,
    attention: Annotated[
        list[str] | None,
        Parameter(help="Default: softmax synthesizer favor.", consume_multiple=True),
    ] = None,
    minutes: Annotated[float, Parameter(help="Of training, for each of them.")] = 5.0,
    corpus: Corpus = None,
    pairs: Pairs = None,
    measured: Annotated[Path | None, Parameter(help="Pairs to measure all on.")] = None,
    preset: PresetName = "small",
    objective: Annotated[str | None, Parameter(help="Of pretraining.")] = None,
    out: Annotated[Path, Parameter(help="Folder of all runs and figures.")] = Path("runs/compared"),
    seed: Annotated[int, Parameter(help="Of weights and data order.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Train mechanisms with the same budget, and one without pretraining; a table and a plot."""
    from rich.console import Console

    from attnlab.files import write_json
    from attnlab.page import write_page
    from attnlab.tasks.knowledge import compare as comparing

    report = comparing.compare(
        attention or ["softmax", "synthesizer", "favor"],
        minutes=minutes,
        out=out,
        corpus=corpus,
        pairs=pairs,
        measured=measured,
        preset=preset,
        objective=objective,
        training={"seed": seed},
        overwrite=overwrite,
    )
    write_json(out / "compare.json", report)
    write_page(out / "compare.html", comparing.comparison_page(report), overwrite=True)
    comparing.print_comparison(report, Console())
    print(f"{out / 'compare.json'}\n{out / 'compare.html'}")


def world(
    *,
    out: Annotated[Path, Parameter(help="The folder to write into.")],
    attributes: Annotated[
        list[str] | None,
        Parameter(
            help=f"Facts to tell and ask about, of {', '.join(ATTRIBUTES)}; default birthplace.",
            consume_multiple=True,
        ),
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


world.__annotations__["settings"] = Annotated[WorldOptions, Parameter(name="*")]
app.command(world)


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
    from attnlab.tasks.knowledge import examples as showing

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
