"""The chapters of the story; each leaves what it found in `found` and its files in `out`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.claims import chosen, run
from attnlab.claims.ledger import ledger
from attnlab.claims.page import save_claims
from attnlab.demo.attention import see
from attnlab.demo.found import Asked, Found, Report, Way
from attnlab.demo.progress import Tick
from attnlab.demo.settings import DemoSettings
from attnlab.files import write_json
from attnlab.interpret.page import render
from attnlab.report.html import save_page, write_page
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge import recipe, scoring
from attnlab.tasks.knowledge.audit import ask, audit
from attnlab.tasks.knowledge.audit_report import audit_report
from attnlab.tasks.knowledge.certainty import Certainty
from attnlab.tasks.knowledge.learn import learn
from attnlab.training import Run

NONE, PRETRAINED, FINETUNED, LEARNED = "no-pretraining", "pretrained", "finetuned", "learned"
INDEX, LOOK, READING, AUDIT = "index.html", "attention.html", "reading.html", "audit.html"
CLAIMS_PAGE, CLAIMS_DATA = "claims.html", "claims.json"
NOBODY = 2  # people who do not exist, among those shown
PAGES = (INDEX, LOOK, READING, CLAIMS_PAGE, CLAIMS_DATA)


@dataclass
class Story:
    """Where it is written, and what was found so far."""

    out: Path
    settings: DemoSettings
    found: Found

    def part(self, name: str) -> Callable[[Tick], None]:
        work: Callable[[Tick], None] = getattr(self, f"_{name}")
        return work

    def baseline(self) -> None:
        said, score = scoring.baseline()
        about = "the commonest birthplace, whoever is asked about"
        way = Way(f"always “{said}”", about, score.right or 0, len(score.questions))
        self.found.ways.append(way)

    def _none(self, tick: Tick) -> None:
        del tick  # training tells how far it is
        self._trained(
            "no reading",
            "it sees the answered questions and nothing else",
            NONE,
            lambda: recipe.finetune(
                out=self.out / NONE,
                epochs=self.settings.none_epochs,
                model=self.settings.model,
                **self._shared,
            ),
        )

    def _pretrained(self, tick: Tick) -> None:
        del tick

        def run() -> None:
            recipe.pretrain(
                out=self.out / PRETRAINED,
                epochs=self.settings.pretraining_epochs,
                model=self.settings.model,
                **self._shared,
            )
            recipe.finetune(
                self.out / PRETRAINED,
                out=self.out / FINETUNED,
                epochs=self.settings.finetuning_epochs,
                **self._shared,
            )

        about = "it guesses hidden names and places in the lines, then sees the answered questions"
        self._trained("reading, then questions", about, FINETUNED, run)

    def _learned(self, tick: Tick) -> None:
        del tick
        self._trained(
            "read and remember",
            "it learns to find an answer in a line, asks itself about everybody, and learns what "
            "it found by heart",
            LEARNED,
            lambda: learn(
                out=self.out / LEARNED,
                settings=self.settings.learn,
                model=self.settings.model,
                **self._shared,
            ),
        )
        self.found.parameters = int(Run(self.out / LEARNED).config()["parameters"])

    @property
    def _shared(self) -> dict[str, Any]:
        return {"training": {"seed": self.found.seed}, "start": StartMode.OVERWRITE}

    def _trained(self, name: str, about: str, folder: str, run: Callable[[], object]) -> None:
        begin = time.perf_counter()
        run()
        minutes = (time.perf_counter() - begin) / 60
        score = scoring.evaluate(self.out / folder)
        way = Way(name, about, score.right or 0, len(score.questions), minutes)
        self.found.ways.append(way)

    def _audit(self, tick: Tick) -> None:
        """Beside the run, as `attnlab knowledge audit` writes it."""
        del tick
        run = self.out / LEARNED
        report = audit(
            run, samples=self.settings.samples, made_up=self.settings.made_up, seed=self.found.seed
        )
        write_json(run / "audit.json", report)
        save_page(run / AUDIT, audit_report(report), overwrite=True)
        self.found.audit = report
        self.found.asked = self._told(report)

    def _told(self, report: Report) -> list[Asked]:
        """Some answers of every kind; what the model says that never read stands beside them."""
        some = _telling(report["answers"])
        relation = Certainty.load(self.out / LEARNED).relations[0]
        nobody = [relation.ask(each["name"]) for each in report["made_up"]["examples"][:NOBODY]]
        questions = [each["question"] for each in some] + nobody
        golds = [each["gold"] for each in some] + [None] * len(nobody)
        unread = [""] * len(questions)
        if "none" in self.found.seconds:
            unread = [said.text for said, _ in ask(self.out / NONE, questions)]
        return [
            Asked(said.question, said.text, verdict, said.confidence, gold, none)
            for (said, verdict), gold, none in zip(
                ask(self.out / LEARNED, questions), golds, unread, strict=True
            )
        ]

    def _attention(self, tick: Tick) -> None:
        del tick
        found = self.found
        seen, reading, remembering = see(
            self.out / LEARNED, found.world, self.settings.looked_at, found.seed
        )
        reading.save(self.out / READING)
        write_page(self.out / LOOK, render(*remembering.packed), overwrite=True)
        found.seen = seen

    def _claims(self, tick: Tick) -> None:
        names, seed = self.settings.claims, self.found.seed
        under_way: dict[str, None] = {}

        def begun(name: str) -> None:
            under_way[name] = None
            tick(len(self.found.claims), len(names), ", ".join(under_way))

        for result in run(chosen(names), seed=seed, begun=begun):
            self.found.claims.append(result)
            under_way.pop(result.name, None)
            tick(len(self.found.claims), len(names), ", ".join(under_way))
        self.found.claims.sort(key=lambda each: names.index(each.name))
        data = ledger(self.found.claims, seed=seed, size="small")
        write_json(self.out / CLAIMS_DATA, data)
        save_claims(self.out / CLAIMS_PAGE, data, overwrite=True)


def _telling(answers: Sequence[Report]) -> list[Report]:
    """The first two, the surest mistake, the most doubtful hit, and a guess: each once."""
    by_doubt = sorted(answers, key=lambda each: each["confidence"])
    wrong = [each for each in reversed(by_doubt) if not each["correct"]]
    right = [each for each in by_doubt if each["correct"]]
    guessed = [each for each in by_doubt if each["verdict"] == "guess"]
    found = [*answers[:2], *right[:1], *wrong[:1], *guessed[:1]]
    return list({each["question"]: each for each in found}.values())
