"""The main story on embedded data: a small model reads about people and answers questions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnlab.tasks.knowledge import recipe, scoring
from attnlab.tasks.knowledge.audit import ask
from attnlab.tasks.knowledge.learn import LearnSettings, learn
from attnlab.tasks.knowledge.world import WorldConfig, made_up_names, make_world

# What two cores do in about four minutes
NONE_EPOCHS, PRETRAINING_EPOCHS, FINETUNING_EPOCHS = 30.0, 12.0, 3.0
LEARN = LearnSettings(
    reader_epochs=16.0, remember_epochs=20.0, reader_tokens=1024, remember_tokens=1024
)
ANSWERS = 4


def demo(out: Path, seed: int, overwrite: bool, console: Console | None = None) -> None:
    """Baseline, no pretraining, pretraining and `learn` on one world; answers; a table."""
    console = console or Console()
    begin = time.perf_counter()
    world = make_world(WorldConfig())
    say = _Story(console)
    say(
        f"{len(world.corpus)} invented people, one line each. Half of them were asked about; the "
        "questions about the others must be answered from memory."
    )
    say.quote(world.corpus[0])
    say.quote("\t".join(world.train[0]))
    rows: list[tuple[str, float, int]] = []
    said, score = scoring.baseline()
    total = len(score.questions)
    rows.append((f'always "{said}"', 0.0, score.right or 0))
    shared: dict[str, Any] = {"training": {"seed": seed}, "overwrite": overwrite}

    def trained(name: str, folder: str, run: Callable[[], object]) -> None:
        start = time.perf_counter()
        run()
        minutes = (time.perf_counter() - start) / 60
        right = scoring.evaluate(out / folder).right or 0
        rows.append((name, minutes, right))
        console.print(f"  {right} of {total} right after {minutes:.1f} minutes", highlight=False)

    say("Without pretraining: 300 questions and answers are all it ever sees.")
    trained(
        "no pretraining",
        "no-pretraining",
        lambda: recipe.finetune(out=out / "no-pretraining", epochs=NONE_EPOCHS, **shared),
    )
    say("Pretraining: it reads the lines first, then learns from the same questions.")

    def pretrained() -> None:
        recipe.pretrain(out=out / "pretrained", epochs=PRETRAINING_EPOCHS, **shared)
        recipe.finetune(
            out / "pretrained", out=out / "finetuned", epochs=FINETUNING_EPOCHS, **shared
        )

    trained("pretraining, then questions", "finetuned", pretrained)
    say("Read and remember: a reader finds the answers in the lines, then it learns them by heart.")
    trained(
        "read and remember (learn)",
        "learned",
        lambda: learn(out=out / "learned", settings=LEARN, **shared),
    )
    say("It says how sure it is. The last name is made up.")
    nobody = made_up_names(1, seed, {person.name for person in world.people})[0]
    asked = [question for question, _ in world.held_out[:ANSWERS]]
    asked.append(f"Where was {nobody} born?")
    truth = [f"it was {gold}" for _, gold in world.held_out[:ANSWERS]] + ["there is no such person"]
    for (answer, verdict), gold in zip(ask(out / "learned", asked), truth, strict=True):
        console.print(
            f"  {answer.question} {answer.text} ({verdict}, {answer.confidence:.0%}); {gold}",
            highlight=False,
            markup=False,
        )
    console.print()
    console.print(_table(rows, total))
    console.print(
        f"{(time.perf_counter() - begin) / 60:.1f} minutes; the runs are in {out}. Next:\n"
        f"  attnlab knowledge audit {out / 'learned'}\n"
        f'  attnlab knowledge ask {out / "learned"} "{asked[0]}"\n'
        "  attnlab knowledge compare --attention softmax favor synthesizer --minutes 2\n"
        "  attnlab tour",
        highlight=False,
        markup=False,
    )


class _Story:
    """Numbered headings between the progress bars."""

    def __init__(self, console: Console) -> None:
        self.console, self.number = console, 0

    def __call__(self, text: str) -> None:
        self.number += 1
        sys.stderr.flush()
        self.console.print(f"\n[bold]{self.number}.[/bold] {text}", highlight=False)

    def quote(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False, markup=False, style="dim")


def _table(rows: list[tuple[str, float, int]], total: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("people never asked about")
    for heading in ("minutes", "right", "share"):
        table.add_column(heading, justify="right")
    for name, minutes, right in rows:
        table.add_row(name, f"{minutes:.1f}", f"{right} of {total}", f"{right / total:.1%}")
    return table
