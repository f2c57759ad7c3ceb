"""attnlab language train | write | evaluate"""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab._command_options import (
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    given,
    grouped,
    one_or_each,
    options_of,
    start_mode,
    told,
)
from attnlab.generate import Sampling
from attnlab.models import StackConfig
from attnlab.tasks.language import _training as recipe
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.training import Settings

app = App(name=LANGUAGE.name, help=LANGUAGE.help, help_format="plaintext")

ModelOptions: Any = options_of(
    StackConfig, without=("vocabulary", "context"), attention=list[str] | None
)
TrainingOptions: Any = options_of(Settings)


@app.command
@grouped(model=ModelOptions, training=TrainingOptions)
def train(
    files: Annotated[
        list[Path] | None,
        Parameter(help="Text files, or .jsonl with a text field; none: installed documentation."),
    ] = None,
    /,
    *,
    objective: Annotated[str, Parameter(help="causal or masked.")] = "causal",
    tokenizer: Annotated[str, Parameter(help="characters, bytes or bpe.")] = "characters",
    tokenizer_size: Annotated[int, Parameter(help="bpe: number of token ids.")] = 4096,
    characters: Annotated[
        int, Parameter(help="How much documentation to gather, without files.")
    ] = 4_000_000,
    context: Annotated[int, Parameter(help="Longest text that the model learns from.")] = 256,
    out: Out = Path("runs/language"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Train a language model on text files."""
    settings = given(model)
    attention = one_or_each(settings.pop("attention"))
    stack = StackConfig(vocabulary=1, context=context, attention=attention, **settings)
    metrics = recipe.train_language(
        files or [],
        out=out,
        objective=objective,
        tokenizer=tokenizer,
        tokenizer_size=tokenizer_size,
        characters=characters,
        model=stack,
        settings=Settings(**given(training)),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics, "validation ")


@app.command
def write(
    run: RunFolder,
    /,
    *,
    prompt: Annotated[str, Parameter(help="The text to go on from.")] = "",
    tokens: Annotated[
        int | None, Parameter(help="At most so many new tokens; default 200, or what fits.")
    ] = None,
    temperature: Annotated[float, Parameter(help="0 takes the likeliest token.")] = 0.8,
    top_k: Annotated[int | None, Parameter(help="Choose among the k likeliest.")] = None,
    top_p: Annotated[float | None, Parameter(help="Choose among the likeliest p of all.")] = None,
    samples: Annotated[int, Parameter(help="Write so many texts.")] = 1,
    block_repeats: Annotated[int | None, Parameter(help="No n tokens in a row twice.")] = None,
    beams: Annotated[
        int | None, Parameter(help="Search the likeliest text with so many beams.")
    ] = None,
    go_on: Annotated[bool, Parameter(negative="", help="Do not stop at the text's end.")] = False,
    seed: Annotated[int, Parameter(help="Of the choices.")] = 0,
) -> None:
    """Continue a text, shown as it is written."""
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)

    begun: list[str] = []

    def show(text: str) -> None:
        sys.stdout.write(text if begun else prompt + text)
        sys.stdout.flush()
        begun.append(text)

    written = recipe.write(
        run,
        [prompt],
        new_tokens=tokens,
        sampling=sampling,
        samples=samples,
        stop=not go_on,
        block_repeats=block_repeats,
        on_text=show,
        beams=beams,
    )
    if not begun:  # beams come all at once
        show(written[0][0])
    print()
    for text in written[0][1:]:
        print(f"---\n{prompt}{text}")


@app.command
def evaluate(
    run: RunFolder,
    files: Annotated[list[Path], Parameter(help="Text files, or .jsonl with a text field.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Measure a model on text files: bits per character, or masked-token accuracy."""
    found = recipe.evaluate(run, files)
    if json:
        print(json_format.dumps(found, indent=2))
        return
    headline = (
        f"{found['bits']:.4f} bits per character"
        if "bits" in found
        else f"masked tokens: loss {found['loss']:.4f}, accuracy {found['accuracy']:.1%}"
    )
    replaced = f", {found['unknown']} unknown replaced" if found["unknown"] else ""
    print(f"{headline} ({found['characters']:,} characters{replaced})")
