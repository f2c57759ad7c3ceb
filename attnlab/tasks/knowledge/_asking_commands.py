"""attnlab knowledge evaluate | ask | audit | baseline: what a run has learned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab._command_options import Json, RunFolder
from attnlab.tasks.knowledge import _scoring as scoring

Pairs = Annotated[Path | None, Parameter(help="Lines of question, tab, answer.")]


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
    print(score.line())


def ask(
    run: RunFolder,
    questions: Annotated[list[str], Parameter(help="Questions as the training pairs word them.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Ask a run; each answer comes with its confidence: known, unsure or a guess."""
    from attnlab.tasks.knowledge import _audit as auditing

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

    from attnlab.tasks.knowledge import _audit as auditing
    from attnlab.tasks.knowledge._audit_report import print_audit, save_audit

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
        print(f'Always "{said}". {score.line()}')
