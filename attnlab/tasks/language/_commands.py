"""attnlab language train | import | finetune | write | evaluate"""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import (
    Attention,
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    create_app,
    flag,
    flatten_options,
    layer_attention,
    option,
    option_values,
    options_of,
    print_training_result,
    start_mode,
)
from attnlab._help_groups import DATA, MODEL
from attnlab.generate import Sampling
from attnlab.models import StackConfig
from attnlab.tasks.language import _training as recipe
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.training import Settings

app = create_app(LANGUAGE.name, LANGUAGE.help)

ModelOptions: Any = options_of(
    StackConfig, without=("vocabulary", "context"), attention=list[str] | None
)
TrainingOptions: Any = options_of(Settings)
TEXT_FILES = "Text files, or .jsonl files with a text field"


@app.command
@flatten_options(model=ModelOptions, training=TrainingOptions)
def train(
    files: Annotated[
        list[Path] | None,
        option(f"{TEXT_FILES}. Without them, use the documentation of installed packages."),
    ] = None,
    /,
    *,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    context: Annotated[
        int,
        option(
            "Longest text in training, in tokens. With learned positions, the model reads no "
            "longer text later."
        ),
    ] = 256,
    training: Any = TrainingOptions(),  # noqa: B008
    objective: Annotated[
        str,
        option("Training objective: causal (predict the next token) or masked (fill gaps).", MODEL),
    ] = "causal",
    tokenizer: Annotated[
        str,
        option(
            "Tokenizer: characters, bytes or bpe. bpe learns from at most about 32 million "
            "characters, a random sample of a longer text.",
            DATA,
        ),
    ] = "characters",
    vocabulary: Annotated[
        int, option("Number of token ids of the byte-pair tokenizer.", DATA)
    ] = 4096,
    characters: Annotated[
        int, option("Number of characters of documentation to read, if you give no files.", DATA)
    ] = 4_000_000,
    out: Out = Path("runs/language"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a language model on text files."""
    stack_settings = option_values(model)
    attention = layer_attention(stack_settings.pop("attention"))
    stack = StackConfig(vocabulary=1, context=context, attention=attention, **stack_settings)
    metrics = recipe.train_language(
        files or [],
        out=out,
        objective=objective,
        tokenizer=tokenizer,
        tokenizer_size=vocabulary,
        characters=characters,
        model=stack,
        settings=Settings(**option_values(training)),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics, "validation ")


@app.command(name="import")
def import_model(
    folder: Annotated[
        Path, option("Folder of a Hugging Face model, with config.json and safetensors, or .gguf.")
    ],
    /,
    *,
    out: Out = Path("runs/imported"),
    attention: Attention = None,
    context: Annotated[
        int | None,
        option("Longest text in training, in tokens. Without it, 1024 or the model's own."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Turn a Hugging Face model into a run: GPT-2, Llama, Mistral, Qwen, Gemma or BERT."""
    from attnlab.tasks.language._import import import_language

    chosen = None if attention is None else layer_attention(attention)
    start = start_mode(False, overwrite)
    model = import_language(folder, out=out, attention=chosen, context=context, start=start)
    print(f"{out}: imported; {model.kind}, {model.parameter_count():,} parameters")


@app.command
@flatten_options(training=TrainingOptions)
def finetune(
    run: RunFolder,
    files: Annotated[list[Path], option(f"{TEXT_FILES}.")],
    /,
    *,
    attention: Attention = None,
    context: Annotated[
        int | None, option("Longest text, in tokens. Without it, the run's own.")
    ] = None,
    training: Any = TrainingOptions(),  # noqa: B008
    out: Out = Path("runs/finetuned"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train the model of a run further, on other texts or with another attention."""
    metrics = recipe.finetune(
        run,
        files,
        out=out,
        attention=None if attention is None else layer_attention(attention),
        context=context,
        settings=Settings(**option_values(training)),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics, "validation ")


@app.command
def write(
    run: RunFolder,
    /,
    *,
    prompt: Annotated[str, option("Text to continue.", show_default=False)] = "",
    max_new_tokens: Annotated[
        int | None,
        option(
            "Largest number of tokens to write. Without it, 200, or fewer if the context is full."
        ),
    ] = None,
    temperature: Annotated[
        float,
        option(
            "Sampling temperature. 1 follows the model's probabilities; 0 takes the most likely "
            "token."
        ),
    ] = 0.8,
    top_k: Annotated[int | None, option("Sample from the k most likely tokens only.")] = None,
    top_p: Annotated[
        float | None,
        option("Sample from the most likely tokens whose probabilities add up to p."),
    ] = None,
    count: Annotated[int, option("Number of texts to write.")] = 1,
    block_repeats: Annotated[
        int | None, option("Never write the same n tokens in a row twice.")
    ] = None,
    beams: Annotated[
        int | None,
        option("Search for the most likely text with this many beams instead of sampling."),
    ] = None,
    ignore_end: Annotated[bool, flag("Continue after the end of a text.")] = False,
    seed: Annotated[int, option("Random seed for sampling.")] = 0,
) -> None:
    """Write a continuation of a text, and print it token by token."""
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)

    printed: list[str] = []

    def show(text: str) -> None:
        sys.stdout.write(text if printed else prompt + text)
        sys.stdout.flush()
        printed.append(text)

    written = recipe.write(
        run,
        [prompt],
        new_tokens=max_new_tokens,
        sampling=sampling,
        samples=count,
        stop=not ignore_end,
        block_repeats=block_repeats,
        on_text=show,
        beams=beams,
    )
    if not printed:  # beam search has no text before its end
        show(written[0][0])
    print()
    for text in written[0][1:]:
        print(f"---\n{prompt}{text}")


@app.command
def evaluate(
    run: RunFolder,
    files: Annotated[list[Path], option(f"{TEXT_FILES}.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Evaluate a run on text files: bits per character, or accuracy on masked tokens."""
    metrics = recipe.evaluate(run, files)
    if json:
        print(json_format.dumps(metrics, indent=2))
        return
    headline = (
        f"{metrics['bits']:.4f} bits per character"
        if "bits" in metrics
        else f"masked tokens: loss {metrics['loss']:.4f}, accuracy {metrics['accuracy']:.1%}"
    )
    replaced = f", {metrics['unknown']} unknown replaced" if metrics["unknown"] else ""
    print(f"{headline} ({metrics['characters']:,} characters{replaced})")
