"""attnlab knowledge evaluate | ask | audit | baseline: what a run has learned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attnlab._command_options import Json, RunFolder, flag, option
from attnlab.tasks.knowledge import _scoring as scoring

if TYPE_CHECKING:
    from attnlab.tasks.knowledge._answers import Answer

Pairs = Annotated[
    Path | None,
    option(
        "File of questions to evaluate on: question, tab, answer. Without it, the held-out "
        "questions about the built-in people."
    ),
]


def evaluate(
    run: RunFolder,
    /,
    *,
    pairs: Pairs = None,
    predictions: Annotated[
        Path | None, option("File to write the answers to, one per line.")
    ] = None,
    overwrite: Annotated[bool, flag("Replace the file of --predictions.")] = False,
    json: Json = False,
) -> None:
    """Evaluate a run: ask it every question of a file and count the right answers."""
    if predictions is not None and predictions.exists() and not overwrite:
        raise ValueError(f"{predictions}: already exists; give --overwrite or another name")
    score = scoring.evaluate(run, pairs)
    if predictions is not None:
        scoring.write_predictions(predictions, score.predictions, overwrite)
    if not scoring.learned_questions(run):
        print(
            f"attnlab: note: {run}: this run was never finetuned on questions, so it cannot answer "
            f"them; train it with attnlab knowledge finetune {run}",
            file=sys.stderr,
        )
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
    print(score.line())


def ask(
    run: RunFolder,
    questions: Annotated[
        list[str], option("Questions, phrased like those that the run was trained on.")
    ],
    /,
    *,
    json: Json = False,
) -> None:
    """Ask a run questions. Each answer has a confidence and a verdict.

    The verdict is known, unsure, guess, not in what I read (a name that the run did not learn), or
    another kind of question (worded like no question that the run was trained on).
    """
    from attnlab.tasks.knowledge import _audit as auditing
    from attnlab.tasks.knowledge._certainty import Certainty

    answers = auditing.ask(run, questions)
    certainty = Certainty.load(run)
    if not certainty.fitted:
        print(
            f"attnlab: note: {run}: its thresholds were fitted on {certainty.fitted_on}; so no "
            "answer is called known",
            file=sys.stderr,
        )
    if json:
        rows = [
            {
                "question": answer.question,
                "answer": answer.text,
                "verdict": verdict,
                "confidence": answer.confidence,
                "nothing": answer.nothing,
                "runner_up": answer.other,
                "runner_up_confidence": answer.other_confidence,
            }
            for answer, verdict in answers
        ]
        print(scoring.as_json(rows))
        return
    for answer, verdict in answers:
        print(f"{answer.question} {_describe_answer(answer, str(verdict))}")


def _describe_answer(answer: Answer, verdict: str) -> str:
    """The answer with its verdict. Without knowledge the verdict comes first."""
    other = f"; else {answer.other}, {answer.other_confidence:.1%}" if answer.other else ""
    if verdict in ("not in what I read", "another kind of question"):
        return f"({verdict}; it would guess {answer.text}, {answer.confidence:.1%})"
    return f"{answer.text} ({verdict}, {answer.confidence:.1%}{other})"


def audit(
    run: RunFolder,
    /,
    *,
    pairs: Pairs = None,
    samples: Annotated[int, option("Number of answers to sample for each question.")] = 8,
    temperature: Annotated[
        float, option("Sampling temperature. 1 follows the model's probabilities.")
    ] = 1.0,
    invented_names: Annotated[
        int, option("Number of made-up names of each kind to ask about, as a control.")
    ] = 200,
    groups: Annotated[int, option("Number of groups of names with similar spelling.")] = 6,
    seed: Annotated[int, option("Random seed for sampling, groups and made-up names.")] = 0,
    json: Annotated[
        Path | None, option("JSON file to write. Without it, audit.json in the run folder.")
    ] = None,
    html: Annotated[
        Path | None, option("HTML page to write. Without it, audit.html in the run folder.")
    ] = None,
    overwrite: Annotated[bool, flag("Replace the files of --json and --html.")] = False,
) -> None:
    """Audit a run: does it know its answers, or does it guess? Prints a table, writes a page."""
    from rich.console import Console

    from attnlab.tasks.knowledge import _audit as auditing
    from attnlab.tasks.knowledge._audit_report import print_audit, save_audit

    json, html = json or run / "audit.json", html or run / "audit.html"
    for path in (json, html):
        if path.exists() and not overwrite:
            raise ValueError(f"{path}: already exists; give --overwrite or another name")
    report = auditing.audit(
        run,
        pairs,
        samples=samples,
        temperature=temperature,
        made_up=invented_names,
        groups=groups,
        seed=seed,
    )
    save_audit(report, json, html)
    print_audit(report, Console())
    print(f"{json}\n{html}")


def baseline(
    *,
    pairs: Annotated[
        Path | None,
        option("File of training questions, for the most frequent answer: question, tab, answer."),
    ] = None,
    evaluation_pairs: Annotated[
        Path | None, option("File of questions to evaluate on: question, tab, answer.")
    ] = None,
    json: Json = False,
) -> None:
    """Evaluate the baseline that always gives the most common answer."""
    answer, score = scoring.baseline(pairs, evaluation_pairs)
    if json:
        print(scoring.as_json({"answer": answer, **score.as_dict()}))
    else:
        print(f'Always "{answer}". {score.line()}')
