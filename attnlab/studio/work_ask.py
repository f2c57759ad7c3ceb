"""In a worker: questions to a knowledge run, and its audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Decoder
from attnlab.studio.models import MODELS
from attnlab.studio.worker import Teller
from attnlab.tasks.knowledge import audit as auditing
from attnlab.tasks.knowledge.answers import candidates, check_questions, reach
from attnlab.tasks.knowledge.audit_page import save_audit
from attnlab.tasks.knowledge.certainty import Certainty
from attnlab.tasks.knowledge.data import name_in
from attnlab.tasks.knowledge.material import load_knowledge
from attnlab.tasks.knowledge.names import NameIndex
from attnlab.tasks.knowledge.rows import Wording


@dataclass(frozen=True)
class Knower:
    """A run that answers."""

    model: Decoder
    wording: Wording
    certainty: Certainty
    names: NameIndex | None

    @staticmethod
    def open(folder: Path) -> Knower:
        certainty = Certainty.load(folder)
        model, tokens, _ = load_knowledge(folder)
        names = NameIndex(certainty.names) if certainty.names else None
        return Knower(model, Wording(tokens), certainty, names)

    def nearest(self, question: str) -> list[list[Any]]:
        """Names that it learned about and that resemble the one asked about."""
        if self.names is None:
            return []
        found = name_in(question, self.certainty.relations)
        name = question if found is None else found[0]
        return [list(pair) for pair in self.names.nearest(name)]


def ask(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    del content, tell
    knower = MODELS.get("ask", given["folder"], Knower.open)
    certainty, questions = knower.certainty, given["questions"]
    prompts = check_questions(questions, knower.wording, reach(knower.model))
    seen, answers = set(certainty.answers), []
    said = candidates(knower.model, knower.wording, prompts)
    for question, texts in zip(questions, said, strict=True):
        (answer, probability), *others = texts.items()
        others.sort(key=lambda pair: -pair[1])
        answers.append(
            {
                "question": question,
                "answer": answer,
                "probability": probability,
                "margin": probability - (others[0][1] if others else 0.0),
                "verdict": certainty.verdict(probability),
                "seen": answer in seen,
                "alternatives": [{"answer": text, "probability": p} for text, p in others],
                "nearest": knower.nearest(question),
            }
        )
    threshold = {
        "known": certainty.known,
        "guess": certainty.guess,
        "fitted_on": certainty.fitted_on,
    }
    return {"answers": answers, "threshold": threshold}, b""


def audit(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """As `attnlab knowledge audit RUN` does it."""
    del content
    folder = Path(given["folder"])
    tell("progress", {"done": 0, "of": 1, "message": "asking every question"})
    report = auditing.audit(folder)
    save_audit(report, folder / "audit.json", folder / "audit.html")
    return {}, b""
