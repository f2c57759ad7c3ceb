"""Read and remember: a reader answers for everybody in the corpus, then a model learns it by heart.

1. A reader learns to copy an answer out of a document, from the labeled people's documents and
   from self-made copies. 2. It answers every question of the same wording about everyone who has
   no label. 3. From the reader's weights, closed book: the question alone must suffice. No rule
   says what a birthplace looks like, and no answer of an evaluation set is seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from attnlab.models import Decoder
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import has_run
from attnlab.tasks.knowledge._answers import answer, reach, write
from attnlab.tasks.knowledge._data import WORLD, Library, documents_about
from attnlab.tasks.knowledge._document_reader import OpenBook, prompt, unlabeled
from attnlab.tasks.knowledge._learn_stages import LearnSettings, Lesson
from attnlab.tasks.knowledge._load import make_tokenizer, material, preset_named
from attnlab.tasks.knowledge._reader_votes import (
    ANSWER,
    Remembered,
    SelfMade,
    decide,
    poll,
    write_self_made,
)
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge._task import KnowledgeTask, Questions
from attnlab.tasks.knowledge._training import in_steps, keep_certainty, knowledge_task, settled
from attnlab.training import Run, Settings, is_main_process
from attnlab.training._loop import describe

SELF_MADE = "self_made.jsonl"
# Passes, and steps at least: to copy, or to take in a first fact, takes some on any corpus.
READER, REMEMBER = (8.0, 700), (24.0, 150)


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
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """All three stages; the run folder `out` holds the last model, `out/readers` the readers."""
    settings = settings or LearnSettings()
    chosen = preset_named(preset)
    start = StartMode(start)
    check_learn(Path(out), start)
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
        start=start,
        quiet=quiet,
    )
    lesson.check()
    if start is StartMode.OVERWRITE:  # what was learned before must not pass for what is new
        old = Run(lesson.out)
        old.delete()
        old.remove(SELF_MADE)
    readers = [read(lesson, number) for number in range(1, settings.readers + 1)]
    return remember(lesson, readers[0], answer_everybody(lesson, readers))


def read(lesson: Lesson, number: int) -> Decoder:
    """The first stage, once for each reader; one that has learned already is taken as it is."""
    settings = lesson.settings
    training = replace(
        lesson.training,
        seed=lesson.training.seed + number - 1,
        batch_tokens=settings.reader_tokens,
        batch_size=None,
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
    run = Run(folder)
    if lesson.start is StartMode.RESUME and run.finished:
        run.begin(describe(task, reader, training), StartMode.RESUME)
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
        for question in unlabeled(lesson.library, lesson.learned, lesson.relations)
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
        lesson.training, batch_tokens=lesson.settings.remember_tokens, batch_size=None
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
    if is_main_process() and not lesson.quiet:  # what is lost here, no reader can make up for
        said = answer(student.eval(), lesson.wording, [each.question for each in made])
        same = sum(each.answer == found for each, found in zip(made, said, strict=True))
        lesson.say(f"{same:,} of {len(made):,} self-made answers are remembered")
    learned, measured = lesson.learned, lesson.measured
    keep_certainty(student, lesson.wording, lesson.out, learned, measured, lesson.library)
    return metrics


def check_learn(out: Path, start: StartMode) -> None:
    """A folder that holds readers only is an unfinished run too."""
    reader = out / "readers" / "1"
    check_folder(reader if has_run(reader) and not has_run(out) else out, start)


def _long_enough(
    task: KnowledgeTask, settings: Settings, epochs: float | None, usual: tuple[float, int]
) -> Settings:
    if epochs is not None:
        return in_steps(task, settings, epochs)
    found = in_steps(task, settings, usual[0])
    return found if found.steps >= usual[1] else replace(settings, steps=usual[1])
