"""Count right answers: of a run, and of a baseline that always gives the same answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab._safe_files import write_text
from attnlab.run_folder import read_config
from attnlab.tasks.knowledge._answers import answer_greedily
from attnlab.tasks.knowledge._data import WORLD, most_common_answer, read_pairs, read_questions
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import WorldConfig, make_world


@dataclass(frozen=True)
class Score:
    """Answers to a list of questions. `answers` has the right ones, if they are known."""

    questions: list[str]
    predictions: list[str]
    answers: list[str] | None

    @property
    def right(self) -> int | None:
        if self.answers is None:
            return None
        return sum(p == a for p, a in zip(self.predictions, self.answers, strict=True))

    @property
    def accuracy(self) -> float | None:
        return None if self.right is None else self.right / len(self.questions)

    def as_dict(self) -> dict[str, Any]:
        scores = {} if self.right is None else {"right": self.right, "accuracy": self.accuracy}
        return {"questions": len(self.questions), **scores}

    def line(self) -> str:
        """The line that the course prints."""
        if self.right is None:
            raise ValueError("the right answers are not known, so there is nothing to count")
        total = len(self.questions)
        return f"Correct: {self.right:.1f} out of {total:.1f}: {100 * self.right / total:.1f}%"


def questions_for(
    folder: str | Path, config: dict[str, Any], pairs: str | Path | None
) -> tuple[list[str], list[str] | None]:
    """Questions and right answers of a file, or the held-out ones of the embedded world."""
    if pairs is not None:
        rows = read_questions(pairs)
        answers = [gold for _, gold in rows if gold is not None]
        return [question for question, _ in rows], answers or None
    if config["task"].get("corpus") != WORLD:
        raise ValueError(
            f"{folder}: was trained on your own files; give --pairs with questions to evaluate "
            "it on"
        )
    held = make_world(WorldConfig()).held_out
    return [question for question, _ in held], [gold for _, gold in held]


def evaluate(folder: str | Path, pairs: str | Path | None = None) -> Score:
    """Answer all questions of the file.

    >>> from attnlab.tasks.knowledge import evaluate, finetune
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> _ = finetune(out="finetuned", **options)
    >>> score = evaluate("finetuned")
    >>> 0 <= score.right <= len(score.questions)
    True
    """
    model, tokens, config = load_knowledge(folder)
    questions, answers = questions_for(folder, config, pairs)
    return Score(
        questions, answer_greedily(model, KnowledgeTextEncoding(tokens), questions), answers
    )


def learned_questions(folder: str | Path) -> bool:
    """Whether a run was trained on questions. A pretrained one has read documents only."""
    return bool(read_config(Path(folder)).content["task"].get("stage") != "pretrain")


def write_predictions(path: str | Path, predictions: Sequence[str], overwrite: bool) -> None:
    """Write one answer per line, in the order of the questions."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: already exists; give --overwrite or another name")
    text = "".join(" ".join(line.split()) + "\n" for line in predictions)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def baseline(
    pairs: str | Path | None = None, measured: str | Path | None = None
) -> tuple[str, Score]:
    """The score of always giving the most frequent answer of the training pairs.

    >>> from attnlab.tasks.knowledge import baseline
    >>> answer, score = baseline()  # on the built-in people
    >>> score.right < len(score.questions)
    True
    """
    if (pairs is None) != (measured is None):
        raise ValueError("--pairs and --evaluation-pairs belong together; give both files or none")
    if pairs is None or measured is None:
        world = make_world(WorldConfig())
        train_pairs, rows = world.train, world.held_out
    else:
        train_pairs, rows = read_pairs(pairs), read_pairs(measured)
    most_common = most_common_answer(train_pairs)
    return most_common, Score([q for q, _ in rows], [most_common] * len(rows), [a for _, a in rows])


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def histogram_of_answers(answers: Iterable[str]) -> list[tuple[str, int]]:
    """Each answer with its count, the most frequent first and equals by alphabet."""
    return sorted(Counter(answers).items(), key=lambda item: (-item[1], item[0]))


def top_fraction(histogram: Sequence[tuple[str, int]], top: int = 3) -> float:
    """The fraction of the `top` most frequent answers. Near 1, the model has collapsed."""
    if top < 1:
        raise ValueError(f"top is {top}; give 1 or more")
    counts = sorted((count for _, count in histogram), reverse=True)
    return sum(counts[:top]) / sum(counts) if counts else 0.0
