"""What the three stages of `knowledge learn` share: settings, data, questions and training."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from attnlab._help_groups import COMMON, DATA, TRAINING
from attnlab.models import Decoder
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge._answers import max_context
from attnlab.tasks.knowledge._data import (
    Library,
    default_held_out_fraction,
    digest,
    documents_about,
    hold_out,
    relations_in,
)
from attnlab.tasks.knowledge._document_reader import find_readings
from attnlab.tasks.knowledge._load import KnowledgeData
from attnlab.tasks.knowledge._load import make_model as make_preset_model
from attnlab.tasks.knowledge._made_up_names import (
    UnknownNameSource,
    questions_about_unknown_names,
)
from attnlab.tasks.knowledge._reader_votes import ANSWER_TOKENS
from attnlab.tasks.knowledge._task import KnowledgeTask
from attnlab.tasks.knowledge._training import check_pairs, print_overview, run_training
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.training import Settings, is_main_process

MAX_CONTEXT = 1024


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
    ] = 0.5
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
    made_up: Annotated[
        float,
        "Questions about made-up names, which the final model learns not to answer, for each "
        "question about a real one. 0 disables them.",
        DATA,
    ] = 0.75
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
                raise ValueError(f"{name} is {getattr(self, name)}; give a fraction from 0 to 1")
        if not 0 <= self.made_up <= 10:
            raise ValueError(f"made_up is {self.made_up}; give 0 to 10")
        if not 0 <= self.copies <= 100:
            raise ValueError(f"copies is {self.copies}; give 0 to 100")
        if self.held_out is not None and not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; give a fraction from 0 to below 1")


@dataclass
class LearnSession:
    """Data and settings that all three stages share."""

    data: KnowledgeData
    library: Library
    encoding: KnowledgeTextEncoding
    settings: LearnSettings
    training: Settings
    preset: str
    attention: str | list[str]
    model: dict[str, Any]
    """Changes to the preset's model settings."""
    pairs_source: str
    """Where the pairs come from, for messages."""
    out: Path
    start: StartMode
    quiet: bool

    def __post_init__(self) -> None:
        self.start_time = time.perf_counter()
        questions = [question for question, _ in self.data.pairs]
        self.relations = relations_in(questions, self.library)
        held_out = self.settings.held_out
        self.held_out_fraction = (
            default_held_out_fraction(len(questions)) if held_out is None else held_out
        )
        self.learned, self.measured = hold_out(
            self.data.pairs, self.held_out_fraction, self.training.seed
        )
        self.readings = find_readings(self.learned, self.library, self.relations)
        self.longest_question = max(
            len(self.encoding.encode_question(question)) for question in questions
        )
        self.about = {
            "preset": self.preset,
            "corpus": self.data.corpus,
            "pairs": self.pairs_source,
            "text": digest(self.data.documents, *self.data.pairs),
            "learn": asdict(self.settings),
        }

    def make_model(self, seed: int) -> Decoder:
        longest = max(len(self.encoding.encode(document)) for document in self.data.documents)
        context = min(MAX_CONTEXT, longest + 2 * self.longest_question + 40)
        torch.manual_seed(seed)
        changes = {"context": context, **self.model}
        return make_preset_model(self.preset, self.encoding.tokenizer, self.attention, changes)

    def check(self) -> None:
        """Raise errors about the data before anything is trained."""
        pairs = self.data.pairs
        if not any(documents_about(q, self.library, self.relations) for q, _ in pairs):
            raise ValueError(
                "no question contains the title of a document; begin each document with a title "
                "and a full stop, and ask about these titles"
            )
        if not self.readings:
            raise ValueError(
                "no document contains the answer to its question, so a reader cannot learn to "
                "copy; check --corpus and --pairs"
            )
        model = self.make_model(self.training.seed)
        check_pairs(pairs, self.encoding, model, self.pairs_source)
        if self.longest_question > max_context(model) - ANSWER_TOKENS - 1:
            raise ValueError(
                f"the longest question has {self.longest_question} tokens; to fit a document and "
                f"an answer too, give --context {self.longest_question + ANSWER_TOKENS + 2} or more"
            )
        self.print_line(
            f"{len(self.readings):,} of {len(self.learned):,} answers occur in a document about "
            f"the name; questions: {', '.join(map(str, self.relations[:5]))}"
        )

    def unknown_names(self, questions: int) -> list[UnknownNameSource]:
        """Questions about made-up names, to learn with this many questions about real ones."""
        return questions_about_unknown_names(
            self.data.documents, self.library.by_title, self.relations,
            round(self.settings.made_up * questions),
        )  # fmt: skip

    def print_line(self, text: str) -> None:
        if is_main_process() and not self.quiet:
            minutes = (time.perf_counter() - self.start_time) / 60
            print(f"[{minutes:.1f} min] {text}", file=sys.stderr)

    def train(
        self,
        stage: str,
        task: KnowledgeTask,
        model: Decoder,
        settings: Settings,
        out: Path,
        results: Mapping[str, Callable[[], Any]] | None = None,
    ) -> dict[str, float]:
        """Train one stage and return its metrics. `results` are as for `train`."""
        self.print_line(stage)
        tokens = self.encoding.tokenizer
        print_overview(self.data, tokens, model, settings, self.quiet)
        start = self.start.for_part(out)
        return run_training(task, model, settings, tokens, out, start, self.quiet, results)
