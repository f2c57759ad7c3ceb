"""Answers questions with a knowledge run, and audits it, for the studio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.models import Decoder
from attnlab.tasks.knowledge import _audit as auditing
from attnlab.tasks.knowledge._answers import (
    Answer,
    answers_without_empty,
    check_questions,
    max_context,
)
from attnlab.tasks.knowledge._audit_report import save_audit
from attnlab.tasks.knowledge._certainty import MIN_HELD_OUT, Certainty
from attnlab.tasks.knowledge._data import Pair, hold_out, loose_name_in, read_pairs
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._name_matching import NameIndex
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge.kind import AUDIT
from attnlab.tasks.serving import Request, SendEvent
from attnlab.training import Run


@dataclass(frozen=True)
class QuestionService:
    """Answers the questions of a request."""

    model: Decoder
    encoding: KnowledgeTextEncoding
    certainty: Certainty
    names: NameIndex | None

    @classmethod
    def open(cls, folder: Path) -> QuestionService:
        certainty = Certainty.load(folder)
        model, tokens, _ = load_knowledge(folder)
        names = NameIndex(certainty.names) if certainty.names else None
        return cls(model, KnowledgeTextEncoding(tokens), certainty, names)

    def __call__(self, request: Request, send: SendEvent) -> Any:
        del send
        questions, context = request["questions"], max_context(self.model)
        prompts = check_questions(questions, self.encoding, context)
        texts = answers_without_empty(self.model, self.encoding, prompts)
        answers = [
            {
                "question": question,
                **self._answer(question, probabilities, nothing),
                **self._about(question),
                "remaining_tokens": context - len(prompt),
            }
            for question, prompt, (probabilities, nothing) in zip(
                questions, prompts, texts, strict=True
            )
        ]
        threshold = {
            "known": self.certainty.known,
            "guess": self.certainty.guess,
            "fitted": self.certainty.fitted,
            "fitted_on": self.certainty.fitted_on,
        }
        return {"answers": answers, "threshold": threshold}

    def _answer(self, question: str, texts: dict[str, float], nothing: float) -> dict[str, Any]:
        (answer, probability), *others = texts.items()
        others.sort(key=lambda pair: -pair[1])
        return {
            "answer": answer,
            "probability": probability,
            "margin": probability - (others[0][1] if others else 0.0),
            "nothing": nothing,
            "verdict": str(
                self.certainty.verdict(Answer(question, answer, probability, nothing=nothing))
            ),
            "seen": answer in self.certainty.answers,
            "alternatives": [{"answer": text, "probability": p} for text, p in others],
        }

    def _about(self, question: str) -> dict[str, Any]:
        """The name in the question, whether it occurred in training, and similar training names."""
        name = loose_name_in(question, self.certainty.relations)
        if self.names is None:
            return {"name": name, "trained": None, "nearest": []}
        similar = self.names.nearest(name or question)
        nearest = [
            [other, round(similarity, 6)] for other, similarity in similar
        ]  # 1 for the same name
        trained = None if name is None else name in self.certainty.names
        return {"name": name, "trained": trained, "nearest": nearest}


@dataclass(frozen=True)
class AuditService:
    """Audits a run like `attnlab knowledge audit RUN`."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> AuditService:
        return cls(folder)

    def __call__(self, request: Request, send: SendEvent) -> Any:
        with question_file(self.folder, request["pairs"], request["file"]) as (pairs, description):
            send("progress", {"done": 0, "total": 1, "message": f"answering {description}"})
            report = {**auditing.audit(self.folder, pairs), "asked": description}
        save_audit(report, self.folder / AUDIT, self.folder / "audit.html")
        return {}


@contextmanager
def question_file(
    folder: Path, text: str | None, file: str | None
) -> Iterator[tuple[Path | None, str]]:
    """A file of questions and its description: the questions of the request, or the held-out
    questions of the run's own file if there are enough."""
    if text is None and file is None:
        yield None, "the held-out questions of the embedded world"
        return
    with TemporaryDirectory(prefix="attnlab-studio-") as temporary:
        path, description = Path(temporary) / "pairs", "your questions"
        if text is None:
            text, description = run_questions(folder, Path(str(file)))
        path.write_text(text, encoding="utf-8")
        yield path, description


def run_questions(folder: Path, file: Path) -> tuple[str, str]:
    """The pairs that the training held out, or all pairs if there are too few."""
    config = Run(folder).config()
    pairs = read_pairs(file)
    fraction = config["task"].get("held_out")
    held_out: list[Pair] = []
    if isinstance(fraction, float | int):
        held_out = hold_out(pairs, fraction, config["training"]["seed"])[1]
    pairs_to_ask, description = held_out, f"held-out questions of {file.name}"
    if len(held_out) < MIN_HELD_OUT:
        pairs_to_ask, description = (
            pairs,
            f"all questions of {file.name}, most of which it was trained on",
        )
    return "".join(f"{question}\t{answer}\n" for question, answer in pairs_to_ask), description
