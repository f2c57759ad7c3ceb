"""What the stages of read and remember share: settings, texts, questions, how one trains."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from attnlab._help_groups import COMMON, DATA, TRAINING
from attnlab.models import Decoder
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge._answers import reach
from attnlab.tasks.knowledge._data import (
    Library,
    digest,
    documents_about,
    hold_out,
    relations_in,
    usual_share,
)
from attnlab.tasks.knowledge._document_reader import find_readings
from attnlab.tasks.knowledge._load import Material, make_model
from attnlab.tasks.knowledge._reader_votes import ANSWER
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge._task import KnowledgeTask
from attnlab.tasks.knowledge._training import check_pairs, run_training, tell
from attnlab.training import Settings, is_main_process

LONGEST_CONTEXT = 1024


@dataclass(frozen=True)
class LearnSettings:
    """How to read and remember. The command line's help is made from this."""

    readers: Annotated[int, "Number of readers. They vote on each answer.", TRAINING, COMMON] = 1
    reader_epochs: Annotated[
        float | None,
        "Passes of each reader over the documents. Without it, 8, and at least 700 steps.",
        TRAINING,
        COMMON,
    ] = None
    remember_epochs: Annotated[
        float | None,
        "Passes of the final model over the questions. Without it, 24, and at least 150 steps.",
        TRAINING,
        COMMON,
    ] = None
    chooser: Annotated[
        float,
        "Weight of a log-linear model in the vote beside the readers. 0 disables it.",
        TRAINING,
    ] = 0.0
    sharpen: Annotated[
        float,
        "Exponent of the probabilities of the readers' answers. Above 1, the final model learns "
        "the best answer with more confidence.",
        TRAINING,
    ] = 1.0
    swapped: Annotated[
        float,
        "Fraction of the readers' documents in which another answer replaces the true one.",
        DATA,
    ] = 0.5
    copies: Annotated[int, "Number of changed copies of each document in each pass.", DATA] = 2
    answer_weight: Annotated[
        float,
        "Weight of an answer's tokens in the loss. A document's tokens have weight 1.",
        TRAINING,
    ] = 3.0
    reader_tokens: Annotated[
        int, "Number of tokens in each optimizer step of a reader.", TRAINING
    ] = 2048
    remember_tokens: Annotated[
        int, "Number of tokens in each optimizer step of the final model.", TRAINING
    ] = 2048
    held_out: Annotated[
        float | None,
        "Fraction of the pairs to hold out for evaluation. Without it, 5%, and at least 40 pairs.",
        DATA,
    ] = None

    def __post_init__(self) -> None:
        if not 1 <= self.readers <= 99:
            raise ValueError(f"readers is {self.readers}; give 1 to 99")
        for name in ("reader_epochs", "remember_epochs", "answer_weight", "sharpen"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; give a number above 0")
        for name in ("reader_tokens", "remember_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("swapped", "chooser"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")
        if not 0 <= self.copies <= 100:
            raise ValueError(f"copies is {self.copies}; give 0 to 100")
        if self.held_out is not None and not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; give a share from 0 to below 1")


@dataclass
class Lesson:
    """What all three stages share."""

    source: Material
    library: Library
    wording: Wording
    settings: LearnSettings
    training: Settings
    preset: str
    attention: str | list[str]
    model: dict[str, Any]
    """Changes to the preset's."""
    what: str
    """Where the pairs come from."""
    out: Path
    start: StartMode
    quiet: bool

    def __post_init__(self) -> None:
        self.begin = time.perf_counter()
        questions = [question for question, _ in self.source.pairs]
        self.relations = relations_in(questions, self.library)
        held_out = self.settings.held_out
        self.share = usual_share(len(questions)) if held_out is None else held_out
        self.learned, self.measured = hold_out(self.source.pairs, self.share, self.training.seed)
        self.readings = find_readings(self.learned, self.library, self.relations)
        self.asked = max(len(self.wording.question(question)) for question in questions)
        self.about = {
            "preset": self.preset,
            "corpus": self.source.corpus,
            "pairs": self.what,
            "text": digest(self.source.documents, *self.source.pairs),
            "learn": asdict(self.settings),
        }

    def make(self, seed: int) -> Decoder:
        longest = max(len(self.wording.encode(document)) for document in self.source.documents)
        context = min(LONGEST_CONTEXT, longest + 2 * self.asked + 40)
        torch.manual_seed(seed)
        changes = {"context": context, **self.model}
        return make_model(self.preset, self.wording.tokenizer, self.attention, changes)

    def check(self) -> None:
        """Refuse what cannot be read or answered, before anything is trained."""
        pairs = self.source.pairs
        if not any(documents_about(q, self.library, self.relations) for q, _ in pairs):
            raise ValueError(
                "no question names a document's title; each document must begin with a title and "
                "a full stop, and the questions must ask about these titles"
            )
        if not self.readings:
            raise ValueError("no answer stands in the document of its name; nothing can be copied")
        student = self.make(self.training.seed)
        check_pairs(pairs, self.wording, student, self.what)
        if self.asked > reach(student) - ANSWER - 1:
            raise ValueError(
                f"the longest question has {self.asked} tokens; to read a document before it and "
                f"answer, give --context {self.asked + ANSWER + 2} or more"
            )
        self.say(
            f"{len(self.readings):,} of {len(self.learned):,} answers stand in a document of that "
            f"name; wordings: {', '.join(map(str, self.relations[:5]))}"
        )

    def say(self, text: str) -> None:
        if is_main_process() and not self.quiet:
            minutes = (time.perf_counter() - self.begin) / 60
            print(f"[{minutes:.1f} min] {text}", file=sys.stderr)

    def train(
        self, what: str, task: KnowledgeTask, model: Decoder, settings: Settings, out: Path
    ) -> dict[str, float]:
        """The metrics of a stage that ended."""
        self.say(what)
        tokens = self.wording.tokenizer
        tell(self.source, tokens, model, settings, self.quiet)
        start = self.start.for_part(out)
        return run_training(task, model, settings, tokens, out, start, self.quiet)
