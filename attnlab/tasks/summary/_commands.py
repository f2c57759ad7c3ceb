"""attnlab summary train | evaluate | write | masks"""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

from attnlab._command_options import (
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    create_app,
    flag,
    flatten_options,
    option,
    option_values,
    options_of,
    print_training_result,
    start_mode,
)
from attnlab._help_groups import DATA, OUTPUT
from attnlab.tasks.summary import _scoring as scoring
from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.summary._data_sources import BUILT_IN
from attnlab.tasks.summary._generation import (
    GeneratedSummary,
    GenerationMethod,
    check_texts,
    is_looping,
    write_summaries,
)
from attnlab.tasks.summary._input_texts import InputText, read_texts
from attnlab.tasks.summary._pairs import Columns
from attnlab.tasks.summary._presets import TRAINING as TRAINING_DEFAULTS
from attnlab.tasks.summary._presets import SummaryModel
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.training import Settings

app = create_app(SUMMARY.name, SUMMARY.help)

Data = Annotated[
    str,
    option(f"Texts with summaries: {', '.join(BUILT_IN)}, or a .jsonl, .csv or .tsv file."),
]
TextColumn = Annotated[str, option("Column of the file that holds the text.", DATA)]
SummaryColumn = Annotated[str, option("Column of the file that holds the summary.", DATA)]
GroupColumn = Annotated[
    str | None,
    option("Column to group by. Rows with the same value stay in the same split.", DATA),
]

ModelOptions: Any = options_of(SummaryModel)
TrainingOptions: Any = options_of(Settings, optional=True, defaults=TRAINING_DEFAULTS)
MethodOptions: Any = options_of(GenerationMethod)
SingleMethodOptions: Any = options_of(
    GenerationMethod, without=("count",)
)  # only the first would be evaluated
ComparedOptions: Any = options_of(
    SummaryModel, without=("attention", "decoder_attention", "cross_attention")
)


@app.command
@flatten_options(model=ModelOptions, training=TrainingOptions)
def train(
    *,
    data: Data = "docstrings",
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    group_column: GroupColumn = None,
    held_out: Annotated[
        float,
        option("Fraction of the pairs for validation, and the same fraction for the test.", DATA),
    ] = recipe.HELD_OUT_FRACTION,
    limit: Annotated[int | None, option("Number of pairs to use. Without it, use all.")] = None,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    training: Any = TrainingOptions(),  # noqa: B008
    out: Out = Path("runs/summary"),
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train an encoder-decoder on texts with summaries."""
    metrics = recipe.train(
        data,
        out=out,
        columns=Columns(text_column, summary_column, group_column),
        held_out=held_out,
        limit=limit,
        model=SummaryModel(**option_values(model)),
        training=option_values(training, set_only=True),
        start=start_mode(resume, overwrite),
    )
    print_training_result(out, metrics, "validation ")


@app.command
@flatten_options(method=SingleMethodOptions)
def evaluate(
    run: RunFolder,
    /,
    *,
    data: Annotated[
        str | None,
        option("File of other texts to evaluate on. Without it, the texts that the run held out."),
    ] = None,
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    split: Annotated[
        str, option("Split of the run's own texts to evaluate on: test or validation.")
    ] = "test",
    limit: Annotated[int | None, option("Number of pairs to use. Without it, use all.")] = None,
    predictions: Annotated[
        Path | None, option("File to write the summaries to, one per line.", OUTPUT)
    ] = None,
    overwrite: Annotated[bool, flag("Replace the file of --predictions.", OUTPUT)] = False,
    json: Json = False,
    method: Any = SingleMethodOptions(),  # noqa: B008
) -> None:
    """Evaluate a run on held-out texts: ROUGE, beside two baselines without a model."""
    from rich.console import Console

    from attnlab._safe_files import check_output_file

    if predictions is not None:
        check_output_file(predictions, overwrite)
    evaluation = scoring.evaluate(
        run,
        data,
        Columns(text_column, summary_column),
        part=split,
        limit=limit,
        method=GenerationMethod(**option_values(method)),
    )
    if predictions is not None:
        scoring.write_predictions(predictions, evaluation.written)
    if json:
        print(json_format.dumps({"run": str(run), **evaluation.as_dict()}, indent=2))
    else:
        scoring.print_evaluation(evaluation, Console())


@app.command
@flatten_options(method=MethodOptions)
def write(
    run: RunFolder,
    files: Annotated[
        list[Path] | None, option("Files with one text each. Without them, read standard input.")
    ] = None,
    /,
    *,
    lines: Annotated[bool, flag("Treat each line as a text, instead of each file.")] = False,
    method: Any = MethodOptions(),  # noqa: B008
    explain: Annotated[
        Path | None,
        option("Page to write about where each word of the first summary came from.", OUTPUT),
    ] = None,
    overwrite: Annotated[bool, flag("Replace the page of --explain.", OUTPUT)] = False,
    json: Json = False,
) -> None:
    """Summarize texts, with one or several summaries each.

    Several summaries are printed with their log-probabilities.
    […] at the end of a summary means that it was stopped at the longest length.
    """
    from attnlab.report._page import check_page

    generation = GenerationMethod(**option_values(method))
    if explain is not None:
        check_page(explain, overwrite)
    model, encoding, _ = recipe.load_summary(run)
    texts = read_texts(files or [], lines)
    if not texts:
        raise ValueError("no text to summarize; every line is empty")
    contents = [text.content for text in texts]
    for note in check_texts(contents, encoding, [text.name for text in texts]):
        print(note, file=sys.stderr)
    summaries = write_summaries(model, encoding, contents, generation)
    if json:
        rows = [
            _as_json(text, choices, encoding)
            for text, choices in zip(texts, summaries, strict=True)
        ]
        print(json_format.dumps(rows, indent=2))
    else:
        _print_written(summaries, generation)
    few = sum(len(choices) < generation.count for choices in summaries)
    if few:
        print(
            f"{few} of {len(summaries)} texts have fewer than {generation.count} different "
            "summaries; more beams or a higher temperature may give more",
            file=sys.stderr,
        )
    if explain is not None:
        _explain(run, contents[0], summaries[0][0], explain, overwrite)


def _explain(run: Path, text: str, best: GeneratedSummary, page: Path, overwrite: bool) -> None:
    """The page opens on the last cross-attention, which is the copy head's if there is one."""
    from attnlab.interpret._look import look
    from attnlab.tasks.summary._inspected_model import open_run_with_summary

    title = f"Where each word came from: {best.text}"
    looked = look(open_run_with_summary(run, best.ids), text, pair=best.text, title=title)
    cross = [layer.name for layer in looked.panels[0].layers if layer.kind == "cross"]
    looked.open_at("cross", cross[-1]).save(page, overwrite=overwrite)
    print(f"{page}: open it in a browser", file=sys.stderr)


def _as_json(
    text: InputText, choices: list[GeneratedSummary], encoding: SummaryTextEncoding
) -> dict[str, Any]:
    """`tokens` counts those that were read, `cut` those at the end that were not."""
    tokens, cut = encoding.encode_source(text.content)
    summaries = [
        {
            "summary": each.text,
            "log_probability": each.log_probability,
            **({} if each.score is None else {"score": each.score}),
            "finished": each.finished,
            "loops": is_looping(each.text),
        }
        for each in choices
    ]
    return {"text": text.name, "tokens": len(tokens), "cut": cut, "summaries": summaries}


def _print_written(summaries: list[list[GeneratedSummary]], method: GenerationMethod) -> None:
    """Several summaries have a column for what they are ordered by."""
    scored = method.width is not None
    for number, choices in enumerate(summaries):
        if method.count > 1:
            lead = "\n" if number else ""
            print(f"{lead}{'score  ' if scored else ''}log-probability")
        for written in choices:
            columns = f"{written.log_probability:15.2f}  "
            if written.score is not None:
                columns = f"{written.score:5.2f}  {columns}"
            end = "" if written.finished else " […]"
            print(f"{columns if method.count > 1 else ''}{written.text}{end}")


@app.command
def masks(
    *,
    data: Data = "docstrings",
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    run: Annotated[
        Path | None, option("Run whose tokenizer to use. Without it, train one on the texts.")
    ] = None,
    texts: Annotated[int, option("Number of texts in the batch.")] = 3,
    tokens: Annotated[
        int | None,
        option(
            "Longest text and summary to draw, in tokens. Without it, 32, or more if all are "
            "longer."
        ),
    ] = None,
    seed: Annotated[int, option("Random seed for the choice of texts.")] = 0,
    out: Annotated[Path | None, option("Picture to write, as NAME.svg.")] = None,
    overwrite: Annotated[bool, flag("Replace the picture of --out.")] = False,
) -> None:
    """Draw the four masks of a batch: encoder and decoder padding, cross-attention, causal."""
    from attnlab._safe_files import check_output_file, write_text
    from attnlab.tasks.summary import _mask_pictures as drawing

    if out is not None:
        if out.suffix != ".svg":
            raise ValueError(f"{out}: the picture is an SVG file; name it NAME.svg")
        check_output_file(out, overwrite)
    columns = Columns(text_column, summary_column)
    batch = drawing.example_masks(data, columns, run=run, texts=texts, tokens=tokens, seed=seed)
    print(drawing.format_masks(batch, get_terminal_size().columns))
    if out is not None:
        write_text(out, drawing.render_svg(batch))
        print(out)
