"""Read and remember: a reader answers every question from the corpus, then a model memorizes it.

1. A reader learns to copy the answer out of a document, from labeled documents and from self-made
   copying tasks. 2. It answers all questions of the same kind that have no label. 3. Starting from
   the reader's weights, a model learns to answer closed book, from the question alone. No rule
   says what a birthplace looks like, and no answer of an evaluation set is used.
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
from attnlab.run_folder._file_names import CONFIG, has_run
from attnlab.run_folder._removal import removal, removal_began
from attnlab.tasks.knowledge._answers import answer_greedily, generate_greedy, max_context
from attnlab.tasks.knowledge._data import WORLD, Library, documents_about
from attnlab.tasks.knowledge._document_reader import (
    OpenBookSource,
    reader_prompt,
    unlabeled_questions,
)
from attnlab.tasks.knowledge._learn_stages import LearnSession, LearnSettings
from attnlab.tasks.knowledge._load import find_preset, load_data, make_tokenizer
from attnlab.tasks.knowledge._reader_votes import (
    ANSWER_TOKENS,
    SelfMadeAnswer,
    SelfMadeAnswerSource,
    decide,
    poll,
    write_self_made,
)
from attnlab.tasks.knowledge._task import KnowledgeTask, QuestionSource
from attnlab.tasks.knowledge._training import (
    certainty_of,
    epochs_to_steps,
    make_knowledge_task,
    resolve_settings,
)
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge.kind import KNOWN
from attnlab.training import Run, Settings, is_main_process
from attnlab.training._loop import describe

SELF_MADE, READERS = "self_made.jsonl", "readers"
# Default epochs and minimum steps: even on a small corpus, copying takes some steps to learn.
READER_LENGTH, REMEMBER_LENGTH = (8.0, 700), (24.0, 150)


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
    """Run all three stages. `out` becomes the run folder of the last model, with `out/readers`.

    >>> from attnlab.tasks.knowledge import LearnSettings, learn
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> settings = LearnSettings(reader_epochs=0.1, remember_epochs=0.1)
    >>> metrics = learn(out="learned", settings=settings, model=small, quiet=True)
    >>> 0 <= metrics["accuracy"] <= 1
    True
    """
    settings = settings or LearnSettings()
    preset_settings = find_preset(preset)
    start = StartMode(start)
    check_learn_folder(Path(out), start)
    if pairs is not None and corpus is None:
        raise ValueError("--pairs needs --corpus, the documents that contain the answers")
    if (training or {}).get("steps") is not None:
        raise ValueError(
            "learn counts epochs; give --reader-epochs and --remember-epochs instead of steps"
        )
    data = load_data(corpus, pairs)
    session = LearnSession(
        data=data,
        library=Library(data.documents),
        encoding=KnowledgeTextEncoding(
            make_tokenizer(tokenizer or preset_settings.tokenizer, data.texts)
        ),
        settings=settings,
        training=resolve_settings(preset_settings.scratch, 1, None, training)[0],
        preset=preset,
        attention=attention,
        model=model or {},
        pairs_source=str(pairs or WORLD),
        out=Path(out),
        start=start,
        quiet=quiet,
    )
    session.check()
    if start is StartMode.OVERWRITE or removal_began(session.out):
        delete_learned(session.out)
    readers = [train_reader(session, number) for number in range(1, settings.readers + 1)]
    return remember(session, readers[0], answer_unlabeled_questions(session, readers))


def train_reader(session: LearnSession, number: int) -> Decoder:
    """The first stage, for one reader. A finished reader is loaded instead of trained."""
    settings = session.settings
    training = replace(
        session.training,
        seed=session.training.seed + number - 1,
        batch_tokens=settings.reader_tokens,
        batch_size=None,
    )
    reader = session.make_model(training.seed)
    rows = OpenBookSource(
        session.readings,
        session.data.documents,
        swapped=settings.swapped,
        copies=settings.copies,
        answer_weight=settings.answer_weight,
    )
    task = make_knowledge_task(
        [rows],
        session.encoding,
        reader,
        training,
        about={"stage": "reader", **session.about},
        measure=lambda current: {"accuracy": open_book_accuracy(current, session)},
    )
    training = _set_steps(task, training, settings.reader_epochs, READER_LENGTH)
    folder = session.out / READERS / str(number)
    run = Run(folder)
    if session.start is StartMode.RESUME and run.finished:
        with run.locked():  # removes what a kill left
            run.begin(describe(task, reader, training), StartMode.RESUME)
        finished = run.model()  # same settings and texts: no need to train again
        assert isinstance(finished, Decoder)
        return finished
    session.train(f"reader {number} of {settings.readers}", task, reader, training, folder)
    return reader.eval()


def open_book_accuracy(model: nn.Module, session: LearnSession) -> float:
    """The fraction of pairs that a reader answers correctly, given the first matching document."""
    assert isinstance(model, Decoder)
    pairs = session.measured or session.learned
    pairs = pairs if len(pairs) <= 500 else random.Random(0).sample(pairs, 500)
    prompts = []
    for question, _ in pairs:
        documents = documents_about(question, session.library, session.relations)
        document = documents[0] if documents else ""
        prompts.append(
            reader_prompt(document, question, session.encoding, max_context(model) - ANSWER_TOKENS)
        )
    answers = [
        session.encoding.decode(row.ids)
        for row in generate_greedy(model, session.encoding, prompts)
    ]
    return sum(text == gold for text, (_, gold) in zip(answers, pairs, strict=True)) / len(pairs)


def answer_unlabeled_questions(
    session: LearnSession, readers: Sequence[Decoder]
) -> list[SelfMadeAnswer]:
    """The second stage: answer every question without a label."""
    encoding = session.encoding
    questions = [
        question
        for question in unlabeled_questions(session.library, session.learned, session.relations)
        if len(encoding.encode_question(question)) < max_context(readers[0]) - ANSWER_TOKENS
    ]
    session.print_line(f"the readers answer {len(questions):,} questions without a label")
    longest = max(len(encoding.encode(label)) for _, label in session.learned)
    max_tokens = min(ANSWER_TOKENS, longest + 2)
    ballots = poll(readers, encoding, session.library, session.relations, questions, max_tokens)
    labeled = (session.learned, session.library, session.relations)
    answers = decide(ballots, *labeled, chooser=session.settings.chooser)
    write_self_made(session.out / SELF_MADE, answers)
    if answers:
        confident = sum(answer.confidence > 0.5 for answer in answers)
        contained = sum(answer.in_document for answer in answers)
        session.print_line(
            f"{contained:,} answers occur in a document, {confident:,} have a confidence above 50%"
        )
    return answers


def remember(
    session: LearnSession, reader: Decoder, self_made: Sequence[SelfMadeAnswer]
) -> dict[str, float]:
    """The third stage: starting from a reader's weights, learn to answer closed book."""
    training = replace(
        session.training, batch_tokens=session.settings.remember_tokens, batch_size=None
    )
    model = session.make_model(training.seed)
    model.load_state_dict(reader.state_dict())
    task = make_knowledge_task(
        [
            QuestionSource(session.learned),
            SelfMadeAnswerSource(self_made, session.settings.sharpen),
            *session.unknown_names(len(session.learned) + len(self_made)),
        ],
        session.encoding,
        model,
        training,
        measured=session.measured or session.learned[:500],
        about={
            "stage": "remember",
            **session.about,
            "questions": len(session.learned),
            "self_made": len(self_made),
            "held_out": session.held_out_fraction,
            "measured_on": "held-out pairs" if session.measured else "training pairs",
        },
    )
    training = _set_steps(task, training, session.settings.remember_epochs, REMEMBER_LENGTH)
    pairs_and_library = (session.learned, session.measured, session.library)
    results = {KNOWN: lambda: certainty_of(model, session.encoding, *pairs_and_library)}
    metrics = session.train("remember", task, model, training, session.out, results)
    if is_main_process() and not session.quiet:  # answers that are forgotten here are lost
        questions = [row.question for row in self_made]
        answers = answer_greedily(model.eval(), session.encoding, questions)
        same = sum(row.answer == text for row, text in zip(self_made, answers, strict=True))
        session.print_line(f"the model remembers {same:,} of {len(self_made):,} self-made answers")
    return metrics


def check_learn_folder(out: Path, start: StartMode) -> None:
    """`check_folder` for `learn`: a folder with only readers is an unfinished run too."""
    readers = [path for path in (out / READERS).glob("*") if has_run(path)]
    only_readers = bool(readers) and not (has_run(out) or removal_began(out))
    check_folder(readers[0] if only_readers else out, start)


def delete_learned(out: Path) -> None:
    """Remove the run and its readers. Old results must not look like new ones."""
    if not is_main_process() or not out.exists():
        return
    run = Run(out)
    with run.locked(), removal(out, CONFIG):
        for folder in filter(Path.is_dir, (out / READERS).glob("*")):
            Run(folder).delete_folder()
        run.remove(SELF_MADE)
        run.delete()


def _set_steps(
    task: KnowledgeTask, settings: Settings, epochs: float | None, default: tuple[float, int]
) -> Settings:
    if epochs is not None:
        return epochs_to_steps(task, settings, epochs)
    converted = epochs_to_steps(task, settings, default[0])
    return converted if converted.steps >= default[1] else replace(settings, steps=default[1])
