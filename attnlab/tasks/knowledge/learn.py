"""Read and remember: a reader answers for everybody in the corpus, then a model learns it by heart.

1. A reader learns to copy an answer out of a document, from the labelled people's documents and
   from self-made copies. 2. It answers every question of the same wording about everyone who has
   no label. 3. From the reader's weights, closed book: the question alone must suffice. No rule
   says what a birthplace looks like, and no answer of an evaluation set is seen.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from attnlab.models import Decoder
from attnlab.tasks.knowledge.answers import answer, reach, write
from attnlab.tasks.knowledge.data import (
    Library,
    digest,
    documents_about,
    hold_out,
    relations_in,
    usual_share,
)
from attnlab.tasks.knowledge.material import (
    WORLD,
    Material,
    make_model,
    make_tokenizer,
    material,
    preset_named,
)
from attnlab.tasks.knowledge.reading import OpenBook, find_readings, prompt, unlabelled
from attnlab.tasks.knowledge.recipe import (
    check_pairs,
    in_steps,
    keep_certainty,
    knowledge_task,
    run_training,
    settled,
    tell,
)
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.task import KnowledgeTask, Questions
from attnlab.tasks.knowledge.voting import (
    ANSWER,
    Remembered,
    SelfMade,
    decide,
    poll,
    write_self_made,
)
from attnlab.training import Run, Settings, speaks
from attnlab.training.loop import describe
from attnlab.training.run import check_folder

SELF_MADE = "self_made.jsonl"
LONGEST_CONTEXT = 1024
# Passes, and steps at least: to copy, or to take in a first fact, takes some on any corpus.
READER, REMEMBER = (8.0, 700), (24.0, 150)


@dataclass(frozen=True)
class LearnSettings:
    """How to read and remember. The command line's help is made from this."""

    readers: Annotated[int, "readers that vote on each answer"] = 1
    reader_epochs: Annotated[
        float | None, "passes of a reader over the documents; default 8, and at least 700 steps"
    ] = None
    remember_epochs: Annotated[
        float | None, "passes over the questions, closed book; default 24, and at least 150 steps"
    ] = None
    chooser: Annotated[
        float,
        "weight of a log-linear chooser beside the readers, who have the rest; 0: it is not asked",
    ] = 0.0
    sharpen: Annotated[
        float, "power of the self-made answers' probabilities; above 1 the best is learned surer"
    ] = 1.0
    swapped: Annotated[float, "share of readings with another answer put in its place"] = 0.5
    copies: Annotated[int, "self-made copies per document and pass"] = 2
    answer_weight: Annotated[float, "what an answer's token counts; a document's counts 1"] = 3.0
    reader_tokens: Annotated[int, "tokens of a reader's step"] = 2048
    remember_tokens: Annotated[int, "tokens of a step of remembering"] = 2048
    held_out: Annotated[
        float | None,
        "share of the pairs kept back to measure and fit thresholds; default 5%, or 40 pairs",
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


def learn(
    corpus: str | Path | None = None,
    pairs: str | Path | None = None,
    *,
    out: str | Path,
    attention: str | list[str] = "softmax",
    preset: str = "small",
    tokenizer: str | None = None,
    settings: LearnSettings | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, float]:
    """All three stages; the run folder `out` holds the last model, `out/readers` the readers."""
    settings = settings or LearnSettings()
    chosen = preset_named(preset)
    check_learn(Path(out), resume, overwrite)
    if pairs is not None and corpus is None:
        raise ValueError("--pairs without --corpus; give the documents that have the answers too")
    if (training or {}).get("steps") is not None:
        raise ValueError("learn counts epochs: give --reader-epochs, --remember-epochs, not steps")
    source = material(corpus, pairs)
    lesson = Lesson(
        source=source,
        library=Library(source.documents),
        wording=Wording(make_tokenizer(tokenizer or chosen.tokenizer, source.texts)),
        settings=settings,
        training=settled(chosen.scratch, 1, None, training)[0],
        preset=preset,
        attention=attention,
        model=model or {},
        what=str(pairs or WORLD),
        out=Path(out),
        resume=resume,
        overwrite=overwrite,
        quiet=quiet,
    )
    lesson.check()
    if overwrite:  # what was learned before must not pass for what is learned now
        for name in ("config.json", "known.json", SELF_MADE):
            (lesson.out / name).unlink(missing_ok=True)
    readers = [read(lesson, number) for number in range(1, settings.readers + 1)]
    return remember(lesson, readers[0], answer_everybody(lesson, readers))


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
    resume: bool
    overwrite: bool
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
        if speaks() and not self.quiet:
            minutes = (time.perf_counter() - self.begin) / 60
            print(f"[{minutes:.1f} min] {text}", file=sys.stderr)

    def train(
        self, what: str, task: KnowledgeTask, model: Decoder, settings: Settings, out: Path
    ) -> dict[str, float]:
        """The metrics of a stage that ended."""
        self.say(what)
        tokens = self.wording.tokenizer
        tell(self.source, tokens, model, settings, self.quiet)
        again = self.resume and (out / "config.json").exists()
        return run_training(task, model, settings, tokens, out, again, self.overwrite, self.quiet)


def read(lesson: Lesson, number: int) -> Decoder:
    """The first stage, once for each reader; one that has learned already is taken as it is."""
    settings = lesson.settings
    training = replace(
        lesson.training,
        seed=lesson.training.seed + number - 1,
        batch_tokens=settings.reader_tokens,
        batch_rows=None,
    )
    reader = lesson.make(training.seed)
    book = OpenBook(
        lesson.readings,
        lesson.source.documents,
        swapped=settings.swapped,
        copies=settings.copies,
        answer_weight=settings.answer_weight,
    )
    task = knowledge_task(
        [book],
        lesson.wording,
        reader,
        training,
        about={"stage": "reader", **lesson.about},
        measure=lambda current: {"accuracy": open_book(current, lesson)},
    )
    training = _long_enough(task, training, settings.reader_epochs, READER)
    folder = lesson.out / "readers" / str(number)
    if lesson.resume and (folder / "model.safetensors").exists():
        run = Run(folder)
        run.begin(describe(task, reader, training), resume=True, overwrite=False)
        found = run.model()  # the same settings and texts: it need not learn again
        assert isinstance(found, Decoder)
        return found
    lesson.train(f"reader {number} of {settings.readers}", task, reader, training, folder)
    return reader.eval()


def open_book(model: nn.Module, lesson: Lesson) -> float:
    """The share of pairs that a reader answers, the first document of that name before it."""
    assert isinstance(model, Decoder)
    pairs = lesson.measured or lesson.learned
    pairs = pairs if len(pairs) <= 500 else random.Random(0).sample(pairs, 500)
    prompts = []
    for question, _ in pairs:
        documents = documents_about(question, lesson.library, lesson.relations)
        first = documents[0] if documents else ""
        prompts.append(prompt(first, question, lesson.wording, reach(model) - ANSWER))
    said = [lesson.wording.decode(row.ids) for row in write(model, lesson.wording, prompts)]
    return sum(a == gold for a, (_, gold) in zip(said, pairs, strict=True)) / len(pairs)


def answer_everybody(lesson: Lesson, readers: Sequence[Decoder]) -> list[SelfMade]:
    """The second stage: every question that has no answer, for every title."""
    wording = lesson.wording
    questions = [
        question
        for question in unlabelled(lesson.library, lesson.learned, lesson.relations)
        if len(wording.question(question)) < reach(readers[0]) - ANSWER
    ]
    lesson.say(f"{len(questions):,} questions have no answer; the readers look for one")
    most = min(ANSWER, max(len(wording.encode(known)) for _, known in lesson.learned) + 2)
    ballots = poll(readers, wording, lesson.library, lesson.relations, questions, most)
    known = (lesson.learned, lesson.library, lesson.relations)
    made = decide(ballots, *known, chooser=lesson.settings.chooser)
    write_self_made(lesson.out / SELF_MADE, made)
    if made:
        sure = sum(each.confidence > 0.5 for each in made)
        stands = sum(each.stands for each in made)
        lesson.say(f"{stands:,} answers stand in a document, {sure:,} are more likely than not")
    return made


def remember(lesson: Lesson, reader: Decoder, made: Sequence[SelfMade]) -> dict[str, float]:
    """The third stage: from a reader's weights, the questions alone."""
    training = replace(
        lesson.training, batch_tokens=lesson.settings.remember_tokens, batch_rows=None
    )
    student = lesson.make(training.seed)
    student.load_state_dict(reader.state_dict())
    task = knowledge_task(
        [Questions(lesson.learned), Remembered(made, lesson.settings.sharpen)],
        lesson.wording,
        student,
        training,
        measured=lesson.measured or lesson.learned[:500],
        about={
            "stage": "remember",
            **lesson.about,
            "questions": len(lesson.learned),
            "self_made": len(made),
            "held_out": lesson.share,
            "measured_on": "held-out pairs" if lesson.measured else "training pairs",
        },
    )
    training = _long_enough(task, training, lesson.settings.remember_epochs, REMEMBER)
    metrics = lesson.train("remember", task, student, training, lesson.out)
    if speaks() and not lesson.quiet:  # what is lost here, no reader can make up for
        said = answer(student.eval(), lesson.wording, [each.question for each in made])
        same = sum(each.answer == found for each, found in zip(made, said, strict=True))
        lesson.say(f"{same:,} of {len(made):,} self-made answers are remembered")
    learned, measured = lesson.learned, lesson.measured
    keep_certainty(student, lesson.wording, lesson.out, learned, measured, lesson.library)
    return metrics


def check_learn(out: Path, resume: bool, overwrite: bool) -> None:
    """A folder that holds readers only is an unfinished run too."""
    if resume and overwrite:
        raise ValueError("--resume and --overwrite; give one of them")
    if (out / "config.json").exists() or not (out / "readers" / "1" / "config.json").exists():
        check_folder(out, resume and (out / "config.json").exists(), overwrite)
        if resume and not (out / "config.json").exists():
            Run(out).config()
    elif not resume and not overwrite:
        check_folder(out / "readers" / "1", False, False)


def _long_enough(
    task: KnowledgeTask, settings: Settings, epochs: float | None, usual: tuple[float, int]
) -> Settings:
    if epochs is not None:
        return in_steps(task, settings, epochs)
    found = in_steps(task, settings, usual[0])
    return found if found.steps >= usual[1] else replace(settings, steps=usual[1])
