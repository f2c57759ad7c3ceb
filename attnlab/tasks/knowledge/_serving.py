"""A knowledge run that answers, and that is audited, for the studio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.models import Decoder
from attnlab.tasks.knowledge import _audit as auditing
from attnlab.tasks.knowledge._answers import candidates, check_questions, reach
from attnlab.tasks.knowledge._audit_report import save_audit
from attnlab.tasks.knowledge._certainty import FEW, Certainty
from attnlab.tasks.knowledge._data import Pair, hold_out, name_in, read_pairs
from attnlab.tasks.knowledge._load import load_knowledge
from attnlab.tasks.knowledge._name_matching import NameIndex
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge.kind import AUDIT
from attnlab.tasks.serving import Request, Tell
from attnlab.training import Run


@dataclass(frozen=True)
class Asking:
    model: Decoder
    wording: Wording
    certainty: Certainty
    names: NameIndex | None

    @classmethod
    def open(cls, folder: Path) -> Asking:
        certainty = Certainty.load(folder)
        model, tokens, _ = load_knowledge(folder)
        names = NameIndex(certainty.names) if certainty.names else None
        return cls(model, Wording(tokens), certainty, names)

    def __call__(self, request: Request, tell: Tell) -> Any:
        del tell
        questions, context = request["questions"], reach(self.model)
        prompts = check_questions(questions, self.wording, context)
        texts = candidates(self.model, self.wording, prompts)
        answers = [
            {
                "question": question,
                **self._answer(found),
                **self._about(question),
                "remaining_tokens": context - len(prompt),
            }
            for question, prompt, found in zip(questions, prompts, texts, strict=True)
        ]
        threshold = {
            "known": self.certainty.known,
            "guess": self.certainty.guess,
            "fitted_on": self.certainty.fitted_on,
        }
        return {"answers": answers, "threshold": threshold}

    def _answer(self, texts: dict[str, float]) -> dict[str, Any]:
        (answer, probability), *others = texts.items()
        others.sort(key=lambda pair: -pair[1])
        return {
            "answer": answer,
            "probability": probability,
            "margin": probability - (others[0][1] if others else 0.0),
            "verdict": self.certainty.verdict(probability),
            "seen": answer in self.certainty.answers,
            "alternatives": [{"answer": text, "probability": p} for text, p in others],
        }

    def _about(self, question: str) -> dict[str, Any]:
        """Names of its training questions that resemble the one asked about, and whether that is
        one of them; where it is none, the thresholds may not hold."""
        named = name_in(question, self.certainty.relations)
        name = None if named is None else named[0]
        if self.names is None:
            return {"name": name, "trained": None, "nearest": []}
        found = self.names.nearest(name or question)
        nearest = [[each, round(likeness, 6)] for each, likeness in found]  # 1: the same name
        trained = None if name is None else name in self.certainty.names
        return {"name": name, "trained": trained, "nearest": nearest}


@dataclass(frozen=True)
class Auditing:
    """As `attnlab knowledge audit RUN` does it, with --pairs where it needs them."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> Auditing:
        return cls(folder)

    def __call__(self, request: Request, tell: Tell) -> Any:
        with asked_in(self.folder, request["pairs"], request["file"]) as (pairs, what):
            tell("progress", {"done": 0, "total": 1, "message": f"asking {what}"})
            report = {**auditing.audit(self.folder, pairs), "asked": what}
        save_audit(report, self.folder / AUDIT, self.folder / "audit.html")
        return {}


@contextmanager
def asked_in(folder: Path, text: str | None, file: str | None) -> Iterator[tuple[Path | None, str]]:
    """A file of questions, and what they are: those that were typed, or of the run's own file those
    that it did not learn, as far as there are enough."""
    if text is None and file is None:
        yield None, "the held-out questions of the embedded world"
        return
    with TemporaryDirectory(prefix="attnlab-studio-") as place:
        path, what = Path(place) / "pairs", "the questions that were given"
        if text is None:
            text, what = own_pairs(folder, Path(str(file)))
        path.write_text(text, encoding="utf-8")
        yield path, what


def own_pairs(folder: Path, file: Path) -> tuple[str, str]:
    """Held out as the training did it."""
    config = Run(folder).config()
    pairs = read_pairs(file)
    share = config["task"].get("held_out")
    held: list[Pair] = []
    if isinstance(share, float | int):
        held = hold_out(pairs, share, config["training"]["seed"])[1]
    asked, what = held, f"the held out of {file.name}"
    if len(held) < FEW:
        asked, what = pairs, f"all of {file.name}, most of which it learned"
    return "".join(f"{question}\t{answer}\n" for question, answer in asked), what
