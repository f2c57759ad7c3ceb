"""attnlab summary train | evaluate | write | masks"""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from shutil import get_terminal_size
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
    options_of,
    start_mode,
    told,
)
from attnlab.tasks.summary import _scoring as scoring
from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.summary._data_sources import BUILT_IN
from attnlab.tasks.summary._generation import Way, Written, check_texts, loops, write_all
from attnlab.tasks.summary._input_texts import Text, read_texts
from attnlab.tasks.summary._pairs import Columns
from attnlab.tasks.summary._presets import SummaryModel
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.training import Settings

app = App(name=SUMMARY.name, help=SUMMARY.help, help_format="plaintext")

Data = Annotated[
    str,
    Parameter(help=f"{' or '.join(BUILT_IN)}, or a .jsonl, .csv or .tsv file of texts."),
]
TextColumn = Annotated[str, Parameter(help="Column of a file that holds the text.")]
SummaryColumn = Annotated[str, Parameter(help="Column of a file that holds the summary.")]
GroupColumn = Annotated[
    str | None, Parameter(help="Column of what must not be parted by the split.")
]

ModelOptions: Any = options_of(SummaryModel)
TrainingOptions: Any = options_of(Settings, unset=True)
WayOptions: Any = options_of(Way)
OneOptions: Any = options_of(Way, without=("count",))  # only the first would be measured
ComparedOptions: Any = options_of(
    SummaryModel, without=("attention", "decoder_attention", "cross_attention")
)


@app.command
@grouped(model=ModelOptions, training=TrainingOptions)
def train(
    *,
    data: Data = "docstrings",
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    group_column: GroupColumn = None,
    held_out: Annotated[
        float, Parameter(help="Share for validation, and as much for the test.")
    ] = recipe.SHARE,
    limit: Annotated[int | None, Parameter(help="Take only so many pairs.")] = None,
    out: Out = Path("runs/summary"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
    training: Any = TrainingOptions(),  # noqa: B008
) -> None:
    """Train an encoder-decoder on texts with summaries."""
    metrics = recipe.train(
        data,
        out=out,
        columns=Columns(text_column, summary_column, group_column),
        held_out=held_out,
        limit=limit,
        model=SummaryModel(**given(model)),
        training=given(training, unset=True),
        start=start_mode(resume, overwrite),
    )
    told(out, metrics, "validation ")


@app.command
@grouped(way=OneOptions)
def evaluate(
    run: RunFolder,
    /,
    *,
    data: Annotated[
        str | None, Parameter(help="Another file; default: what the run held out.")
    ] = None,
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    part: Annotated[str, Parameter(help="Of the run's own: test or validation.")] = "test",
    limit: Annotated[int | None, Parameter(help="Only the first so many.")] = None,
    predictions: Annotated[
        Path | None, Parameter(help="Write the summaries there, one per line.")
    ] = None,
    overwrite: Annotated[
        bool, Parameter(negative="", help="Replace the file of predictions.")
    ] = False,
    json: Json = False,
    way: Any = OneOptions(),  # noqa: B008
) -> None:
    """ROUGE on held-out texts, beside the first words and the best words in order."""
    from rich.console import Console

    from attnlab._safe_files import check_new

    if predictions is not None:
        check_new(predictions, overwrite)
    found = scoring.evaluate(
        run,
        data,
        Columns(text_column, summary_column),
        part=part,
        limit=limit,
        way=Way(**given(way)),
    )
    if predictions is not None:
        scoring.write_predictions(predictions, found.written)
    if json:
        print(json_format.dumps({"run": str(run), **found.as_dict()}, indent=2))
    else:
        scoring.print_evaluation(found, Console())


@app.command
@grouped(way=WayOptions)
def write(
    run: RunFolder,
    files: Annotated[
        list[Path] | None, Parameter(help="Each is one text; none: standard input.")
    ] = None,
    /,
    *,
    lines: Annotated[
        bool, Parameter(negative="", help="Each line is a text, not each file.")
    ] = False,
    explain: Annotated[
        Path | None, Parameter(help="A page of where each word of the first text's came from.")
    ] = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the page.")] = False,
    json: Json = False,
    way: Any = WayOptions(),  # noqa: B008
) -> None:
    """Summarize texts: one each, or several with their log-probabilities. […]: it has no end."""
    from attnlab.report._page import check_page

    chosen = Way(**given(way))
    if explain is not None:
        check_page(explain, overwrite)
    model, wording, _ = recipe.load_summary(run)
    texts = read_texts(files or [], lines)
    if not texts:
        raise ValueError("no line has words; give texts")
    contents = [text.content for text in texts]
    for note in check_texts(contents, wording, [text.name for text in texts]):
        print(note, file=sys.stderr)
    found = write_all(model, wording, contents, chosen)
    if json:
        rows = [_as_json(*each, wording) for each in zip(texts, found, strict=True)]
        print(json_format.dumps(rows, indent=2))
    else:
        _print_written(found, chosen)
    few = sum(len(each) < chosen.count for each in found)
    if few:
        print(
            f"{few} of {len(found)} texts have fewer than {chosen.count} different summaries; "
            "more beams or a higher temperature may find more",
            file=sys.stderr,
        )
    if explain is not None:
        _explain(run, contents[0], found[0][0], explain, overwrite)


def _explain(run: Path, text: str, best: Written, page: Path, overwrite: bool) -> None:
    """It opens on the last cross-attention: the copy head's where there is one."""
    from attnlab.interpret._look import look
    from attnlab.tasks.summary._inspected_model import explained

    title = f"Where each word came from: {best.text}"
    seen = look(explained(run, best.ids), text, pair=best.text, title=title)
    cross = [layer.name for layer in seen.sides[0].layers if layer.kind == "cross"]
    seen.opening("cross", cross[-1]).save(page, overwrite=overwrite)
    print(f"{page}: open it in a browser", file=sys.stderr)


def _as_json(text: Text, choices: list[Written], wording: Wording) -> dict[str, Any]:
    """`tokens` were read, and the last `cut` of the text were not."""
    kept, cut = wording.source(text.content)
    summaries = [
        {
            "summary": each.text,
            "log_probability": each.log_probability,
            **({} if each.score is None else {"score": each.score}),
            "finished": each.finished,
            "loops": loops(each.text),
        }
        for each in choices
    ]
    return {"text": text.name, "tokens": len(kept), "cut": cut, "summaries": summaries}


def _print_written(found: list[list[Written]], way: Way) -> None:
    """Several stand below what they are ordered by."""
    scored = way.width is not None
    for number, choices in enumerate(found):
        if way.count > 1:
            lead = "\n" if number else ""
            print(f"{lead}{'score  ' if scored else ''}log-probability")
        for each in choices:
            known = f"{each.log_probability:15.2f}  "
            if each.score is not None:
                known = f"{each.score:5.2f}  {known}"
            end = "" if each.finished else " […]"
            print(f"{known if way.count > 1 else ''}{each.text}{end}")


@app.command
def masks(
    *,
    data: Data = "docstrings",
    text_column: TextColumn = "text",
    summary_column: SummaryColumn = "summary",
    run: Annotated[Path | None, Parameter(help="Take its tokens; else learned here.")] = None,
    texts: Annotated[int, Parameter(help="Of the batch.")] = 3,
    tokens: Annotated[
        int | None,
        Parameter(
            help="Longest text, or summary, that is drawn; 32, or more where all are longer."
        ),
    ] = None,
    out: Annotated[Path | None, Parameter(help="A picture too, NAME.svg.")] = None,
    seed: Annotated[int, Parameter(help="Of which texts are drawn.")] = 0,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the picture.")] = False,
) -> None:
    """Draw the four masks of a batch: encoder padding, decoder padding, cross, decoder self."""
    from attnlab._safe_files import check_new, write_text
    from attnlab.tasks.summary import _mask_pictures as drawing

    if out is not None:
        if out.suffix != ".svg":
            raise ValueError(f"{out}: the picture is an SVG; name it NAME.svg")
        check_new(out, overwrite)
    columns = Columns(text_column, summary_column)
    found = drawing.example(data, columns, run=run, texts=texts, tokens=tokens, seed=seed)
    print(drawing.in_terminal(found, get_terminal_size().columns))
    if out is not None:
        write_text(out, drawing.as_picture(found))
        print(out)
